//! A trial of modes: each is measured for a slice of time, those that come close once more in the opposite order.

use crate::time::stopwatch::Usage;

/// A mode that is tried is measured at least so long …
const SLICE_NS_MIN: u64 = 3_000_000;
/// … and at most so long, however little has been read.
const SLICE_NS_MAX: u64 = 60_000_000;
/// Where others compete for the cores, a slice must span several turns of the scheduler.
const CONTENDED_SLICE_NS: u64 = 24_000_000;
/// A slice is measured over so many look-aheads, after one that the mode before had begun.
const LOOK_AHEADS: u64 = 2;
/// After the first round a mode must have been so close to the fastest to be measured once more.
const SECOND_ROUND_MIN: f64 = 0.85;

/// Where a trial stands.
pub(super) struct Trial {
    /// The modes still to be measured in this round, the next one last.
    to_try: Vec<usize>,
    is_second: bool,
    /// Whether the mode before is out of the look-ahead, so that this one is being measured.
    pub(super) is_measured: bool,
    /// Whether the consumer had to wait for a core before it.
    pub(super) is_contended: bool,
    /// When it began.
    pub(super) from: Usage,
    /// Of each mode, bytes and nanoseconds.
    measured: Vec<(f64, f64)>,
}

impl Trial {
    /// A trial of the modes `to_try`, the first of them last, out of `modes` that there are.
    pub(super) fn new(to_try: Vec<usize>, modes: usize, is_contended: bool, from: Usage) -> Self {
        Self {
            to_try,
            is_second: false,
            is_measured: false,
            is_contended,
            from,
            measured: vec![(0.0, 0.0); modes],
        }
    }

    /// Whether what the mode before had begun is over, `depth` requests being under way at most.
    pub(super) fn is_settled(requests: u64, depth: u64, elapsed_ns: u64) -> bool {
        requests >= depth || elapsed_ns >= SLICE_NS_MAX / 2
    }

    /// Whether a slice has been measured long enough.
    pub(super) fn is_enough(&self, requests: u64, depth: u64, elapsed_ns: u64) -> bool {
        let slice_ns = if self.is_contended {
            CONTENDED_SLICE_NS
        } else {
            SLICE_NS_MIN
        };
        (requests >= LOOK_AHEADS * depth && elapsed_ns >= slice_ns) || elapsed_ns >= SLICE_NS_MAX
    }

    /// Notes what a slice of a mode has brought.
    pub(super) fn add(&mut self, mode: usize, bytes: f64, elapsed_ns: u64) {
        let (all_bytes, all_ns) = &mut self.measured[mode];
        *all_bytes += bytes;
        *all_ns += elapsed_ns as f64;
    }

    /// The mode to be measured next; none when it is over. The second round goes the other way round, so that a drift
    /// favours none.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.to_try.is_empty() && !self.is_second {
            self.is_second = true;
            let rates = self.rates();
            let best = rates.iter().copied().fold(0.0, f64::max);
            let contenders = (0..rates.len()).rev();
            self.to_try = contenders
                .filter(|mode| rates[*mode] >= best * SECOND_ROUND_MIN)
                .collect();
            if self.to_try.len() < 2 {
                self.to_try.clear();
            }
        }
        self.is_measured = false;
        self.to_try.pop()
    }

    /// Bytes a nanosecond of each mode; 0 of one that was not measured.
    pub(super) fn rates(&self) -> Vec<f64> {
        let rate = |(bytes, nanoseconds): &(f64, f64)| bytes / nanoseconds.max(1.0);
        self.measured.iter().map(rate).collect()
    }
}
