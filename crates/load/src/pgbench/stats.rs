//! What pgbench counts of transactions (StatsData and SimpleStats in pgbench.c). All times are microseconds.

use pgassay_protocol::Failure;
use serde::Serialize;

/// Count, range and sums of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    /// How many.
    pub count: u64,
    /// The least; 0 of nothing.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The sum.
    pub sum: f64,
    /// The sum of squares.
    pub sum2: f64,
}

impl Sums {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if self.count == 0 || value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += value;
        self.sum2 += value * value;
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || other.min < self.min {
            self.min = other.min;
        }
        if self.count == 0 || other.max > self.max {
            self.max = other.max;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.sum2 += other.sum2;
    }
}

/// Why a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// 40001.
    Serialization,
    /// 40P01.
    Deadlock,
    /// Any other error of a statement, with --continue-on-error.
    Other,
}

impl FailureKind {
    /// The kind of a failure that a transaction was given up for.
    pub fn of(failure: Option<&Failure>) -> Self {
        match failure.and_then(|failure| failure.sqlstate.as_deref()) {
            Some("40001") => Self::Serialization,
            Some("40P01") => Self::Deadlock,
            _ => Self::Other,
        }
    }

    /// Whether trying again may mend it.
    pub fn is_retryable(self) -> bool {
        self != Self::Other
    }

    /// Its word in a log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Serialization => "serialization",
            Self::Deadlock => "deadlock",
            Self::Other => "other",
        }
    }
}

/// How a transaction came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// Committed, so long after it was due, having begun so late.
    Done {
        /// From when it was due to its end.
        latency_us: f64,
        /// From when it was due to its beginning.
        lag_us: f64,
    },
    /// Given up for good.
    Failed(FailureKind),
    /// Never begun: it would have been late.
    Skipped,
}

/// Counts of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// That were done.
    pub done: u64,
    /// That were skipped.
    pub skipped: u64,
    /// Tries beyond the first, of all.
    pub retries: u64,
    /// That were tried more than once.
    pub retried: u64,
    /// That failed by kind.
    pub serialization_failures: u64,
    /// By deadlock.
    pub deadlock_failures: u64,
    /// By any other error.
    pub other_failures: u64,
    /// Latencies of those that were done.
    pub latency_us: Sums,
    /// How late they began.
    pub lag_us: Sums,
}

impl Stats {
    /// Counts a transaction that took so many tries.
    #[inline]
    pub fn count(&mut self, ending: Ending, tries: u32) {
        if ending != Ending::Skipped && tries > 1 {
            self.retries += u64::from(tries - 1);
            self.retried += 1;
        }
        match ending {
            Ending::Done { latency_us, lag_us } => {
                self.done += 1;
                self.latency_us.add(latency_us);
                self.lag_us.add(lag_us);
            }
            Ending::Failed(FailureKind::Serialization) => self.serialization_failures += 1,
            Ending::Failed(FailureKind::Deadlock) => self.deadlock_failures += 1,
            Ending::Failed(FailureKind::Other) => self.other_failures += 1,
            Ending::Skipped => self.skipped += 1,
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.done += other.done;
        self.skipped += other.skipped;
        self.retries += other.retries;
        self.retried += other.retried;
        self.serialization_failures += other.serialization_failures;
        self.deadlock_failures += other.deadlock_failures;
        self.other_failures += other.other_failures;
        self.latency_us.merge(&other.latency_us);
        self.lag_us.merge(&other.lag_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_add_up() {
        let (mut first, mut second) = (Stats::default(), Stats::default());
        first.count(
            Ending::Done {
                latency_us: 5.0,
                lag_us: 1.0,
            },
            3,
        );
        second.count(
            Ending::Done {
                latency_us: 2.0,
                lag_us: 0.0,
            },
            1,
        );
        second.count(Ending::Failed(FailureKind::Deadlock), 2);
        second.count(Ending::Skipped, 1);
        let mut merged = Stats::default();
        merged.merge(&first);
        merged.merge(&second);
        assert_eq!((merged.done, merged.retries, merged.retried), (2, 3, 2));
        assert_eq!((merged.skipped, merged.deadlock_failures), (1, 1));
        let latency = merged.latency_us;
        assert_eq!(
            (latency.min, latency.max, latency.sum, latency.sum2),
            (2.0, 5.0, 7.0, 29.0)
        );
    }
}
