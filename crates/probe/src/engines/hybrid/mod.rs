//! `hybrid`: pgassay's own. Rings as `io_uring`, with the work spread only while the consumer's core is the limit.
//!
//! What lies in the page cache is read by a system call when its turn comes: no ring is cheaper, and the pages are
//! still in the processor's cache when they are verified. What doesn't goes through a ring by PostgreSQL's rules. The
//! [`Controller`] of each consumer decides whether helpers share the work: through the page cache they read requests
//! and verify them, past it they only verify what came through the ring. The consumer doesn't wait for a helper while
//! there is something to do itself; only where others want the cores as well it leaves all of it to them.
//!
//! [`Controller`]: controller::Controller

mod controller;
mod helpers;
mod lane;
mod mode;
mod shared;
mod trial;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use self::helpers::Helpers;
use self::lane::HybridLane;
use self::mode::Coordinator;
use self::shared::Shared;
use super::io_uring::AsyncRule;
use crate::engine::{Engine, EngineReport, Lane};
use crate::failure::Failure;
use crate::reading::Target;
use crate::spec::{CellSpec, Pattern};
use crate::time::stopwatch::Stopwatch;

const HELPERS_MAX: usize = 8;
/// As many as PostgreSQL has I/O workers, however few cores there are: where others compete for the cores, more threads
/// get more of them.
const HELPERS_MIN: usize = 3;

/// The engine that spreads its work over helpers while the consumer's core is the limit.
pub struct Hybrid {
    shared: Shared,
}

impl Hybrid {
    /// An engine with about a helper for each other core, most of which sleep.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new(target: Target, depth: usize, spec: &CellSpec) -> Result<Self, Failure> {
        let cores = available_parallelism().map_or(1, usize::from);
        // Where each core has a consumer, nobody is free to help; a single request at a time can't be shared.
        let may_spread = depth > 1 && spec.consumers < cores;
        let helpers = if may_spread {
            (cores - 1).clamp(HELPERS_MIN, HELPERS_MAX)
        } else {
            0
        };
        Ok(Self {
            shared: Shared {
                depth,
                rule: AsyncRule {
                    buffered: !target.direct,
                    major: spec.major,
                },
                advises: !target.direct && spec.pattern != Pattern::Sequential,
                target: Arc::new(target),
                helpers: Helpers::new(helpers, spec.consumers)?,
                may_spread,
                coordinator: Coordinator::default(),
                asynchronous: AtomicU64::new(0),
                decisions: Mutex::default(),
            },
        })
    }
}

/// The engine for a cell.
///
/// # Errors
/// When the process may open no more files.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Hybrid::new(target, spec.effective_depth(), spec)?))
}

impl Engine for Hybrid {
    fn threads_help_consumers(&self) -> bool {
        true
    }

    fn waits_for_kernel_workers(&self) -> bool {
        true
    }

    fn threads(&self) -> usize {
        self.shared.helpers.count()
    }

    fn serve(&self, index: usize, watch: &mut Stopwatch) {
        self.shared.helpers.serve(index, &self.shared.target, watch);
    }

    fn lane(&self, consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(HybridLane::new(&self.shared, consumer)?))
    }

    fn retire(&self) {
        self.shared.helpers.retire();
    }

    fn report(&self) -> EngineReport {
        let decisions = self.shared.decisions.lock();
        let mut decisions = decisions.unwrap_or_else(PoisonError::into_inner).clone();
        decisions.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        EngineReport {
            asynchronous_requests: self.shared.asynchronous.load(Ordering::Relaxed),
            decisions,
            ..EngineReport::default()
        }
    }
}
