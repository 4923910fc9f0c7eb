//! Which processor the thread that serves runs on: another one than where it was kept waiting.
//!
//! It runs before all ordinary programs. But most kernels let nothing, however urgent, interrupt what they do
//! themselves for another thread (`preempt=none` and `preempt=voluntary`; Documentation/admin-guide/kernel-parameters.txt
//! of Linux): a timer that rings while the kernel looks through memory, or makes a process, is seen when that is over.
//! A thread that is woken up stays where it slept, and such work goes on for a while, so the next answers would be as
//! late. The other processors have ordinary programs, which it may interrupt.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Woken up so late, it was kept waiting: a timer and the way out of a sleep take a tenth of that.
const KEPT_NS: u64 = 80_000;
/// It stays for as long: where all processors are so busy, going round would only take time.
const STAY_NS: u64 = 1_000_000;

/// Where it may run, and whether it should go elsewhere.
#[derive(Debug)]
pub(crate) struct Placing {
    allowed: CpuSet,
    is_kept: bool,
    came_ns: u64,
}

impl Placing {
    /// Of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self {
            allowed: sched_getaffinity(None).unwrap_or_default(),
            is_kept: false,
            came_ns: 0,
        }
    }

    /// Learns from a waking-up that was asked for at `wake_ns`.
    pub(crate) fn woke(&mut self, wake_ns: u64, now_ns: u64) {
        self.is_kept |= now_ns.saturating_sub(wake_ns) > KEPT_NS;
    }

    /// Goes elsewhere where it was kept waiting; to be called before a sleep, when nobody waits for it. Says whether it
    /// went.
    pub(crate) fn settle(&mut self, now_ns: u64) -> bool {
        if !std::mem::take(&mut self.is_kept) || now_ns < self.came_ns + STAY_NS {
            return false;
        }
        let mut others = self.allowed;
        others.unset(sched_getcpu());
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            self.came_ns = now_ns;
            // Where it went it may stay, and leave again.
            let _ = sched_setaffinity(None, &self.allowed);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_NS: u64 = KEPT_NS + 1;

    #[test]
    fn it_leaves_the_processor_where_it_was_kept_waiting_and_may_come_back() {
        let mut placing = Placing::of_this_thread();
        let several = placing.allowed.count() > 1;
        for round in 1..20 {
            let now_ns = round * (STAY_NS + LATE_NS);
            // Nobody else moves this thread between these two lines, as it runs there alone.
            let mut here = CpuSet::new();
            here.set(sched_getcpu());
            sched_setaffinity(None, &here).unwrap();
            placing.woke(now_ns - LATE_NS, now_ns);
            placing.settle(now_ns);
            assert_eq!(placing.came_ns == now_ns, several);
            assert!(sched_getaffinity(None).unwrap() == if several { placing.allowed } else { here });
        }
    }

    #[test]
    fn it_stays_where_it_was_woken_up_in_time_and_for_a_while_after_it_came() {
        let mut placing = Placing::of_this_thread();
        placing.woke(5 * STAY_NS, 5 * STAY_NS + KEPT_NS);
        placing.settle(6 * STAY_NS);
        assert_eq!(placing.came_ns, 0);
        placing.came_ns = 6 * STAY_NS;
        placing.woke(6 * STAY_NS, 6 * STAY_NS + LATE_NS);
        placing.settle(7 * STAY_NS - 1);
        assert_eq!(placing.came_ns, 6 * STAY_NS);
        // What was so at one time is no reason to move at another.
        assert!(!placing.is_kept);
    }
}
