//! `sync`: io_method = sync. The consumer does everything itself, one after the other.
//!
//! Starting a request at most announces it with posix_fadvise, which PostgreSQL does where the pages aren't in
//! sequence and O_DIRECT isn't used; the reading is done when the request's turn comes, by pread where the buffers
//! are neighbours (`pg_preadv`), then the pages are verified.

use std::collections::VecDeque;

use super::null::nothing_started;
use crate::engine::{Engine, Lane, Wanted};
use crate::failure::Failure;
use crate::files::reopen;
use crate::reading::{Completed, Read, Target};
use crate::spec::{CellSpec, Pattern};
use crate::time::stopwatch::{Stopwatch, Task};

/// The engine by which a consumer reads itself.
pub struct Sync {
    /// What is read.
    pub target: Target,
    /// Whether requests are announced.
    pub advise: bool,
}

struct SyncLane {
    target: Target,
    advise: bool,
    started: VecDeque<Read>,
}

/// The engine for a cell.
///
/// # Errors
/// Never.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Sync {
        // As in PostgreSQL: the kernel's own read-ahead is better for sequences, and O_DIRECT has no cache.
        advise: spec.advise && !spec.direct && spec.pattern != Pattern::Sequential,
        target,
    }))
}

impl Engine for Sync {
    fn lane(&self, _consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(SyncLane {
            target: reopen(&self.target)?,
            advise: self.advise,
            started: VecDeque::new(),
        }))
    }
}

impl Lane for SyncLane {
    fn start(&mut self, read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.advise {
            watch.lap(Task::Harness);
            self.target.announce(&read);
            watch.lap(Task::Read);
        }
        self.started.push_back(read);
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        let mut read = self.started.pop_front().ok_or_else(nothing_started)?;
        read.started_ns = watch.lap(Task::Harness);
        let ended_ns = self.target.read(&mut read, watch)?;
        let broken = self.target.check(&read, watch);
        Ok(Completed {
            latency_ns: ended_ns - read.started_ns,
            read,
            broken,
        })
    }
}
