//! `sysbench-tables`: sysbench's tables, loaded by COPY. A table is made and filled in one transaction, so that its
//! rows are frozen as they come; its indexes are built after that, both at once.

use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
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
    let failed: Arc<Mutex<Option<Failure>>> = Arc::default();
    let mut jobs = Vec::new();
    for number in 0..spec.jobs.min(spec.tables) {
        let (spec, next, failed) = (Arc::clone(spec), Arc::clone(&next), Arc::clone(&failed));
        let job = move || {
            if let Err(failure) = make_tables(&spec, &next) {
                // No other table is begun.
                next.store(usize::MAX / 2, Ordering::Release);
                failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(failure);
            }
        };
        let job = thread::Builder::new()
            .name(format!("tables-{number}"))
            .spawn(job)
            .map_err(|error| Failure::client(format!("the system gives no further thread: {error}")))?;
        jobs.push(job);
    }
    for job in jobs {
        if job.join().is_err() {
            return Err(Failure::client(
                "a thread that makes tables ended before its time",
            ));
        }
    }
    let failure = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

fn make_tables(spec: &Arc<TablesSpec>, next: &AtomicUsize) -> Result<(), Failure> {
    let mut connection = connect::open(&spec.connect)?;
    loop {
        let table = next.fetch_add(1, Ordering::AcqRel);
        if table > spec.tables {
            break;
        }
        make_table(spec, &mut connection, table)?;
    }
    connection.end();
    Ok(())
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

/// Builds a table's indexes, each by a session.
fn build_indexes(spec: &Arc<TablesSpec>, connection: &mut Connection, table: usize) -> Result<(), Failure> {
    let mut statements = spec.index_statements(table).into_iter();
    let own = statements.next();
    let mut others = Vec::new();
    for statement in statements {
        let spec = Arc::clone(spec);
        let build = move || -> Result<(), Failure> {
            let mut connection = connect::open(&spec.connect)?;
            execute(&mut connection, &statement)?;
            connection.end();
            Ok(())
        };
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
        outcome = outcome.and(built);
    }
    outcome
}

fn execute(connection: &mut Connection, sql: &str) -> Result<(), Failure> {
    run_query(connection, sql, sql, &mut Answer::default()).map(drop)
}

fn tell(table: usize, step: &str) {
    write_line(&json!({ "table": table, "step": step }));
}
