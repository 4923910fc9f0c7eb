//! What a load hands back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_protocol::Failure;
use serde::Serialize;

use crate::meter::Tally;
use crate::seconds::LatencyBySecond;
use crate::spec::Schedule;

/// One second of a running load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Which second since the start, counted from 1, the warm-up included.
    pub second: u64,
    /// Whether the warm-up was still going on at its end.
    pub warmup: bool,
    /// Transactions that ended in it.
    pub transactions: u64,
}

/// Latencies of the transactions of the measured interval, in milliseconds. Percentiles are read from the
/// histogram (three significant digits) and never lie outside the exact least and greatest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The arithmetic mean, exact.
    pub mean: f64,
    /// The shortest, exact.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 95 % took no longer.
    pub p95: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// The longest, exact.
    pub max: f64,
}

/// A load's measured interval.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Transactions that ended within the interval.
    pub transactions: u64,
    /// Its length in seconds.
    pub elapsed_s: f64,
    /// Its beginning, on the monotonic clock.
    pub start_ns: u64,
    /// Its end, on the same clock.
    pub end_ns: u64,
    /// Transactions that the server gave up within it.
    pub errors: u64,
    /// CPU time, user and system, of the threads that ran the clients, over the interval.
    pub client_cpu_s: f64,
    /// Transactions by second of the interval; the last may be a part of a second.
    pub per_second: Vec<u64>,
    /// Latencies by second of the interval.
    pub per_second_latency_ms: LatencyBySecond,
    /// Latencies.
    pub latency_ms: Latency,
    /// Base64 of the compressed V2 serialisation of a HdrHistogram of microseconds.
    pub histogram: String,
    /// Transactions that ended before the interval.
    pub warmup_transactions: u64,
    /// Transactions that had begun by its end and ended after it.
    pub late_transactions: u64,
}

impl Record {
    /// The record of a load that kept this schedule.
    ///
    /// # Errors
    /// When no transaction ended within the interval: there is nothing to report.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
    pub fn new(schedule: Schedule, tally: Tally) -> Result<Self, Failure> {
        let elapsed_s = (schedule.measured_to_ns - schedule.measured_from_ns) as f64 / 1e9;
        if tally.transactions == 0 {
            return Err(Failure::client(format!(
                "no transaction ended within the measured interval of {elapsed_s} s ({} failed); make it longer",
                tally.errors
            )));
        }
        Ok(Self {
            transactions: tally.transactions,
            elapsed_s,
            start_ns: schedule.measured_from_ns,
            end_ns: schedule.measured_to_ns,
            errors: tally.errors,
            client_cpu_s: tally.cpu_ns as f64 / 1e9,
            latency_ms: latency_ms(&tally),
            histogram: serialise(&tally)?,
            per_second: tally.seconds.iter().map(|second| second.transactions).collect(),
            per_second_latency_ms: LatencyBySecond::new(&tally.seconds),
            warmup_transactions: tally.warmup_transactions,
            late_transactions: tally.late_transactions,
        })
    }
}

#[allow(clippy::cast_precision_loss)]
fn latency_ms(tally: &Tally) -> Latency {
    let extent = tally.latency_ns;
    let (min, max) = (extent.min as f64 / 1e6, extent.max as f64 / 1e6);
    let quantile = |fraction: f64| (tally.histogram.value_at_quantile(fraction) as f64 / 1e3).clamp(min, max);
    Latency {
        mean: extent.sum as f64 / tally.transactions as f64 / 1e6,
        min,
        p50: quantile(0.5),
        p90: quantile(0.9),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p99_9: quantile(0.999),
        max,
    }
}

fn serialise(tally: &Tally) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(&tally.histogram, &mut bytes) {
        Ok(_) => Ok(STANDARD.encode(bytes)),
        Err(error) => Err(Failure::client(format!(
            "the histogram can't be serialised: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;

    const SCHEDULE: Schedule = Schedule {
        start_ns: 0,
        measured_from_ns: 1_000_000_000,
        measured_to_ns: 3_000_000_000,
    };

    #[test]
    fn percentiles_stay_within_the_exact_range() {
        let mut meter = Meter::new(SCHEDULE);
        for index in 0..1000_u64 {
            meter.committed(1_000_000_000, 1_000_000_000 + 12_345_678 + index);
        }
        let record = Record::new(SCHEDULE, meter.into_tally()).unwrap();
        let latency = record.latency_ms;
        assert!(latency.min <= latency.p50 && latency.p99_9 <= latency.max);
        assert!((latency.mean - 12.346_177_5).abs() < 1e-9, "{}", latency.mean);
        assert!((record.elapsed_s - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let failure = Record::new(SCHEDULE, Meter::new(SCHEDULE).into_tally()).unwrap_err();
        assert!(failure.message.contains("no transaction ended"), "{failure}");
    }
}
