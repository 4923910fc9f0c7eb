//! Decides for one consumer of the engine `hybrid` who reads and who verifies, by what it measures.
//!
//! It sets out on the way that costs the least for what is read: by itself where the page cache has the data, else
//! through the ring as `io_uring`. Soon after, and again while the consumer's core is the limit, all ways are flown, a
//! moment each: a more costly one is kept where it is clearly faster, so that the price of handing over is always
//! weighed as it is. Fast is what makes all consumers together fast, and one pilot tries at a time: what a helper
//! takes from another consumer's core is no gain. The trial is repeated after a pause, which doubles while the answer
//! stays the same.

use std::sync::atomic::Ordering;

use super::mode::{Airspace, Total, Way};
use super::trial::Trial;
use crate::engine::PathStep;
use crate::time::stopwatch::Usage;

/// How often the pilot looks at the core while nothing is tried.
const LOOK_NS: u64 = 10_000_000;
/// How often it is looked whether a slice is over.
const STEP_NS: u64 = 500_000;
/// Others compete for the cores where the consumer waits for one during more than this share of the time.
const CROWDED: f64 = 0.1;
/// When more than this share of what was read comes from the device, the page cache does not have it.
const FROM_DEVICE: f64 = 0.1;
/// After so many bytes of which the device delivered none it does: more than the kernel reads ahead.
const QUIET_BYTES: f64 = 67_108_864.0;
/// A core of which more than this is used, or waited for, is the limit.
const LIMIT: f64 = 0.85;
/// A way that costs less than the one that is kept takes its place when it is so close to the fastest …
const CLOSE: f64 = 0.97;
/// … and a more costly one only when it is faster by this.
const WORTH: f64 = 1.05;
/// Where others compete for the cores, all is left to helpers unless another way is faster by more than this: threads
/// that wake up get a core sooner than one that never sleeps, and what a slice shows of it is mostly chance.
const CROWDED_CLOSE: f64 = 0.9;
const PAUSE_NS_MIN: u64 = 300_000_000;
/// Long slices want long pauses.
const CROWDED_PAUSE_NS_MIN: u64 = 1_200_000_000;
const PAUSE_NS_MAX: u64 = 8_000_000_000;

/// The pilot of one consumer.
pub struct Pilot {
    consumer: usize,
    /// In the order of their costs.
    ways: Vec<Way>,
    /// The way that is kept, or tried.
    way: usize,
    kept: usize,
    /// None while a way is kept.
    trial: Option<Trial>,
    /// The most requests that a consumer has on their way.
    depth: u64,
    /// Whether the page cache has what is read.
    is_cached: bool,
    /// Whether the ways were tried since it set out.
    is_tried: bool,
    /// Whether the consumer had to wait for a core in the trial before.
    is_crowded: bool,
    /// What the device had delivered when it last looked.
    delivered: u64,
    /// What was read since it last delivered anything.
    quiet_bytes: f64,
    /// Of each way, its rate by that of the best in the trials before; the latest counts half.
    scores: Vec<Option<f64>>,
    /// What all consumers had been given when it last looked.
    before: Total,
    from: Option<Usage>,
    start_ns: u64,
    next_ns: u64,
    next_trial_ns: u64,
    pause_ns: u64,
    path: Vec<PathStep>,
}

impl Pilot {
    /// `ways` in the order of their costs; `depth`: the most requests that a consumer has on their way.
    pub fn new(consumer: usize, ways: Vec<Way>, depth: usize) -> Self {
        Self {
            consumer,
            scores: vec![None; ways.len()],
            ways,
            way: 0,
            kept: 0,
            trial: None,
            depth: depth as u64,
            is_cached: false,
            is_tried: false,
            is_crowded: false,
            delivered: 0,
            quiet_bytes: 0.0,
            before: Total::default(),
            from: None,
            start_ns: 0,
            next_ns: 0,
            next_trial_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            path: Vec::new(),
        }
    }

    /// Sets out on the way that costs the least for data in the page cache, or for those that aren't there.
    pub fn set_out(&mut self, is_cached: bool) {
        self.is_cached = is_cached;
        self.is_tried = false;
        self.way = self.unhelped();
        self.kept = self.way;
        self.scores.fill(None);
        self.pause_ns = PAUSE_NS_MIN;
    }

    /// The ways need not be tried before the consumer's core is the limit.
    pub fn skip_first_trial(&mut self) {
        self.is_tried = true;
    }

    fn unhelped(&self) -> usize {
        let way = if self.is_cached { Way::Own } else { Way::Ring };
        self.ways.iter().position(|each| *each == way).unwrap_or(0)
    }

    /// The way to follow now.
    #[inline]
    pub fn way(&self) -> Way {
        self.ways[self.way]
    }

    /// Whether it is time to decide.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Decides, given the thread's clocks. `delivered` tells how many bytes the device has delivered so far.
    pub fn decide(&mut self, usage: Usage, airspace: &Airspace, delivered: impl FnOnce() -> u64) {
        let total = airspace.total();
        let Some(before) = self.from else {
            self.start_ns = usage.at_ns;
            self.next_trial_ns = usage.at_ns;
            self.note(usage.at_ns, 0.0, 0.0);
            self.delivered = delivered();
            self.look_from(usage, total, LOOK_NS);
            return;
        };
        let bytes = (total.bytes - self.before.bytes) as f64;
        let requests = total.requests - self.before.requests;
        let elapsed_ns = usage.at_ns.saturating_sub(before.at_ns).max(1);
        let Some(trial) = &mut self.trial else {
            self.look_from(usage, total, LOOK_NS);
            if self.finds_otherwise(bytes, delivered()) {
                self.set_out(!self.is_cached);
                self.next_trial_ns = usage.at_ns;
                return;
            }
            self.look(before, usage, bytes / elapsed_ns as f64, airspace);
            return;
        };
        if !trial.is_measured {
            if Trial::is_settled(requests, self.depth, elapsed_ns) {
                trial.is_measured = true;
                self.look_from(usage, total, STEP_NS);
            } else {
                self.next_ns = usage.at_ns + STEP_NS;
            }
            return;
        }
        if !trial.is_enough(requests, self.depth, elapsed_ns) {
            self.next_ns = usage.at_ns + STEP_NS;
            return;
        }
        trial.add(self.way, bytes, elapsed_ns);
        self.look_from(usage, total, STEP_NS);
        self.fly_next(usage);
        if self.trial.is_none() {
            airspace.is_taken.store(false, Ordering::Relaxed);
        }
    }

    /// Whether what is read has moved into the page cache, or out of it.
    fn finds_otherwise(&mut self, bytes: f64, delivered: u64) -> bool {
        let from_device = delivered.saturating_sub(std::mem::replace(&mut self.delivered, delivered));
        self.quiet_bytes = if from_device == 0 {
            self.quiet_bytes + bytes
        } else {
            0.0
        };
        match self.is_cached {
            true => from_device as f64 > FROM_DEVICE * bytes,
            false => self.quiet_bytes > QUIET_BYTES,
        }
    }

    fn look_from(&mut self, usage: Usage, total: Total, pause_ns: u64) {
        self.from = Some(usage);
        self.before = total;
        self.next_ns = usage.at_ns + pause_ns;
    }

    fn look(&mut self, before: Usage, usage: Usage, rate: f64, airspace: &Airspace) {
        let share = usage.share_since(before);
        let is_helped = self.way().helpers() > 0;
        if share <= LIMIT && !is_helped && self.is_tried {
            // The core is free: the next time that it is the limit, a trial begins at once.
            self.pause_ns = PAUSE_NS_MIN;
            self.next_trial_ns = usage.at_ns;
        } else if self.ways.len() > 1
            && usage.at_ns >= self.next_trial_ns
            && !airspace.is_taken.swap(true, Ordering::Relaxed)
        {
            self.note(usage.at_ns, share, rate);
            self.is_crowded |= usage.delay_since(before) > CROWDED;
            let to_fly = self.ways_to_fly();
            self.trial = Some(Trial::new(to_fly, self.ways.len(), self.is_crowded, usage));
            self.fly_next(usage);
        }
    }

    /// The ways of a trial's first round, the first one last. More threads get more of cores that others want as well,
    /// and long slices leave room for few ways.
    fn ways_to_fly(&self) -> Vec<usize> {
        let is_given = |way: &usize| matches!(self.ways[*way], Way::Given(_));
        let all = 0..self.ways.len();
        if !self.is_crowded {
            return all.filter(|way| !is_given(way) || *way == self.kept).collect();
        }
        let other = if is_given(&self.kept) {
            self.unhelped()
        } else {
            self.kept
        };
        all.filter(|way| *way == other || is_given(way)).collect()
    }

    fn fly_next(&mut self, usage: Usage) {
        match self.trial.as_mut().and_then(Trial::next) {
            Some(way) => self.way = way,
            None => self.choose(usage),
        }
    }

    fn choose(&mut self, usage: Usage) {
        let Some(trial) = self.trial.take() else { return };
        self.is_tried = true;
        let now_ns = usage.at_ns;
        // A short look may miss what the trial met: then the next one comes at once.
        self.is_crowded = usage.delay_since(trial.from) > CROWDED;
        let is_mistaken = self.is_crowded && !trial.is_crowded;
        let rates = trial.rates();
        let fastest = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (score, rate) in self.scores.iter_mut().zip(&rates) {
            if *rate == 0.0 {
                // Not flown this time, and out of date.
                *score = None;
                continue;
            }
            let latest = rate / fastest;
            *score = Some(score.map_or(latest, |before| (before + latest) / 2.0));
        }
        let scores: Vec<f64> = self.scores.iter().map(|score| score.unwrap_or(0.0)).collect();
        let best = scores.iter().copied().fold(0.0, f64::max);
        let is_worth = |way: &usize| {
            let is_dearer = *way > self.kept;
            scores[*way] >= best * CLOSE && (!is_dearer || scores[*way] >= scores[self.kept] * WORTH)
        };
        let mut ways = 0..scores.len();
        let (chosen, pause_ns_min) = if self.is_crowded {
            let dearest = ways.rfind(|way| scores[*way] >= best * CROWDED_CLOSE);
            (dearest, CROWDED_PAUSE_NS_MIN)
        } else {
            (ways.find(is_worth), PAUSE_NS_MIN)
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
        self.way = chosen;
        self.kept = chosen;
        self.next_ns = now_ns + LOOK_NS;
        self.note(now_ns, 1.0, rates[chosen]);
    }

    fn note(&mut self, now_ns: u64, cpu_share: f64, rate: f64) {
        let way = self.way();
        self.path.push(PathStep {
            consumer: self.consumer,
            at_s: now_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            way: way.name(),
            helpers: way.helpers(),
            cpu_share,
            mb_s: rate * 1e3,
        });
    }

    /// Ends its part. What was decided: each time the ways were tried, once before and once after.
    pub fn land(self, airspace: &Airspace) -> Vec<PathStep> {
        if self.trial.is_some() {
            airspace.is_taken.store(false, Ordering::Relaxed);
        }
        self.path
    }
}

#[cfg(test)]
mod tests;
