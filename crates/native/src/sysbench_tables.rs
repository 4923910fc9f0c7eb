//! `sysbench-tables`: sysbench's tables, loaded by COPY. A table is made and filled in one transaction, so that its
//! rows are frozen as they come; its indexes are built after that, both at once. Nobody waits for the server's disk
//! before the last table is made: then one commit has the server's log flushed with all that came before it.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bytes::BytesMut;
use pgassay_load::sysbench::distribution::{RandomOptions, Sampler};
use pgassay_load::sysbench::rows::{HEADER, ROW_BYTES, Rows, TRAILER};
use pgassay_protocol::{Answer, Failure, Parameters};
use serde::Deserialize;
use serde_json::json;

use crate::connect::{self, Connection};
use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::query::{copy_in, run_query};

const TABLES_MAX: usize = 10_000;
/// About a quarter of a megabyte.
const ROWS_PER_BLOCK: usize = 1280;
/// Blocks that are made ahead of what the server takes.
const BLOCKS_AHEAD: usize = 4;
const NO_WAIT: &str = "SET synchronous_commit = off";
/// By the session's own setting, the commit of a transaction that changes nothing and yet writes to the log.
const FLUSH: [&str; 2] = [
    "RESET synchronous_commit",
    "SELECT pg_logical_emit_message(true, 'pgassay', '')",
];
const TOO_MANY_CONNECTIONS: &str = "53300";

/// Which tables are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TablesSpec {
    connect: Parameters,
    tables: usize,
    table_size: i32,
    /// How `k` is drawn.
    #[serde(default)]
    random: RandomOptions,
    /// Whether the server chooses the `id` of further rows.
    #[serde(default = "yes")]
    auto_inc: bool,
    /// An index on `id` that is no primary key.
    #[serde(default)]
    secondary: bool,
    /// The index on `k`.
    #[serde(default = "yes")]
    create_secondary: bool,
    /// Tables that are loaded at once.
    jobs: usize,
    seed: u64,
}

fn yes() -> bool {
    true
}

impl TablesSpec {
    fn check(&self) -> Result<(), Failure> {
        let fault = if !(1..=TABLES_MAX).contains(&self.tables) {
            format!("tables is {}, but must be from 1 to {TABLES_MAX}", self.tables)
        } else if self.table_size < 0 {
            format!("table_size is {}, but must be at least 0", self.table_size)
        } else if self.jobs == 0 {
            "jobs is 0".to_owned()
        } else if let Some(fault) = self.random.fault() {
            fault
        } else {
            return Ok(());
        };
        Err(Failure::client(format!("the tables can't be made: {fault}")))
    }

    fn create_statement(&self, table: usize) -> String {
        let id = if self.auto_inc {
            "SERIAL"
        } else {
            "INTEGER NOT NULL"
        };
        format!(
            "CREATE TABLE sbtest{table}(\n  id {id},\n  k INTEGER DEFAULT '0' NOT NULL,\n  \
             c CHAR(120) DEFAULT '' NOT NULL,\n  pad CHAR(60) DEFAULT '' NOT NULL\n)"
        )
    }

    /// What is done at once when a table has its rows.
    fn index_statements(&self, table: usize) -> Vec<String> {
        let by_id = if self.secondary {
            format!("CREATE INDEX xid_{table} ON sbtest{table}(id)")
        } else {
            format!("CREATE UNIQUE INDEX sbtest{table}_pkey ON sbtest{table}(id)")
        };
        let by_k = format!("CREATE INDEX k_{table} ON sbtest{table}(k)");
        std::iter::once(by_id)
            .chain(self.create_secondary.then_some(by_k))
            .collect()
    }

    /// What is done after that.
    fn finishing_statements(&self, table: usize) -> Vec<String> {
        let key = format!(
            "ALTER TABLE sbtest{table} ADD CONSTRAINT sbtest{table}_pkey PRIMARY KEY USING INDEX sbtest{table}_pkey"
        );
        let sequence = format!("SELECT setval('sbtest{table}_id_seq', {})", self.table_size);
        let has_rows = self.auto_inc && self.table_size > 0;
        (!self.secondary)
            .then_some(key)
            .into_iter()
            .chain(has_rows.then_some(sequence))
            .collect()
    }
}

/// Runs the command and gives its exit status.
pub fn sysbench_tables() -> i32 {
    let spec = match read_document::<TablesSpec>().and_then(|spec| spec.check().map(|()| spec)) {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    // The server takes back what was not committed.
    if let Err(error) = watch_input(|| exit(EXIT_ABORTED)) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    match make_all(&Arc::new(spec)) {
        Ok(()) => {
            write_line(&json!({ "made": true }));
            0
        }
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
}

fn make_all(spec: &Arc<TablesSpec>) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(1));
    let mut jobs = Vec::new();
    for (number, connection) in open_sessions(spec)?.into_iter().enumerate() {
        let (spec, next) = (Arc::clone(spec), Arc::clone(&next));
        let job = move || {
            make_tables(&spec, connection, &next).inspect_err(|_| {
                // No other table is begun.
                next.store(usize::MAX / 2, Ordering::Release);
            })
        };
        let job = thread::Builder::new()
            .name(format!("tables-{number}"))
            .spawn(job)
            .map_err(|error| Failure::client(format!("the system gives no further thread: {error}")))?;
        jobs.push(job);
    }
    let (mut connections, mut failure) = (Vec::new(), None);
    for job in jobs {
        match job.join() {
            Ok(Ok(connection)) => connections.push(connection),
            Ok(Err(why)) => failure = failure.or(Some(why)),
            Err(_) => {
                failure = Some(Failure::client(
                    "a thread that makes tables ended before its time",
                ))
            }
        }
    }
    if let (None, Some(connection)) = (&failure, connections.last_mut()) {
        for statement in FLUSH {
            execute(connection, statement)?;
        }
    }
    connections.into_iter().for_each(Connection::end);
    failure.map_or(Ok(()), Err)
}

/// One for each job, or as many as the server has room for.
fn open_sessions(spec: &TablesSpec) -> Result<Vec<Connection>, Failure> {
    let mut sessions = vec![connect::open(&spec.connect)?];
    while sessions.len() < spec.jobs.min(spec.tables) {
        match connect::open(&spec.connect) {
            Err(failure) if has_no_room(&failure) => break,
            outcome => sessions.push(outcome?),
        }
    }
    Ok(sessions)
}

fn has_no_room(refusal: &Failure) -> bool {
    refusal.sqlstate.as_deref() == Some(TOO_MANY_CONNECTIONS)
}

/// Makes tables until there is none left to begin; the connection has not waited for the last one's commit.
fn make_tables(
    spec: &Arc<TablesSpec>,
    mut connection: Connection,
    next: &AtomicUsize,
) -> Result<Connection, Failure> {
    execute(&mut connection, NO_WAIT)?;
    loop {
        let table = next.fetch_add(1, Ordering::AcqRel);
        if table > spec.tables {
            return Ok(connection);
        }
        make_table(spec, &mut connection, table)?;
    }
}

fn make_table(spec: &Arc<TablesSpec>, connection: &mut Connection, table: usize) -> Result<(), Failure> {
    tell(table, "create");
    execute(connection, "BEGIN")?;
    execute(connection, &spec.create_statement(table))?;
    if spec.table_size > 0 {
        tell(table, "insert");
        let copy = format!("COPY sbtest{table} (id, k, c, pad) FROM STDIN WITH (FORMAT binary, FREEZE on)");
        let blocks = start_generator(spec, table)?;
        let mut send = |output: &mut BytesMut| match blocks.recv() {
            Ok(block) => {
                output.extend_from_slice(&block);
                true
            }
            Err(_) => false,
        };
        copy_in(connection, &copy, HEADER, &mut send, TRAILER)?;
    }
    execute(connection, "COMMIT")?;
    if spec.create_secondary {
        tell(table, "index");
    }
    build_indexes(spec, connection, table)?;
    for statement in spec.finishing_statements(table) {
        execute(connection, &statement)?;
    }
    Ok(())
}

/// Makes a table's rows on a thread of its own, while the server takes those before.
fn start_generator(spec: &Arc<TablesSpec>, table: usize) -> Result<Receiver<BytesMut>, Failure> {
    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
    let seed = spec.seed.wrapping_add(table as u64);
    let mut rows = Rows::new(spec.table_size, Sampler::new(spec.random), seed);
    let generate = move || {
        loop {
            let mut block = BytesMut::with_capacity(ROWS_PER_BLOCK * ROW_BYTES);
            if !rows.block(ROWS_PER_BLOCK, &mut block) || sender.send(block).is_err() {
                break;
            }
        }
    };
    thread::Builder::new()
        .name(format!("rows-{table}"))
        .spawn(generate)
        .map_err(|error| Failure::client(format!("the system gives no further thread: {error}")))?;
    Ok(receiver)
}

/// Builds a table's indexes, each by a session; those that the server has no session for one after another.
fn build_indexes(spec: &Arc<TablesSpec>, connection: &mut Connection, table: usize) -> Result<(), Failure> {
    let mut statements = spec.index_statements(table).into_iter();
    let own = statements.next();
    let mut others = Vec::new();
    for statement in statements {
        let spec = Arc::clone(spec);
        let build = move || build_index(&spec, statement);
        let other = thread::Builder::new()
            .name(format!("index-{table}"))
            .spawn(build)
            .map_err(|error| Failure::client(format!("the system gives no further thread: {error}")))?;
        others.push(other);
    }
    let mut outcome = own.map_or(Ok(()), |statement| execute(connection, &statement));
    for other in others {
        let built = other.join().unwrap_or_else(|_| {
            Err(Failure::client(
                "a thread that builds an index ended before its time",
            ))
        });
        outcome = outcome.and(match built {
            Ok(Some(left)) => execute(connection, &left),
            built => built.map(drop),
        });
    }
    outcome
}

/// Builds an index by a session of its own; gives the statement back where the server has no room for one.
fn build_index(spec: &TablesSpec, statement: String) -> Result<Option<String>, Failure> {
    let mut connection = match connect::open(&spec.connect) {
        Err(failure) if has_no_room(&failure) => return Ok(Some(statement)),
        outcome => outcome?,
    };
    execute(&mut connection, NO_WAIT)?;
    execute(&mut connection, &statement)?;
    connection.end();
    Ok(None)
}

fn execute(connection: &mut Connection, sql: &str) -> Result<(), Failure> {
    run_query(connection, sql, sql, &mut Answer::default()).map(drop)
}

fn tell(table: usize, step: &str) {
    write_line(&json!({ "table": table, "step": step }));
}
