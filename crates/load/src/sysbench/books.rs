//! What one thread counts of a run by sysbench's rules.

use crate::clock::ThreadTimes;
use crate::errors::Errors;
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
    /// With a rate: how many are due and wait for a connection, and how many run.
    pub queued: usize,
    /// See `queued`.
    pub running: usize,
}

impl Seen {
    /// What it has, which then begins anew; what waits and runs stays.
    pub fn take(&mut self) -> Self {
        let next = Self {
            queued: self.queued,
            running: self.running,
            ..Self::default()
        };
        std::mem::replace(self, next)
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
