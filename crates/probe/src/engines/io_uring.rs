//! `io_uring`: io_method = io_uring (`src/backend/storage/aio/method_io_uring.c`). The kernel reads, the consumer
//! verifies.
//!
//! A ring for each consumer, without a polling thread of the kernel. What the look-ahead has staged goes with one
//! system call. Who waits takes whatever has ended, 32 at most at a time, and verifies all of it before looking
//! whether the request it wants is among it. Buffered reads beyond the first few are marked to be done by worker
//! threads of the kernel: else the copy from the page cache would happen within the submitting system call.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::null::nothing_started;
use crate::engine::{Engine, EngineReport, Lane, Wanted};
use crate::failure::{Code, Failure};
use crate::files::reopen;
use crate::reading::{Completed, PageRun, Read, Target};
use crate::spec::{CellSpec, SUBMIT_BATCH_MAX};
use crate::sys::ring::{ReadRing, RingCompletion};
use crate::time::stopwatch::{Stopwatch, Task};

/// Buffered reads that the submitting process may do itself.
const INLINE_MAX: usize = 4;
/// From this size on PostgreSQL 19 never does.
const LARGE_BYTES: usize = 32 * 1024;
const MAJOR_WITH_LARGE: u32 = 19;

/// When a read is marked to be done by a worker thread of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct AsyncRule {
    /// Whether the page cache is read.
    pub buffered: bool,
    /// The version whose rule it is.
    pub major: u32,
}

impl AsyncRule {
    /// For a read of `bytes` bytes while `in_flight` others are on their way.
    #[inline]
    pub fn applies(&self, in_flight: usize, bytes: usize) -> bool {
        let is_large = self.major >= MAJOR_WITH_LARGE && bytes >= LARGE_BYTES;
        self.buffered && (in_flight > INLINE_MAX || is_large)
    }
}

/// The engine that asks the kernel through a ring of each consumer.
pub struct Uring {
    target: Target,
    depth: usize,
    rule: AsyncRule,
    defers: bool,
    asynchronous: AtomicU64,
}

impl Uring {
    /// An engine whose consumers have up to `depth` requests on their way.
    pub fn new(target: Target, depth: usize, spec: &CellSpec) -> Self {
        Self {
            target,
            depth,
            rule: AsyncRule {
                buffered: !spec.direct && spec.kernel_workers,
                major: spec.major,
            },
            defers: spec.defer_completions,
            asynchronous: AtomicU64::new(0),
        }
    }
}

/// The engine for a cell.
///
/// # Errors
/// Never; the rings are made with the lanes.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Uring::new(target, spec.effective_depth(), spec)))
}

impl Engine for Uring {
    fn waits_for_kernel_workers(&self) -> bool {
        true
    }

    fn lane(&self, _consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        // A limit that leaves no file to a ring's owner is the gate that leaves it no ring.
        let target = reopen(&self.target).map_err(|failure| match failure.code {
            Code::TooManyFiles => refused(&io::Error::from_raw_os_error(libc::EMFILE)),
            _ => failure,
        })?;
        Ok(Box::new(UringLane {
            engine: self,
            requests: RequestRing::new(Arc::new(target), self.depth, self.defers)?,
            arrived: VecDeque::with_capacity(self.depth),
            asynchronous: 0,
        }))
    }

    fn report(&self) -> EngineReport {
        EngineReport {
            asynchronous_requests: self.asynchronous.load(Ordering::Relaxed),
            ..EngineReport::default()
        }
    }
}

struct UringLane<'a> {
    engine: &'a Uring,
    requests: RequestRing,
    arrived: VecDeque<Completed>,
    asynchronous: u64,
}

impl UringLane<'_> {
    /// Takes and verifies what had ended by `now_ns`.
    fn drain(&mut self, now_ns: u64, watch: &mut Stopwatch) -> Result<(), Failure> {
        for _ in 0..SUBMIT_BATCH_MAX {
            let Some(read) = self.requests.take()? else { break };
            let broken = self.requests.target.check(&read, watch);
            self.arrived.push_back(Completed {
                latency_ns: now_ns.saturating_sub(read.started_ns),
                read,
                broken,
            });
        }
        Ok(())
    }

    fn find(&mut self, wanted: Wanted) -> Option<Completed> {
        take_from(&mut self.arrived, wanted)
    }
}

impl Lane for UringLane<'_> {
    fn start(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        read.started_ns = watch.last_ns();
        let marked = self.engine.rule.applies(self.requests.pending(), read.bytes());
        self.asynchronous += u64::from(marked);
        self.requests.stage(read, marked);
        Ok(())
    }

    fn submit(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        watch.lap(Task::Harness);
        self.requests.submit()?;
        watch.lap(Task::Read);
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        loop {
            if let Some(completed) = self.find(wanted) {
                return Ok(completed);
            }
            if self.requests.pending() == 0 {
                return Err(nothing_started());
            }
            let mut now = watch.lap(Task::Harness);
            if !self.requests.is_ready() {
                self.requests.wait()?;
                now = watch.lap(Task::Read);
            }
            self.drain(now, watch)?;
        }
    }

    fn is_here(&mut self, number: u64) -> bool {
        // The ring completes mostly in order.
        self.arrived
            .iter()
            .any(|completed| completed.read.number == number)
            || self.requests.is_ready()
    }

    fn ready(&mut self, _watch: &mut Stopwatch) -> Option<Completed> {
        self.find(Wanted::Any)
    }

    fn finish(&mut self) {
        self.engine
            .asynchronous
            .fetch_add(self.asynchronous, Ordering::Relaxed);
        // The rest is the ring's: it waits for the kernel before its buffers are given back.
    }
}

/// Takes the wanted one of what has arrived; usually it is the first.
pub(super) fn take_from(arrived: &mut VecDeque<Completed>, wanted: Wanted) -> Option<Completed> {
    match wanted {
        Wanted::Any => arrived.pop_front(),
        Wanted::Number(number) => {
            let place = arrived
                .iter()
                .position(|completed| completed.read.number == number)?;
            arrived.remove(place)
        }
    }
}

/// A ring of requests: what the kernel doesn't carry of a request is kept beside it.
pub(super) struct RequestRing {
    ring: ReadRing,
    target: Arc<Target>,
    details: Vec<(u64, PageRun, u64)>,
    free: Vec<usize>,
}

impl RequestRing {
    /// `defers`: see `ReadRing`; PostgreSQL's rings don't.
    pub(super) fn new(target: Arc<Target>, depth: usize, defers: bool) -> Result<Self, Failure> {
        // Requests that have ended leave the ring before others are started, so the depth is room enough.
        let ring = ReadRing::new(target.file.clone(), depth, defers).map_err(|error| refused(&error))?;
        Ok(Self {
            ring,
            target,
            details: vec![(0, PageRun { block: 0, pages: 0 }, 0); depth],
            free: (0..depth).rev().collect(),
        })
    }

    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.ring.pending()
    }

    pub(super) fn is_ready(&mut self) -> bool {
        self.ring.is_ready()
    }

    #[inline]
    pub(super) fn stage(&mut self, read: Read, marked: bool) {
        let slot = self
            .free
            .pop()
            .expect("a slot for every request of the look-ahead");
        let (offset, bytes) = (read.offset(), read.bytes());
        self.details[slot] = (read.number, read.run, read.started_ns);
        self.ring.stage(slot, read.buffer, offset, bytes, marked);
    }

    pub(super) fn submit(&mut self) -> Result<(), Failure> {
        let submitted = self.ring.submit();
        submitted.map_err(|error| Failure::of(&error, "submitting reads to io_uring"))
    }

    pub(super) fn wait(&mut self) -> Result<(), Failure> {
        let waited = self.ring.wait();
        waited.map_err(|error| Failure::of(&error, "waiting for reads of io_uring"))
    }

    /// The next request that has ended.
    #[inline]
    pub(super) fn take(&mut self) -> Result<Option<Read>, Failure> {
        let Some(RingCompletion { slot, buffer, result }) = self.ring.take() else {
            return Ok(None);
        };
        self.free.push(slot);
        let (number, run, started_ns) = self.details[slot];
        let mut read = Read {
            number,
            run,
            buffer,
            started_ns,
        };
        self.target.settle(&mut read, result)?;
        Ok(Some(read))
    }
}

/// Names the gate that keeps a ring from being made.
fn refused(error: &io::Error) -> Failure {
    let sysctl = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let gate = match (error.raw_os_error(), sysctl.trim()) {
        (Some(libc::EPERM), value @ ("1" | "2")) => {
            format!("kernel.io_uring_disabled is {value}: set it to 0 with sysctl")
        }
        (Some(libc::EPERM | libc::ENOSYS | libc::EACCES), _) => {
            "a filter of system calls (seccomp, as containers have) or the kernel forbids it: allow io_uring_setup, \
             io_uring_enter and io_uring_register there"
                .to_owned()
        }
        (Some(libc::ENOMEM), _) => {
            "RLIMIT_MEMLOCK is too low for the ring's memory: raise it (ulimit -l)".to_owned()
        }
        (Some(libc::EMFILE), _) => {
            "RLIMIT_NOFILE is too low for one more ring: raise it (ulimit -n)".to_owned()
        }
        (Some(libc::ENFILE), _) => "the system's table of files is full: raise fs.file-max".to_owned(),
        _ => "the kernel gives no reason".to_owned(),
    };
    let mut failure = Failure::of(error, "making an io_uring");
    failure.code = Code::IoUringRefused;
    failure.message = format!("io_uring can't be used here ({error}): {gate}");
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_workers_get_what_postgresql_gives_them() {
        let rule = |buffered, major| AsyncRule { buffered, major };
        assert!(!rule(true, 18).applies(4, 1 << 20));
        assert!(rule(true, 18).applies(5, 8192));
        assert!(rule(true, 19).applies(0, 32 * 1024));
        assert!(!rule(true, 19).applies(4, 24 * 1024));
        assert!(!rule(false, 19).applies(100, 1 << 20));
    }

    #[test]
    fn a_refusal_names_its_gate() {
        let failure = refused(&io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(failure.code, Code::IoUringRefused);
        assert!(failure.message.contains("RLIMIT_NOFILE"), "{}", failure.message);
        let failure = refused(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(failure.message.contains("seccomp") || failure.message.contains("io_uring_disabled"));
    }
}
