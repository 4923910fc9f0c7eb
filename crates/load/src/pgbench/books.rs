//! What one thread counts of a run by pgbench's rules.

use hdrhistogram::Histogram;

use super::log::{Line, TransactionLog};
use super::stats::{Ending, Stats};
use crate::errors::Errors;
use crate::interpreter::command_times::CommandTimes;

/// Longer latencies count as this long.
const LATENCY_US_MAX: u64 = 24 * 3600 * 1_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

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
    /// The thread's CPU time; of all threads the sum, and the most that one of them used.
    pub cpu_ns: u64,
    /// See `cpu_ns`.
    pub cpu_most_ns: u64,
    /// How long the thread was ready and had no processor; of all threads the most.
    pub waited_most_ns: u64,
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
            cpu_ns: 0,
            cpu_most_ns: 0,
            waited_most_ns: 0,
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
        self.cpu_ns += other.cpu_ns;
        self.cpu_most_ns = self.cpu_most_ns.max(other.cpu_most_ns);
        self.waited_most_ns = self.waited_most_ns.max(other.waited_most_ns);
        self.aborted += other.aborted;
    }
}
