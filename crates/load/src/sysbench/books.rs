//! What one thread counts of a run by sysbench's rules.

use crate::clock::ThreadTimes;
use crate::errors::Errors;
use crate::run::queue::Queue;
use crate::timed::Timed;
use crate::transaction::Queries;

/// What one connection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfConnection {
    /// Its events.
    pub events: u64,
    /// The time that they took, together.
    pub busy_ns: u128,
}

/// Counts of one thread, or of all.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Queries of all events.
    pub queries: Queries,
    /// Events that were begun again, by the SQLSTATE of what ended them.
    pub errors: Errors,
    /// Events, from when they began.
    pub latency: Timed,
    /// With a rate: the same from when they were due.
    pub from_due: Timed,
    /// With a rate: how many were due and not begun when time was over.
    pub queued: u64,
    /// Connections that were opened anew.
    pub reconnects: u64,
    /// By connection.
    pub connections: Vec<OfConnection>,
    /// What the threads took of the processors.
    pub times_of_threads: ThreadTimes,
}

impl Books {
    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.queries.merge(other.queries);
        self.errors.merge(&other.errors);
        self.latency.merge(&other.latency);
        self.from_due.merge(&other.from_due);
        self.queued += other.queued;
        self.reconnects += other.reconnects;
        self.connections.extend_from_slice(&other.connections);
        self.times_of_threads.merge(other.times_of_threads);
    }
}

/// What is told of an interval.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Queries of events that ended in it.
    pub queries: Queries,
    /// Events that were begun again.
    pub errors: u64,
    /// Connections that were opened anew.
    pub reconnects: u64,
    /// Events that ended.
    pub latency: Timed,
    /// With a rate: what is due and waits for a connection, how many that are, and how many run.
    pub queue: Option<Queue>,
    /// See `queue`.
    pub queued: u64,
    /// See `queue`.
    pub running: usize,
}

impl Seen {
    /// What it has at an instant, and begins anew then; what waits and runs stays. The queue is by the clock: where
    /// no event ends a thread has nothing to tell, and its queue grows.
    pub fn take(&mut self, now_ns: u64) -> Self {
        let queued = self.queue.as_mut().map_or(0, |queue| queue.length(now_ns));
        let next = Self {
            queue: self.queue.take(),
            running: self.running,
            ..Self::default()
        };
        let mut taken = std::mem::replace(self, next);
        taken.queued = queued;
        taken
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.queries.merge(other.queries);
        self.errors += other.errors;
        self.reconnects += other.reconnects;
        self.latency.merge(&other.latency);
        self.queued += other.queued;
        self.running += other.running;
    }
}
