//! What one thread counts and times.

use hdrhistogram::Histogram;
use pgassay_protocol::Failure;

use crate::clock::{RunQueue, thread_cpu_ns};
use crate::seconds::latencies;
use crate::spec::{Counting, Schedule};
use crate::tally::{Tally, Timing};

mod connections;
mod live;

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

/// Sorts transactions into warm-up, measured interval and what comes late, by the instant they end.
pub struct Meter {
    counting: Counting,
    schedule: Schedule,
    phase: Phase,
    /// When the phase ends or the next second of it begins: the only comparison made per transaction.
    edge_ns: u64,
    second: usize,
    cpu_from_ns: u64,
    run_queue: RunQueue,
    run_queue_from_ns: u64,
    ended: u64,
    /// Latencies since somebody looked last.
    live: Histogram<u32>,
    tally: Tally,
}

impl Meter {
    /// A meter for the calling thread.
    pub fn new(counting: Counting) -> Self {
        let schedule = counting.schedule;
        let interval_ns = schedule.measured_to_ns - schedule.measured_from_ns;
        Self {
            counting,
            schedule,
            phase: Phase::WarmUp,
            edge_ns: schedule.measured_from_ns,
            second: 0,
            cpu_from_ns: 0,
            run_queue: RunQueue::of_this_thread(),
            run_queue_from_ns: 0,
            ended: 0,
            live: latencies(),
            tally: Tally::new(interval_ns, counting.kinds),
        }
    }

    /// Takes notice of the time; `true` once the measured interval is over.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) -> bool {
        while now_ns >= self.edge_ns {
            self.begin_next_interval();
        }
        self.phase == Phase::Over
    }

    #[cold]
    fn begin_next_interval(&mut self) {
        match self.phase {
            Phase::WarmUp => {
                self.phase = Phase::Measured;
                self.cpu_from_ns = thread_cpu_ns();
                self.run_queue_from_ns = self.run_queue.waited_ns();
                self.edge_ns = self.schedule.measured_from_ns;
            }
            Phase::Measured if self.edge_ns < self.schedule.measured_to_ns => self.second += 1,
            Phase::Measured => {
                self.phase = Phase::Over;
                self.tally.cpu_ns = thread_cpu_ns() - self.cpu_from_ns;
                self.tally.run_queue_ns = self.run_queue.waited_ns() - self.run_queue_from_ns;
            }
            Phase::Over => {}
        }
        self.edge_ns = match self.phase {
            Phase::Over => u64::MAX,
            _ => self.schedule.measured_to_ns.min(self.edge_ns + SECOND_NS),
        };
    }

    /// Counts a committed transaction whose end was seen at `ended_ns` and read `read_ns` after it could have been;
    /// `true` once the measured interval is over.
    #[inline]
    pub fn committed(&mut self, timing: Timing, ended_ns: u64, read_ns: u64) -> bool {
        let is_over = self.tick(ended_ns);
        self.ended += 1;
        match self.phase {
            Phase::Measured => {
                self.tally.transactions += 1;
                self.tally.seconds[self.second].transactions += 1;
            }
            Phase::WarmUp => self.tally.warmup_transactions += 1,
            Phase::Over => self.tally.late_transactions += 1,
        }
        let latency_ns = ended_ns.saturating_sub(timing.due_ns + timing.paused_ns);
        self.note_live(latency_ns);
        if self.counting.is_paced {
            if !self.schedule.is_measured(timing.due_ns) {
                return is_over;
            }
            self.tally.balance.scheduled += 1;
            self.tally.balance.done += 1;
            let sent_ns = timing.sent_ns + timing.paused_ns;
            self.tally.from_send.count(ended_ns.saturating_sub(sent_ns));
            self.tally.held.count(timing.held_ns);
            let second = self.second_of(timing.due_ns);
            self.tally.seconds[second].count(latency_ns);
        } else if self.phase == Phase::WarmUp {
            return is_over;
        } else if self.phase == Phase::Measured {
            self.tally.seconds[self.second].count(latency_ns);
        }
        self.tally.latency.count(latency_ns);
        self.tally.own_delay.count(timing.held_ns + read_ns);
        if let Some(counts) = &mut self.tally.connections {
            counts.waits.count(timing.waited_ns);
        }
        if let Some(kind) = self.tally.kinds.get_mut(timing.kind) {
            kind.count(latency_ns);
        }
        self.tally.over_limit += u64::from(self.counting.limit_ns.is_some_and(|limit| latency_ns > limit));
        is_over
    }

    /// Counts the statements of a transaction that was committed: which, and how long each took.
    #[inline]
    pub fn statements(&mut self, timing: Timing, took: &[(usize, u64)]) {
        let is_counted = match self.counting.is_paced {
            true => self.schedule.is_measured(timing.due_ns),
            false => self.phase != Phase::WarmUp,
        };
        if is_counted {
            for &(statement, nanoseconds) in took {
                self.tally.statement(statement).count(nanoseconds);
            }
        }
    }

    /// Counts a transaction that the server gave up, and why; `true` once the measured interval is over.
    pub fn failed(&mut self, timing: Timing, ended_ns: u64, why: Option<&Failure>) -> bool {
        let is_over = self.tick(ended_ns);
        if self.phase == Phase::Measured {
            self.tally.errors += 1;
            if let Some(why) = why {
                self.tally.states.count(why);
            }
        }
        if self.counting.is_paced && self.schedule.is_measured(timing.due_ns) {
            self.tally.balance.scheduled += 1;
            self.tally.balance.failed += 1;
        }
        is_over
    }

    /// Notes that an arrival left the queue, to be begun or skipped.
    pub fn left_queue(&mut self, due_ns: u64, now_ns: u64) {
        if self.schedule.is_measured(due_ns) {
            let due = self.second_of(due_ns);
            self.tally.seconds[due].due += 1;
            if now_ns < self.schedule.measured_to_ns {
                let second = self.second_of(now_ns);
                self.tally.seconds[second].left_queue += 1;
            }
        }
    }

    /// Counts an arrival that was too late to be begun.
    pub fn skipped(&mut self, due_ns: u64, now_ns: u64) {
        if self.schedule.is_measured(due_ns) {
            self.tally.balance.scheduled += 1;
            self.tally.balance.skipped += 1;
            self.undone(due_ns, now_ns);
        }
    }

    /// Counts an arrival that nobody was free for until `closes_ns`.
    pub fn queued(&mut self, due_ns: u64, closes_ns: u64) {
        if self.schedule.is_measured(due_ns) {
            let due = self.second_of(due_ns);
            self.tally.seconds[due].due += 1;
            self.tally.balance.scheduled += 1;
            self.tally.balance.queued += 1;
            self.undone(due_ns, closes_ns);
        }
    }

    fn undone(&mut self, due_ns: u64, until_ns: u64) {
        if self.counting.counts_undone {
            let waited_ns = until_ns.saturating_sub(due_ns);
            let second = self.second_of(due_ns);
            self.tally.seconds[second].count(waited_ns);
            self.tally.latency.count(waited_ns);
        }
    }

    /// Notes that the thread had nothing to do from one instant to another.
    #[inline]
    pub fn idled(&mut self, from_ns: u64, to_ns: u64) {
        if self.phase == Phase::Measured {
            self.tally.idle_ns += to_ns.saturating_sub(from_ns.max(self.schedule.measured_from_ns));
        }
    }

    /// Counts an arrival of the warm-up that is dropped at its end.
    pub fn dropped(&mut self) {
        self.tally.warmup_dropped += 1;
    }

    #[inline]
    fn second_of(&self, at_ns: u64) -> usize {
        let seconds = at_ns.saturating_sub(self.schedule.measured_from_ns) / SECOND_NS;
        usize::try_from(seconds)
            .unwrap_or(usize::MAX)
            .min(self.tally.seconds.len() - 1)
    }

    /// Transactions ended so far, warm-up and all.
    #[inline]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// The counts. Where nothing is due any more a load ends before its interval: then the CPU time is that until now.
    pub fn into_tally(mut self) -> Tally {
        while self.phase != Phase::Over {
            self.begin_next_interval();
        }
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Balance;

    const FROM: u64 = 7 * SECOND_NS;

    fn meter(is_paced: bool) -> Meter {
        Meter::new(Counting {
            schedule: Schedule {
                start_ns: 5 * SECOND_NS,
                measured_from_ns: FROM,
                measured_to_ns: FROM + 2_500_000_000,
            },
            is_paced,
            limit_ns: Some(SECOND_NS),
            kinds: 2,
            counts_undone: is_paced,
        })
    }

    fn by_second(tally: &Tally) -> Vec<u64> {
        tally.seconds.iter().map(|second| second.transactions).collect()
    }

    fn ends(meter: &mut Meter, started_ns: u64, ended_ns: u64) -> bool {
        meter.committed(Timing::at_once(started_ns, 0), ended_ns, 2_000)
    }

    #[test]
    fn a_transaction_belongs_to_the_interval_in_which_it_ends() {
        let mut meter = meter(false);
        assert!(!ends(&mut meter, FROM - 10, FROM - 1));
        assert!(!ends(&mut meter, FROM - 10_000, FROM));
        assert!(!ends(&mut meter, FROM, FROM + SECOND_NS - 1));
        assert!(!ends(&mut meter, FROM, FROM + 2 * SECOND_NS));
        assert!(!meter.failed(
            Timing::at_once(FROM, 0),
            FROM + 2_499_999_999,
            Some(&Failure::client("no state"))
        ));
        assert!(ends(&mut meter, FROM, FROM + 2_500_000_000));
        let tally = meter.into_tally();
        let counts = (
            tally.warmup_transactions,
            tally.transactions,
            tally.late_transactions,
        );
        assert_eq!(counts, (1, 3, 1));
        assert_eq!(by_second(&tally), [2, 0, 1]);
        assert_eq!(tally.errors, 1);
        // The one that had begun by the end is among the latencies: a stall at the end is not lost.
        assert_eq!(tally.latency.min_ns, 10_000);
        assert_eq!(tally.latency.max_ns, 2_500_000_000);
        assert_eq!(tally.latency.histogram.len(), 4);
        assert_eq!(
            (tally.own_delay.histogram.len(), tally.own_delay.max_ns),
            (4, 2_000)
        );
        assert_eq!(tally.over_limit, 2);
        assert_eq!(tally.balance, Balance::default());
    }

    #[test]
    fn an_arrival_belongs_to_the_interval_in_which_it_was_due_and_all_are_accounted_for() {
        let mut meter = meter(true);
        let due = |due_ns, sent_ns, held_ns, kind| Timing {
            due_ns,
            sent_ns,
            held_ns,
            kind,
            ..Timing::default()
        };
        // Of the warm-up, though it ends in the interval.
        meter.committed(due(FROM - 1, FROM, 0, 0), FROM + 5, 0);
        meter.left_queue(FROM + 10, FROM + SECOND_NS);
        meter.committed(
            due(FROM + 10, FROM + SECOND_NS, 7_000, 1),
            FROM + 2 * SECOND_NS,
            1_000,
        );
        meter.left_queue(FROM + 20, FROM + SECOND_NS);
        meter.failed(due(FROM + 20, FROM + SECOND_NS, 0, 0), FROM + 2 * SECOND_NS, None);
        meter.left_queue(FROM + 30, FROM + 2 * SECOND_NS);
        meter.skipped(FROM + 30, FROM + 2 * SECOND_NS);
        meter.left_queue(FROM + SECOND_NS, FROM + 3 * SECOND_NS);
        // Due in the interval, ended long after it.
        meter.committed(
            due(FROM + SECOND_NS, FROM + 3 * SECOND_NS, 0, 0),
            FROM + 9 * SECOND_NS,
            0,
        );
        meter.queued(FROM + 2 * SECOND_NS, FROM + 12 * SECOND_NS);
        let tally = meter.into_tally();
        let wanted = Balance {
            scheduled: 5,
            done: 2,
            failed: 1,
            skipped: 1,
            queued: 1,
        };
        assert_eq!(tally.balance, wanted);
        // What was never begun counts with what it had waited: the worst of all is not left out.
        assert_eq!(
            (tally.latency.histogram.len(), tally.latency.max_ns),
            (4, 10 * SECOND_NS)
        );

        assert_eq!(
            (tally.from_send.min_ns, tally.from_send.max_ns),
            (SECOND_NS, 6 * SECOND_NS)
        );
        assert_eq!((tally.held.max_ns, tally.own_delay.max_ns), (7_000, 8_000));
        assert_eq!(
            (tally.kinds[0].histogram.len(), tally.kinds[1].histogram.len()),
            (1, 1)
        );
        assert_eq!(by_second(&tally), [1, 0, 1]);
        let queue: Vec<_> = tally
            .seconds
            .iter()
            .map(|second| (second.due, second.left_queue))
            .collect();
        assert_eq!(queue, [(3, 0), (1, 2), (1, 1)]);
    }

    #[test]
    fn an_interval_in_which_nothing_ends_is_crossed_whole() {
        let mut meter = meter(false);
        assert!(meter.tick(100 * SECOND_NS));
        assert!(ends(&mut meter, 6 * SECOND_NS, 100 * SECOND_NS));
        let tally = meter.into_tally();
        assert_eq!((tally.transactions, tally.late_transactions), (0, 1));
        assert_eq!(by_second(&tally), [0, 0, 0]);
    }

    #[test]
    fn merged_counts_are_the_sums() {
        let mut first = meter(false);
        ends(&mut first, FROM, FROM + 3_000);
        let mut second = meter(false);
        ends(&mut second, FROM, FROM + 9_000);
        let mut merged = first.into_tally();
        merged.merge(&second.into_tally());
        let latency = &merged.latency;
        assert_eq!(
            (latency.sum_ns, latency.min_ns, latency.max_ns),
            (12_000, 3_000, 9_000)
        );
        assert_eq!((latency.histogram.min(), latency.histogram.max()), (3, 9));
        assert_eq!(by_second(&merged), [2, 0, 0]);
    }
}
