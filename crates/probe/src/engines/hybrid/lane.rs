//! One consumer's part of the engine `hybrid`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::controller::Controller;
use super::helpers::{Unverified, Work};
use super::mode::Mode;
use super::shared::Shared;
use crate::device_reads::DeviceReads;
use crate::engine::{Lane, Wanted};
use crate::engines::io_uring::{RequestRing, take_from};
use crate::engines::null::nothing_started;
use crate::failure::Failure;
use crate::reading::{Completed, Read};
use crate::spec::SUBMIT_BATCH_MAX;
use crate::time::stopwatch::{Stopwatch, Task};

/// What one consumer has of the engine `hybrid`.
pub(super) struct HybridLane<'a> {
    engine: &'a Shared,
    consumer: usize,
    ring: RequestRing,
    controller: Controller,
    /// Whether nothing was started yet.
    is_first: bool,
    delivered: DeviceReads,
    /// Requests that the consumer reads when their turn comes.
    deferred: VecDeque<Read>,
    /// Verified.
    arrived: VecDeque<Completed>,
    /// Requests that helpers have.
    with_helpers: Vec<u64>,
    to_give: Vec<Work>,
    asynchronous: u64,
}

impl<'a> HybridLane<'a> {
    pub(super) fn new(engine: &'a Shared, consumer: usize) -> Result<Self, Failure> {
        Ok(Self {
            engine,
            consumer,
            ring: RequestRing::new(Arc::clone(&engine.target), engine.depth, false)?,
            controller: Controller::new(consumer, engine.modes(), engine.depth),
            is_first: true,
            delivered: DeviceReads::of_this_process(),
            deferred: VecDeque::with_capacity(engine.depth),
            arrived: VecDeque::with_capacity(engine.depth),
            with_helpers: Vec::with_capacity(engine.depth),
            to_give: Vec::with_capacity(SUBMIT_BATCH_MAX),
            asynchronous: 0,
        })
    }

    /// The first request tells whether the page cache has the data; None when it was read thereby.
    fn detect_cache(&mut self, mut read: Read, watch: &mut Stopwatch) -> Option<Read> {
        self.is_first = false;
        if !self.engine.rule.buffered || self.engine.depth == 1 {
            return Some(read);
        }
        if self.engine.advises {
            // What is announced comes into the page cache in time.
            self.controller.restart(true);
            self.controller.skip_first_trial();
            return Some(read);
        }
        read.started_ns = watch.lap(Task::Harness);
        let is_cached = self.engine.target.read_if_cached(&mut read);
        let ended_ns = watch.lap(Task::Read);
        self.controller.restart(is_cached);
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
        let marked = self.engine.rule.applies(self.ring.pending(), read.bytes());
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

    /// Lets the controller decide; what was kept goes with the new mode, what is on its way stays on its own.
    fn decide(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        let before = self.controller.mode();
        // What is announced is read by the consumer whether the page cache has it already or gets it.
        let delivered = || {
            if self.engine.advises {
                0
            } else {
                self.delivered.read_bytes()
            }
        };
        self.controller
            .decide(watch.usage(), &self.engine.coordinator, delivered);
        if self.controller.mode() == Mode::Ring && before != Mode::Ring {
            let now = watch.lap(Task::Harness);
            while let Some(read) = self.deferred.pop_front() {
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
        self.with_helpers.retain(|other| *other != number);
        match work {
            Work::Verify(unverified) => Ok(unverified.verified(&self.engine.target, watch)),
            Work::Read(read) => self.read_own(read, watch),
        }
    }

    /// Takes what has ended off the ring: the wanted one is verified here, the others where it is cheapest.
    fn drain(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<(), Failure> {
        let is_shared = !self.engine.rule.buffered && self.controller.mode().helpers() > 0;
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
                self.with_helpers.push(done.read.number);
                self.to_give.push(Work::Verify(done));
            }
        }
        self.give(watch);
        Ok(())
    }

    fn give(&mut self, watch: &mut Stopwatch) {
        if !self.to_give.is_empty() {
            let helpers = &self.engine.helpers;
            helpers.give(self.consumer, &mut self.to_give, self.controller.mode());
            watch.lap(Task::HandOver);
        }
    }

    /// Looks for the request everywhere but in the ring.
    fn find(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        if let Some(completed) = take_from(&mut self.arrived, wanted) {
            return Ok(Some(completed));
        }
        if self.with_helpers.is_empty() {
            return Ok(None);
        }
        watch.lap(Task::Harness);
        let helpers = &self.engine.helpers;
        if let Some(completed) = helpers.mailbox(self.consumer).take(wanted)? {
            watch.lap(Task::HandOver);
            self.with_helpers
                .retain(|number| *number != completed.read.number);
            return Ok(Some(completed));
        }
        let taken_back = self.take_back(wanted);
        watch.lap(Task::HandOver);
        taken_back.map(|work| self.do_work(work, watch)).transpose()
    }

    /// What no helper has begun, unless all is left to them.
    fn take_back(&self, wanted: Wanted) -> Option<Work> {
        match self.controller.mode() {
            Mode::Given(_) => None,
            _ => self.engine.helpers.take_back(self.consumer, wanted),
        }
    }

    fn is_with_helper(&self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Number(number) => self.with_helpers.contains(&number),
            Wanted::Any => !self.with_helpers.is_empty(),
        }
    }

    fn find_or_wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        loop {
            if let Some(completed) = self.find(wanted, watch)? {
                return Ok(completed);
            }
            if self.deferred.front().is_some_and(|read| matches(wanted, read)) {
                if let Some(read) = self.deferred.pop_front() {
                    return self.read_own(read, watch);
                }
            }
            if self.ring.is_ready() {
                self.drain(wanted, watch)?;
            } else if self.is_with_helper(wanted) {
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
                self.with_helpers
                    .retain(|number| *number != completed.read.number);
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

fn matches(wanted: Wanted, read: &Read) -> bool {
    match wanted {
        Wanted::Number(number) => read.number == number,
        Wanted::Any => true,
    }
}

impl Lane for HybridLane<'_> {
    fn start(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.is_first {
            match self.detect_cache(read, watch) {
                Some(unread) => read = unread,
                None => return Ok(()),
            }
        }
        match self.controller.mode() {
            Mode::Own => {
                if self.engine.advises {
                    watch.lap(Task::Harness);
                    self.engine.target.announce(&read);
                    watch.lap(Task::Read);
                }
                self.deferred.push_back(read);
            }
            Mode::Shared(_) | Mode::Given(_) if self.engine.rule.buffered => {
                read.started_ns = watch.last_ns();
                self.with_helpers.push(read.number);
                self.to_give.push(Work::Read(read));
            }
            Mode::Ring | Mode::Shared(_) | Mode::Given(_) => self.stage(read, watch.last_ns()),
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
        if self.controller.is_due(watch.last_ns()) {
            self.decide(watch)?;
        }
        let completed = self.find_or_wait(wanted, watch)?;
        self.engine.coordinator.count(completed.read.bytes() as u64);
        Ok(completed)
    }

    fn ready(&mut self, watch: &mut Stopwatch) -> Option<Completed> {
        // A failure is met again by the next wait.
        let completed = self.find(Wanted::Any, watch).ok().flatten()?;
        self.engine.coordinator.count(completed.read.bytes() as u64);
        Some(completed)
    }

    fn finish(&mut self) {
        let helpers = &self.engine.helpers;
        while helpers.take_back(self.consumer, Wanted::Any).is_some() {}
        self.engine
            .asynchronous
            .fetch_add(self.asynchronous, Ordering::Relaxed);
        let controller = std::mem::replace(
            &mut self.controller,
            Controller::new(self.consumer, vec![Mode::Own], 0),
        );
        let mut decisions = self
            .engine
            .decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        decisions.extend(controller.finish(&self.engine.coordinator));
    }
}
