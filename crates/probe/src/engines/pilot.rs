//! Decides for one consumer of the engine `hybrid` who copies and who verifies, by what it measures.
//!
//! As long as the consumer's core isn't the limit, it does everything itself: that costs the least CPU. When it is,
//! the next way is tried for a short period and kept if the rate grew by more than the noise; a trial that failed is
//! repeated after a time that doubles. When the core is no longer the limit, help is given up again.

use crate::engine::PathStep;
use crate::stopwatch::Usage;

/// How long a way is tried, and how often the pilot looks.
pub const PERIOD_NS: u64 = 20_000_000;
/// A core of which more than this is used, or waited for, is the limit.
const LIMIT: f64 = 0.85;
/// Below this it is no longer.
const FREE: f64 = 0.55;
/// A rate must grow by this factor to count.
const GAIN: f64 = 1.04;
const PAUSE_NS_MIN: u64 = 200_000_000;
const PAUSE_NS_MAX: u64 = 6_400_000_000;

/// A way of sharing the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether the kernel's worker threads copy from the page cache, by PostgreSQL's rule.
    pub kernel_copies: bool,
    /// Helpers that verify.
    pub helpers: usize,
}

/// The pilot of one consumer.
pub struct Pilot {
    consumer: usize,
    ways: Vec<Way>,
    /// The way that is kept.
    current: usize,
    /// The way that is tried.
    trial: Option<usize>,
    /// The rate of `current` when it was last measured, bytes a nanosecond.
    rate: f64,
    bytes: u64,
    from: Option<Usage>,
    start_ns: u64,
    next_ns: u64,
    next_trial_ns: u64,
    pause_ns: u64,
    /// How many trials in a row brought nothing.
    failed: usize,
    path: Vec<PathStep>,
}

impl Pilot {
    /// Buffered reads can be copied by the kernel's workers; up to `helpers` can verify.
    pub fn new(consumer: usize, buffered: bool, helpers: usize) -> Self {
        let mut ways = vec![Way {
            kernel_copies: false,
            helpers: 0,
        }];
        for count in 0..=helpers {
            let way = Way {
                kernel_copies: buffered,
                helpers: count,
            };
            if way != ways[0] {
                ways.push(way);
            }
        }
        Self {
            consumer,
            ways,
            current: 0,
            trial: None,
            rate: 0.0,
            bytes: 0,
            from: None,
            start_ns: 0,
            next_ns: 0,
            next_trial_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            failed: 0,
            path: Vec::new(),
        }
    }

    /// The way to follow now.
    #[inline]
    pub fn way(&self) -> Way {
        self.ways[self.trial.unwrap_or(self.current)]
    }

    /// Counts what was handed to the consumer.
    #[inline]
    pub fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Whether it is time to decide.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Decides, given the thread's clocks.
    pub fn decide(&mut self, usage: Usage) {
        let before = self.from.replace(usage);
        let bytes = std::mem::take(&mut self.bytes);
        self.next_ns = usage.at_ns + PERIOD_NS;
        let Some(before) = before else {
            self.start_ns = usage.at_ns;
            self.next_trial_ns = usage.at_ns + PERIOD_NS;
            self.note(usage.at_ns, 0.0, 0.0);
            return;
        };
        let elapsed_ns = usage.at_ns.saturating_sub(before.at_ns).max(1);
        let rate = bytes as f64 / elapsed_ns as f64;
        let share = usage.share_since(before);
        let way = self.way();
        match self.trial.take() {
            Some(trial) => self.judge(trial, rate, usage.at_ns),
            None => self.consider(rate, share, usage.at_ns),
        }
        if self.way() != way {
            self.note(usage.at_ns, share, rate);
        }
    }

    fn judge(&mut self, trial: usize, rate: f64, now_ns: u64) {
        if rate > self.rate * GAIN {
            self.current = trial;
            self.rate = rate;
            self.failed = 0;
            self.pause_ns = PAUSE_NS_MIN;
            self.next_trial_ns = now_ns + PERIOD_NS;
            return;
        }
        self.failed += 1;
        self.next_trial_ns = now_ns + PERIOD_NS;
        if self.failed >= self.ways.len() - 1 {
            self.failed = 0;
            self.next_trial_ns = now_ns + self.pause_ns;
            self.pause_ns = (self.pause_ns * 2).min(PAUSE_NS_MAX);
        }
    }

    fn consider(&mut self, rate: f64, share: f64, now_ns: u64) {
        self.rate = rate;
        if self.ways.len() == 1 {
            return;
        }
        if share < FREE && self.current > 0 {
            self.current = 0;
            self.failed = 0;
        } else if share > LIMIT || self.current > 0 {
            if now_ns >= self.next_trial_ns {
                let step = 1 + self.failed;
                self.trial = Some((self.current + step) % self.ways.len());
            }
        } else {
            // The core is free: the next time that it is the limit, trials begin at once.
            self.pause_ns = PAUSE_NS_MIN;
        }
    }

    fn note(&mut self, now_ns: u64, cpu_share: f64, rate: f64) {
        let way = self.way();
        self.path.push(PathStep {
            consumer: self.consumer,
            at_s: now_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            helpers: way.helpers,
            kernel_copies: way.kernel_copies,
            is_trial: self.trial.is_some(),
            cpu_share,
            mb_s: rate * 1e3,
        });
    }

    /// What was decided.
    pub fn into_path(self) -> Vec<PathStep> {
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a pilot fly for some periods, given each way's rate and the consumer's share of a core.
    fn fly(pilot: &mut Pilot, periods: u64, rate: impl Fn(Way) -> (u64, f64)) -> Vec<Way> {
        let mut usage = pilot.from.unwrap_or(Usage { at_ns: 1, busy_ns: 0 });
        if pilot.from.is_none() {
            pilot.decide(usage);
        }
        let mut ways = Vec::new();
        for _ in 0..periods {
            let (bytes, share) = rate(pilot.way());
            ways.push(pilot.way());
            pilot.count(bytes);
            usage.at_ns += PERIOD_NS;
            usage.busy_ns += (PERIOD_NS as f64 * share) as u64;
            pilot.decide(usage);
        }
        ways
    }

    #[test]
    fn nothing_is_tried_while_the_core_is_free() {
        let mut pilot = Pilot::new(0, true, 2);
        let ways = fly(&mut pilot, 100, |_| (1000, 0.4));
        assert!(ways.iter().all(|way| way.helpers == 0 && !way.kernel_copies));
    }

    #[test]
    fn help_is_kept_where_it_helps_and_given_up_when_the_core_is_free() {
        let mut pilot = Pilot::new(0, false, 2);
        let rate = |way: Way| (1000 + 500 * way.helpers as u64, 1.0);
        fly(&mut pilot, 20, rate);
        assert_eq!(pilot.current, 2);
        fly(&mut pilot, 3, |_| (100, 0.2));
        assert_eq!((pilot.current, pilot.trial), (0, None));
    }

    #[test]
    fn trials_that_bring_nothing_become_rare() {
        let mut pilot = Pilot::new(0, true, 1);
        let ways = fly(&mut pilot, 1000, |_| (1000, 1.0));
        let tried = ways.iter().filter(|way| way.kernel_copies).count();
        assert!((4..=30).contains(&tried), "{tried}");
    }
}
