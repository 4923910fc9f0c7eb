//! What the command `observe` reads and writes.

use pgassay_protocol::Parameters;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// The columns of [`ThreadRow`], in order.
pub const THREAD_COLUMNS: [&str; 14] = [
    "pid",
    "thread",
    "kind",
    "start_ns",
    "seen_ns",
    "alive",
    "run_ns",
    "delay_ns",
    "slices",
    "process_cpu_ns",
    "children_cpu_ns",
    "read_bytes",
    "write_bytes",
    "block_delay_ns",
];
/// The columns of [`WaitRow`], in order.
pub const WAIT_COLUMNS: [&str; 8] = [
    "pid",
    "thread",
    "kind",
    "activity",
    "wait_event_type",
    "wait_event",
    "scheduler_state",
    "samples",
];

/// The columns of [`AioRow`], in order.
pub const AIO_COLUMNS: [&str; 4] = ["state", "operation", "handles", "bytes"];

/// What to observe.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserveSpec {
    /// How to ask pg_stat_activity; none: only /proc is read.
    #[serde(default)]
    pub connect: Option<Parameters>,
    /// The first process of a server on this host; none: only pg_stat_activity is asked.
    #[serde(default)]
    pub postmaster_pid: Option<i32>,
    /// Readings per second.
    pub rate_hz: f64,
    /// Time between two outputs.
    pub output_s: f64,
}

impl ObserveSpec {
    /// Whether it can be done.
    ///
    /// # Errors
    /// A sentence on what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !(0.1..=1000.0).contains(&self.rate_hz) {
            return Err(format!(
                "rate_hz is {}: give 0.1 to 1000 readings per second",
                self.rate_hz
            ));
        }
        if !(0.01..=60.0).contains(&self.output_s) {
            return Err(format!("output_s is {}: give 0.01 to 60 seconds", self.output_s));
        }
        if self.connect.is_none() && self.postmaster_pid.is_none() {
            return Err("there is nothing to observe: give connect, postmaster_pid or both".to_owned());
        }
        Ok(())
    }
}

/// What may come later on standard input, one a line.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ObserveCommand {
    /// Put out the counters now, as an edge.
    Edge {},
    /// The server was started again: observe this one from now on.
    Server {
        /// As in [`ObserveSpec`].
        #[serde(default)]
        connect: Option<Box<Parameters>>,
        /// As in [`ObserveSpec`].
        #[serde(default)]
        postmaster_pid: Option<i32>,
    },
    /// Put out what there is and end.
    End {},
}

/// One thread's cumulative counters: pid, thread, kind, start_ns, seen_ns (when it was last seen), alive, run_ns,
/// delay_ns, slices, process_cpu_ns, children_cpu_ns, read_bytes, write_bytes, block_delay_ns.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, clippy::struct_field_names)]
pub struct ThreadRow(
    pub i32,
    pub i32,
    pub Kind,
    pub u64,
    pub u64,
    pub bool,
    pub u64,
    pub u64,
    pub u64,
    pub u64,
    pub u64,
    pub u64,
    pub u64,
    pub u64,
);

/// How often a thread was seen so: pid, thread, kind, activity, wait_event_type, wait_event, scheduler_state, samples.
#[derive(Clone, Debug, Serialize)]
pub struct WaitRow(
    pub i32,
    pub i32,
    pub Kind,
    pub String,
    pub String,
    pub String,
    pub char,
    pub u32,
);

/// Handles of asynchronous reads in use when the window ended: state, operation, handles, bytes.
#[derive(Clone, Debug, Serialize)]
pub struct AioRow(pub String, pub String, pub u32, pub i64);

/// Everything between two outputs.
#[derive(Debug, Serialize)]
pub struct Window {
    /// The end of the window before.
    pub from_ns: u64,
    /// When the counters below were read.
    pub clock_ns: u64,
    /// Whether it was asked for.
    pub edge: bool,
    /// Readings of states and wait events.
    pub samples: u32,
    /// Readings left out, because the one before took too long.
    pub missed: u32,
    /// Rows of `THREAD_COLUMNS`.
    pub threads: Vec<ThreadRow>,
    /// Rows of `WAIT_COLUMNS`.
    pub waits: Vec<WaitRow>,
    /// Rows of `AIO_COLUMNS`.
    pub aios: Vec<AioRow>,
}
