//! `hybrid`: pgassay's own. Rings as `io_uring`, with the work spread only while the consumer's core is the limit.
//!
//! Three things are decided as it runs. Requests whose data are in the page cache are read when their turn comes, by
//! a system call that fails rather than waits: no ring could be cheaper, and the pages are still in the processor's
//! cache when they are verified. The first that isn't there sends the whole look-ahead to the ring. And a [`Pilot`]
//! decides whether worker threads of the kernel copy, and how many helpers verify.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use rustix::io::{ReadWriteFlags, preadv2};

use super::helpers::{Helpers, Unverified};
use super::io_uring::{AsyncRule, RequestRing, take_from};
use super::null::nothing_started;
use super::pilot::Pilot;
use crate::engine::{BATCH, Engine, EngineReport, Lane, PathStep, Wanted};
use crate::failure::Failure;
use crate::reading::{Completed, Read, Target};
use crate::spec::CellSpec;
use crate::stopwatch::{Stopwatch, Task};

const HELPERS_MAX: usize = 8;
/// So many reads in a row whose data were there at once, and the page cache is asked first.
const STREAK: usize = 32;

/// The engine.
pub struct Hybrid {
    target: Target,
    depth: usize,
    rule: AsyncRule,
    helpers: Helpers,
    asynchronous: AtomicU64,
    path: Mutex<Vec<PathStep>>,
}

impl Hybrid {
    /// An engine with a helper for each core but one, most of which sleep.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new(target: Target, depth: usize, spec: &CellSpec) -> Result<Self, Failure> {
        let cores = available_parallelism().map_or(1, usize::from);
        let helpers = if target.verify {
            (cores - 1).min(HELPERS_MAX)
        } else {
            0
        };
        Ok(Self {
            target,
            depth,
            rule: AsyncRule {
                buffered: !spec.direct,
                major: spec.major,
            },
            helpers: Helpers::new(helpers, spec.consumers)?,
            asynchronous: AtomicU64::new(0),
            path: Mutex::default(),
        })
    }
}

impl Engine for Hybrid {
    fn threads(&self) -> usize {
        self.helpers.count()
    }

    fn serve(&self, index: usize, watch: &mut Stopwatch) {
        self.helpers.serve(index, &self.target, watch);
    }

    fn lane(&self, consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(HybridLane {
            engine: self,
            consumer,
            ring: RequestRing::new(&self.target, self.depth)?,
            pilot: Pilot::new(consumer, self.rule.buffered, self.helpers.count()),
            // A consumer that looks no further than one request can't gain from asking the kernel to go ahead.
            is_lazy: self.depth == 1,
            streak: 0,
            lazy: VecDeque::with_capacity(self.depth),
            arrived: VecDeque::with_capacity(self.depth),
            handed: Vec::with_capacity(self.depth),
            unverified: Vec::with_capacity(BATCH),
            asynchronous: 0,
        }))
    }

    fn retire(&self) {
        self.helpers.retire();
    }

    fn report(&self) -> EngineReport {
        let mut path = self.path.lock().unwrap_or_else(PoisonError::into_inner).clone();
        path.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        EngineReport {
            asynchronous_requests: self.asynchronous.load(Ordering::Relaxed),
            path,
            ..EngineReport::default()
        }
    }
}

struct HybridLane<'a> {
    engine: &'a Hybrid,
    consumer: usize,
    ring: RequestRing<'a>,
    pilot: Pilot,
    /// Whether requests are kept until their turn comes.
    is_lazy: bool,
    /// Reads in a row whose data were there at once.
    streak: usize,
    lazy: VecDeque<Read>,
    /// Verified.
    arrived: VecDeque<Completed>,
    /// Requests that helpers have.
    handed: Vec<u64>,
    unverified: Vec<Unverified>,
    asynchronous: u64,
}

impl HybridLane<'_> {
    fn stage(&mut self, mut read: Read, now_ns: u64) {
        read.started_ns = now_ns;
        let copies = self.pilot.way().kernel_copies;
        let marked = copies && self.engine.rule.marks(self.ring.pending(), read.bytes());
        self.asynchronous += u64::from(marked);
        self.ring.stage(read, marked);
    }

    /// Reads the request whose turn it is. When its data aren't at hand, all requests go to the ring.
    fn read_lazily(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        read.started_ns = watch.lap(Task::Harness);
        let ended_ns = if self.engine.depth == 1 {
            self.engine.target.read(&mut read, watch)?
        } else if read_if_cached(&self.engine.target, &mut read) {
            watch.lap(Task::Read)
        } else {
            let now = watch.lap(Task::Read);
            self.is_lazy = false;
            self.streak = 0;
            self.stage(read, now);
            while let Some(read) = self.lazy.pop_front() {
                self.stage(read, now);
            }
            self.ring.submit()?;
            watch.lap(Task::Read);
            return Ok(None);
        };
        let latency_ns = ended_ns.saturating_sub(read.started_ns);
        let done = Unverified { read, latency_ns };
        Ok(Some(done.verified(&self.engine.target, watch)))
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
                self.unverified.push(done);
            }
        }
        if !self.unverified.is_empty() {
            let helpers_of_all = &self.engine.helpers;
            helpers_of_all.give(self.consumer, &mut self.unverified, helpers);
            watch.lap(Task::HandOver);
        }
        Ok(())
    }

    /// Looks for the request everywhere but in the ring.
    fn find(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Option<Completed>, Failure> {
        if let Some(completed) = take_from(&mut self.arrived, wanted) {
            return Ok(Some(completed));
        }
        if !self.has_handed(wanted) {
            return Ok(None);
        }
        watch.lap(Task::Harness);
        let helpers = &self.engine.helpers;
        let mut found = helpers.mailbox(self.consumer).take(wanted)?;
        if found.is_none() {
            let taken_back = helpers.take_back(self.consumer, wanted);
            watch.lap(Task::HandOver);
            found = taken_back.map(|work| work.verified(&self.engine.target, watch));
        }
        watch.lap(Task::HandOver);
        if let Some(completed) = &found {
            self.handed.retain(|number| *number != completed.read.number);
        }
        Ok(found)
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
                // A helper is at it.
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

/// Reads from the page cache alone; `false` when that isn't all there, and whenever anything is amiss, which the ring
/// will tell more of.
fn read_if_cached(target: &Target, read: &mut Read) -> bool {
    let (offset, bytes) = (read.offset(), read.bytes());
    let mut parts = [IoSliceMut::new(&mut read.buffer[..bytes])];
    preadv2(&*target.file, &mut parts, offset, ReadWriteFlags::NOWAIT) == Ok(bytes)
}

impl Lane for HybridLane<'_> {
    fn start(&mut self, read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.is_lazy {
            self.lazy.push_back(read);
        } else {
            self.stage(read, watch.last_ns());
        }
        Ok(())
    }

    fn submit(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.is_lazy {
            return Ok(());
        }
        watch.lap(Task::Harness);
        self.ring.submit()?;
        watch.lap(Task::Read);
        // What is there already on return was copied within the system call: it was cached.
        self.streak = if self.ring.is_ready() { self.streak + 1 } else { 0 };
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        if self.pilot.is_due(watch.last_ns()) {
            self.pilot.decide(watch.usage());
        }
        let completed = self.wait_somewhere(wanted, watch)?;
        self.pilot.count(completed.read.bytes() as u64);
        let way = self.pilot.way();
        if self.engine.depth > 1 {
            let may_be_lazy = self.engine.rule.buffered && !way.kernel_copies && way.helpers == 0;
            if !may_be_lazy && self.is_lazy {
                self.leave_laziness(watch)?;
            } else if may_be_lazy && self.streak >= STREAK {
                self.is_lazy = true;
            }
        }
        Ok(completed)
    }

    fn ready(&mut self, watch: &mut Stopwatch) -> Option<Completed> {
        // A failure is met again by the next wait.
        let completed = self.find(Wanted::Any, watch).ok().flatten()?;
        self.pilot.count(completed.read.bytes() as u64);
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
        path.extend(pilot.into_path());
    }
}

impl HybridLane<'_> {
    /// Sends what was kept to the ring.
    fn leave_laziness(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        self.is_lazy = false;
        self.streak = 0;
        let now = watch.lap(Task::Harness);
        while let Some(read) = self.lazy.pop_front() {
            self.stage(read, now);
        }
        self.ring.submit()?;
        watch.lap(Task::Read);
        Ok(())
    }
}
