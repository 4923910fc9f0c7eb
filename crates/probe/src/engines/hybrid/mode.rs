//! The ways in which the engine `hybrid` can share the work of a consumer, and what its pilots share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A way of sharing the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
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

impl Way {
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

/// What the pilots of a server share.
#[derive(Default)]
pub struct Airspace {
    /// Bytes that all consumers were given …
    pub(super) bytes: AtomicU64,
    /// … and requests.
    pub(super) requests: AtomicU64,
    /// Whether one of them is trying.
    pub(super) is_taken: AtomicBool,
}

impl Airspace {
    /// Counts a request that was handed to a consumer.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Total {
        Total {
            bytes: self.bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}
