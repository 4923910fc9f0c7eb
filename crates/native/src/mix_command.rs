//! `mix`: statements executed by several sessions at once, each timed from its writing to ReadyForQuery.
//!
//! The executions are taken from one queue in their order: whichever session is free takes the next one, until
//! none is left. So the work is the same whatever the sessions take, and only its end has sessions without any.

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

const SESSIONS_MAX: usize = 5000;
const QUERY_CANCELED: &str = "57014";

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
    sql: String,
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
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Execution {
    statement: usize,
    start_ns: u64,
    end_ns: u64,
    rows: u64,
    outcome: Outcome,
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
    let shared = Arc::new(Shared {
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
            write_line(&json!({ "executed": executions }));
            0
        }
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
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
        let outcome = execute_once(&mut connection, statement, &shared.spec.statements[statement]);
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

fn execute_once(
    connection: &mut Connection,
    number: usize,
    statement: &MixStatement,
) -> Result<Execution, Failure> {
    if let Some(limit_ms) = statement.limit_ms {
        untimed(
            connection,
            &statement.name,
            &format!("SET statement_timeout = {limit_ms}"),
        )?;
    }
    if statement.rolled_back {
        untimed(connection, &statement.name, "BEGIN")?;
    }
    let mut answer = Answer::default();
    let begun_ns = monotonic_ns();
    let done = run_query(connection, &statement.name, &statement.sql, &mut answer);
    let (start_ns, end_ns, outcome) = match done {
        Ok((start_ns, end_ns)) => (start_ns, end_ns, Outcome::Ended),
        Err(failure) => {
            let is_limit =
                statement.limit_ms.is_some() && failure.sqlstate.as_deref() == Some(QUERY_CANCELED);
            let outcome = if is_limit {
                Outcome::Stopped
            } else if failure.is_retryable() {
                Outcome::GivenUp
            } else {
                return Err(failure.within(&format!("statement \"{}\"", statement.name)));
            };
            (begun_ns, monotonic_ns(), outcome)
        }
    };
    if statement.rolled_back {
        untimed(connection, &statement.name, "ROLLBACK")?;
    }
    if statement.limit_ms.is_some() {
        untimed(connection, &statement.name, "RESET statement_timeout")?;
    }
    Ok(Execution {
        statement: number,
        start_ns,
        end_ns,
        rows: answer.rows,
        outcome,
    })
}

/// What stands around the executions.
fn untimed(connection: &mut Connection, name: &str, sql: &str) -> Result<(), Failure> {
    run_query(connection, name, sql, &mut Answer::default()).map(drop)
}
