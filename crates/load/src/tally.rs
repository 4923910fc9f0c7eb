//! What is counted of a load: the sums of all threads are those of the load.

use crate::connections::ConnectionCounts;
use crate::errors::Errors;
use crate::seconds::Second;
use crate::timed::Timed;

const SECOND_NS: u64 = 1_000_000_000;

/// When a transaction was due and when it began, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// When it was due; in a closed loop when it began.
    pub due_ns: u64,
    /// When its first statement was sent.
    pub sent_ns: u64,
    /// For how long the load generator alone held it up: it was due, a connection was free, and it did not begin.
    pub held_ns: u64,
    /// For how long it waited for a connection, where clients share them or they come and go.
    pub waited_ns: u64,
    /// For how long its client let it lie idle.
    pub paused_ns: u64,
    /// Which of the scripts it is of.
    pub kind: usize,
}

impl Timing {
    /// Of a transaction that begins when it is due.
    pub fn at_once(now_ns: u64, kind: usize) -> Self {
        Self {
            due_ns: now_ns,
            sent_ns: now_ns,
            kind,
            ..Self::default()
        }
    }
}

/// Counts of the measured interval.
#[derive(Clone)]
pub struct Tally {
    /// Transactions that ended within the interval.
    pub transactions: u64,
    /// Transactions that the server gave up within it (serialization failure or deadlock).
    pub errors: u64,
    /// The same by SQLSTATE.
    pub states: Errors,
    /// Transactions that ended before it.
    pub warmup_transactions: u64,
    /// Transactions that had begun by its end and ended after it.
    pub late_transactions: u64,
    /// Transactions by the second of the interval they ended in; the last may be a part of a second.
    pub seconds: Vec<Second>,
    /// Latencies from when a transaction was due. Of a closed loop: of those that ended within the interval or
    /// had begun by its end. Of an open loop: of those that were due in it.
    pub latency: Timed,
    /// Of an open loop: the same transactions from when they were sent.
    pub from_send: Timed,
    /// What of each latency the load generator itself added, as far as it can see.
    pub own_delay: Timed,
    /// Of an open loop: what of that was before the transaction was sent.
    pub held: Timed,
    /// `latency` by script, where there are several.
    pub kinds: Vec<Timed>,
    /// By statement, of all scripts one after the other, from its send to its answer: of transactions that were
    /// committed. Those behind the last that was counted are not here.
    pub statements: Vec<Timed>,
    /// What became of connections, where they come and go.
    pub connections: Option<ConnectionCounts>,
    /// What became of the arrivals; zeros of a closed loop.
    pub balance: Balance,
    /// Arrivals of the warm-up that had not begun at its end, and were dropped.
    pub warmup_dropped: u64,
    /// Transactions whose latency was above the limit.
    pub over_limit: u64,
    /// The thread's CPU time over the interval.
    pub cpu_ns: u64,
    /// That of opening connections beside it.
    pub opening_cpu_ns: u64,
    /// For how long the thread was ready to run in it and had no processor.
    pub run_queue_ns: u64,
    /// For how long it had nothing to do in it: it slept, or polled and found nothing.
    pub idle_ns: u64,
}

impl Tally {
    /// Nothing counted, for an interval of this length and so many scripts.
    pub fn new(interval_ns: u64, kinds: usize) -> Self {
        let seconds = usize::try_from(interval_ns.div_ceil(SECOND_NS)).unwrap_or(usize::MAX);
        Self {
            transactions: 0,
            errors: 0,
            states: Errors::default(),
            warmup_transactions: 0,
            late_transactions: 0,
            seconds: vec![Second::default(); seconds],
            latency: Timed::default(),
            from_send: Timed::default(),
            own_delay: Timed::default(),
            held: Timed::default(),
            kinds: vec![Timed::default(); if kinds > 1 { kinds } else { 0 }],
            statements: Vec::new(),
            connections: None,
            balance: Balance::default(),
            warmup_dropped: 0,
            over_limit: 0,
            cpu_ns: 0,
            opening_cpu_ns: 0,
            run_queue_ns: 0,
            idle_ns: 0,
        }
    }

    /// What a statement took.
    #[inline]
    pub fn statement(&mut self, number: usize) -> &mut Timed {
        if self.statements.len() <= number {
            self.statements.resize_with(number + 1, Timed::default);
        }
        &mut self.statements[number]
    }

    /// Adds another thread's counts of the same interval.
    pub fn merge(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.errors += other.errors;
        self.states.merge(&other.states);
        self.warmup_transactions += other.warmup_transactions;
        self.late_transactions += other.late_transactions;
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
        for (number, theirs) in other.statements.iter().enumerate() {
            self.statement(number).merge(theirs);
        }
        if let Some(theirs) = &other.connections {
            self.connections.get_or_insert_default().merge(theirs);
        }
        self.latency.merge(&other.latency);
        self.from_send.merge(&other.from_send);
        self.own_delay.merge(&other.own_delay);
        self.held.merge(&other.held);
        self.balance.merge(other.balance);
        self.warmup_dropped += other.warmup_dropped;
        self.over_limit += other.over_limit;
        self.cpu_ns += other.cpu_ns;
        self.opening_cpu_ns += other.opening_cpu_ns;
        self.run_queue_ns += other.run_queue_ns;
        self.idle_ns += other.idle_ns;
    }
}

/// What became of the arrivals of a measured interval: `scheduled` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Balance {
    /// Arrivals that were due in it.
    pub scheduled: u64,
    /// Ended, in it or after it.
    pub done: u64,
    /// Given up by the server.
    pub failed: u64,
    /// Not begun, since they were too late for the latency limit already.
    pub skipped: u64,
    /// Not begun when the time to work off the queue was over.
    pub queued: u64,
}

impl Balance {
    /// Adds another thread's.
    pub fn merge(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.done += other.done;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.queued += other.queued;
    }
}
