//! What a load is asked to do.

use std::collections::BTreeMap;

use pgassay_protocol::{Failure, Parameters};
use serde::Deserialize;

pub use crate::clock::Schedule;
use crate::connections::Holding;
use crate::connections::idle_pauses::Idling;
use crate::pacing::{Pace, check_limit, drain_s};
use crate::programs::ScriptSpec;
use crate::script::{BuiltinScript, Script};
use crate::sysbench::options::SysbenchOptions;
use crate::sysbench::read_only::ReadOnlyOptions;

/// How statements travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryProtocol {
    /// Each statement prepared once per connection, then Bind, Describe, Execute, Sync.
    Prepared,
    /// The same, but prepared anew for each execution.
    Extended,
    /// The whole text each time, as a simple query.
    Simple,
}

/// One load: a key each of the document that asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Where the server is, and as whom to connect.
    pub connect: Parameters,
    /// Which transaction is repeated; none where there are scripts.
    #[serde(default)]
    pub script: Option<BuiltinScript>,
    /// Scripts of pgbench's language, which are drawn by their weights.
    #[serde(default)]
    pub scripts: Vec<ScriptSpec>,
    /// Variables of the scripts with their texts.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The scale of the pgbench data; sysbench's transactions have no use for it.
    #[serde(default)]
    pub scale: i64,
    /// Options of sysbench's transaction; pgbench's have no use for them.
    #[serde(default)]
    pub oltp_read_only: ReadOnlyOptions,
    /// Options of the script `sysbench`.
    #[serde(default)]
    pub sysbench: SysbenchOptions,
    /// Connections, each running one transaction after the other.
    pub clients: usize,
    /// Threads that share the connections; no more than connections are started.
    pub threads: usize,
    /// How statements travel.
    pub protocol: QueryProtocol,
    /// Length of the measured interval.
    pub duration_s: f64,
    /// What is run before it and not measured.
    #[serde(default)]
    pub warmup_s: f64,
    /// Seed of the random streams.
    #[serde(default)]
    pub seed: u64,
    /// When transactions are due; none for a closed loop, in which a client's next one begins when its last has ended.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// The mean of the pauses that each client of a closed loop makes before its transactions; 0 for none.
    #[serde(default)]
    pub think_s: f64,
    /// The mean of the pauses that clients make within each transaction, before its end; 0 for none.
    #[serde(default)]
    pub idle_in_transaction_s: f64,
    /// How clients come to their connections; none where each opens one and keeps it.
    #[serde(default)]
    pub connections: Holding,
    /// Transactions that take longer are counted; those of an open loop that can't be done within it are skipped.
    #[serde(default)]
    pub latency_limit_ms: Option<f64>,
}

const SCALE_MAX: i64 = 1_000_000_000;
const CLIENTS_MAX: usize = 1_000_000;
const SECONDS_MAX: f64 = 1e7;

impl LoadSpec {
    /// Refuses what can't be run.
    ///
    /// # Errors
    /// A sentence that names the first field at fault.
    pub fn check(&self) -> Result<(), Failure> {
        check_limit(self.latency_limit_ms)?;
        let seconds = 0.0..=SECONDS_MAX;
        let is_pgbench = self
            .script
            .is_some_and(|script| !matches!(script, BuiltinScript::OltpReadOnly | BuiltinScript::Sysbench));
        let fault = if self.script.is_some() != self.scripts.is_empty() {
            "it needs either script or scripts".to_owned()
        } else if is_pgbench && !(1..=SCALE_MAX).contains(&self.scale) {
            format!("scale is {}, but must be from 1 to {SCALE_MAX}", self.scale)
        } else if !(1..=CLIENTS_MAX).contains(&self.clients) {
            format!("clients is {}, but must be from 1 to {CLIENTS_MAX}", self.clients)
        } else if self.threads == 0 {
            "threads is 0, but must be at least 1".to_owned()
        } else if !seconds.contains(&self.duration_s) || self.duration_s < 0.001 {
            format!(
                "duration_s is {}, but must be from 0.001 to {SECONDS_MAX}",
                self.duration_s
            )
        } else if !seconds.contains(&self.warmup_s) {
            format!(
                "warmup_s is {}, but must be from 0 to {SECONDS_MAX}",
                self.warmup_s
            )
        } else if !seconds.contains(&self.think_s) {
            format!("think_s is {}, but must be from 0 to {SECONDS_MAX}", self.think_s)
        } else if self.think_s > 0.0 && self.pace.is_some() {
            "it has pauses and a pace, which both say when transactions begin".to_owned()
        } else if !seconds.contains(&self.idle_in_transaction_s) {
            let found = self.idle_in_transaction_s;
            format!("idle_in_transaction_s is {found}, but must be from 0 to {SECONDS_MAX}")
        } else if let Some(fault) = self.connections.fault(self.threads.min(self.clients)) {
            fault
        } else if let Some(fault) = SysbenchOptions::from(&self.oltp_read_only).fault() {
            fault
        } else if let Some(fault) = self.sysbench.fault() {
            fault
        } else if let Some(fault) = self.pace.as_ref().and_then(Pace::fault) {
            fault
        } else {
            return Ok(());
        };
        Err(Failure::client(format!("the load can't be run: {fault}")))
    }

    /// What a transaction of pgassay's own is made of; None where there are scripts.
    pub fn builtin(&self) -> Option<Script> {
        let sysbench = |options: &SysbenchOptions| Script::sysbench(options, self.clients, self.seed);
        Some(match self.script? {
            BuiltinScript::OltpReadOnly => sysbench(&(&self.oltp_read_only).into()),
            BuiltinScript::Sysbench => sysbench(&self.sysbench),
            script => Script::builtin(script, self.scale),
        })
    }

    /// How clients are idle within their transactions.
    pub fn idling(&self) -> Option<Idling> {
        (self.idle_in_transaction_s > 0.0).then_some(Idling {
            mean_ns: self.idle_in_transaction_s * 1e9,
            seed: self.seed,
        })
    }

    /// The instants of this load when it begins at `start_ns`.
    pub fn schedule(&self, start_ns: u64) -> Schedule {
        let measured_from_ns = start_ns + to_ns(self.warmup_s);
        Schedule {
            start_ns,
            measured_from_ns,
            measured_to_ns: measured_from_ns + to_ns(self.duration_s),
        }
    }

    /// How the transactions of this load are counted when it begins at `start_ns`.
    pub fn counting(&self, start_ns: u64) -> Counting {
        Counting {
            schedule: self.schedule(start_ns),
            is_paced: self.pace.is_some(),
            limit_ns: self.latency_limit_ms.map(|limit| to_ns(limit / 1e3)),
            kinds: self.scripts.len().max(1),
            counts_undone: self.pace.as_ref().is_some_and(Pace::counts_undone),
        }
    }

    /// When an open loop stops to work off its queue, and clients of any stop to wait for a connection.
    pub fn closes_ns(&self, schedule: Schedule) -> u64 {
        let drain_s = match &self.pace {
            Some(pace) => pace.drain_s(self.duration_s),
            None => drain_s(self.duration_s),
        };
        schedule.measured_to_ns.saturating_add(to_ns(drain_s))
    }
}

/// How the transactions of a load are counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// When it is measured.
    pub schedule: Schedule,
    /// Whether transactions have a time at which they are due.
    pub is_paced: bool,
    /// A latency above which a transaction is counted as late.
    pub limit_ns: Option<u64>,
    /// How many scripts there are.
    pub kinds: usize,
    /// Whether arrivals that were never begun have a latency: what they had waited when they were given up, which is
    /// less than it would have been. pgbench leaves them out.
    pub counts_undone: bool,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `check` bounds the seconds.
fn to_ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
