//! What one thread counts and times.

use hdrhistogram::Histogram;

use crate::clock::thread_cpu_ns;
use crate::seconds::Second;
use crate::spec::Schedule;

const SECOND_NS: u64 = 1_000_000_000;
/// Longer latencies count as this long.
const LATENCY_US_MAX: u64 = 24 * 3600 * 1_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

/// Counts of the measured interval.
#[derive(Clone)]
pub struct Tally {
    /// Transactions that ended within the interval.
    pub transactions: u64,
    /// Transactions that the server gave up within it (serialization failure or deadlock).
    pub errors: u64,
    /// Transactions that ended before it.
    pub warmup_transactions: u64,
    /// Transactions that had begun by its end and ended after it.
    pub late_transactions: u64,
    /// Transactions by the second of the interval they ended in; the last may be a part of a second.
    pub seconds: Vec<Second>,
    /// Latencies of `transactions` in microseconds.
    pub histogram: Histogram<u64>,
    /// Sum, least and greatest of the same latencies.
    pub latency_ns: Extent,
    /// The thread's CPU time over the interval.
    pub cpu_ns: u64,
}

/// Sum and range of a quantity in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The sum.
    pub sum: u128,
    /// The least; `u64::MAX` of nothing.
    pub min: u64,
    /// The greatest.
    pub max: u64,
}

impl Extent {
    const EMPTY: Self = Self {
        sum: 0,
        min: u64::MAX,
        max: 0,
    };

    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Tally {
    /// Nothing counted, for an interval of this length.
    ///
    /// # Panics
    /// Never: the bounds of the histogram are constants.
    pub fn new(interval_ns: u64) -> Self {
        let seconds = usize::try_from(interval_ns.div_ceil(SECOND_NS)).unwrap_or(usize::MAX);
        Self {
            transactions: 0,
            errors: 0,
            warmup_transactions: 0,
            late_transactions: 0,
            seconds: vec![Second::default(); seconds],
            histogram: Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS)
                .expect("valid histogram bounds"),
            latency_ns: Extent::EMPTY,
            cpu_ns: 0,
        }
    }

    /// Adds another thread's counts of the same interval.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.errors += other.errors;
        self.warmup_transactions += other.warmup_transactions;
        self.late_transactions += other.late_transactions;
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.merge(theirs);
        }
        self.histogram
            .add(&other.histogram)
            .expect("histograms of the same bounds");
        self.latency_ns.merge(other.latency_ns);
        self.cpu_ns += other.cpu_ns;
    }
}

/// Sorts transactions into warm-up, measured interval and what comes late, by the instant they end.
pub struct Meter {
    schedule: Schedule,
    phase: Phase,
    /// When the phase ends or the next second of it begins: the only comparison made per transaction.
    edge_ns: u64,
    second: usize,
    cpu_from_ns: u64,
    ended: u64,
    tally: Tally,
}

impl Meter {
    /// A meter for one thread.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            phase: Phase::WarmUp,
            edge_ns: schedule.measured_from_ns,
            second: 0,
            cpu_from_ns: 0,
            ended: 0,
            tally: Tally::new(schedule.measured_to_ns - schedule.measured_from_ns),
        }
    }

    /// Takes notice of the time; `true` once the measured interval is over.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) -> bool {
        while now_ns >= self.edge_ns {
            self.begin_next_interval();
        }
        self.phase == Phase::Over
    }

    #[cold]
    fn begin_next_interval(&mut self) {
        match self.phase {
            Phase::WarmUp => {
                self.phase = Phase::Measured;
                self.cpu_from_ns = thread_cpu_ns();
                self.edge_ns = self.schedule.measured_from_ns;
            }
            Phase::Measured if self.edge_ns < self.schedule.measured_to_ns => self.second += 1,
            Phase::Measured => {
                self.phase = Phase::Over;
                self.tally.cpu_ns = thread_cpu_ns() - self.cpu_from_ns;
            }
            Phase::Over => {}
        }
        self.edge_ns = match self.phase {
            Phase::Over => u64::MAX,
            _ => self.schedule.measured_to_ns.min(self.edge_ns + SECOND_NS),
        };
    }

    /// Counts a committed transaction; `true` once the measured interval is over.
    #[inline]
    pub fn committed(&mut self, started_ns: u64, ended_ns: u64) -> bool {
        let is_over = self.tick(ended_ns);
        self.ended += 1;
        match self.phase {
            Phase::Measured => {
                let latency_ns = ended_ns.saturating_sub(started_ns);
                self.tally.transactions += 1;
                self.tally.seconds[self.second].count(latency_ns);
                self.tally.histogram.saturating_record((latency_ns + 500) / 1000);
                let extent = &mut self.tally.latency_ns;
                extent.sum += u128::from(latency_ns);
                extent.min = extent.min.min(latency_ns);
                extent.max = extent.max.max(latency_ns);
            }
            Phase::WarmUp => self.tally.warmup_transactions += 1,
            Phase::Over => self.tally.late_transactions += 1,
        }
        is_over
    }

    /// Counts a transaction that the server gave up; `true` once the measured interval is over.
    pub fn failed(&mut self, ended_ns: u64) -> bool {
        let is_over = self.tick(ended_ns);
        if self.phase == Phase::Measured {
            self.tally.errors += 1;
        }
        is_over
    }

    /// Transactions ended so far, warm-up and all.
    #[inline]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// The counts.
    pub fn into_tally(self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        let from = 7 * SECOND_NS;
        Meter::new(Schedule {
            start_ns: 5 * SECOND_NS,
            measured_from_ns: from,
            measured_to_ns: from + 2_500_000_000,
        })
    }

    fn by_second(tally: &Tally) -> Vec<u64> {
        tally.seconds.iter().map(|second| second.transactions).collect()
    }

    #[test]
    fn a_transaction_belongs_to_the_interval_in_which_it_ends() {
        let mut meter = meter();
        let from = 7 * SECOND_NS;
        assert!(!meter.committed(from - 10, from - 1));
        assert!(!meter.committed(from - 10_000, from));
        assert!(!meter.committed(from, from + SECOND_NS - 1));
        assert!(!meter.committed(from, from + 2 * SECOND_NS));
        assert!(!meter.failed(from + 2_499_999_999));
        assert!(meter.committed(from, from + 2_500_000_000));
        let tally = meter.into_tally();
        assert_eq!(
            (
                tally.warmup_transactions,
                tally.transactions,
                tally.late_transactions
            ),
            (1, 3, 1)
        );
        assert_eq!(by_second(&tally), [2, 0, 1]);
        assert_eq!(tally.errors, 1);
        assert_eq!(tally.latency_ns.min, 10_000);
        assert_eq!(tally.latency_ns.max, 2 * SECOND_NS);
        assert_eq!(tally.histogram.len(), 3);
    }

    #[test]
    fn an_interval_in_which_nothing_ends_is_crossed_whole() {
        let mut meter = meter();
        assert!(meter.tick(100 * SECOND_NS));
        assert!(meter.committed(6 * SECOND_NS, 100 * SECOND_NS));
        let tally = meter.into_tally();
        assert_eq!((tally.transactions, tally.late_transactions), (0, 1));
        assert_eq!(by_second(&tally), [0, 0, 0]);
    }

    #[test]
    fn merged_counts_are_the_sums() {
        let mut first = meter();
        first.committed(7 * SECOND_NS, 7 * SECOND_NS + 3_000);
        let mut second = meter();
        second.committed(7 * SECOND_NS, 7 * SECOND_NS + 9_000);
        let mut merged = first.into_tally();
        merged.merge(&second.into_tally());
        assert_eq!(
            merged.latency_ns,
            Extent {
                sum: 12_000,
                min: 3_000,
                max: 9_000
            }
        );
        assert_eq!((merged.histogram.min(), merged.histogram.max()), (3, 9));
        assert_eq!(by_second(&merged), [2, 0, 0]);
    }
}
