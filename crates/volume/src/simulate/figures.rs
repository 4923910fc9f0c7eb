//! What a simulation gives: how long, how fast, how late, and what was left.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::model::{Fault, SECOND_NS, Unit};
use crate::request::{Kind, Request};
use crate::volume::{Completion, Volume};

/// Three digits: a percentile is at most 0.1 % too high.
const DIGITS: u8 = 3;
const LATENCY_MAX_NS: u64 = 1 << 50;
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.001..=1e6;
/// A series that is longer would say no more; its last interval takes the rest.
const INTERVALS_MAX: usize = 1_000_000;

/// The figures of one model.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// The model's name.
    pub model: String,
    /// From time 0 until the last of the requests that count was done.
    pub elapsed_s: f64,
    /// Reads and writes.
    pub requests: u64,
    /// Flushes.
    pub flushes: u64,
    /// Operations that the volumes counted.
    pub operations: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Reads and writes per second of `elapsed_s`.
    pub requests_per_s: f64,
    /// Bytes per second of it.
    pub bytes_per_s: f64,
    /// From arrival to completion; `None` where nothing was done.
    pub latency_ms: Option<LatencyMs>,
    /// The mean time that a request waited because of limits.
    pub queued_ms: f64,
    /// What was done in each interval, by the time of completion.
    pub series: Series,
    /// The credits left at the end.
    pub credits: Vec<Credits>,
    /// Of a recording: when the ends of its equal stretches were reached, with 0 and `elapsed_s`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub milestones_s: Vec<f64>,
}

/// Latency of reads and writes, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyMs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: f64,
    /// The greatest.
    pub max: f64,
}

/// One number for each interval, from time 0.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The length of an interval.
    pub interval_s: f64,
    /// Reads and writes that were done in it.
    pub requests: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// The sum of their times from arrival to completion.
    pub latency_s: Vec<f64>,
}

/// The credits of one limiter at the end.
#[derive(Clone, Debug, Serialize)]
pub struct Credits {
    /// The limiter's name.
    pub limiter: String,
    /// Which volume of the stripe set it belongs to, from 0.
    pub volume: Option<u32>,
    /// What it counts.
    pub unit: Unit,
    /// What is left.
    pub left: u64,
    /// What it can hold.
    pub capacity: u64,
    /// The second at which they first ended; `None` where they lasted.
    pub ended_s: Option<f64>,
}

/// Figures in the making.
pub(crate) struct Figures {
    interval_s: f64,
    interval_ns: u64,
    requests: u64,
    flushes: u64,
    operations: u64,
    bytes: u64,
    last_done_ns: u64,
    latency_ns: u128,
    queued_ns: u128,
    histogram: Histogram<u64>,
    series: Vec<(u64, u64, u64)>,
}

impl Figures {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within INTERVAL_S
    pub(crate) fn new(interval_s: f64) -> Result<Self, Fault> {
        if !INTERVAL_S.contains(&interval_s) {
            let (least, most) = (INTERVAL_S.start(), INTERVAL_S.end());
            return Err(Fault(format!(
                "interval_s is {interval_s}, but must be from {least} to {most}"
            )));
        }
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS)
            .map_err(|error| Fault(format!("no histogram can be made: {error}")))?;
        Ok(Self {
            interval_s,
            interval_ns: (interval_s * SECOND_NS as f64).round() as u64,
            requests: 0,
            flushes: 0,
            operations: 0,
            bytes: 0,
            last_done_ns: 0,
            latency_ns: 0,
            queued_ns: 0,
            histogram,
            series: Vec::new(),
        })
    }

    /// Counts a request that arrived at `arrival_ns`.
    #[inline]
    pub(crate) fn count(&mut self, request: &Request, completion: &Completion) {
        self.last_done_ns = self.last_done_ns.max(completion.done_ns);
        if request.kind == Kind::Flush {
            self.flushes += 1;
            return;
        }
        let taken_ns = completion.done_ns - request.arrival_ns;
        self.requests += 1;
        self.operations += u64::from(completion.operations);
        self.bytes += u64::from(request.length);
        self.latency_ns += u128::from(taken_ns);
        self.queued_ns += u128::from(completion.queued_ns);
        self.histogram.saturating_record(taken_ns.max(1));
        let interval = usize::try_from(completion.done_ns / self.interval_ns)
            .unwrap_or(usize::MAX)
            .min(INTERVALS_MAX - 1);
        if interval >= self.series.len() {
            self.series.resize(interval + 1, (0, 0, 0));
        }
        let sums = &mut self.series[interval];
        sums.0 += 1;
        sums.1 += u64::from(request.length);
        sums.2 = sums.2.saturating_add(taken_ns);
    }

    /// The figures, with the credits of all volumes that are left when the last request is done.
    pub(crate) fn finish<'a>(self, name: &str, volumes: impl IntoIterator<Item = &'a Volume>) -> Simulated {
        let elapsed_s = seconds(self.last_done_ns);
        let per_second = |count: u64| {
            if elapsed_s > 0.0 {
                count as f64 / elapsed_s
            } else {
                0.0
            }
        };
        let requests = self.requests as f64;
        let percentile = |share: f64| self.histogram.value_at_quantile(share) as f64 / 1e6;
        let latency_ms = (self.requests > 0).then(|| LatencyMs {
            mean: self.latency_ns as f64 / requests / 1e6,
            p50: percentile(0.5),
            p90: percentile(0.9),
            p99: percentile(0.99),
            p999: percentile(0.999),
            max: self.histogram.max() as f64 / 1e6,
        });
        let last_done_ns = self.last_done_ns;
        let levels = volumes.into_iter().flat_map(|volume| volume.levels(last_done_ns));
        Simulated {
            model: name.to_owned(),
            elapsed_s,
            requests: self.requests,
            flushes: self.flushes,
            operations: self.operations,
            bytes: self.bytes,
            requests_per_s: per_second(self.requests),
            bytes_per_s: per_second(self.bytes),
            latency_ms,
            queued_ms: if self.requests > 0 {
                self.queued_ns as f64 / requests / 1e6
            } else {
                0.0
            },
            series: Series {
                interval_s: self.interval_s,
                requests: self.series.iter().map(|sums| sums.0).collect(),
                bytes: self.series.iter().map(|sums| sums.1).collect(),
                latency_s: self.series.iter().map(|sums| seconds(sums.2)).collect(),
            },
            credits: levels
                .map(|level| Credits {
                    limiter: level.limiter,
                    volume: level.volume,
                    unit: level.unit,
                    left: level.credits,
                    capacity: level.capacity,
                    ended_s: level.emptied_ns.map(seconds),
                })
                .collect(),
            milestones_s: Vec::new(),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}
