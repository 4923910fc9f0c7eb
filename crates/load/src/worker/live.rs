//! What a worker shows of the last second while it runs, when it is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::seconds::latencies;

/// A queue is counted so far: to count millions would hold the load up.
pub const QUEUE_MAX: u64 = 100_000;

/// What is shown.
pub struct Live {
    /// Somebody asks.
    is_wanted: AtomicBool,
    shown: Mutex<Shown>,
}

/// What was shown last.
pub struct Shown {
    /// Latencies since it was asked for before, in microseconds.
    pub latencies: Histogram<u32>,
    /// Transactions that are due and have not begun, or wait for a connection; `QUEUE_MAX` and more are one.
    pub queue: u64,
}

impl Default for Live {
    fn default() -> Self {
        let shown = Shown::default();
        Self {
            is_wanted: AtomicBool::new(false),
            shown: Mutex::new(shown),
        }
    }
}

impl Live {
    /// Asks for it; whoever asks wakes the worker as well.
    pub fn ask(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Adds what was shown to the rest, and forgets it.
    pub fn take(&self, into: &mut Shown) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let added = into.latencies.add(&shown.latencies);
        added.expect("histograms of the same bounds");
        into.queue = (into.queue + shown.queue).min(QUEUE_MAX);
        shown.latencies.reset();
    }
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            latencies: latencies(),
            queue: 0,
        }
    }
}

impl Live {
    /// Whether somebody has asked since the last time.
    pub fn is_asked(&self) -> bool {
        self.is_wanted.swap(false, Ordering::Relaxed)
    }

    /// Shows it: `add` adds latencies, and `queue` transactions wait.
    pub fn show(&self, queue: u64, add: impl FnOnce(&mut Histogram<u32>)) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut shown.latencies);
        shown.queue = queue;
    }
}
