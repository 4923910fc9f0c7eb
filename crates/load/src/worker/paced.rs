//! An open loop in a worker: free clients take what is due, the one that was free first the next.

use std::collections::VecDeque;

use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use super::Worker;
use crate::clock::monotonic_ns;
use crate::meter::Meter;
use crate::pacing::Pacer;
use crate::spec::{LoadSpec, Schedule};
use crate::tally::Timing;
use crate::transport::Connector;

/// The arrivals of a worker, and who is free for them.
pub(super) struct Arriving {
    pacer: Pacer,
    schedule: Schedule,
    /// From when on nothing is begun any more.
    closes_ns: u64,
    limit_ns: Option<u64>,
    idle: VecDeque<usize>,
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

    /// The next arrival that is to be begun now; those that are not are counted.
    fn next(&mut self, now_ns: u64, meter: &mut Meter) -> Next {
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
                meter.skipped(due_ns);
                continue;
            }
            return Next::Begin(due_ns);
        }
    }
}

enum Next {
    Begin(u64),
    Later,
    Never,
}

impl<C: Connector> Worker<C> {
    /// A free client begins what is due, or waits for the next; `true` where there will be none.
    pub(super) fn take_arrival(
        &mut self,
        index: usize,
        now_ns: u64,
        meter: &mut Meter,
    ) -> Result<bool, Failure> {
        let Some(arriving) = &mut self.arriving else {
            return Ok(true);
        };
        match arriving.next(now_ns, meter) {
            Next::Never => Ok(true),
            Next::Later => {
                arriving.idle.push_back(index);
                Ok(false)
            }
            Next::Begin(due_ns) => {
                let client = &mut self.clients[index];
                let outcome = client.begin(now_ns, &mut self.choose)?;
                client.timing = Timing {
                    due_ns,
                    held_ns: now_ns.saturating_sub(due_ns.max(client.free_ns)),
                    ..client.timing
                };
                self.follow_begun(index, outcome, meter)
            }
        }
    }

    /// Begins what is due by now while clients are free. How many clients will have nothing to do any more.
    pub(super) fn begin_what_is_due(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        let mut ended = 0;
        loop {
            let now_ns = monotonic_ns();
            let Some(arriving) = &mut self.arriving else {
                return Ok(0);
            };
            if arriving.pacer.due_ns() == u64::MAX {
                ended += arriving.idle.len();
                arriving.idle.clear();
                return Ok(ended);
            }
            if arriving.next_begin_ns() > now_ns {
                return Ok(ended);
            }
            let Some(index) = arriving.idle.pop_front() else {
                return Ok(ended);
            };
            self.told_ns = now_ns;
            ended += usize::from(self.take_arrival(index, now_ns, meter)?);
        }
    }

    /// Counts what was due and has not begun.
    pub(super) fn count_the_queue(&mut self, meter: &mut Meter) {
        let Some(arriving) = &mut self.arriving else {
            return;
        };
        while arriving.pacer.due_ns() != u64::MAX {
            meter.queued(arriving.pacer.take());
        }
    }
}
