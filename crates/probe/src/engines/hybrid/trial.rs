//! A trial of ways: each is flown for a slice of time, those that come close once more in the opposite order.

use crate::time::stopwatch::Usage;

/// A way that is tried is measured at least so long …
const SLICE_NS_MIN: u64 = 3_000_000;
/// … and at most so long, however little has been read.
const SLICE_NS_MAX: u64 = 60_000_000;
/// Where others compete for the cores, a slice must span several turns of the scheduler.
const CROWDED_SLICE_NS: u64 = 24_000_000;
/// A slice is measured over so many look-aheads, after one that the way before had begun.
const LOOK_AHEADS: u64 = 2;
/// After the first round a way must have been so close to the fastest to be flown once more.
const CONTENDER: f64 = 0.85;

/// Where a trial stands.
pub(super) struct Trial {
    /// The ways still to be flown in this round, the next one last.
    to_fly: Vec<usize>,
    is_second: bool,
    /// Whether the way before is out of the look-ahead, so that this one is being measured.
    pub(super) is_measured: bool,
    /// Whether the consumer had to wait for a core before it.
    pub(super) is_crowded: bool,
    /// When it began.
    pub(super) from: Usage,
    /// Of each way, bytes and nanoseconds.
    flown: Vec<(f64, f64)>,
}

impl Trial {
    /// One of `to_fly`, the first of them last, out of so many ways.
    pub(super) fn new(to_fly: Vec<usize>, ways: usize, is_crowded: bool, from: Usage) -> Self {
        Self {
            to_fly,
            is_second: false,
            is_measured: false,
            is_crowded,
            from,
            flown: vec![(0.0, 0.0); ways],
        }
    }

    /// Whether what the way before had begun is over, `depth` requests being under way at most.
    pub(super) fn is_settled(requests: u64, depth: u64, elapsed_ns: u64) -> bool {
        requests >= depth || elapsed_ns >= SLICE_NS_MAX / 2
    }

    /// Whether a slice has been measured long enough.
    pub(super) fn is_enough(&self, requests: u64, depth: u64, elapsed_ns: u64) -> bool {
        let slice_ns = if self.is_crowded {
            CROWDED_SLICE_NS
        } else {
            SLICE_NS_MIN
        };
        (requests >= LOOK_AHEADS * depth && elapsed_ns >= slice_ns) || elapsed_ns >= SLICE_NS_MAX
    }

    /// Notes what a slice of a way has brought.
    pub(super) fn add(&mut self, way: usize, bytes: f64, elapsed_ns: u64) {
        let (all_bytes, all_ns) = &mut self.flown[way];
        *all_bytes += bytes;
        *all_ns += elapsed_ns as f64;
    }

    /// The way to be flown next; none when it is over. The second round goes the opposite way, so that a drift
    /// favours none.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.to_fly.is_empty() && !self.is_second {
            self.is_second = true;
            let rates = self.rates();
            let best = rates.iter().copied().fold(0.0, f64::max);
            let contenders = (0..rates.len()).rev();
            self.to_fly = contenders.filter(|way| rates[*way] >= best * CONTENDER).collect();
            if self.to_fly.len() < 2 {
                self.to_fly.clear();
            }
        }
        self.is_measured = false;
        self.to_fly.pop()
    }

    /// Bytes a nanosecond of each way; 0 of one that was not flown.
    pub(super) fn rates(&self) -> Vec<f64> {
        let rate = |(bytes, nanoseconds): &(f64, f64)| bytes / nanoseconds.max(1.0);
        self.flown.iter().map(rate).collect()
    }
}
