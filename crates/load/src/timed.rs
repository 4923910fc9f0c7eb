//! Durations of one kind: their histogram, and what is exact of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use pgassay_protocol::Failure;
use serde::Serialize;

/// Longer ones count as this long in the histogram.
const DURATION_US_MAX: u64 = 24 * 3600 * 1_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations that were counted.
#[derive(Clone, Debug)]
pub struct Timed {
    /// In microseconds.
    pub histogram: Histogram<u64>,
    /// Their sum in nanoseconds.
    pub sum_ns: u128,
    /// The least; `u64::MAX` of nothing.
    pub min_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl Default for Timed {
    fn default() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, DURATION_US_MAX, SIGNIFICANT_DIGITS)
                .expect("valid histogram bounds"),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Timed {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, duration_ns: u64) {
        self.histogram.saturating_record((duration_ns + 500) / 1000);
        self.sum_ns += u128::from(duration_ns);
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }

    /// Adds another thread's.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("histograms of the same bounds");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// A percentile in milliseconds, never outside the exact least and greatest; None of nothing.
    #[allow(clippy::cast_precision_loss)]
    pub fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        let (least_ms, most_ms) = (self.min_ns as f64 / 1e6, self.max_ns as f64 / 1e6);
        let value_ms = || self.histogram.value_at_quantile(percentile / 100.0) as f64 / 1e3;
        (!self.histogram.is_empty()).then(|| value_ms().clamp(least_ms, most_ms))
    }

    /// Their figures in milliseconds; zeros of nothing.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
    pub fn figures(&self) -> Latency {
        if self.histogram.is_empty() {
            return Latency::default();
        }
        let (min, max) = (self.min_ns as f64 / 1e6, self.max_ns as f64 / 1e6);
        let quantile =
            |fraction: f64| (self.histogram.value_at_quantile(fraction) as f64 / 1e3).clamp(min, max);
        Latency {
            mean: self.sum_ns as f64 / self.histogram.len() as f64 / 1e6,
            min,
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max,
        }
    }
}

/// Percentiles of an interval in milliseconds; None where nothing ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Percentiles {
    /// Half took no longer.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p95_ms: Option<f64>,
    /// See `p50_ms`.
    pub p99_ms: Option<f64>,
}

impl Percentiles {
    /// Of these durations.
    pub fn of(timed: &Timed) -> Self {
        Self {
            p50_ms: timed.percentile_ms(50.0),
            p95_ms: timed.percentile_ms(95.0),
            p99_ms: timed.percentile_ms(99.0),
        }
    }
}

/// Durations in milliseconds. Percentiles are read from the histogram (three significant digits) and never lie
/// outside the exact least and greatest.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The arithmetic mean, exact.
    pub mean: f64,
    /// The shortest, exact.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 75 % took no longer.
    pub p75: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 95 % took no longer.
    pub p95: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// 99.99 % took no longer.
    #[serde(rename = "p99.99")]
    pub p99_99: f64,
    /// The longest, exact.
    pub max: f64,
}

/// Base64 of the compressed V2 serialisation of a histogram.
///
/// # Errors
/// When it can't be serialised.
pub fn serialise<T: Counter>(histogram: &Histogram<T>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => Ok(STANDARD.encode(bytes)),
        Err(error) => Err(Failure::client(format!(
            "the histogram can't be serialised: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_pgbench::random::{fraction, seeded};

    /// The least value that a share of `fraction` does not exceed.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn exact(sorted: &[u64], fraction: f64) -> f64 {
        let place = (fraction * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[place - 1] as f64 / 1e6
    }

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn percentiles_are_the_exact_ones_to_three_digits() {
        for seed in 0..20 {
            let mut random = seeded(seed);
            let (mut first, mut second) = (Timed::default(), Timed::default());
            // A heavy tail: from 50 us up to minutes.
            let durations: Vec<u64> = (0..50_000)
                .map(|_| (50_000.0 * (1.0 - fraction(&mut random)).powf(-1.2)) as u64)
                .collect();
            for (place, &duration) in durations.iter().enumerate() {
                if place % 3 == 0 {
                    first.count(duration)
                } else {
                    second.count(duration)
                }
            }
            first.merge(&second);
            let mut sorted = durations;
            sorted.sort_unstable();
            let found = first.figures();
            for (value, share) in [
                (found.p50, 0.5),
                (found.p75, 0.75),
                (found.p90, 0.9),
                (found.p95, 0.95),
                (found.p99, 0.99),
                (found.p99_9, 0.999),
                (found.p99_99, 0.9999),
            ] {
                let wanted = exact(&sorted, share);
                // Half a microsecond of rounding, and a thousandth.
                assert!(
                    (value - wanted).abs() <= 0.0006 + wanted / 1000.0,
                    "{share}: {value} {wanted}"
                );
            }
            assert!((found.max - exact(&sorted, 1.0)).abs() < 1e-9 && found.min <= found.p50);
        }
    }
}
