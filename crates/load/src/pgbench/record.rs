//! What a run by pgbench's rules hands back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_protocol::Failure;
use serde::Serialize;

use super::books::Books;
use super::stats::Stats;
use crate::errors::Errors;
use crate::programs::Programs;
use crate::timed::Percentiles;

/// What was counted by the end of an interval of progress, since the run began.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PgbenchProgress {
    /// Since the threads began, connecting included.
    pub elapsed_s: f64,
    /// Counts so far.
    pub stats: Stats,
    /// Of the interval.
    pub percentiles: Percentiles,
    /// With a rate: how many are due and not begun.
    pub queued: u64,
}

/// One command of a script.
#[derive(Clone, Debug, Serialize)]
pub struct CommandRecord {
    /// Its first line.
    pub text: String,
    /// The line of the script that it begins on.
    pub line: usize,
    /// How often it ran, and for how long in all; 0 where it was not timed.
    pub count: u64,
    /// See `count`.
    pub total_s: f64,
    /// Transactions that failed in it.
    pub failures: u64,
    /// How often a transaction was tried again after it.
    pub retries: u64,
}

/// One script.
#[derive(Clone, Debug, Serialize)]
pub struct ScriptRecord {
    /// What was counted of it.
    pub stats: Stats,
    /// Its commands.
    pub commands: Vec<CommandRecord>,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct PgbenchRecord {
    /// From the first transaction to the end of the last thread.
    pub elapsed_s: f64,
    /// From the start of the threads to the first transaction.
    pub connection_s: f64,
    /// What all connections took that were opened and closed for transactions.
    pub connections_s: f64,
    /// Counts of all scripts.
    pub stats: Stats,
    /// Transactions done that took longer than the limit.
    pub late: u64,
    /// Clients that were aborted.
    pub aborted: usize,
    /// The threads whose clients were aborted, from 0.
    pub aborted_threads: Vec<usize>,
    /// Errors that clients met by SQLSTATE, those of a transaction that was tried again among them.
    pub errors: Errors,
    /// By script.
    pub scripts: Vec<ScriptRecord>,
    /// Latencies in milliseconds by the percentile; none where nothing was done.
    pub percentiles_ms: Vec<(f64, f64)>,
    /// Base64 of the compressed V2 serialisation of a HdrHistogram of microseconds.
    pub histogram: String,
    /// CPU time of all threads that ran clients, and of the one that used most.
    pub client_cpu_s: f64,
    /// See `client_cpu_s`.
    pub client_cpu_most_s: f64,
    /// How long the thread that waited most was ready to run and had no processor.
    pub client_waited_s: f64,
}

const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// When things were, in nanoseconds.
pub struct Instants {
    /// The threads were started.
    pub created_ns: u64,
    /// The first transaction began.
    pub start_ns: u64,
    /// The last thread had ended.
    pub end_ns: u64,
}

impl PgbenchRecord {
    /// The record of a run.
    ///
    /// # Errors
    /// When the histogram can't be written.
    #[allow(clippy::cast_precision_loss)]
    pub fn new(
        instants: &Instants,
        programs: &Programs,
        books: &Books,
        aborted_threads: Vec<usize>,
    ) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&books.histogram, &mut bytes)
            .map_err(|error| Failure::client(format!("the histogram can't be serialised: {error}")))?;
        let (least_ms, most_ms) = (books.stats.latency_us.min / 1e3, books.stats.latency_us.max / 1e3);
        let percentile = |percent: f64| {
            let value_ms = books.histogram.value_at_quantile(percent / 100.0) as f64 / 1e3;
            (percent, value_ms.clamp(least_ms, most_ms))
        };
        let has_latencies = !books.histogram.is_empty();
        let scripts = (0..programs.programs.len()).map(|script| script_record(programs, books, script));
        Ok(Self {
            elapsed_s: seconds(instants.start_ns, instants.end_ns),
            connection_s: seconds(instants.created_ns, instants.start_ns),
            connections_s: books.connecting_ns as f64 / 1e9,
            stats: books.stats,
            late: books.late,
            aborted: books.aborted,
            aborted_threads,
            errors: books.errors.clone(),
            scripts: scripts.collect(),
            percentiles_ms: PERCENTILES
                .iter()
                .filter(|_| has_latencies)
                .map(|&each| percentile(each))
                .collect(),
            histogram: STANDARD.encode(bytes),
            client_cpu_s: books.times_of_threads.cpu_ns as f64 / 1e9,
            client_cpu_most_s: books.times_of_threads.cpu_most_ns as f64 / 1e9,
            client_waited_s: books.times_of_threads.waited_most_ns as f64 / 1e9,
        })
    }
}

#[allow(clippy::cast_precision_loss)]
fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

#[allow(clippy::cast_precision_loss)]
fn script_record(programs: &Programs, books: &Books, script: usize) -> ScriptRecord {
    let first = programs.offsets[script];
    let commands = programs.programs[script].commands.iter().enumerate();
    let record = |(place, command): (usize, &pgassay_pgbench::command::Command)| {
        let (count, total_ns) = books
            .times
            .commands
            .get(first + place)
            .copied()
            .unwrap_or_default();
        let (failures, retries) = books.commands[first + place];
        CommandRecord {
            text: command.text.clone(),
            line: command.line,
            count,
            total_s: total_ns as f64 / 1e9,
            failures,
            retries,
        }
    };
    ScriptRecord {
        stats: books.scripts[script],
        commands: commands.map(record).collect(),
    }
}
