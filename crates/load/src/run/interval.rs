//! When progress is told: at each interval since the run began.

use std::time::Duration;

use crate::clock::monotonic_ns;

const SECOND_NS: u64 = 1_000_000_000;

/// One interval after the other.
pub(crate) struct Intervals {
    length_ns: Option<u64>,
    from_ns: u64,
    last_ns: u64,
    next_ns: u64,
}

/// An interval that is over.
pub(crate) struct Interval {
    /// Since the first began.
    pub elapsed_s: f64,
    /// How long it was.
    pub length_s: f64,
}

impl Intervals {
    /// Of so many seconds since an instant; none at all without a length.
    pub fn new(length_s: Option<u32>, from_ns: u64) -> Self {
        let length_ns = length_s.map(|seconds| u64::from(seconds) * SECOND_NS);
        Self {
            length_ns,
            from_ns,
            last_ns: from_ns,
            next_ns: from_ns.saturating_add(length_ns.unwrap_or(u64::MAX)),
        }
    }

    /// How long it is until the next one is over.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.next_ns.saturating_sub(monotonic_ns()))
    }

    /// The one that is over by now.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
    pub fn over(&mut self) -> Option<Interval> {
        let now_ns = monotonic_ns();
        let length_ns = self.length_ns.filter(|_| now_ns >= self.next_ns)?;
        let over = Interval {
            elapsed_s: (now_ns - self.from_ns) as f64 / 1e9,
            length_s: (now_ns - self.last_ns) as f64 / 1e9,
        };
        self.last_ns = now_ns;
        // The next one is in the future, whatever held this one up.
        while self.next_ns <= now_ns {
            self.next_ns += length_ns;
        }
        Some(over)
    }
}
