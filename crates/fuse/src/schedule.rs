//! Answers that wait for their time, and how early to wake up for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustix::time::{ClockId, clock_gettime};

/// Never wake up earlier than this: it is time of a processor.
const MARGIN_MAX_NS: u64 = 60_000;
/// Steps of what is learnt; four down for one up make four of five waking-ups late, by little. The rest of the
/// way is part of the overhead that is measured, so that hardly any time of a processor is spent on waiting.
const STEP_NS: u64 = 100;
/// An answer may be so early: less than going to sleep takes.
const EARLY_NS: u64 = 3_000;

/// CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Read { offset: u64, length: u32 },
    Write { bytes: u32 },
    Flush,
}

/// An answer with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pending {
    /// When it is to be sent.
    pub due_ns: u64,
    /// The kernel's number of the request; a later one is larger.
    pub unique: u64,
    /// How late it may be sent and still count as in time.
    pub tolerance_ns: u64,
    /// The number of an error, 0 for success.
    pub error: i32,
    pub what: What,
}

/// The answers that wait.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    waiting: BinaryHeap<Reverse<Pending>>,
    /// How much earlier than the answer's time to ask to be woken up.
    margin_ns: u64,
}

impl Schedule {
    pub(crate) fn add(&mut self, pending: Pending) {
        self.waiting.push(Reverse(pending));
    }

    /// The next one whose time has come.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Pending> {
        let Reverse(first) = self.waiting.peek()?;
        if first.due_ns > now_ns + EARLY_NS {
            return None;
        }
        self.waiting.pop().map(|Reverse(first)| first)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When to wake up for the next one; `None` where none waits.
    pub(crate) fn wake_ns(&self) -> Option<u64> {
        self.waiting
            .peek()
            .map(|Reverse(first)| first.due_ns.saturating_sub(self.margin_ns))
    }

    /// Learns from a waking-up that was asked for at `wake_ns` how early to ask.
    pub(crate) fn woke(&mut self, wake_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(wake_ns);
        self.margin_ns = if late_ns > self.margin_ns {
            (self.margin_ns + STEP_NS).min(MARGIN_MAX_NS)
        } else {
            self.margin_ns.saturating_sub(4 * STEP_NS)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_their_times() {
        let mut schedule = Schedule::default();
        for (due_ns, unique) in [(30_000, 1), (10_000, 2), (20_000, 3), (10_000, 4)] {
            schedule.add(Pending {
                due_ns,
                unique,
                tolerance_ns: 0,
                error: 0,
                what: What::Flush,
            });
        }
        assert_eq!(schedule.take_due(9_999 - EARLY_NS), None);
        let order: Vec<u64> = std::iter::from_fn(|| schedule.take_due(25_000))
            .map(|each| each.unique)
            .collect();
        assert_eq!(order, [2, 4, 3]);
        assert_eq!((schedule.len(), schedule.wake_ns()), (1, Some(30_000)));
    }

    #[test]
    fn it_learns_how_late_it_is_woken() {
        let mut schedule = Schedule::default();
        for round in 0..10_000_u64 {
            // From 20 to 60 microseconds late, evenly.
            schedule.woke(1_000_000, 1_020_000 + (round * 7919) % 40_000);
        }
        assert!((22_000..36_000).contains(&schedule.margin_ns));
        for _ in 0..10_000 {
            schedule.woke(1_000_000, 9_000_000);
        }
        assert_eq!(schedule.margin_ns, MARGIN_MAX_NS);
    }
}
