//! What a cell of the probe's grid is: one way of reading, one pattern, one set of limits.

use serde::Deserialize;

use crate::failure::{Code, Failure};
use crate::page::layout::PAGE_BYTES;

/// The most requests that are staged before they must be submitted: PGAIO_SUBMIT_BATCH_SIZE
/// (`src/include/storage/aio_internal.h`).
pub const SUBMIT_BATCH_MAX: usize = 32;
/// The most that io_combine_limit allows.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;
const DEPTH_MAX: usize = 1024;
const THREADS_MAX: usize = 1024;
const DURATION_S_MAX: f64 = 3600.0;

/// Which pages, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One after the other, each consumer in a part of its own, from its start again after its end.
    Sequential,
    /// Any, independent of each other.
    Random,
    /// Any, each known only when the one before was read: the descent of an index.
    Dependent,
    /// In order, with pages left out: a bitmap scan.
    Gaps,
    /// In order, handed out to all consumers in chunks: a parallel sequential scan.
    Parallel,
}

/// One cell: a key each of the document that asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// The file to read.
    pub file: String,
    /// The way of reading: a name in the table of `engines`.
    pub engine: String,
    /// Past the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Which pages.
    pub pattern: Pattern,
    /// The largest request: io_combine_limit.
    #[serde(default = "one_page")]
    pub request_bytes: usize,
    /// The most requests that a consumer has on their way: effective_io_concurrency.
    #[serde(default = "one")]
    pub depth: usize,
    /// Threads that want pages.
    #[serde(default = "one")]
    pub consumers: usize,
    /// I/O workers, of the engine that has any: io_workers, from 19 on io_max_workers.
    #[serde(default = "three")]
    pub workers: usize,
    /// From 19 on: those that there are at the start, io_min_workers; all when it is left out.
    #[serde(default)]
    pub workers_min: Option<usize>,
    /// From 19 on: another worker is started so long after the one before, at the soonest (io_worker_launch_interval).
    #[serde(default = "hundred")]
    pub launch_interval_ms: u64,
    /// The most buffers that a consumer may pin; as many as its look-ahead wants when it is left out.
    #[serde(default)]
    pub pins: Option<u64>,
    /// The share of the pages that shared buffers have, so that they are not read.
    #[serde(default)]
    pub found: f64,
    /// The pages of the table, by which a parallel scan chooses its chunks; those that are read when it is left out.
    #[serde(default)]
    pub table_blocks: Option<u64>,
    /// Whether the checksum of each page is verified.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Pages are wanted from this one of the file on …
    #[serde(default)]
    pub first_block: u64,
    /// … so many; to the end of the file when it is left out.
    #[serde(default)]
    pub blocks: Option<u64>,
    /// The number of the file's first page in its relation, which the checksums depend on.
    #[serde(default)]
    pub file_first_block: u32,
    /// How long it is measured, in seconds.
    pub duration_s: f64,
    /// It ends early after so many bytes, all consumers taken together.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// The share of the pages that the pattern with gaps wants.
    #[serde(default = "half")]
    pub gap: f64,
    /// Whether the engine `sync` announces requests with posix_fadvise, as PostgreSQL does where the pages aren't
    /// in sequence.
    #[serde(default)]
    pub advise: bool,
    /// CPU time that the consumer spends on each page, as an executor would.
    #[serde(default)]
    pub execute_ns_per_page: u64,
    /// Threads that compute all the time meanwhile.
    #[serde(default)]
    pub competing_cpus: usize,
    /// Whether the engine `io_uring` gives buffered reads to worker threads of the kernel by PostgreSQL's rule; else
    /// never.
    #[serde(default = "yes")]
    pub kernel_workers: bool,
    /// Whether the engine `io_uring` has the kernel keep completions back until they are waited for, as benchmarks of
    /// devices do and PostgreSQL does not: its rings are shared by processes.
    #[serde(default)]
    pub defer_completions: bool,
    /// How many requests are staged, at most, before they are submitted: PGAIO_SUBMIT_BATCH_SIZE in PostgreSQL, 1 in
    /// benchmarks of devices.
    #[serde(default = "batch")]
    pub submit_batch: usize,
    /// The version of PostgreSQL whose rules are followed.
    #[serde(default = "eighteen")]
    pub major: u32,
    /// Whether pages are consumed in the order in which they were asked for, as a scan does, or as they come, as a
    /// benchmark of devices does.
    #[serde(default = "yes")]
    pub in_order: bool,
    /// Decides the random patterns.
    #[serde(default)]
    pub seed: u64,
}

fn one_page() -> usize {
    PAGE_BYTES
}

fn one() -> usize {
    1
}

fn batch() -> usize {
    SUBMIT_BATCH_MAX
}

fn three() -> usize {
    3
}

fn hundred() -> u64 {
    100
}

fn yes() -> bool {
    true
}

fn half() -> f64 {
    0.5
}

fn eighteen() -> u32 {
    18
}

impl CellSpec {
    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// With a sentence that names the first one which doesn't.
    pub fn check(&self) -> Result<(), Failure> {
        let must_be_pages =
            format!("request_bytes must be a multiple of {PAGE_BYTES} up to {REQUEST_BYTES_MAX}");
        let rules = [
            (
                self.request_bytes % PAGE_BYTES == 0
                    && (PAGE_BYTES..=REQUEST_BYTES_MAX).contains(&self.request_bytes),
                must_be_pages.as_str(),
            ),
            (
                (1..=DEPTH_MAX).contains(&self.depth),
                "depth must be from 1 to 1024",
            ),
            (
                (1..=THREADS_MAX).contains(&self.consumers),
                "consumers must be from 1 to 1024",
            ),
            (
                (1..=32).contains(&self.workers),
                "workers must be from 1 to 32, as io_workers",
            ),
            (
                self.workers_min
                    .is_none_or(|least| (1..=self.workers).contains(&least)),
                "workers_min must be from 1 to workers",
            ),
            ((0.0..=1.0).contains(&self.found), "found must be from 0 to 1"),
            (
                self.duration_s > 0.0 && self.duration_s <= DURATION_S_MAX,
                "duration_s must be more than 0 and at most 3600",
            ),
            (
                self.gap > 0.0 && self.gap <= 1.0,
                "gap must be more than 0 and at most 1",
            ),
            (
                self.competing_cpus <= THREADS_MAX,
                "competing_cpus must be at most 1024",
            ),
            (
                (1..=SUBMIT_BATCH_MAX).contains(&self.submit_batch),
                "submit_batch must be from 1 to 32",
            ),
            (self.major >= 16, "major must be a major version of PostgreSQL"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Failure::new(Code::Usage, *rule)),
            None => Ok(()),
        }
    }

    /// The most requests that a consumer can have on their way: one, where each depends on the one before.
    pub fn effective_depth(&self) -> usize {
        match self.pattern {
            Pattern::Dependent => 1,
            _ => self.depth,
        }
    }

    /// The pages of a full request.
    pub fn request_pages(&self) -> u64 {
        (self.request_bytes / PAGE_BYTES) as u64
    }
}
