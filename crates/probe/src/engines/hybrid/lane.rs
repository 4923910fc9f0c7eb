//! One consumer's part of the engine `hybrid`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::io_uring::{AsyncRule, RequestRing, take_from};
use super::super::null::nothing_started;
use super::controller::Pilot;
use super::helpers::{Helpers, Unverified, Work};
use super::mode::{Airspace, Way};
use crate::device_reads::Delivered;
use crate::engine::{Lane, PathStep, Wanted};
use crate::failure::Failure;
use crate::reading::{Completed, Read, Target};
use crate::spec::SUBMIT_BATCH_MAX;
use crate::time::stopwatch::{Stopwatch, Task};

/// What the consumers share.
pub(super) struct Shared {
    pub(super) target: Arc<Target>,
    /// The most requests that a consumer has on their way.
    pub(super) depth: usize,
    pub(super) rule: AsyncRule,
    /// Whether requests that the consumer reads itself are announced, as `sync` does where pages are left out.
    pub(super) advises: bool,
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
    ring: RequestRing,
    pilot: Pilot,
    /// Whether nothing was started yet.
    is_first: bool,
    delivered: Delivered,
    /// Requests that the consumer reads when their turn comes.
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
            ring: RequestRing::new(Arc::clone(&engine.target), engine.depth, false)?,
            pilot: Pilot::new(consumer, ways(engine), engine.depth),
            is_first: true,
            delivered: Delivered::to_this_process(),
            lazy: VecDeque::with_capacity(engine.depth),
            arrived: VecDeque::with_capacity(engine.depth),
            handed: Vec::with_capacity(engine.depth),
            to_give: Vec::with_capacity(SUBMIT_BATCH_MAX),
            asynchronous: 0,
        })
    }

    /// The first request tells whether the page cache has the data; None when it was read thereby.
    fn set_out(&mut self, mut read: Read, watch: &mut Stopwatch) -> Option<Read> {
        self.is_first = false;
        if !self.engine.rule.buffered || self.engine.depth == 1 {
            return Some(read);
        }
        if self.engine.advises {
            // What is announced comes into the page cache in time.
            self.pilot.set_out(true);
            self.pilot.skip_first_trial();
            return Some(read);
        }
        read.started_ns = watch.lap(Task::Harness);
        let is_cached = self.engine.target.read_if_cached(&mut read);
        let ended_ns = watch.lap(Task::Read);
        self.pilot.set_out(is_cached);
        if !is_cached {
            return Some(read);
        }
        let latency_ns = ended_ns.saturating_sub(read.started_ns);
        let done = Unverified { read, latency_ns };
        self.arrived.push_back(done.verified(&self.engine.target, watch));
        None
    }

    fn stage(&mut self, mut read: Read, now_ns: u64) {
        read.started_ns = now_ns;
        let marked = self.engine.rule.marks(self.ring.pending(), read.bytes());
        self.asynchronous += u64::from(marked);
        self.ring.stage(read, marked);
    }

    /// Reads a request that was kept.
    fn read_own(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        read.started_ns = watch.lap(Task::Harness);
        let ended_ns = self.engine.target.read(&mut read, watch)?;
        let latency_ns = ended_ns.saturating_sub(read.started_ns);
        let done = Unverified { read, latency_ns };
        Ok(done.verified(&self.engine.target, watch))
    }

    /// Lets the pilot decide; what was kept goes with the new way, what is on its way stays on its own.
    fn decide(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        let before = self.pilot.way();
        // What is announced is read by the consumer whether the page cache has it already or gets it.
        let delivered = || {
            if self.engine.advises {
                0
            } else {
                self.delivered.read_bytes()
            }
        };
        self.pilot.decide(watch.usage(), &self.engine.airspace, delivered);
        if self.pilot.way() == Way::Ring && before != Way::Ring {
            let now = watch.lap(Task::Harness);
            while let Some(read) = self.lazy.pop_front() {
                self.stage(read, now);
            }
            self.ring.submit()?;
            watch.lap(Task::Read);
        }
        Ok(())
    }

    /// Does what no helper has begun.
    fn do_work(&mut self, work: Work, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        let number = work.number();
        self.handed.retain(|other| *other != number);
        match work {
            Work::Verify(unverified) => Ok(unverified.verified(&self.engine.target, watch)),
            Work::Read(read) => self.read_own(read, watch),
        }
    }

    /// Takes what has ended off the ring: the wanted one is verified here, the others where it is cheapest.
    fn drain(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<(), Failure> {
        let is_shared = !self.engine.rule.buffered && self.pilot.way().helpers() > 0;
        for _ in 0..SUBMIT_BATCH_MAX {
            let Some(read) = self.ring.take()? else { break };
            let now = watch.lap(Task::Harness);
            let latency_ns = now.saturating_sub(read.started_ns);
            let is_wanted = match wanted {
                Wanted::Number(number) => read.number == number,
                Wanted::Any => self.arrived.is_empty(),
            };
            let done = Unverified { read, latency_ns };
            if !is_shared || is_wanted {
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
            helpers.give(self.consumer, &mut self.to_give, self.pilot.way());
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
        let taken_back = self.take_back(wanted);
        watch.lap(Task::HandOver);
        taken_back.map(|work| self.do_work(work, watch)).transpose()
    }

    /// What no helper has begun, unless all is left to them.
    fn take_back(&self, wanted: Wanted) -> Option<Work> {
        match self.pilot.way() {
            Way::Given(_) => None,
            _ => self.engine.helpers.take_back(self.consumer, wanted),
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
                    return self.read_own(read, watch);
                }
            }
            if self.ring.is_ready() {
                self.drain(wanted, watch)?;
            } else if self.has_handed(wanted) {
                // A helper is at it: meanwhile something else that will be wanted.
                let other = self.take_back(Wanted::Any);
                watch.lap(Task::HandOver);
                if let Some(work) = other {
                    let done = self.do_work(work, watch)?;
                    self.arrived.push_back(done);
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
            } else {
                return Err(nothing_started());
            }
        }
    }
}

/// The ways that can be flown here, in the order of their costs.
fn ways(engine: &Shared) -> Vec<Way> {
    if engine.depth == 1 {
        // A consumer that looks no further than one request can't gain from asking the kernel to go ahead.
        return vec![Way::Own];
    }
    let mut ways = match engine.rule.buffered {
        true => vec![Way::Own, Way::Ring],
        false => vec![Way::Ring],
    };
    // Few pages at a time are read sooner than handed over.
    if engine.may_spread && !engine.advises {
        let most = engine.helpers.count();
        let growing = std::iter::successors(Some(1), |count| Some(count * 3));
        ways.extend(growing.take_while(|count| *count < most).map(Way::Shared));
        ways.extend([Way::Shared(most), Way::Given(most)]);
    }
    ways
}

fn matches(wanted: Wanted, read: &Read) -> bool {
    match wanted {
        Wanted::Number(number) => read.number == number,
        Wanted::Any => true,
    }
}

impl Lane for HybridLane<'_> {
    fn start(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.is_first {
            match self.set_out(read, watch) {
                Some(unread) => read = unread,
                None => return Ok(()),
            }
        }
        match self.pilot.way() {
            Way::Own => {
                if self.engine.advises {
                    watch.lap(Task::Harness);
                    self.engine.target.announce(&read);
                    watch.lap(Task::Read);
                }
                self.lazy.push_back(read);
            }
            Way::Shared(_) | Way::Given(_) if self.engine.rule.buffered => {
                read.started_ns = watch.last_ns();
                self.handed.push(read.number);
                self.to_give.push(Work::Read(read));
            }
            Way::Ring | Way::Shared(_) | Way::Given(_) => self.stage(read, watch.last_ns()),
        }
        Ok(())
    }

    fn submit(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        watch.lap(Task::Harness);
        self.give(watch);
        if self.ring.pending() > 0 {
            self.ring.submit()?;
            watch.lap(Task::Read);
        }
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        if self.pilot.is_due(watch.last_ns()) {
            self.decide(watch)?;
        }
        let completed = self.wait_somewhere(wanted, watch)?;
        self.engine.airspace.count(completed.read.bytes() as u64);
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
        let pilot = std::mem::replace(&mut self.pilot, Pilot::new(self.consumer, vec![Way::Own], 0));
        let mut path = self.engine.path.lock().unwrap_or_else(PoisonError::into_inner);
        path.extend(pilot.land(&self.engine.airspace));
    }
}
