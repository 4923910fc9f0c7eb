//! The modes in which the engine `hybrid` can share the work of a consumer, and what the consumers' controllers share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who reads, and who verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By the consumer, when a request's turn comes: as `sync`.
    Own,
    /// Through the ring, verified by the consumer: as `io_uring`.
    Ring,
    /// Shared with so many helpers.
    Shared(usize),
    /// Given to so many helpers, as `worker` does: the consumer waits for them, and has its core for what it alone can
    /// do.
    Given(usize),
}

impl Mode {
    /// How many helpers it has.
    pub fn helpers(self) -> usize {
        match self {
            Self::Shared(helpers) | Self::Given(helpers) => helpers,
            Self::Own | Self::Ring => 0,
        }
    }

    /// Its name in a record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Ring => "ring",
            Self::Shared(_) => "shared",
            Self::Given(_) => "given",
        }
    }
}

/// What all consumers were given.
#[derive(Clone, Copy, Default)]
pub(super) struct Total {
    pub(super) bytes: u64,
    pub(super) requests: u64,
}

/// What the controllers of a server share.
#[derive(Default)]
pub struct Coordinator {
    /// Bytes that all consumers were given …
    pub(super) bytes: AtomicU64,
    /// … and requests.
    pub(super) requests: AtomicU64,
    /// Whether the controller of one of them is in a trial.
    is_trial_running: AtomicBool,
}

impl Coordinator {
    /// Counts a request that was handed to a consumer.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets a controller begin a trial, unless another one is in one.
    pub(super) fn begin_trial(&self) -> bool {
        !self.is_trial_running.swap(true, Ordering::Relaxed)
    }

    /// Ends the trial that `begin_trial` allowed.
    pub(super) fn end_trial(&self) {
        self.is_trial_running.store(false, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Total {
        Total {
            bytes: self.bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}
