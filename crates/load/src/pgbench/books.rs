//! What one thread counts of a run by pgbench's rules.

use hdrhistogram::Histogram;

use super::log::{Line, TransactionLog};
use super::stats::{Ending, Stats};
use crate::clock::ThreadTimes;
use crate::errors::Errors;
use crate::interpreter::command_times::CommandTimes;
use crate::run::queue::Queue;
use crate::timed::Timed;

/// Longer latencies count as this long.
const LATENCY_US_MAX: u64 = 24 * 3600 * 1_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What is told while the run goes on.
#[derive(Default)]
pub struct Seen {
    /// Counts since the beginning.
    pub stats: Stats,
    /// Latencies of what was done in the interval.
    pub latency: Timed,
    /// With a rate: what is due and not begun.
    pub queue: Option<Queue>,
}

/// Counts of one thread, or of all.
#[derive(Clone)]
pub struct Books {
    /// Of all scripts.
    pub stats: Stats,
    /// Of each script.
    pub scripts: Vec<Stats>,
    /// Of each command of all scripts: transactions that failed in it, and how often one was tried again after it.
    pub commands: Vec<(u64, u64)>,
    /// Errors that clients met, those of a transaction that was tried again among them.
    pub errors: Errors,
    /// Where commands are timed.
    pub times: CommandTimes,
    /// Latencies of what was done, in microseconds.
    pub histogram: Histogram<u64>,
    /// Transactions done that took longer than the limit.
    pub late: u64,
    /// Time spent on opening and closing connections.
    pub connecting_ns: u64,
    /// What the threads took of the processors.
    pub times_of_threads: ThreadTimes,
    /// Clients that were aborted.
    pub aborted: usize,
}

impl Books {
    /// Nothing counted, for so many scripts and commands.
    ///
    /// # Panics
    /// Never: the bounds of the histogram are constants.
    pub fn new(scripts: usize, commands: usize) -> Self {
        Self {
            stats: Stats::default(),
            scripts: vec![Stats::default(); scripts],
            commands: vec![(0, 0); commands],
            errors: Errors::default(),
            times: CommandTimes::default(),
            histogram: Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS)
                .expect("valid histogram bounds"),
            late: 0,
            connecting_ns: 0,
            times_of_threads: ThreadTimes::default(),
            aborted: 0,
        }
    }

    /// Counts a transaction, and writes it into the log.
    ///
    /// # Errors
    /// When the log can't be written.
    #[inline]
    pub fn count(
        &mut self,
        line: &Line,
        limit_us: Option<u64>,
        log: Option<&mut TransactionLog>,
    ) -> std::io::Result<()> {
        self.stats.count(line.ending, line.tries);
        self.scripts[line.script].count(line.ending, line.tries);
        if let Ending::Done { latency_us, .. } = line.ending {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Never negative.
            let whole_us = latency_us as u64;
            self.histogram.saturating_record(whole_us);
            self.late += u64::from(limit_us.is_some_and(|limit| whole_us > limit));
        }
        match log {
            Some(log) => log.write(line),
            None => Ok(()),
        }
    }

    /// Adds another thread's.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.stats.merge(&other.stats);
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.commands.iter_mut().zip(&other.commands) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.errors.merge(&other.errors);
        self.times.merge(&other.times);
        self.histogram
            .add(&other.histogram)
            .expect("histograms of the same bounds");
        self.late += other.late;
        self.connecting_ns += other.connecting_ns;
        self.times_of_threads.merge(other.times_of_threads);
        self.aborted += other.aborted;
    }
}
