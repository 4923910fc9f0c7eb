//! How many arrivals are due and were not begun, for a live view.

use crate::pacing::Pacer;

/// Follows a pacer: what it will give is drawn a second time, ahead of it.
#[derive(Clone, Debug)]
pub struct Queue {
    ahead: Pacer,
    due: u64,
    taken: u64,
}

impl Queue {
    /// Of a pacer of which nothing was taken yet.
    pub fn of(pacer: &Pacer) -> Self {
        Self {
            ahead: pacer.clone(),
            due: 0,
            taken: 0,
        }
    }

    /// One was taken from the pacer, before it was due or after.
    #[inline]
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// It is this instant: little by little what is due is drawn, so that nobody who asks has to wait for it.
    pub fn pass(&mut self, at_ns: u64) {
        while self.ahead.due_ns() <= at_ns {
            self.ahead.take();
            self.due += 1;
        }
    }

    /// How many are due by an instant and were not taken, or by the latest that it was told of.
    pub fn length(&mut self, at_ns: u64) -> u64 {
        self.pass(at_ns);
        self.due.saturating_sub(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Schedule;
    use crate::pacing::{Arrivals, Pace};
    use pgassay_pgbench::random::seeded;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_queue_grows_while_nothing_is_taken_and_ends_with_the_arrivals() {
        let schedule = Schedule {
            start_ns: 5 * SECOND_NS,
            measured_from_ns: 5 * SECOND_NS,
            measured_to_ns: 15 * SECOND_NS,
        };
        let pace = Pace::steady(Arrivals::Constant, 1000.0);
        let mut queue = Queue::of(&Pacer::new(&pace, schedule, (0, 1), seeded(1)));
        assert_eq!(queue.length(5 * SECOND_NS), 1);
        queue.take();
        assert_eq!(queue.length(6 * SECOND_NS), 1000);
        // One that is waited for is no queue, and neither is what an earlier instant would have had.
        queue.pass(6 * SECOND_NS);
        for _ in 0..1001 {
            queue.take();
        }
        assert_eq!(queue.length(5 * SECOND_NS), 0);
        assert_eq!(queue.length(60 * SECOND_NS), 10_000 - 1002);
    }
}
