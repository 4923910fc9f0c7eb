//! What a run by pgbench's rules is asked to do: pgbench's options, already checked by whoever read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgassay_protocol::{Failure, Parameters};
use serde::Deserialize;

use crate::programs::{Programs, ScriptSpec};
use crate::spec::QueryProtocol;

/// One run: a key each of the document that asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // Each is one of pgbench's switches.
pub struct PgbenchSpec {
    /// Where the server is, and as whom to connect.
    pub connect: Parameters,
    /// The scripts, which are drawn by their weights.
    pub scripts: Vec<ScriptSpec>,
    /// -D.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The value of the variable `scale`.
    pub scale: i64,
    /// -c.
    pub clients: usize,
    /// -j.
    pub threads: usize,
    /// -M.
    pub protocol: QueryProtocol,
    /// --random-seed.
    pub seed: u64,
    /// -t: transactions of each client; none where `duration_s` ends the run.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// -T.
    #[serde(default)]
    pub duration_s: Option<u32>,
    /// -L.
    #[serde(default)]
    pub latency_limit_us: Option<u64>,
    /// -R: transactions a second of all threads.
    #[serde(default)]
    pub rate: Option<f64>,
    /// -C.
    #[serde(default)]
    pub connects_each: bool,
    /// --max-tries; 0 for as many as it takes.
    pub max_tries: u32,
    /// --continue-on-error.
    #[serde(default)]
    pub continues_on_error: bool,
    /// --exit-on-abort.
    #[serde(default)]
    pub exits_on_abort: bool,
    /// -r.
    #[serde(default)]
    pub times_commands: bool,
    /// --verbose-errors.
    #[serde(default)]
    pub tells_errors: bool,
    /// --debug.
    #[serde(default)]
    pub is_traced: bool,
    /// -P.
    #[serde(default)]
    pub progress_s: Option<u32>,
    /// -l.
    #[serde(default)]
    pub log: Option<LogSpec>,
}

/// A run by pgbench's rules.
pub(crate) struct OfPgbench {
    /// What is asked.
    pub spec: Arc<PgbenchSpec>,
    /// The scripts, read.
    pub programs: Arc<Programs>,
}

/// The log of transactions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSpec {
    /// The first thread's file; others have their number behind it.
    pub path: String,
    /// --sampling-rate.
    #[serde(default)]
    pub sampling_rate: Option<f64>,
    /// --aggregate-interval.
    #[serde(default)]
    pub aggregate_s: Option<u32>,
    /// --failures-detailed.
    #[serde(default)]
    pub details_failures: bool,
}

impl PgbenchSpec {
    /// Refuses what can't be run.
    ///
    /// # Errors
    /// A sentence that names the first field at fault.
    pub fn check(&self) -> Result<(), Failure> {
        let fault = if self.clients == 0 || self.threads == 0 {
            "it needs a client and a thread"
        } else if self.transactions.is_some() == self.duration_s.is_some() {
            "it needs either transactions or duration_s"
        } else if self.max_tries == 0 && self.duration_s.is_none() && self.latency_limit_us.is_none() {
            "without a limit of tries it needs duration_s or latency_limit_us"
        } else if self.progress_s == Some(0) {
            "progress_s is 0"
        } else {
            return Ok(());
        };
        Err(Failure::client(format!("the run can't be made: {fault}")))
    }

    /// Threads that have a client.
    pub fn threads_used(&self) -> usize {
        self.threads.min(self.clients)
    }
}
