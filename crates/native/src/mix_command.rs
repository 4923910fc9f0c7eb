//! `mix`: statements executed by several sessions at once, each timed from its writing to ReadyForQuery.
//!
//! The executions are taken from one queue in their order: whichever session is free takes the next one, until
//! none is left. So the work is the same whatever the sessions take, and only its end has sessions without any.

use std::collections::BTreeMap;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use pgassay_load::clock::monotonic_ns;
use pgassay_protocol::{Answer, Failure, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::connect::{self, Connection};
use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::query::{Running, cancel, run_query};
use crate::transaction::{Part, run_transaction};

const SESSIONS_MAX: usize = 5000;
const QUERY_CANCELED: &str = "57014";
/// A statement that failed so often, and once more for each session, and never ended, always fails. Not so where
/// other sessions are the reason: the first of many may take long to end.
const FAILURES_IN_VAIN: usize = 10;

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MixSpec {
    connect: Parameters,
    sessions: usize,
    statements: Vec<MixStatement>,
    /// The executions in their order, as numbers of statements.
    order: Vec<usize>,
    /// What each session runs before the first of them, untimed.
    #[serde(default)]
    before: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MixStatement {
    name: String,
    #[serde(default)]
    sql: String,
    /// Of a transaction, in place of its text: its statements, which end it themselves.
    #[serde(default)]
    parts: Vec<Part>,
    /// Run within a transaction that is rolled back, so that each execution finds the same rows.
    #[serde(default)]
    rolled_back: bool,
    /// The server stops it after that time.
    #[serde(default)]
    limit_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Ended,
    /// After `limit_ms`.
    Stopped,
    /// The server gave it up for another session's sake: a deadlock, or a serialisation failure.
    GivenUp,
    /// The server refused it for another reason.
    Failed,
}

#[derive(Clone, Debug, Serialize)]
struct Execution {
    statement: usize,
    start_ns: u64,
    end_ns: u64,
    rows: u64,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts_ns: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sqlstate: Option<String>,
}

/// What came of a statement's executions so far.
#[derive(Clone, Debug, Default)]
struct Counted {
    planned: usize,
    ended: usize,
    failed: usize,
    /// The first message of each SQLSTATE.
    messages: BTreeMap<String, String>,
}

impl Counted {
    /// Whether there is nothing to be hoped for after this failure.
    fn is_in_vain(&self, failure: &Failure, sessions: usize) -> bool {
        let enough = self.planned.min(FAILURES_IN_VAIN + sessions);
        !failure.is_retryable() && self.ended == 0 && self.failed >= enough
    }
}

impl MixSpec {
    fn check(&self) -> Result<(), Failure> {
        let fault = if !(1..=SESSIONS_MAX).contains(&self.sessions) {
            format!(
                "sessions is {}, but must be from 1 to {SESSIONS_MAX}",
                self.sessions
            )
        } else if let Some(number) = self.order.iter().find(|&&each| each >= self.statements.len()) {
            format!(
                "order names statement {number}, and there are {}",
                self.statements.len()
            )
        } else {
            return Ok(());
        };
        Err(Failure::client(format!("the mix can't be run: {fault}")))
    }
}

/// What all sessions share.
struct Shared {
    spec: MixSpec,
    next: AtomicUsize,
    stop: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// By the statement's number.
    counted: Vec<Mutex<Counted>>,
    /// By the session's number, while it executes something.
    running: Vec<Mutex<Option<Running>>>,
}

impl Shared {
    fn cancel_all(&self) {
        for running in &self.running {
            if let Some(running) = running.lock().unwrap_or_else(PoisonError::into_inner).take() {
                cancel(&running);
            }
        }
    }

    /// The first failure counts; what the others run is cancelled, whose own failures follow from that.
    fn fail(&self, failure: Failure) {
        if !self.stop.swap(true, Ordering::AcqRel) {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            self.cancel_all();
        }
    }
}

/// Runs the command and gives its exit status.
pub fn mix() -> i32 {
    let spec = match read_document::<MixSpec>().and_then(|spec| spec.check().map(|()| spec)) {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    let mut counted = vec![Counted::default(); spec.statements.len()];
    for &each in &spec.order {
        counted[each].planned += 1;
    }
    let shared = Arc::new(Shared {
        counted: counted.into_iter().map(Mutex::new).collect(),
        running: (0..spec.sessions).map(|_| Mutex::new(None)).collect(),
        spec,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    });
    let watched = Arc::clone(&shared);
    let at_end = move || {
        watched.stop.store(true, Ordering::Release);
        watched.cancel_all();
        exit(EXIT_ABORTED);
    };
    if let Err(error) = watch_input(at_end) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    match run(&shared) {
        Ok(executions) => {
            write_line(&json!({ "executed": executions, "failures": failures(&shared) }));
            0
        }
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
}

/// The first message of each kind of failure.
fn failures(shared: &Shared) -> Vec<serde_json::Value> {
    let mut said = Vec::new();
    for (number, counted) in shared.counted.iter().enumerate() {
        let counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (sqlstate, message) in &counted.messages {
            said.push(json!({ "statement": number, "sqlstate": sqlstate, "message": message }));
        }
    }
    said
}

fn run(shared: &Arc<Shared>) -> Result<Vec<Execution>, Failure> {
    let mut connections = Vec::with_capacity(shared.spec.sessions);
    for _ in 0..shared.spec.sessions {
        let mut connection = connect::open(&shared.spec.connect)?;
        for sql in &shared.spec.before {
            untimed(&mut connection, "before", sql)?;
        }
        connections.push(connection);
    }
    let start = Arc::new(Barrier::new(connections.len()));
    let mut threads = Vec::with_capacity(connections.len());
    for (number, connection) in connections.into_iter().enumerate() {
        let (shared, start) = (Arc::clone(shared), Arc::clone(&start));
        let session = move || {
            start.wait();
            execute(&shared, number, connection)
        };
        // Threads that wait at the barrier already end with the process.
        threads.push(
            thread::Builder::new()
                .name(format!("session-{number}"))
                .spawn(session)
                .map_err(|error| Failure::client(format!("the system gives no further thread: {error}")))?,
        );
    }
    let mut executions = Vec::with_capacity(shared.spec.order.len());
    for thread in threads {
        let Ok(mine) = thread.join() else {
            return Err(Failure::client("a session's thread ended before its time"));
        };
        executions.extend(mine);
    }
    match shared
        .failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
    {
        Some(failure) => Err(failure),
        None => Ok(executions),
    }
}

/// Executes one after the other until none is left, or something failed somewhere.
fn execute(shared: &Shared, number: usize, mut connection: Connection) -> Vec<Execution> {
    let mut executions = Vec::new();
    while !shared.stop.load(Ordering::Acquire) {
        let Some(&statement) = shared.spec.order.get(shared.next.fetch_add(1, Ordering::Relaxed)) else {
            break;
        };
        let slot = &shared.running[number];
        *slot.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Running::of(&connection, &shared.spec.connect));
        let outcome = execute_once(&mut connection, statement, shared);
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match outcome {
            Ok(execution) => executions.push(execution),
            Err(failure) => {
                shared.fail(failure.within(&format!("session {number}")));
                return executions;
            }
        }
    }
    connection.end();
    executions
}

fn execute_once(connection: &mut Connection, number: usize, shared: &Shared) -> Result<Execution, Failure> {
    let statement = &shared.spec.statements[number];
    if let Some(limit_ms) = statement.limit_ms {
        let limit = format!("SET statement_timeout = {limit_ms}");
        untimed(connection, &statement.name, &limit)?;
    }
    if statement.rolled_back {
        untimed(connection, &statement.name, "BEGIN")?;
    }
    let begun_ns = monotonic_ns();
    let mut execution = match timed(connection, statement) {
        Ok(execution) => {
            shared.counted[number]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .ended += 1;
            execution
        }
        Err(failure) => Execution {
            statement: number,
            start_ns: begun_ns,
            end_ns: monotonic_ns(),
            rows: 0,
            outcome: outcome_of(shared, number, &failure)?,
            parts_ns: Vec::new(),
            sqlstate: failure.sqlstate,
        },
    };
    execution.statement = number;
    if statement.rolled_back {
        untimed(connection, &statement.name, "ROLLBACK")?;
    }
    if statement.limit_ms.is_some() {
        untimed(connection, &statement.name, "RESET statement_timeout")?;
    }
    Ok(execution)
}

fn timed(connection: &mut Connection, statement: &MixStatement) -> Result<Execution, Failure> {
    let mut answer = Answer::default();
    let (start_ns, end_ns, parts_ns) = if statement.parts.is_empty() {
        let (start_ns, end_ns) = run_query(connection, &statement.name, &statement.sql, &mut answer)?;
        (start_ns, end_ns, Vec::new())
    } else {
        let done = run_transaction(connection, &statement.name, &statement.parts, &mut answer)?;
        (done.start_ns, done.end_ns, done.parts_ns)
    };
    Ok(Execution {
        statement: 0,
        start_ns,
        end_ns,
        rows: answer.rows,
        outcome: Outcome::Ended,
        parts_ns,
        sqlstate: None,
    })
}

/// What a failure makes of an execution; a failure again where the connection is lost, or it always fails.
fn outcome_of(shared: &Shared, number: usize, failure: &Failure) -> Result<Outcome, Failure> {
    let statement = &shared.spec.statements[number];
    let in_statement = || {
        failure
            .clone()
            .within(&format!("statement \"{}\"", statement.name))
    };
    let Some(sqlstate) = failure.sqlstate.clone().filter(|_| !failure.fatal) else {
        return Err(in_statement());
    };
    let mut counted = shared.counted[number]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if statement.limit_ms.is_some() && sqlstate == QUERY_CANCELED {
        counted.ended += 1;
        return Ok(Outcome::Stopped);
    }
    counted.failed += 1;
    let message = || failure.message.clone();
    counted.messages.entry(sqlstate).or_insert_with(message);
    if counted.is_in_vain(failure, shared.spec.sessions) {
        return Err(in_statement());
    }
    Ok(if failure.is_retryable() {
        Outcome::GivenUp
    } else {
        Outcome::Failed
    })
}

/// What stands around the executions.
fn untimed(connection: &mut Connection, name: &str, sql: &str) -> Result<(), Failure> {
    run_query(connection, name, sql, &mut Answer::default()).map(drop)
}
