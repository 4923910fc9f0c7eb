//! Decides for one consumer of the engine `hybrid` who copies and who verifies, by what it measures.
//!
//! As long as the consumer's core isn't the limit, it does everything itself: that costs the least CPU. When it is,
//! all ways are flown in turn, some milliseconds each, there and back, and the one that needs the fewest
//! helpers among the fastest is kept. Fast is what makes all consumers together fast, and one pilot tries at a time:
//! what a helper takes from another consumer's core is no gain. That is repeated after a pause that doubles while the answer stays the same.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::engine::PathStep;
use crate::stopwatch::Usage;

/// How often the pilot looks at the core while nothing is tried.
const LOOK_NS: u64 = 20_000_000;
/// A way that is tried is given this time first, to finish what the way before had begun.
const SETTLE_NS: u64 = 1_000_000;
/// Then it is measured.
const SLICE_NS: u64 = 4_000_000;
const ROUNDS: usize = 2;
/// A core of which more than this is used, or waited for, is the limit.
const LIMIT: f64 = 0.85;
/// A way must be so close to the fastest to be kept for its fewer helpers …
const CLOSE: f64 = 0.97;
/// … and to do everything itself, which costs the least, only so close.
const CLOSE_ALONE: f64 = 0.92;
const PAUSE_NS_MIN: u64 = 300_000_000;
const PAUSE_NS_MAX: u64 = 8_000_000_000;

/// A way of sharing the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether the kernel's worker threads copy from the page cache, by PostgreSQL's rule.
    pub kernel_copies: bool,
    /// Helpers that copy what is cached, and verify.
    pub helpers: usize,
}

/// What the pilots of a server share.
#[derive(Default)]
pub struct Airspace {
    /// Bytes that all consumers were given.
    bytes: AtomicU64,
    /// Whether one of them is trying.
    is_taken: AtomicBool,
}

impl Airspace {
    /// Counts what was handed to a consumer.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

enum Phase {
    /// Nothing was measured yet.
    Waiting,
    /// One way is kept.
    Keeping,
    /// The ways are tried: how many slices are over, and whether this one is being measured.
    Trying { slices: usize, measured: bool },
}

/// The pilot of one consumer.
pub struct Pilot {
    consumer: usize,
    ways: Vec<Way>,
    /// The way that is kept, or tried.
    way: usize,
    kept: usize,
    phase: Phase,
    /// Of each way, bytes and nanoseconds of its slices in this trial.
    slices: Vec<(f64, f64)>,
    /// Of each way, its rate by the trial's mean rate; earlier trials count half.
    scores: Vec<f64>,
    /// All consumers' bytes when it last looked.
    bytes: u64,
    from: Usage,
    start_ns: u64,
    next_ns: u64,
    next_trial_ns: u64,
    pause_ns: u64,
    path: Vec<PathStep>,
}

impl Pilot {
    /// Buffered reads can be copied by the kernel's workers; up to `helpers` can help.
    pub fn new(consumer: usize, buffered: bool, helpers: usize) -> Self {
        let way = |kernel_copies, helpers| Way {
            kernel_copies,
            helpers,
        };
        let mut ways = vec![way(false, 0)];
        if buffered {
            ways.push(way(true, 0));
        }
        let growing = std::iter::successors(Some(1), |count| Some(count * 3));
        ways.extend(
            growing
                .take_while(|count| *count < helpers)
                .map(|count| way(false, count)),
        );
        if helpers > 0 {
            ways.push(way(false, helpers));
        }
        Self {
            consumer,
            slices: vec![(0.0, 0.0); ways.len()],
            scores: Vec::new(),
            ways,
            way: 0,
            kept: 0,
            phase: Phase::Waiting,
            bytes: 0,
            from: Usage { at_ns: 0, busy_ns: 0 },
            start_ns: 0,
            next_ns: 0,
            next_trial_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            path: Vec::new(),
        }
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

    /// Decides, given the thread's clocks.
    pub fn decide(&mut self, usage: Usage, airspace: &Airspace) {
        let before = std::mem::replace(&mut self.from, usage);
        let total = airspace.bytes.load(Ordering::Relaxed);
        let bytes = (total - std::mem::replace(&mut self.bytes, total)) as f64;
        let elapsed_ns = usage.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        match self.phase {
            Phase::Waiting => {
                self.start_ns = usage.at_ns;
                self.note(usage.at_ns, 0.0, 0.0);
                self.keep(0, usage.at_ns);
            }
            Phase::Keeping => {
                let share = usage.share_since(before);
                self.look(share, bytes / elapsed_ns, usage.at_ns, airspace);
            }
            Phase::Trying {
                slices,
                measured: false,
            } => {
                self.phase = Phase::Trying {
                    slices,
                    measured: true,
                };
                self.next_ns = usage.at_ns + SLICE_NS;
            }
            Phase::Trying { slices, .. } => {
                let slice = &mut self.slices[self.way];
                *slice = (slice.0 + bytes, slice.1 + elapsed_ns);
                self.try_next(slices + 1, usage.at_ns);
                if matches!(self.phase, Phase::Keeping) {
                    airspace.is_taken.store(false, Ordering::Relaxed);
                }
            }
        }
    }

    fn look(&mut self, share: f64, rate: f64, now_ns: u64, airspace: &Airspace) {
        self.next_ns = now_ns + LOOK_NS;
        let is_limit = share > LIMIT;
        if !is_limit && self.kept == 0 {
            // The core is free: the next time that it is the limit, trials begin at once.
            self.pause_ns = PAUSE_NS_MIN;
            self.next_trial_ns = now_ns;
        } else if self.ways.len() > 1 && now_ns >= self.next_trial_ns {
            if airspace.is_taken.swap(true, Ordering::Relaxed) {
                return;
            }
            self.note(now_ns, share, rate);
            self.slices.fill((0.0, 0.0));
            self.try_next(0, now_ns);
        }
    }

    /// Every second round flies the ways in the opposite order, so that a drift favours none.
    fn try_next(&mut self, slices: usize, now_ns: u64) {
        let count = self.ways.len();
        if slices == ROUNDS * count {
            self.choose(now_ns);
            return;
        }
        let place = slices % count;
        self.way = if slices / count % 2 == 0 {
            place
        } else {
            count - 1 - place
        };
        self.phase = Phase::Trying {
            slices,
            measured: false,
        };
        self.next_ns = now_ns + SETTLE_NS;
    }

    fn choose(&mut self, now_ns: u64) {
        let rates: Vec<f64> = self
            .slices
            .iter()
            .map(|(bytes, nanoseconds)| bytes / nanoseconds.max(1.0))
            .collect();
        let mean = (rates.iter().sum::<f64>() / rates.len() as f64).max(f64::MIN_POSITIVE);
        let before = std::mem::take(&mut self.scores);
        let score = |(way, rate): (usize, &f64)| match before.get(way) {
            Some(score) => (score + rate / mean) / 2.0,
            None => rate / mean,
        };
        self.scores = rates.iter().enumerate().map(score).collect();
        let best = self.scores.iter().copied().fold(0.0, f64::max);
        let is_close = |score: &f64| *score >= best * CLOSE;
        let chosen = match self.scores.first() {
            Some(alone) if *alone >= best * CLOSE_ALONE => 0,
            _ => self.scores.iter().position(is_close).unwrap_or(0),
        };
        self.pause_ns = match chosen == self.kept {
            true => (self.pause_ns * 2).min(PAUSE_NS_MAX),
            false => PAUSE_NS_MIN,
        };
        self.next_trial_ns = now_ns + self.pause_ns;
        self.keep(chosen, now_ns);
        self.note(now_ns, 1.0, rates[chosen]);
    }

    fn keep(&mut self, way: usize, now_ns: u64) {
        self.way = way;
        self.kept = way;
        self.phase = Phase::Keeping;
        self.next_ns = now_ns + LOOK_NS;
    }

    fn note(&mut self, now_ns: u64, cpu_share: f64, rate: f64) {
        let way = self.way();
        self.path.push(PathStep {
            consumer: self.consumer,
            at_s: now_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            helpers: way.helpers,
            kernel_copies: way.kernel_copies,
            cpu_share,
            mb_s: rate * 1e3,
        });
    }

    /// Ends its part. What was decided: each time the ways were tried, once before and once after.
    pub fn land(self, airspace: &Airspace) -> Vec<PathStep> {
        if matches!(self.phase, Phase::Trying { .. }) {
            airspace.is_taken.store(false, Ordering::Relaxed);
        }
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flies for `milliseconds`, given each way's rate (bytes a microsecond) and the consumer's share of a core;
    /// returns for each millisecond the way.
    fn fly(
        pilot: &mut Pilot,
        air: &Airspace,
        milliseconds: u64,
        rate: impl Fn(Way) -> (u64, f64),
    ) -> Vec<Way> {
        let mut usage = pilot.from;
        let mut ways = Vec::new();
        for _ in 0..milliseconds * 10 {
            let (bytes, share) = rate(pilot.way());
            ways.push(pilot.way());
            air.count(bytes * 100);
            usage.at_ns += 100_000;
            usage.busy_ns += (100_000.0 * share) as u64;
            if pilot.is_due(usage.at_ns) {
                pilot.decide(usage, air);
            }
        }
        ways
    }

    #[test]
    fn nothing_is_tried_while_the_core_is_free() {
        let air = Airspace::default();
        let mut pilot = Pilot::new(0, true, 2);
        let ways = fly(&mut pilot, &air, 2000, |_| (1000, 0.4));
        assert!(ways.iter().all(|way| way.helpers == 0 && !way.kernel_copies));
    }

    #[test]
    fn help_is_kept_where_it_helps_and_given_up_when_it_no_longer_does() {
        let air = Airspace::default();
        let mut pilot = Pilot::new(0, false, 3);
        fly(&mut pilot, &air, 300, |way| {
            (1000 + 300 * way.helpers as u64, 1.0)
        });
        assert_eq!(pilot.way().helpers, 3);
        fly(&mut pilot, &air, 30_000, |_| (100, 0.2));
        assert_eq!(pilot.way().helpers, 0);
    }

    #[test]
    fn of_ways_that_are_equally_fast_the_cheapest_is_kept() {
        let air = Airspace::default();
        let mut pilot = Pilot::new(0, true, 8);
        let rate = |way: Way| (if way.helpers >= 3 { 1500 } else { 1000 }, 1.0);
        fly(&mut pilot, &air, 300, rate);
        assert_eq!(pilot.way().helpers, 3);
    }

    #[test]
    fn trials_that_bring_nothing_become_rare() {
        let air = Airspace::default();
        let mut pilot = Pilot::new(0, true, 1);
        let ways = fly(&mut pilot, &air, 20_000, |_| (1000, 1.0));
        let elsewhere = ways
            .iter()
            .filter(|way| way.helpers > 0 || way.kernel_copies)
            .count();
        assert!(elsewhere > 0 && elsewhere * 50 < ways.len(), "{elsewhere}");
    }

    #[test]
    fn one_pilot_tries_at_a_time() {
        let air = Airspace::default();
        air.is_taken.store(true, Ordering::Relaxed);
        let mut pilot = Pilot::new(0, true, 1);
        let ways = fly(&mut pilot, &air, 200, |_| (1000, 1.0));
        assert!(ways.iter().all(|way| *way == ways[0]));
        air.is_taken.store(false, Ordering::Relaxed);
        let ways = fly(&mut pilot, &air, 200, |_| (1000, 1.0));
        assert!(ways.iter().any(|way| way.helpers == 1));
        assert!(!air.is_taken.load(Ordering::Relaxed));
    }
}
