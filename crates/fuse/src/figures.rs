//! What was delivered, second by second.

use std::sync::atomic::{AtomicU64, Ordering};

use pgassay_volume::{Completion, Kind, Level};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What the threads of further volumes have counted as theirs, of the CPU time of the process.
static FURTHER_NS: AtomicU64 = AtomicU64::new(0);

/// How much later than the model says answers were sent, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delay {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// The figures of a stretch of time, a second unless it is the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// When it ended, CLOCK_MONOTONIC.
    pub clock_ns: u64,
    /// How long it was.
    pub elapsed_s: f64,
    /// Whole requests that were answered.
    pub reads: u64,
    /// As `reads`.
    pub writes: u64,
    /// As `reads`.
    pub flushes: u64,
    /// Operations as the volume counts them, of requests that arrived.
    pub operations: u64,
    /// Bytes of reads that arrived.
    pub bytes_read: u64,
    /// Bytes of writes that arrived.
    pub bytes_written: u64,
    /// The sum of what limits kept requests that arrived.
    pub queued_ms: f64,
    /// The sum of the latencies that no limit caused.
    pub latency_ms: f64,
    /// What was taken from the latency of a small request at the end, in microseconds.
    pub overhead_us: f64,
    /// Requests on their way at the end.
    pub in_flight: usize,
    /// How much later than the model says answers were sent.
    pub own_delay_us: Delay,
    /// Answers that came later than the model says by more than a twentieth of their own latency.
    pub late: u64,
    /// Requests that the image could not serve.
    pub failed: u64,
    /// The number of the first one's error (errno.h), 0 where there was none.
    pub error: i32,
    /// CPU time of this process without that of further volumes, which count the thread that serves them.
    pub cpu_s: f64,
    /// What is left of the credits; none where no model is imposed.
    pub credits: Vec<Level>,
}

/// Counts what becomes a [`Second`].
#[derive(Debug)]
pub(crate) struct Counting {
    began_ns: u64,
    /// Whose CPU time is counted.
    cpu: ClockId,
    began_cpu_s: f64,
    second: Second,
    delays_ns: Vec<u32>,
}

impl Counting {
    /// `cpu`: the process's, or that of the thread that serves.
    pub(crate) fn new(now_ns: u64, cpu: ClockId) -> Self {
        Self {
            began_ns: now_ns,
            cpu,
            began_cpu_s: cpu_s(cpu),
            second: Second::default(),
            delays_ns: Vec::new(),
        }
    }

    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    pub(crate) fn arrived(&mut self, kind: Kind, bytes: u32, completion: &Completion) {
        let second = &mut self.second;
        match kind {
            Kind::Read => second.bytes_read += u64::from(bytes),
            Kind::Write => second.bytes_written += u64::from(bytes),
            Kind::Flush => {}
        }
        second.operations += u64::from(completion.operations);
        second.queued_ms += completion.queued_ns as f64 / 1e6;
        second.latency_ms += completion.latency_ns as f64 / 1e6;
    }

    /// `tolerance_ns`: how late an answer may be that counts as sent in time.
    pub(crate) fn answered(&mut self, kind: Kind, late_ns: u64, tolerance_ns: u64) {
        match kind {
            Kind::Read => self.second.reads += 1,
            Kind::Write => self.second.writes += 1,
            Kind::Flush => self.second.flushes += 1,
        }
        self.second.late += u64::from(late_ns > tolerance_ns);
        self.delays_ns.push(u32::try_from(late_ns).unwrap_or(u32::MAX));
    }

    /// `error`: its number.
    pub(crate) fn failed(&mut self, error: i32) {
        if self.second.failed == 0 {
            self.second.error = error;
        }
        self.second.failed += 1;
    }

    /// Ends the stretch and begins the next.
    pub(crate) fn take(&mut self, now_ns: u64, in_flight: usize, credits: Vec<Level>) -> Second {
        let mut ended = std::mem::replace(self, Self::new(now_ns, self.cpu));
        let used_s = self.began_cpu_s - ended.began_cpu_s;
        if self.cpu == ClockId::ThreadCPUTime {
            FURTHER_NS.fetch_add((used_s * 1e9) as u64, Ordering::Relaxed);
        }
        // The larger allocation serves again.
        ended.second.own_delay_us = delay(&mut ended.delays_ns);
        ended.delays_ns.clear();
        self.delays_ns = ended.delays_ns;
        Second {
            clock_ns: now_ns,
            elapsed_s: (now_ns - ended.began_ns) as f64 / 1e9,
            in_flight,
            cpu_s: used_s,
            credits,
            ..ended.second
        }
    }
}

/// Without sorting them: that would keep the answers of a busy second waiting for half a millisecond.
fn delay(delays_ns: &mut [u32]) -> Delay {
    let Some(last) = delays_ns.len().checked_sub(1) else {
        return Delay::default();
    };
    let place = |share: f64| (last as f64 * share).round() as usize;
    let sum: f64 = delays_ns.iter().map(|each| f64::from(*each)).sum();
    let max = delays_ns.iter().copied().max().unwrap_or(0);
    let (below, &mut p99, _) = delays_ns.select_nth_unstable(place(0.99));
    let p50 = if place(0.5) < below.len() {
        *below.select_nth_unstable(place(0.5)).1
    } else {
        p99
    };
    Delay {
        mean: sum / (last + 1) as f64 / 1e3,
        p50: f64::from(p50) / 1e3,
        p99: f64::from(p99) / 1e3,
        max: f64::from(max) / 1e3,
    }
}

fn cpu_s(cpu: ClockId) -> f64 {
    let time = clock_gettime(cpu);
    let further_s = match cpu {
        ClockId::ProcessCPUTime => FURTHER_NS.load(Ordering::Relaxed) as f64 / 1e9,
        _ => 0.0,
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9 - further_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_what_was_counted_since_the_last() {
        let mut counting = Counting::new(0, ClockId::ProcessCPUTime);
        let completion = Completion {
            done_ns: 3_000_000,
            latency_ns: 1_000_000,
            queued_ns: 2_000_000,
            operations: 4,
        };
        counting.arrived(Kind::Read, 8192, &completion);
        counting.arrived(Kind::Write, 100, &completion);
        for late_ns in [1000, 2000, 3000] {
            counting.answered(Kind::Read, late_ns, 2000);
        }
        let second = counting.take(2_000_000_000, 5, Vec::new());
        assert_eq!((second.reads, second.operations, second.in_flight), (3, 8, 5));
        assert_eq!((second.bytes_read, second.bytes_written), (8192, 100));
        assert_eq!(
            (second.queued_ms, second.latency_ms, second.elapsed_s),
            (4.0, 2.0, 2.0)
        );
        assert_eq!((second.own_delay_us.p50, second.own_delay_us.max), (2.0, 3.0));
        assert_eq!(second.late, 1);
        let next = counting.take(3_000_000_000, 0, Vec::new());
        assert_eq!(
            (next.reads, next.operations, next.own_delay_us),
            (0, 0, Delay::default())
        );
    }

    #[test]
    fn percentiles_are_those_of_all_delays() {
        assert_eq!(delay(&mut []), Delay::default());
        for count in [1_u32, 2, 3, 99, 100, 101, 5_000] {
            // A permutation of 0 to count, as the factor is prime.
            let mut delays_ns: Vec<u32> = (0..count).map(|each| each * 7_919 % count * 1_000).collect();
            let found = delay(&mut delays_ns);
            let place = |share: f64| (f64::from(count - 1) * share).round();
            assert_eq!(
                (found.p50, found.p99, found.max, found.mean),
                (
                    place(0.5),
                    place(0.99),
                    f64::from(count - 1),
                    f64::from(count - 1) / 2.0
                )
            );
        }
    }
}
