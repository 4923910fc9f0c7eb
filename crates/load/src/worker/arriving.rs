//! The arrivals of a worker of an open loop, and which clients are free for them.

use std::collections::VecDeque;

use rand_xoshiro::Xoroshiro128StarStar;

use crate::meter::Meter;
use crate::pacing::Pacer;
use crate::spec::{LoadSpec, Schedule};

/// The arrivals of a worker, and who is free for them.
pub(super) struct Arriving {
    /// When they are due.
    pub pacer: Pacer,
    schedule: Schedule,
    /// From when on nothing is begun any more.
    pub closes_ns: u64,
    limit_ns: Option<u64>,
    pub idle: VecDeque<usize>,
}

impl Arriving {
    /// Those of a worker with this number among so many; None for a closed loop.
    pub fn new(
        spec: &LoadSpec,
        schedule: Schedule,
        thread: (usize, usize),
        throttle: &Xoroshiro128StarStar,
    ) -> Option<Self> {
        let pace = spec.pace.as_ref()?;
        Some(Self {
            pacer: Pacer::new(pace, schedule, thread, throttle.clone()),
            schedule,
            closes_ns: spec.closes_ns(schedule),
            limit_ns: spec.counting(schedule.start_ns).limit_ns,
            idle: VecDeque::new(),
        })
    }

    /// When the next transaction begins if no client becomes free before; `u64::MAX` where none is free, or none is due.
    pub fn next_begin_ns(&self) -> u64 {
        if self.idle.is_empty() {
            u64::MAX
        } else {
            self.pacer.due_ns()
        }
    }

    /// How many clients are free.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// How many are due and have not begun; no more than `most` are counted.
    pub fn queue(&self, now_ns: u64, most: u64) -> u64 {
        let mut pacer = self.pacer.clone();
        let mut count = 0;
        while count < most && pacer.due_ns() <= now_ns.min(u64::MAX - 1) {
            pacer.take();
            count += 1;
        }
        count
    }

    /// The next arrival that is to be begun now; those that are not are counted.
    pub fn next(&mut self, now_ns: u64, meter: &mut Meter) -> Next {
        loop {
            let due_ns = self.pacer.due_ns();
            if due_ns == u64::MAX || now_ns >= self.closes_ns {
                return Next::Never;
            }
            if due_ns > now_ns {
                return Next::Later;
            }
            self.pacer.take();
            if due_ns < self.schedule.measured_from_ns && now_ns >= self.schedule.measured_from_ns {
                meter.dropped();
                continue;
            }
            meter.left_queue(due_ns, now_ns);
            if self.limit_ns.is_some_and(|limit| due_ns + limit < now_ns) {
                meter.skipped(due_ns, now_ns);
                continue;
            }
            return Next::Begin(due_ns);
        }
    }
}

/// What a free client does next.
pub(super) enum Next {
    /// The transaction that was due then.
    Begin(u64),
    /// It waits for the next.
    Later,
    /// Nothing is due any more.
    Never,
}
