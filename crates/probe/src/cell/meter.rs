//! What a consumer counts.

use hdrhistogram::Histogram;
use serde::Serialize;

const LATENCY_NS_MAX: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// The counts are kept in bins at least so long, and shown in longer windows.
const BIN_NS_MIN: u64 = 1_000_000;
const BINS_MAX: u64 = 65_536;
const WINDOWS: usize = 20;

/// Counts of one consumer, or of several together.
pub struct Meter {
    start_ns: u64,
    bin_ns: u64,
    /// Bytes and operations that ended in each bin.
    bins: Vec<(u64, u64)>,
    /// Bytes consumed.
    pub bytes: u64,
    /// Requests consumed.
    pub operations: u64,
    latency_ns: Histogram<u64>,
    /// A sum over what was read: the reading can't be left out.
    pub page_sum: u64,
    /// Pages that PostgreSQL would refuse.
    pub verify_failures: u64,
    /// The first of them.
    pub broken_blocks: Vec<u64>,
}

/// The rate in a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Seconds since the start of the measurement.
    pub start_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// 10⁶ bytes a second.
    pub mb_s: f64,
    /// Requests that ended in it.
    pub operations: u64,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half were shorter.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Meter {
    /// Nothing counted, for a measurement of about `duration_ns` from `start_ns` on.
    pub fn new(start_ns: u64, duration_ns: u64) -> Self {
        let bin_ns = (duration_ns / BINS_MAX + 1).max(BIN_NS_MIN);
        Self {
            start_ns,
            bin_ns,
            bins: vec![(0, 0); usize::try_from(duration_ns / bin_ns + 2).unwrap_or(1)],
            bytes: 0,
            operations: 0,
            latency_ns: new_histogram(),
            page_sum: 0,
            verify_failures: 0,
            broken_blocks: Vec::new(),
        }
    }

    /// Counts a request of `bytes` bytes that was consumed at `now_ns` and took `latency_ns`.
    #[inline]
    pub fn consumed(&mut self, now_ns: u64, bytes: u64, latency_ns: u64) {
        let bin = (now_ns.saturating_sub(self.start_ns) / self.bin_ns) as usize;
        // What ends later than planned belongs to the last bin.
        let bin = bin.min(self.bins.len() - 1);
        self.bins[bin].0 += bytes;
        self.bins[bin].1 += 1;
        self.bytes += bytes;
        self.operations += 1;
        self.latency_ns.saturating_record(latency_ns.max(1));
    }

    /// Counts bytes that were in shared buffers, so that nothing was asked for.
    #[inline]
    pub fn found(&mut self, now_ns: u64, bytes: u64) {
        let bin = (now_ns.saturating_sub(self.start_ns) / self.bin_ns) as usize;
        let bin = bin.min(self.bins.len() - 1);
        self.bins[bin].0 += bytes;
        self.bytes += bytes;
    }

    /// Adds another consumer's counts of the same measurement.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.bytes += other.bytes;
        self.operations += other.operations;
        self.latency_ns
            .add(&other.latency_ns)
            .expect("histograms of the same bounds");
        self.page_sum = self.page_sum.wrapping_add(other.page_sum);
        self.verify_failures += other.verify_failures;
        self.broken_blocks.extend(&other.broken_blocks);
    }

    /// The rates of about 20 windows of equal length, to `end_ns`; the last may be shorter.
    pub fn windows(&self, end_ns: u64) -> Vec<Window> {
        let elapsed_ns = end_ns.saturating_sub(self.start_ns).max(1);
        let used = (elapsed_ns.div_ceil(self.bin_ns) as usize).min(self.bins.len());
        let width = (used / WINDOWS).max(1);
        let window = |(index, bins): (usize, &[(u64, u64)])| {
            let start_ns = (index * width) as u64 * self.bin_ns;
            let is_last = (index + 1) * width >= used;
            let stop_ns = if is_last {
                elapsed_ns
            } else {
                start_ns + width as u64 * self.bin_ns
            };
            let length_s = (stop_ns.saturating_sub(start_ns)).max(1) as f64 / 1e9;
            let bytes: u64 = bins.iter().map(|bin| bin.0).sum();
            Window {
                start_s: start_ns as f64 / 1e9,
                length_s,
                mb_s: bytes as f64 / 1e6 / length_s,
                operations: bins.iter().map(|bin| bin.1).sum(),
            }
        };
        self.bins[..used].chunks(width).enumerate().map(window).collect()
    }

    /// The latencies; all 0 when nothing was consumed.
    pub fn latency_us(&self) -> Latency {
        latency_us(&self.latency_ns)
    }
}

/// A histogram of latencies in nanoseconds.
///
/// # Panics
/// Never: the bounds are constants.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).expect("valid histogram bounds")
}

/// What a histogram of nanoseconds says, in microseconds.
pub fn latency_us(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        max: histogram.max() as f64 / 1e3,
        mean: histogram.mean() / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_everything_once() {
        let mut meter = Meter::new(1_000, 2_000_000_000);
        for step in 0..1_999 {
            meter.consumed(1_000 + step * 1_000_000, 8192, 50_000);
        }
        let windows = meter.windows(1_000 + 1_999_000_000);
        assert!(windows.len() >= 10 && windows.len() <= 21);
        assert_eq!(windows.iter().map(|window| window.operations).sum::<u64>(), 1_999);
        for window in &windows {
            assert!((window.mb_s - 8.192).abs() < 0.2, "{window:?}");
        }
    }

    #[test]
    fn a_measurement_that_ends_early_has_windows_as_well() {
        let mut meter = Meter::new(0, 60_000_000_000);
        meter.consumed(15_000_000, 8192, 50_000);
        let windows = meter.windows(30_000_000);
        assert!(windows.len() >= 10);
        let end = windows.last().map_or(0.0, |last| last.start_s + last.length_s);
        assert!((end - 0.03).abs() < 1e-9);
    }
}
