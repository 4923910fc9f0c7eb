//! Decides for one consumer of the engine `hybrid` who reads and who verifies, by what it measures.
//!
//! It begins in the mode that costs the least for what is read: by the consumer itself where the page cache has the
//! data, else through the ring as `io_uring`. Soon after, and again while the consumer's core is the limit, a trial
//! measures all modes, a moment each. A more costly one is kept where it is clearly faster, so the price of handing
//! over is always weighed as it is. Fast is what makes all consumers together fast, and one controller tries at a
//! time: what a helper takes from another consumer's core is no gain. The trial is repeated after a pause, which
//! doubles while the answer stays the same.

use super::mode::{Coordinator, Mode, Total};
use super::trial::Trial;
use crate::engine::Decision;
use crate::time::stopwatch::Usage;

/// How often the controller reads the thread's clocks while nothing is tried.
const OBSERVE_NS: u64 = 10_000_000;
/// How often it asks whether a slice of a trial is over.
const TRIAL_STEP_NS: u64 = 500_000;
/// Others compete for the cores where the consumer waits for one during more than this share of the time.
const CONTENDED: f64 = 0.1;
/// When more than this share of what was read comes from the device, the page cache does not have it.
const DEVICE_SHARE_MAX: f64 = 0.1;
/// After so many bytes of which the device delivered none the page cache has them: more than the kernel reads ahead.
const UNDELIVERED_BYTES_MAX: f64 = 67_108_864.0;
/// A core of which more than this is used, or waited for, is the limit.
const CPU_SHARE_LIMIT: f64 = 0.85;
/// A mode that costs less than the one that is kept replaces it when it is so close to the fastest …
const SCORE_MIN: f64 = 0.97;
/// … and a more costly one only when it is faster by this.
const COSTLIER_GAIN_MIN: f64 = 1.05;
/// Where others compete for the cores, all is left to helpers unless another mode is faster by more than this: threads
/// that wake up get a core sooner than one that never sleeps, and what a slice shows of it is mostly chance.
const CONTENDED_SCORE_MIN: f64 = 0.9;
const PAUSE_NS_MIN: u64 = 300_000_000;
/// Long slices want long pauses.
const CONTENDED_PAUSE_NS_MIN: u64 = 1_200_000_000;
const PAUSE_NS_MAX: u64 = 8_000_000_000;

/// The controller of one consumer.
pub struct Controller {
    consumer: usize,
    /// In the order of their costs.
    modes: Vec<Mode>,
    /// The mode that is kept, or tried.
    mode: usize,
    kept: usize,
    /// None while a mode is kept.
    trial: Option<Trial>,
    /// The most requests that a consumer has on their way.
    depth: u64,
    /// Whether the page cache has what is read.
    is_cached: bool,
    /// Whether the modes were tried since the last restart.
    is_tried: bool,
    /// Whether the consumer had to wait for a core in the trial before.
    is_contended: bool,
    /// What the device had delivered at the last observation.
    delivered: u64,
    /// What was read since the device last delivered anything.
    undelivered_bytes: f64,
    /// Of each mode, its rate by that of the best in the trials before; the latest counts half.
    scores: Vec<Option<f64>>,
    /// What all consumers had been given at the last observation.
    before: Total,
    from: Option<Usage>,
    start_ns: u64,
    next_ns: u64,
    next_trial_ns: u64,
    pause_ns: u64,
    decisions: Vec<Decision>,
}

impl Controller {
    /// `modes` in the order of their costs; `depth`: the most requests that a consumer has on their way.
    pub fn new(consumer: usize, modes: Vec<Mode>, depth: usize) -> Self {
        Self {
            consumer,
            scores: vec![None; modes.len()],
            modes,
            mode: 0,
            kept: 0,
            trial: None,
            depth: depth as u64,
            is_cached: false,
            is_tried: false,
            is_contended: false,
            delivered: 0,
            undelivered_bytes: 0.0,
            before: Total::default(),
            from: None,
            start_ns: 0,
            next_ns: 0,
            next_trial_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            decisions: Vec::new(),
        }
    }

    /// Begins in the mode that costs the least for data in the page cache, or for data that isn't there.
    pub fn restart(&mut self, is_cached: bool) {
        self.is_cached = is_cached;
        self.is_tried = false;
        self.mode = self.mode_without_helpers();
        self.kept = self.mode;
        self.scores.fill(None);
        self.pause_ns = PAUSE_NS_MIN;
    }

    /// The modes need not be tried before the consumer's core is the limit.
    pub fn skip_first_trial(&mut self) {
        self.is_tried = true;
    }

    fn mode_without_helpers(&self) -> usize {
        let mode = if self.is_cached { Mode::Own } else { Mode::Ring };
        self.modes.iter().position(|each| *each == mode).unwrap_or(0)
    }

    /// The mode to read in now.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.modes[self.mode]
    }

    /// Whether it is time to decide.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Decides, given the thread's clocks. `delivered` tells how many bytes the device has delivered so far.
    pub fn decide(&mut self, usage: Usage, coordinator: &Coordinator, delivered: impl FnOnce() -> u64) {
        let total = coordinator.total();
        let Some(before) = self.from else {
            self.start_ns = usage.at_ns;
            self.next_trial_ns = usage.at_ns;
            self.note(usage.at_ns, 0.0, 0.0);
            self.delivered = delivered();
            self.observe_from(usage, total, OBSERVE_NS);
            return;
        };
        let bytes = (total.bytes - self.before.bytes) as f64;
        let requests = total.requests - self.before.requests;
        let elapsed_ns = usage.at_ns.saturating_sub(before.at_ns).max(1);
        let Some(trial) = &mut self.trial else {
            self.observe_from(usage, total, OBSERVE_NS);
            if self.has_cache_changed(bytes, delivered()) {
                self.restart(!self.is_cached);
                self.next_trial_ns = usage.at_ns;
                return;
            }
            self.observe(before, usage, bytes / elapsed_ns as f64, coordinator);
            return;
        };
        if !trial.is_measured {
            if Trial::is_settled(requests, self.depth, elapsed_ns) {
                trial.is_measured = true;
                self.observe_from(usage, total, TRIAL_STEP_NS);
            } else {
                self.next_ns = usage.at_ns + TRIAL_STEP_NS;
            }
            return;
        }
        if !trial.is_enough(requests, self.depth, elapsed_ns) {
            self.next_ns = usage.at_ns + TRIAL_STEP_NS;
            return;
        }
        trial.add(self.mode, bytes, elapsed_ns);
        self.observe_from(usage, total, TRIAL_STEP_NS);
        self.try_next(usage);
        if self.trial.is_none() {
            coordinator.end_trial();
        }
    }

    /// Whether what is read has moved into the page cache, or out of it.
    fn has_cache_changed(&mut self, bytes: f64, delivered: u64) -> bool {
        let from_device = delivered.saturating_sub(std::mem::replace(&mut self.delivered, delivered));
        self.undelivered_bytes = if from_device == 0 {
            self.undelivered_bytes + bytes
        } else {
            0.0
        };
        match self.is_cached {
            true => from_device as f64 > DEVICE_SHARE_MAX * bytes,
            false => self.undelivered_bytes > UNDELIVERED_BYTES_MAX,
        }
    }

    fn observe_from(&mut self, usage: Usage, total: Total, pause_ns: u64) {
        self.from = Some(usage);
        self.before = total;
        self.next_ns = usage.at_ns + pause_ns;
    }

    fn observe(&mut self, before: Usage, usage: Usage, rate: f64, coordinator: &Coordinator) {
        let share = usage.share_since(before);
        let is_helped = self.mode().helpers() > 0;
        if share <= CPU_SHARE_LIMIT && !is_helped && self.is_tried {
            // The core is free: the next time that it is the limit, a trial begins at once.
            self.pause_ns = PAUSE_NS_MIN;
            self.next_trial_ns = usage.at_ns;
        } else if self.modes.len() > 1 && usage.at_ns >= self.next_trial_ns && coordinator.begin_trial() {
            self.note(usage.at_ns, share, rate);
            self.is_contended |= usage.delay_since(before) > CONTENDED;
            let to_try = self.modes_to_try();
            self.trial = Some(Trial::new(to_try, self.modes.len(), self.is_contended, usage));
            self.try_next(usage);
        }
    }

    /// The modes of a trial's first round, the first one last. More threads get more of cores that others want as well,
    /// and long slices leave room for few modes.
    fn modes_to_try(&self) -> Vec<usize> {
        let is_given = |mode: &usize| matches!(self.modes[*mode], Mode::Given(_));
        let all = 0..self.modes.len();
        if !self.is_contended {
            return all.filter(|mode| !is_given(mode) || *mode == self.kept).collect();
        }
        let other = if is_given(&self.kept) {
            self.mode_without_helpers()
        } else {
            self.kept
        };
        all.filter(|mode| *mode == other || is_given(mode)).collect()
    }

    fn try_next(&mut self, usage: Usage) {
        match self.trial.as_mut().and_then(Trial::next) {
            Some(mode) => self.mode = mode,
            None => self.choose(usage),
        }
    }

    fn choose(&mut self, usage: Usage) {
        let Some(trial) = self.trial.take() else { return };
        self.is_tried = true;
        let now_ns = usage.at_ns;
        // A short observation may miss what the trial met: then the next one comes at once.
        self.is_contended = usage.delay_since(trial.from) > CONTENDED;
        let is_mistaken = self.is_contended && !trial.is_contended;
        let rates = trial.rates();
        let fastest = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (score, rate) in self.scores.iter_mut().zip(&rates) {
            if *rate == 0.0 {
                // Not measured this time, and out of date.
                *score = None;
                continue;
            }
            let latest = rate / fastest;
            *score = Some(score.map_or(latest, |before| (before + latest) / 2.0));
        }
        let scores: Vec<f64> = self.scores.iter().map(|score| score.unwrap_or(0.0)).collect();
        let best = scores.iter().copied().fold(0.0, f64::max);
        let is_worth = |mode: &usize| {
            let is_costlier = *mode > self.kept;
            scores[*mode] >= best * SCORE_MIN
                && (!is_costlier || scores[*mode] >= scores[self.kept] * COSTLIER_GAIN_MIN)
        };
        let mut modes = 0..scores.len();
        let (chosen, pause_ns_min) = if self.is_contended {
            let costliest = modes.rfind(|mode| scores[*mode] >= best * CONTENDED_SCORE_MIN);
            (costliest, CONTENDED_PAUSE_NS_MIN)
        } else {
            (modes.find(is_worth), PAUSE_NS_MIN)
        };
        let chosen = chosen.unwrap_or(self.kept);
        self.pause_ns = match chosen == self.kept {
            true => (self.pause_ns * 2).clamp(pause_ns_min, PAUSE_NS_MAX),
            false => pause_ns_min,
        };
        self.next_trial_ns = if is_mistaken {
            now_ns
        } else {
            now_ns + self.pause_ns
        };
        self.mode = chosen;
        self.kept = chosen;
        self.next_ns = now_ns + OBSERVE_NS;
        self.note(now_ns, 1.0, rates[chosen]);
    }

    fn note(&mut self, now_ns: u64, cpu_share: f64, rate: f64) {
        let mode = self.mode();
        self.decisions.push(Decision {
            consumer: self.consumer,
            at_s: now_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            mode: mode.name(),
            helpers: mode.helpers(),
            cpu_share,
            mb_s: rate * 1e3,
        });
    }

    /// Ends its part. What was decided: each time the modes were tried, once before and once after.
    pub fn finish(self, coordinator: &Coordinator) -> Vec<Decision> {
        if self.trial.is_some() {
            coordinator.end_trial();
        }
        self.decisions
    }
}

#[cfg(test)]
mod tests;
