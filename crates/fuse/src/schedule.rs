//! Answers that wait for their time, and how early to wake up for it.

use std::collections::BTreeSet;
use std::iter::Peekable;

use pgassay_volume::Kind;
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
    Write { offset: u64, bytes: u32 },
    Flush,
}

impl What {
    /// Its kind, its first byte and how many it has.
    pub(crate) fn request(self) -> (Kind, u64, u32) {
        match self {
            Self::Read { offset, length } => (Kind::Read, offset, length),
            Self::Write { offset, bytes } => (Kind::Write, offset, bytes),
            Self::Flush => (Kind::Flush, 0, 0),
        }
    }
}

/// An answer with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pending {
    /// When it is to be sent.
    pub due_ns: u64,
    /// The kernel's number of the request; a later one is larger.
    pub unique: u64,
    /// How much earlier or later it may be sent, so as to go along with others.
    pub slack_ns: u64,
    /// How late it may be sent and still count as in time.
    pub tolerance_ns: u64,
    /// From its coming to when the model has it done; 0 without a model.
    pub latency_ns: u64,
    /// What was taken from that.
    pub taken_ns: u64,
    /// The number of an error, 0 for success.
    pub error: i32,
    pub what: What,
}

impl Pending {
    fn earliest_ns(&self) -> u64 {
        self.due_ns - self.slack_ns
    }

    fn latest_ns(&self) -> u64 {
        self.due_ns.saturating_add(self.slack_ns)
    }
}

/// The answers that wait.
///
/// To be woken up by a timer costs more time of a processor than all else that an answer takes (15 µs on a virtual
/// machine, where setting it and its interrupt each stop the guest). So answers whose times are close together,
/// by what their latencies allow, are sent together in the middle of these times.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    waiting: BTreeSet<Pending>,
    /// Whether the first ones are being sent, so that those after them may go along.
    is_sending: bool,
    /// How much earlier than the answer's time to ask to be woken up.
    margin_ns: u64,
}

impl Schedule {
    pub(crate) fn add(&mut self, pending: Pending) {
        self.waiting.insert(pending);
    }

    /// The next one whose time has come; after `None` all that may be sent now are.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Pending> {
        let send_ns = if self.is_sending {
            self.waiting.first().map(Pending::earliest_ns)
        } else {
            send_ns(&mut self.waiting.iter().peekable())
        };
        self.is_sending = send_ns.is_some_and(|send| send <= now_ns + EARLY_NS);
        if self.is_sending {
            self.waiting.pop_first()
        } else {
            None
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When to wake up for the next ones, and for those after them, if none comes until then; `None` where none
    /// waits.
    pub(crate) fn wakes_ns(&self) -> [Option<u64>; 2] {
        let mut answers = self.waiting.iter().peekable();
        let first_ns = send_ns(&mut answers);
        let then_ns = first_ns.and_then(|first_ns| {
            // These go along with the first ones.
            let sent_ns = first_ns + EARLY_NS;
            while answers.next_if(|next| next.earliest_ns() <= sent_ns).is_some() {}
            send_ns(&mut answers)
        });
        [first_ns, then_ns].map(|send_ns| Some(send_ns?.saturating_sub(self.margin_ns)))
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

/// When the first of these answers are to be sent, which it takes: in the middle of the times of all that may be
/// sent together with the very first.
fn send_ns<'a>(answers: &mut Peekable<impl Iterator<Item = &'a Pending>>) -> Option<u64> {
    let first = answers.next()?;
    let mut last_ns = first.due_ns;
    let (mut from_ns, mut until_ns) = (first.earliest_ns(), first.latest_ns());
    while let Some(next) =
        answers.next_if(|next| next.earliest_ns() <= until_ns && next.latest_ns() >= from_ns)
    {
        from_ns = from_ns.max(next.earliest_ns());
        until_ns = until_ns.min(next.latest_ns());
        last_ns = next.due_ns;
    }
    Some(first.due_ns.midpoint(last_ns).clamp(from_ns, until_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(answers: &[(u64, u64, u64)]) -> Schedule {
        let mut schedule = Schedule::default();
        for &(due_ns, slack_ns, unique) in answers {
            schedule.add(Pending {
                due_ns,
                unique,
                slack_ns,
                tolerance_ns: 0,
                latency_ns: 0,
                taken_ns: 0,
                error: 0,
                what: What::Flush,
            });
        }
        schedule
    }

    fn sent(schedule: &mut Schedule, now_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(now_ns))
            .map(|each| each.unique)
            .collect()
    }

    #[test]
    fn answers_come_in_the_order_of_their_times() {
        let answers = [(30_000, 0, 1), (10_000, 0, 2), (20_000, 0, 3), (10_000, 0, 4)];
        let mut schedule = schedule(&answers);
        assert_eq!(schedule.take_due(9_999 - EARLY_NS), None);
        assert_eq!(sent(&mut schedule, 25_000), [2, 4, 3]);
        assert_eq!((schedule.len(), schedule.wakes_ns()), (1, [Some(30_000), None]));
    }

    #[test]
    fn answers_go_together_where_their_latencies_allow() {
        // The first three may all be sent from 1.02 to 1.03 ms on, the fourth from 1.06 ms on.
        let answers = [
            (1_000_000, 30_000, 1),
            (1_010_000, 30_000, 2),
            (1_050_000, 30_000, 3),
            (1_090_000, 30_000, 4),
        ];
        let mut together = schedule(&answers);
        assert_eq!(together.wakes_ns(), [Some(1_025_000), Some(1_090_000)]);
        assert_eq!(together.take_due(1_024_999 - EARLY_NS), None);
        assert_eq!(sent(&mut together, 1_025_000), [1, 2, 3]);
        assert_eq!(together.wakes_ns(), [Some(1_090_000), None]);
        // One that comes late finds the fourth allowed as well.
        assert_eq!(sent(&mut schedule(&answers), 1_060_000), [1, 2, 3, 4]);
        // One that may not wait is never late for the others, and one alone is sent at its time.
        let strict = [(1_000_000, 0, 1), (1_010_000, 30_000, 2), (1_050_000, 40_000, 3)];
        let mut strict = schedule(&strict);
        assert_eq!(strict.wakes_ns()[0], Some(1_000_000));
        assert_eq!(sent(&mut strict, 1_000_000), [1, 2]);
        assert_eq!(strict.wakes_ns()[0], Some(1_050_000));
    }

    #[test]
    fn nothing_is_sent_outside_of_its_slack() {
        for round in 0..2_000_u64 {
            let answers: Vec<(u64, u64, u64)> = (0..20_u64)
                .map(|unique| {
                    let drawn = (round * 31 + unique * 7_919).wrapping_mul(2_654_435_761) % 1_000_003;
                    (10_000_000 + drawn, drawn % 50_000, unique)
                })
                .collect();
            let mut schedule = schedule(&answers);
            let (mut count, mut foreseen_ns) = (0, None);
            while let [Some(wake_ns), then_ns] = schedule.wakes_ns() {
                assert!(foreseen_ns.is_none_or(|foreseen_ns| foreseen_ns == wake_ns));
                foreseen_ns = then_ns;
                while let Some(each) = schedule.take_due(wake_ns) {
                    count += 1;
                    assert!(wake_ns.abs_diff(each.due_ns) <= each.slack_ns.max(EARLY_NS));
                }
            }
            assert_eq!(count, answers.len());
        }
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
