//! What a cell's measurement gives.

use serde::Serialize;

use crate::cell::meter::{Latency, Window};
use crate::engine::EngineReport;
use crate::time::stopwatch::TimeSplit;

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    /// Of the consumers.
    pub consumers: f64,
    /// Of the I/O workers.
    pub workers: f64,
    /// Of the helpers of the engine `hybrid`.
    pub helpers: f64,
    /// Of the kernel's own worker threads of the rings.
    pub kernel_workers: f64,
}

impl CpuTime {
    /// The CPU time of all of them together.
    pub fn total(&self) -> f64 {
        self.consumers + self.workers + self.helpers + self.kernel_workers
    }
}

/// Where the time of the threads went, summed over them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The consumers' time.
    #[serde(flatten)]
    pub consumers: TimeSplit,
    /// The time of the I/O workers or helpers.
    pub workers: TimeSplit,
}

/// The measurement of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Bytes consumed.
    pub bytes: u64,
    /// Requests consumed.
    pub operations: u64,
    /// From the start to the end of the last consumer.
    pub elapsed_s: f64,
    /// 10⁶ bytes a second.
    pub mb_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// From a request's begin to the arrival of its data.
    pub latency_us: Latency,
    /// CPU time by who used it.
    pub cpu_s: CpuTime,
    /// All CPU time by 10⁹ bytes consumed.
    pub cpu_s_per_gb: f64,
    /// Time by what it went to.
    pub time_s: Times,
    /// The rate over the time.
    pub windows: Vec<Window>,
    /// Pages that PostgreSQL would refuse.
    pub verify_failures: u64,
    /// The first of them, as blocks of the file.
    pub broken_blocks: Vec<u64>,
    /// The file's part of the page cache before.
    pub resident_bytes_before: u64,
    /// What the device delivered to this process meanwhile, as the kernel counts it.
    pub device_read_bytes: u64,
    /// What the engine tells.
    #[serde(flatten)]
    pub engine: EngineReport,
    /// Made of what was read.
    pub page_sum: u64,
}
