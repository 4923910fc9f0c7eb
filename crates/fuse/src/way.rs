//! The way through the kernel while a volume is served: looked at again and again, and taken from latencies as it is.
//!
//! What the way takes depends on how many requests are on it, on how large they are and on what else the machine
//! does, so what was measured once is true for a while. The block device counts its requests and the sum of what
//! each took (Documentation/block/stat.rst of Linux); the server knows what the model gave them. What the device's
//! took beyond that, and what lies above the device, which was measured once, is the way.

use std::collections::VecDeque;

use crate::counters::{Counters, Done};
use crate::overhead::Overhead;

/// The device counts whole milliseconds, so that many requests make one look.
const REQUESTS_MIN: u64 = 400;
/// Of so many looks the lower quartile counts: what else the machine does makes the way longer and never shorter.
const LOOKS: usize = 8;
/// The device's requests are the server's, but for those on their way and those that were parted.
const COUNT_TOLERANCE: u64 = 50;
/// What is taken stays within this factor of what was measured. The device's sums are those of all requests: where
/// some wait long for a processor, taking the mean from each would make all others come too early.
const FACTOR_MAX: u64 = 2;

/// What was answered since the last look: sums.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    requests: u64,
    latency_ns: u64,
    taken_ns: u64,
    bytes: u64,
    /// Whether it isn't known of some when they came.
    is_unsure: bool,
}

/// What is taken from latencies.
#[derive(Debug, Default)]
pub(crate) struct Way {
    measured: Overhead,
    counters: Option<Counters>,
    /// What is taken of a small request now.
    small_ns: u64,
    answered: Answered,
    before: Option<Done>,
    recent: VecDeque<u64>,
}

impl Way {
    /// As it was measured, of a device whose counters are looked at from then on, where it has any.
    pub(crate) fn new(measured: Overhead, counters: Option<Counters>) -> Self {
        Self {
            measured,
            small_ns: measured.p50_ns,
            counters,
            ..Self::default()
        }
    }

    /// What was measured.
    pub(crate) fn measured(&self) -> &Overhead {
        &self.measured
    }

    /// What is taken from the latency of a small request now.
    pub(crate) fn small_ns(&self) -> u64 {
        self.small_ns
    }

    /// What is taken from the latency of a request.
    pub(crate) fn of(&self, length: u32) -> u64 {
        self.small_ns + self.measured.of_bytes(u64::from(length))
    }

    /// Begins from what was measured, so that one trial is like the next.
    pub(crate) fn begin(&mut self) {
        self.small_ns = self.measured.p50_ns;
        self.recent = VecDeque::from([self.measured.p50_ns]);
        self.answered = Answered::default();
        self.before = self.counters.as_ref().and_then(|each| each.read().ok());
    }

    /// Counts a read or write: the model's latency and what was taken from it.
    pub(crate) fn answered(&mut self, latency_ns: u64, taken_ns: u64, length: u32) {
        let answered = &mut self.answered;
        answered.requests += 1;
        answered.latency_ns = answered.latency_ns.saturating_add(latency_ns);
        answered.taken_ns += taken_ns;
        answered.bytes += u64::from(length);
    }

    /// Requests come of which it isn't known when.
    pub(crate) fn is_unsure(&mut self) {
        self.answered.is_unsure = true;
    }

    /// Looks at the device where enough was answered since the last time.
    pub(crate) fn look(&mut self) {
        if self.answered.requests < REQUESTS_MIN {
            return;
        }
        let now = self.counters.as_ref().and_then(|each| each.read().ok());
        let answered = std::mem::take(&mut self.answered);
        let before = std::mem::replace(&mut self.before, now);
        if let (Some(before), Some(now)) = (before, now) {
            self.learn(answered, before, now);
        }
    }

    fn learn(&mut self, answered: Answered, before: Done, now: Done) {
        let Some(above_ns) = self.measured.above_ns else {
            return;
        };
        let requests = now.requests.saturating_sub(before.requests);
        if answered.is_unsure || requests.abs_diff(answered.requests) * COUNT_TOLERANCE > requests {
            return;
        }
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let bytes = answered.bytes / answered.requests.max(1);
        let all_ns = mean(now.ns.saturating_sub(before.ns), requests)
            + above_ns.of(bytes)
            + mean(answered.taken_ns, answered.requests)
            - mean(answered.latency_ns, answered.requests);
        let small_ns = all_ns - self.measured.of_bytes(bytes) as f64;
        let (least, most) = (
            self.measured.p50_ns / FACTOR_MAX,
            self.measured.p50_ns * FACTOR_MAX,
        );
        self.recent
            .push_back((small_ns.max(0.0) as u64).clamp(least, most));
        if self.recent.len() > LOOKS {
            self.recent.pop_front();
        }
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        self.small_ns = sorted[sorted.len() / 4];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::ByLength;

    /// Small requests take 30 µs, of which 8 lie above the device; those of 128 kB take 20 more, and 4 of them there.
    fn way() -> Way {
        let measured = Overhead {
            p50_ns: 30_000,
            large_p50_ns: 50_000,
            above_ns: Some(ByLength {
                small_ns: 8_000,
                large_ns: 12_000,
            }),
            ..Overhead::default()
        };
        let mut way = Way::new(measured, None);
        way.begin();
        way
    }

    /// Many requests of 1 ms, of which the way to the device and back takes so much.
    fn serve(way: &mut Way, below_ns: u64, length: u32) -> u64 {
        const REQUESTS: u64 = 1_000;
        const LATENCY_NS: u64 = 1_000_000;
        let taken_ns = way.of(length);
        for _ in 0..REQUESTS {
            way.answered(LATENCY_NS, taken_ns, length);
        }
        let answered = std::mem::take(&mut way.answered);
        let done = Done {
            requests: REQUESTS,
            ns: REQUESTS * (LATENCY_NS - taken_ns + below_ns),
        };
        way.learn(answered, Done::default(), done);
        way.of(length)
    }

    #[test]
    fn what_is_taken_becomes_what_the_way_takes() {
        let mut way = way();
        assert_eq!(way.of(4096), 30_000);
        // Of a way that was measured too long, and of one that has become longer.
        for below_ns in [12_000, 42_000] {
            for _ in 0..LOOKS {
                serve(&mut way, below_ns, 4096);
            }
            assert_eq!(way.of(4096), below_ns + 8_000);
        }
        for _ in 0..LOOKS {
            serve(&mut way, 40_000, 128 << 10);
        }
        assert!(way.of(128 << 10).abs_diff(52_000) < 10);
        assert!(way.of(4096).abs_diff(32_000) < 10);
        way.begin();
        assert_eq!(way.of(4096), 30_000);
    }

    #[test]
    fn one_look_alone_changes_nothing_much() {
        let mut way = way();
        for below_ns in [22_000, 9_000_000, 22_000, 9_000_000, 22_000, 9_000_000] {
            assert_eq!(serve(&mut way, below_ns, 4096), 30_000);
        }
        // A machine that is too slow for long is told of, and not hidden.
        for _ in 0..LOOKS {
            serve(&mut way, 9_000_000, 4096);
        }
        assert_eq!(way.of(4096), FACTOR_MAX * 30_000);
    }

    #[test]
    fn nothing_is_learnt_where_the_requests_are_others() {
        let mut way = way();
        let done = Done {
            requests: 500,
            ns: 1_000_000_000,
        };
        for is_unsure in [false, true] {
            // Parted on their way: twice as many came to the server.
            let answered = Answered {
                requests: if is_unsure { 500 } else { 1_000 },
                latency_ns: 1_000_000_000,
                is_unsure,
                ..Answered::default()
            };
            way.learn(answered, Done::default(), done);
            assert_eq!((way.recent.len(), way.small_ns()), (1, 30_000));
        }
    }
}
