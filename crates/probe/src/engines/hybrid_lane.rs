//! One consumer's part of the engine `hybrid`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::helpers::{Helpers, Unverified, Work};
use super::io_uring::{AsyncRule, RequestRing, take_from};
use super::null::nothing_started;
use super::pilot::{Airspace, Pilot};
use crate::engine::{BATCH, Lane, PathStep, Wanted};
use crate::failure::Failure;
use crate::reading::{Completed, Read, Target};
use crate::stopwatch::{Stopwatch, Task};

/// So many reads in a row whose data were there at once, and the page cache is asked first.
const STREAK: usize = 32;

/// What the consumers share.
pub(super) struct Shared {
    pub(super) target: Target,
    /// The most requests that a consumer has on their way.
    pub(super) depth: usize,
    pub(super) rule: AsyncRule,
    pub(super) helpers: Helpers,
    /// Whether the work may be spread over other cores at all.
    pub(super) may_spread: bool,
    /// What the pilots share.
    pub(super) airspace: Airspace,
    /// Requests that were given to worker threads of the kernel.
    pub(super) asynchronous: AtomicU64,
    /// The pilots' decisions.
    pub(super) path: Mutex<Vec<PathStep>>,
}

/// What one consumer has of the engine `hybrid`.
pub(super) struct HybridLane<'a> {
    engine: &'a Shared,
    consumer: usize,
    ring: RequestRing<'a>,
    pilot: Pilot,
    /// Whether requests are kept until their turn comes.
    is_lazy: bool,
    /// Reads in a row whose data were there at once.
    streak: usize,
    /// Whether all reads have hit the page cache since it was last lazy.
    is_cached: bool,
    lazy: VecDeque<Read>,
    /// Verified.
    arrived: VecDeque<Completed>,
    /// Requests that helpers have.
    handed: Vec<u64>,
    to_give: Vec<Work>,
    asynchronous: u64,
}

impl<'a> HybridLane<'a> {
    pub(super) fn new(engine: &'a Shared, consumer: usize) -> Result<Self, Failure> {
        Ok(Self {
            engine,
            consumer,
            ring: RequestRing::new(&engine.target, engine.depth)?,
            pilot: Pilot::new(
                consumer,
                engine.rule.buffered && engine.may_spread,
                engine.helpers.count(),
            ),
            // A consumer that looks no further than one request can't gain from asking the kernel to go ahead.
            is_lazy: engine.depth == 1,
            streak: 0,
            is_cached: false,
            lazy: VecDeque::with_capacity(engine.depth),
            arrived: VecDeque::with_capacity(engine.depth),
            handed: Vec::with_capacity(engine.depth),
            to_give: Vec::with_capacity(BATCH),
            asynchronous: 0,
        })
    }

    fn stage(&mut self, mut read: Read, now_ns: u64) {
        read.started_ns = now_ns;
        let copies = self.pilot.way().kernel_copies;
        let marked = copies && self.engine.rule.marks(self.ring.pending(), read.bytes());
        self.asynchronous += u64::from(marked);
        self.ring.stage(read, marked);
    }

    /// Reads a request that was kept. When its data aren't at hand, all that were kept go to the ring.
    fn read_lazily(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        read.started_ns = watch.lap(Task::Harness);
        let ended_ns = if self.engine.depth == 1 {
            self.engine.target.read(&mut read, watch)?
        } else if self.engine.target.read_if_cached(&mut read) {
            watch.lap(Task::Read)
        } else {
            watch.lap(Task::Read);
            self.lazy.push_front(read);
            self.is_cached = false;
            self.leave_laziness(watch)?;
            return Ok(None);
        };
        let latency_ns = ended_ns.saturating_sub(read.started_ns);
        let done = Unverified { read, latency_ns };
        Ok(Some(done.verified(&self.engine.target, watch)))
    }

    /// Sends what was kept to the ring.
    fn leave_laziness(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        self.is_lazy = false;
        self.streak = 0;
        let now = watch.lap(Task::Harness);
        while let Some(read) = self.lazy.pop_front() {
            self.stage(read, now);
        }
        // What helpers have not begun yet.
        let mut to_verify = Vec::new();
        while let Some(work) = self.engine.helpers.take_back(self.consumer, Wanted::Any) {
            match work {
                Work::Read(read) => {
                    self.handed.retain(|number| *number != read.number);
                    self.stage(read, now);
                }
                Work::Verify(_) => to_verify.push(work),
            }
        }
        if !to_verify.is_empty() {
            let helpers = &self.engine.helpers;
            helpers.give(self.consumer, &mut to_verify, self.pilot.way().helpers);
        }
        self.ring.submit()?;
        watch.lap(Task::Read);
        Ok(())
    }

    /// Does what no helper has begun; None when it was a read that has gone to the ring.
    fn do_work(&mut self, work: Work, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        let number = work.number();
        self.handed.retain(|other| *other != number);
        match work {
            Work::Verify(unverified) => Ok(Some(unverified.verified(&self.engine.target, watch))),
            Work::Read(read) => self.read_lazily(read, watch),
        }
    }

    /// Takes what has ended off the ring: the wanted one is verified here, the others where it is cheapest.
    fn drain(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<(), Failure> {
        let helpers = self.pilot.way().helpers;
        for _ in 0..BATCH {
            let Some(read) = self.ring.take()? else { break };
            let now = watch.lap(Task::Harness);
            let latency_ns = now.saturating_sub(read.started_ns);
            let is_wanted = match wanted {
                Wanted::Number(number) => read.number == number,
                Wanted::Any => self.arrived.is_empty(),
            };
            let done = Unverified { read, latency_ns };
            if helpers == 0 || is_wanted {
                self.arrived.push_back(done.verified(&self.engine.target, watch));
            } else {
                self.handed.push(done.read.number);
                self.to_give.push(Work::Verify(done));
            }
        }
        self.give(watch);
        Ok(())
    }

    fn give(&mut self, watch: &mut Stopwatch) {
        if !self.to_give.is_empty() {
            let helpers = &self.engine.helpers;
            helpers.give(self.consumer, &mut self.to_give, self.pilot.way().helpers);
            watch.lap(Task::HandOver);
        }
    }

    /// Looks for the request everywhere but in the ring.
    fn find(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        if let Some(completed) = take_from(&mut self.arrived, wanted) {
            return Ok(Some(completed));
        }
        if self.handed.is_empty() {
            return Ok(None);
        }
        watch.lap(Task::Harness);
        let helpers = &self.engine.helpers;
        if let Some(completed) = helpers.mailbox(self.consumer).take(wanted)? {
            watch.lap(Task::HandOver);
            self.handed.retain(|number| *number != completed.read.number);
            return Ok(Some(completed));
        }
        let taken_back = helpers.take_back(self.consumer, wanted);
        watch.lap(Task::HandOver);
        match taken_back {
            Some(work) => self.do_work(work, watch),
            None => Ok(None),
        }
    }

    fn has_handed(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Number(number) => self.handed.contains(&number),
            Wanted::Any => !self.handed.is_empty(),
        }
    }

    fn wait_somewhere(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        loop {
            if let Some(completed) = self.find(wanted, watch)? {
                return Ok(completed);
            }
            if self.lazy.front().is_some_and(|read| matches(wanted, read)) {
                if let Some(read) = self.lazy.pop_front() {
                    if let Some(completed) = self.read_lazily(read, watch)? {
                        return Ok(completed);
                    }
                    continue;
                }
            }
            if self.ring.is_ready() {
                self.drain(wanted, watch)?;
            } else if self.has_handed(wanted) {
                // A helper is at it: meanwhile something else that will be wanted.
                let other = self.engine.helpers.take_back(self.consumer, Wanted::Any);
                watch.lap(Task::HandOver);
                if let Some(work) = other {
                    let done = self.do_work(work, watch)?;
                    self.arrived.extend(done);
                    continue;
                }
                let mailbox = self.engine.helpers.mailbox(self.consumer);
                let completed = mailbox.wait(wanted, watch)?;
                self.handed.retain(|number| *number != completed.read.number);
                return Ok(completed);
            } else if self.ring.pending() > 0 {
                watch.lap(Task::Harness);
                self.ring.wait()?;
                watch.lap(Task::Read);
                self.streak = 0;
            } else {
                return Err(nothing_started());
            }
        }
    }
}

fn matches(wanted: Wanted, read: &Read) -> bool {
    match wanted {
        Wanted::Number(number) => read.number == number,
        Wanted::Any => true,
    }
}

impl Lane for HybridLane<'_> {
    fn start(&mut self, read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        if !self.is_lazy {
            self.stage(read, watch.last_ns());
        } else if self.pilot.way().helpers > 0 {
            self.handed.push(read.number);
            self.to_give.push(Work::Read(read));
        } else {
            self.lazy.push_back(read);
        }
        Ok(())
    }

    fn submit(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        watch.lap(Task::Harness);
        self.give(watch);
        if self.is_lazy {
            return Ok(());
        }
        self.ring.submit()?;
        watch.lap(Task::Read);
        // What is there already on return was copied within the system call: it was cached.
        self.streak = if self.ring.is_ready() { self.streak + 1 } else { 0 };
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        if self.pilot.is_due(watch.last_ns()) {
            self.pilot.decide(watch.usage(), &self.engine.airspace);
        }
        let completed = self.wait_somewhere(wanted, watch)?;
        self.engine.airspace.count(completed.read.bytes() as u64);
        if self.engine.depth > 1 {
            let may_be_lazy = self.engine.rule.buffered && !self.pilot.way().kernel_copies;
            let has_missed = self.engine.helpers.has_missed(self.consumer);
            self.is_cached &= !has_missed;
            if self.is_lazy && (!may_be_lazy || has_missed) {
                self.leave_laziness(watch)?;
            } else if may_be_lazy && (self.is_cached || self.streak >= STREAK) {
                self.is_lazy = true;
                self.is_cached = true;
            }
        }
        Ok(completed)
    }

    fn ready(&mut self, watch: &mut Stopwatch) -> Option<Completed> {
        // A failure is met again by the next wait.
        let completed = self.find(Wanted::Any, watch).ok().flatten()?;
        self.engine.airspace.count(completed.read.bytes() as u64);
        Some(completed)
    }

    fn finish(&mut self) {
        let helpers = &self.engine.helpers;
        while helpers.take_back(self.consumer, Wanted::Any).is_some() {}
        self.engine
            .asynchronous
            .fetch_add(self.asynchronous, Ordering::Relaxed);
        let pilot = std::mem::replace(&mut self.pilot, Pilot::new(self.consumer, false, 0));
        let mut path = self.engine.path.lock().unwrap_or_else(PoisonError::into_inner);
        path.extend(pilot.land(&self.engine.airspace));
    }
}
