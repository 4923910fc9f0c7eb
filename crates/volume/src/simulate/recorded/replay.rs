//! Events in the order of their times: answers come, lanes have computed, delays are over.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::dependencies::{Dependencies, NO_LOG, Role, Step, WRITE_BYTES_MAX};
use super::locks::Locks;
use super::processors::WorkClock;
use crate::request::Request;

/// A reading of the work clock, in an order; none of them is no number.
#[derive(Clone, Copy, PartialEq)]
struct Reading(f64);

impl Eq for Reading {}

impl PartialOrd for Reading {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reading {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One write of a log is on its way; the others wait for it together.
#[derive(Clone, Default)]
struct Log {
    /// The requests of lanes that wait for the write on its way.
    on_its_way: Vec<u32>,
    /// Whether a write is on its way, or the log is being passed on to who waits.
    is_taken: bool,
    /// Those that wait for the next one.
    waiting: Vec<u32>,
    /// The first byte of those that wait, and the end.
    start: u64,
    end: u64,
}

struct Replay<'a, Serve> {
    steps: &'a [Step],
    /// Where the places of each volume begin.
    begins: &'a [u64],
    passing_on_ns: u64,
    serve: Serve,
    clock: WorkClock,
    /// By the reading at which each has computed; behind the steps stand logs that are passed on.
    computing: BinaryHeap<Reverse<(Reading, u32)>>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    on_the_way: BinaryHeap<Reverse<(u64, u32)>>,
    logs: Vec<Log>,
    locks: Locks,
    /// The next request that a free lane may claim.
    next: usize,
    /// How many requests of lanes are done; of a log's, each of those that were written together.
    done: u32,
    last_done_ns: u64,
    /// When the requests were issued by which milestones are told.
    issued: HashMap<u32, u64>,
}

/// What a replay takes, and when it reached the milestones of the recording; in nanoseconds.
pub(super) struct Replayed {
    pub(super) elapsed_ns: u64,
    pub(super) milestones_ns: Vec<u64>,
    /// How many waited for locks, on average.
    pub(super) lock_waits: f64,
}

/// How long it takes with these answers. `serve` gets requests in the order of arrival, each with the number of its
/// volume, and says when it is done.
pub(super) fn replay(dependencies: &Dependencies, serve: impl FnMut(usize, &Request) -> u64) -> Replayed {
    let mut replay = Replay {
        steps: &dependencies.steps,
        begins: &dependencies.begins,
        passing_on_ns: dependencies.passing_on_ns,
        serve,
        clock: WorkClock::new(dependencies.processors),
        computing: BinaryHeap::new(),
        due: BinaryHeap::new(),
        on_the_way: BinaryHeap::new(),
        logs: vec![Log::default(); dependencies.logs],
        locks: Locks::new(dependencies.lock_chance, dependencies.steps.len()),
        next: 0,
        done: 0,
        last_done_ns: 0,
        issued: HashMap::new(),
    };
    replay.schedule_followers(0, 0);
    replay.skip_to_claimed();
    replay.claim(0);
    while replay.step() {}
    let elapsed_ns = replay.last_done_ns + dependencies.tail_ns;
    let mut last_ns = 0;
    let milestones_ns = dependencies.milestones.iter().map(|milestone| {
        let told_ns = milestone
            .step
            .and_then(|step| replay.issued.get(&step))
            .copied()
            .unwrap_or(elapsed_ns);
        // Requests of several lanes may change places.
        last_ns = told_ns.saturating_sub(milestone.lead_ns).max(last_ns);
        last_ns
    });
    Replayed {
        milestones_ns: milestones_ns.collect(),
        elapsed_ns,
        lock_waits: replay.locks.waited_ns as f64 / elapsed_ns.max(1) as f64,
    }
}

impl<Serve: FnMut(usize, &Request) -> u64> Replay<'_, Serve> {
    /// The next event; false when there is none.
    #[inline]
    fn step(&mut self) -> bool {
        let done_ns = self.on_the_way.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let due_ns = self.due.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let computed_ns = self.computing.peek().map_or(u64::MAX, |Reverse((reading, _))| {
            self.clock.when(reading.0, self.computing.len())
        });
        let first_ns = done_ns.min(due_ns).min(computed_ns);
        if first_ns == u64::MAX {
            return false;
        }
        self.clock.advance(first_ns, self.computing.len());
        // Who is free at the same moment is free before the next request.
        if done_ns == first_ns {
            if let Some(Reverse((_, index))) = self.on_the_way.pop() {
                self.done(index, first_ns);
            }
        } else if computed_ns == first_ns {
            if let Some(Reverse((_, index))) = self.computing.pop() {
                match (index as usize).checked_sub(self.steps.len()) {
                    Some(log) => self.write(log, first_ns),
                    None => self.computed(index, first_ns),
                }
            }
        } else if let Some(Reverse((_, index))) = self.due.pop() {
            self.issue(index, first_ns);
        }
        true
    }

    fn done(&mut self, index: u32, now_ns: u64) {
        self.last_done_ns = now_ns;
        let log = self.steps[index as usize].log;
        if log == NO_LOG {
            self.done += 1;
            return self.claim(now_ns);
        }
        let log = log as usize;
        let ended = std::mem::take(&mut self.logs[log].on_its_way);
        #[allow(clippy::cast_possible_truncation)] // as the number of requests
        let count = ended.len() as u32;
        self.done += count;
        self.claim(now_ns);
        if self.locks.are_taken() {
            for index in &ended {
                if let Some(next) = self.locks.end(*index, now_ns) {
                    self.compute_rest(next, now_ns);
                }
            }
        }
        if self.logs[log].waiting.is_empty() {
            self.logs[log].is_taken = false;
        } else {
            // Who waited has to wake up and to write; more may come meanwhile.
            let reading = self.clock.advance(now_ns, self.computing.len());
            let passed_on = Reading(reading + self.passing_on_ns as f64);
            #[allow(clippy::cast_possible_truncation)] // there are fewer logs than requests
            self.computing
                .push(Reverse((passed_on, (self.steps.len() + log) as u32)));
        }
    }

    /// Lets the lanes that are free now compute for their requests.
    fn claim(&mut self, now_ns: u64) {
        let steps = self.steps;
        while let Some(step) = steps.get(self.next) {
            if step.after_done > self.done {
                return;
            }
            let reading = self.clock.advance(now_ns, self.computing.len());
            let after_ns = if self.takes_lock(step) {
                step.after_ns / 2
            } else {
                step.after_ns
            };
            let computed = Reading(reading + after_ns as f64);
            #[allow(clippy::cast_possible_truncation)] // as the number of requests
            self.computing.push(Reverse((computed, self.next as u32)));
            self.next += 1;
            self.skip_to_claimed();
        }
    }

    /// Whether who issues it takes a lock before, which is held until it is done.
    fn takes_lock(&self, step: &Step) -> bool {
        self.locks.are_taken() && step.log != NO_LOG
    }

    /// A lane has computed all of it, or until it needs a lock.
    fn computed(&mut self, index: u32, now_ns: u64) {
        if !self.takes_lock(&self.steps[index as usize]) || self.locks.has(index) {
            self.issue(index, now_ns);
        } else if self.locks.take(index, now_ns) {
            self.compute_rest(index, now_ns);
        }
    }

    /// What a lane computes with its lock.
    fn compute_rest(&mut self, index: u32, now_ns: u64) {
        let after_ns = self.steps[index as usize].after_ns;
        let reading = self.clock.advance(now_ns, self.computing.len());
        let computed = Reading(reading + (after_ns - after_ns / 2) as f64);
        self.computing.push(Reverse((computed, index)));
    }

    fn skip_to_claimed(&mut self) {
        while self
            .steps
            .get(self.next)
            .is_some_and(|step| step.role != Role::Claimed)
        {
            self.next += 1;
        }
    }

    #[inline]
    fn issue(&mut self, index: u32, now_ns: u64) {
        let step = &self.steps[index as usize];
        if step.role == Role::WriteBack {
            self.submit(index, step.offset, step.length, now_ns);
            return;
        }
        if step.is_milestone {
            self.issued.insert(index, now_ns);
        }
        self.schedule_followers(index as usize + 1, now_ns);
        if step.log == NO_LOG {
            let done_ns = self.submit(index, step.offset, step.length, now_ns);
            self.on_the_way.push(Reverse((done_ns, index)));
            return;
        }
        let log = &mut self.logs[step.log as usize];
        let end = step.offset + u64::from(step.length);
        if log.waiting.is_empty() {
            (log.start, log.end) = (step.offset, end);
        } else {
            (log.start, log.end) = (log.start.min(step.offset), log.end.max(end));
        }
        log.waiting.push(index);
        if !log.is_taken {
            self.write(step.log as usize, now_ns);
        }
    }

    /// Writes what waits of a log.
    fn write(&mut self, log: usize, now_ns: u64) {
        let log = &mut self.logs[log];
        std::mem::swap(&mut log.on_its_way, &mut log.waiting);
        // The last one tells of all of them.
        let (start, Some(index)) = (log.start, log.on_its_way.last().copied()) else {
            return;
        };
        log.is_taken = true;
        #[allow(clippy::cast_possible_truncation)] // bounded by the minimum
        let length = (log.end - log.start).min(u64::from(WRITE_BYTES_MAX)) as u32;
        let done_ns = self.submit(index, start, length, now_ns);
        self.on_the_way.push(Reverse((done_ns, index)));
    }

    /// Write-back that comes after a request of a lane, and a lane that begins after it.
    #[inline]
    fn schedule_followers(&mut self, first: usize, now_ns: u64) {
        for index in first..self.steps.len() {
            let step = &self.steps[index];
            if step.role == Role::Claimed {
                return;
            }
            #[allow(clippy::cast_possible_truncation)] // as the number of requests
            self.due
                .push(Reverse((now_ns.saturating_add(step.after_ns), index as u32)));
            if step.role == Role::Begins {
                return;
            }
        }
    }

    #[inline]
    fn submit(&mut self, index: u32, offset: u64, length: u32, arrival_ns: u64) -> u64 {
        // The first begins at 0.
        let volume = self.begins.partition_point(|begin| *begin <= offset) - 1;
        let request = Request {
            arrival_ns,
            kind: self.steps[index as usize].kind,
            offset: offset - self.begins[volume],
            length,
        };
        (self.serve)(volume, &request).max(arrival_ns)
    }
}
