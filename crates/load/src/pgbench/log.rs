//! The log of transactions in pgbench's format (doLog in pgbench.c).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use pgassay_pgbench::random::fraction;
use rand_xoshiro::Xoroshiro128StarStar;

use super::spec::{LogSpec, PgbenchSpec};
use super::stats::{Ending, Stats};

const SECOND_US: u64 = 1_000_000;

/// One thread's log.
pub struct TransactionLog {
    output: BufWriter<File>,
    spec: LogSpec,
    sample: Xoroshiro128StarStar,
    /// Begins at this microsecond of the Unix epoch, and what ended since.
    aggregate: (u64, Stats),
    is_throttled: bool,
    has_limit: bool,
    shows_tries: bool,
    /// PostgreSQL 19 has a column for other errors; 18, which knows no such transactions, has not.
    has_other_failures: bool,
}

/// What a line is about.
pub struct Line {
    /// The client's number.
    pub client: usize,
    /// How many transactions it has ended, this one included.
    pub transaction: u64,
    /// The number of the script.
    pub script: usize,
    /// How it ended.
    pub ending: Ending,
    /// How often it was tried.
    pub tries: u32,
}

impl TransactionLog {
    /// Makes the file of the thread with this number; `sample` is its stream for --sampling-rate.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(
        run: &PgbenchSpec,
        spec: &LogSpec,
        thread: usize,
        sample: Xoroshiro128StarStar,
    ) -> Result<Self, String> {
        let path = match thread {
            0 => spec.path.clone(),
            _ => format!("{}.{thread}", spec.path),
        };
        let file = File::create(&path)
            .map_err(|error| format!("could not open logfile \"{path}\": {}", reason(&error)))?;
        Ok(Self {
            output: BufWriter::new(file),
            spec: spec.clone(),
            sample,
            aggregate: (0, Stats::default()),
            is_throttled: run.rate.is_some(),
            has_limit: run.latency_limit_us.is_some(),
            shows_tries: run.max_tries != 1,
            has_other_failures: run.continues_on_error,
        })
    }

    /// The run begins: aggregates count from the whole second.
    pub fn start(&mut self) {
        self.aggregate.0 = epoch_us() / SECOND_US * SECOND_US;
    }

    /// Writes a line, or counts it.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        if let Some(rate) = self.spec.sampling_rate {
            if fraction(&mut self.sample) > rate {
                return Ok(());
            }
        }
        let now_us = epoch_us();
        if self.spec.aggregate_s.is_some() {
            self.write_aggregates(now_us)?;
            self.aggregate.1.count(line.ending, line.tries);
            return Ok(());
        }
        let (seconds, microseconds) = (now_us / SECOND_US, now_us % SECOND_US);
        write!(self.output, "{} {} ", line.client, line.transaction)?;
        match line.ending {
            Ending::Done { latency_us, .. } => write!(self.output, "{latency_us:.0}")?,
            Ending::Skipped => self.output.write_all(b"skipped")?,
            Ending::Failed(kind) if self.spec.details_failures => {
                self.output.write_all(kind.word().as_bytes())?;
            }
            Ending::Failed(_) => self.output.write_all(b"failed")?,
        }
        write!(self.output, " {} {seconds} {microseconds}", line.script)?;
        if self.is_throttled {
            let lag_us = match line.ending {
                Ending::Done { lag_us, .. } => lag_us,
                _ => 0.0,
            };
            write!(self.output, " {lag_us:.0}")?;
        }
        if self.shows_tries {
            write!(self.output, " {}", line.tries - 1)?;
        }
        self.output.write_all(b"\n")
    }

    fn write_aggregates(&mut self, now_us: u64) -> io::Result<()> {
        let interval_us = u64::from(self.spec.aggregate_s.unwrap_or(1)) * SECOND_US;
        while self.aggregate.0 + interval_us <= now_us {
            let (from_us, stats) = self.aggregate;
            let latency = stats.latency_us;
            let lag = if self.is_throttled {
                stats.lag_us
            } else {
                Default::default()
            };
            write!(
                self.output,
                "{} {} {:.0} {:.0} {:.0} {:.0}",
                from_us / SECOND_US,
                stats.done,
                latency.sum,
                latency.sum2,
                latency.min,
                latency.max
            )?;
            write!(
                self.output,
                " {:.0} {:.0} {:.0} {:.0}",
                lag.sum, lag.sum2, lag.min, lag.max
            )?;
            let if_shown = |is_shown: bool, count: u64| if is_shown { count } else { 0 };
            let counts = [
                if_shown(self.has_limit, stats.skipped),
                if_shown(self.shows_tries, stats.retried),
                if_shown(self.shows_tries, stats.retries),
                if_shown(self.spec.details_failures, stats.serialization_failures),
                if_shown(self.spec.details_failures, stats.deadlock_failures),
            ];
            for count in counts {
                write!(self.output, " {count}")?;
            }
            if self.has_other_failures {
                let count = if_shown(self.spec.details_failures, stats.other_failures);
                write!(self.output, " {count}")?;
            }
            self.output.write_all(b"\n")?;
            self.aggregate = (from_us + interval_us, Stats::default());
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.spec.aggregate_s.is_some() {
            self.write_aggregates(epoch_us())?;
        }
        self.output.flush()
    }
}

fn reason(error: &io::Error) -> String {
    // Without Rust's number behind it, as strerror has it.
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn epoch_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
