//! What a run by sysbench's rules is asked to do: sysbench's options, already read by whoever asks.

use pgassay_protocol::{Failure, Parameters};
use serde::Deserialize;

use super::options::SysbenchOptions;
use crate::spec::QueryProtocol;

const CONNECTIONS_MAX: usize = 100_000;
const SECONDS_MAX: f64 = 1e7;

/// One run: a key each of the document that asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SysbenchSpec {
    /// Where the server is, and as whom to connect.
    pub connect: Parameters,
    /// The script and its options.
    pub sysbench: SysbenchOptions,
    /// --threads: connections, which is what a thread of sysbench's is.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// --db-ps-mode: prepared or simple.
    pub protocol: QueryProtocol,
    /// --rand-seed.
    pub seed: u64,
    /// --events: of all connections together; none without an end.
    #[serde(default)]
    pub events: Option<u64>,
    /// --time; none without an end.
    #[serde(default)]
    pub duration_s: Option<f64>,
    /// --warmup-time: before it, and not counted.
    #[serde(default)]
    pub warmup_s: f64,
    /// --rate: events a second of all connections.
    #[serde(default)]
    pub rate: Option<f64>,
    /// --report-interval.
    #[serde(default)]
    pub report_interval_s: Option<u32>,
    /// --percentile, of what is told at intervals.
    #[serde(default)]
    pub percentile: f64,
    /// --reconnect: a connection is opened anew after so many events; 0 for never.
    #[serde(default)]
    pub reconnect_after: u64,
    /// --histogram.
    #[serde(default)]
    pub wants_histogram: bool,
}

impl SysbenchSpec {
    /// Refuses what can't be run.
    ///
    /// # Errors
    /// A sentence that names the first field at fault.
    pub fn check(&self) -> Result<(), Failure> {
        let is_time = |seconds: f64| (0.0..=SECONDS_MAX).contains(&seconds);
        let fault = if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            let found = self.connections;
            format!("connections is {found}, but must be from 1 to {CONNECTIONS_MAX}")
        } else if self.threads == 0 {
            "threads is 0, but must be at least 1".to_owned()
        } else if !is_time(self.warmup_s) || !self.duration_s.is_none_or(is_time) {
            format!("times must be from 0 to {SECONDS_MAX} s")
        } else if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            "rate must be above 0 and at most 1e9".to_owned()
        } else if self.report_interval_s == Some(0) {
            "report_interval_s is 0".to_owned()
        } else if !(0.0..=100.0).contains(&self.percentile) {
            "percentile must be from 0 to 100".to_owned()
        } else if let Some(fault) = self.sysbench.fault() {
            fault
        } else {
            return Ok(());
        };
        Err(Failure::client(format!("the run can't be made: {fault}")))
    }

    /// Threads that have a connection.
    pub fn threads_used(&self) -> usize {
        self.threads.min(self.connections)
    }
}
