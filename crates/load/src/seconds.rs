//! Transactions by the second of the measured interval they ended in, and latencies: of a closed loop by the same
//! second, of an open one by the second in which the transaction was due.

use hdrhistogram::Histogram;
use pgassay_protocol::Failure;
use serde::Serialize;

use crate::timed::serialise;

/// Longer latencies count as this long here: a minute, so that the histogram of one second stays small.
const LATENCY_US_MAX: u64 = 60_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;

/// A histogram for the latencies of a second.
///
/// # Panics
/// Never: its bounds are valid.
#[must_use]
pub fn latencies() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS).expect("valid histogram bounds")
}

/// One second: how many transactions ended in it, and how long they took.
#[derive(Clone)]
pub struct Second {
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Of an open loop: arrivals that were due in it.
    pub due: u64,
    /// Of an open loop: arrivals that left the queue in it, to be begun or skipped.
    pub left_queue: u64,
    latency_ns: u128,
    histogram: Histogram<u32>,
}

impl Default for Second {
    fn default() -> Self {
        Self {
            transactions: 0,
            due: 0,
            left_queue: 0,
            latency_ns: 0,
            histogram: latencies(),
        }
    }
}

impl Second {
    /// Counts a latency.
    #[inline]
    pub fn count(&mut self, latency_ns: u64) {
        self.latency_ns += u128::from(latency_ns);
        self.histogram.saturating_record((latency_ns + 500) / 1000);
    }

    /// Adds another thread's counts of the same second.
    pub fn merge(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.due += other.due;
        self.left_queue += other.left_queue;
        self.latency_ns += other.latency_ns;
        self.histogram
            .add(&other.histogram)
            .expect("histograms of the same bounds");
    }

    #[allow(clippy::cast_precision_loss)] // A second's worth of latencies is exact in a double.
    fn mean_ms(&self) -> Option<f64> {
        let count = self.histogram.len();
        (count > 0).then(|| self.latency_ns as f64 / count as f64 / 1e6)
    }

    /// Its histogram of microseconds, serialised; '' of none.
    ///
    /// # Errors
    /// When it can't be serialised.
    pub fn histogram(&self) -> Result<String, Failure> {
        if self.histogram.is_empty() {
            return Ok(String::new());
        }
        serialise(&self.histogram)
    }

    #[allow(clippy::cast_precision_loss)]
    fn quantile_ms(&self, fraction: f64) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.histogram.value_at_quantile(fraction) as f64 / 1e3)
    }
}

/// Latencies in each second, in milliseconds; nothing for a second in which no transaction ended.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyBySecond {
    /// Exact.
    pub mean: Vec<Option<f64>>,
    /// 99 % took no longer, to two significant digits.
    pub p99: Vec<Option<f64>>,
    /// The longest, to two significant digits.
    pub max: Vec<Option<f64>>,
}

impl LatencyBySecond {
    /// Of these seconds, in their order.
    #[must_use]
    pub fn new(seconds: &[Second]) -> Self {
        Self {
            mean: seconds.iter().map(Second::mean_ms).collect(),
            p99: seconds.iter().map(|second| second.quantile_ms(0.99)).collect(),
            max: seconds.iter().map(|second| second.quantile_ms(1.0)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_latencies_are_those_of_all_threads() {
        let (mut first, mut second) = (Second::default(), Second::default());
        for _ in 0..98 {
            first.count(2_000_000);
        }
        second.count(2_000_000);
        second.count(202_000_000);
        first.merge(&second);
        let found = LatencyBySecond::new(&[first.clone(), Second::default()]);
        assert_eq!(found.mean, [Some(4.0), None]);
        assert!((found.p99[0].unwrap() - 2.0).abs() < 0.02, "{:?}", found.p99);
        first.count(202_000_000);
        assert!((first.quantile_ms(0.99).unwrap() - 202.0).abs() < 2.1);
    }
}
