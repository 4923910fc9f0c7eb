//! What a load hands back.

use pgassay_protocol::Failure;
use serde::Serialize;

use crate::connections::ConnectionRecord;
use crate::errors::Errors;
use crate::seconds::{LatencyBySecond, Second};
use crate::spec::Counting;
use crate::statements::{Label, StatementRecord, records};
use crate::tally::{Balance, Tally};
use crate::timed::{Latency, Timed, serialise};

/// One second of a running load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Which second since the start, counted from 1, the warm-up included.
    pub second: u64,
    /// Whether the warm-up was still going on at its end.
    pub warmup: bool,
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Transactions that the server gave up in it.
    pub errors: u64,
    /// Half of them took no longer; none where none ended.
    pub p50_ms: Option<f64>,
    /// 99 % took no longer.
    pub p99_ms: Option<f64>,
    /// Transactions that were due and had not begun at its end, or waited for a connection; 100,000 and more are one.
    pub queue: u64,
}

/// What was counted of a load that a failure ended before its time.
#[derive(Clone, Debug, Serialize)]
pub struct Partial {
    /// How long it had been measured; 0 where the warm-up was not over.
    pub elapsed_s: f64,
    /// Transactions that had ended in that time.
    pub transactions: u64,
    /// Those that had failed.
    pub errors: u64,
    /// The same by SQLSTATE.
    pub states: Errors,
    /// Latencies.
    pub latency_ms: Latency,
}

impl Partial {
    /// Of these counts, when the failure came.
    #[allow(clippy::cast_precision_loss)]
    pub fn new(counting: Counting, tally: &Tally, at_ns: u64) -> Self {
        let schedule = counting.schedule;
        let until_ns = at_ns.min(schedule.measured_to_ns);
        Self {
            elapsed_s: until_ns.saturating_sub(schedule.measured_from_ns) as f64 / 1e9,
            transactions: tally.transactions,
            errors: tally.errors,
            states: tally.states.clone(),
            latency_ms: tally.latency.figures(),
        }
    }
}

/// What is told of a load while it runs.
#[derive(Clone, Debug)]
pub enum Told {
    /// A second is over.
    Progress(Progress),
    /// It has ended before its time.
    Partial(Partial),
}

/// What an open loop adds to a record.
#[derive(Clone, Debug, Serialize)]
pub struct OpenLoop {
    /// What became of the arrivals.
    #[serde(flatten)]
    pub balance: Balance,
    /// Arrivals of the warm-up that had not begun at its end, and were dropped: no queue is left behind.
    pub warmup_dropped: u64,
    /// Arrivals that were due, by second of the interval.
    pub per_second_due: Vec<u64>,
    /// Arrivals that had not begun at the end of each second.
    pub per_second_queue: Vec<u64>,
    /// The latencies from the send.
    pub from_send_ms: Latency,
    /// For how long the load generator alone held arrivals up before it sent them: the error of the intended start.
    pub held_ms: Latency,
    /// Histogram of the latencies from the send.
    pub from_send_histogram: String,
}

impl OpenLoop {
    fn new(tally: &Tally) -> Result<Self, Failure> {
        let mut queue = 0_u64;
        let mut at_end = |second: &Second| {
            queue = (queue + second.due).saturating_sub(second.left_queue);
            queue
        };
        Ok(Self {
            balance: tally.balance,
            warmup_dropped: tally.warmup_dropped,
            per_second_due: tally.seconds.iter().map(|second| second.due).collect(),
            per_second_queue: tally.seconds.iter().map(&mut at_end).collect(),
            from_send_ms: tally.from_send.figures(),
            held_ms: tally.held.figures(),
            from_send_histogram: serialise(&tally.from_send.histogram)?,
        })
    }
}

/// The latencies of one script of several.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// Its transactions.
    pub transactions: u64,
    /// Their latencies.
    pub latency_ms: Latency,
    /// Their histogram.
    pub histogram: String,
}

impl Kind {
    fn new(timed: &Timed) -> Result<Self, Failure> {
        Ok(Self {
            transactions: timed.histogram.len(),
            latency_ms: timed.figures(),
            histogram: serialise(&timed.histogram)?,
        })
    }
}

/// A load's measured interval.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Transactions that ended within the interval.
    pub transactions: u64,
    /// Its length in seconds.
    pub elapsed_s: f64,
    /// Its beginning, on the monotonic clock.
    pub start_ns: u64,
    /// Its end, on the same clock.
    pub end_ns: u64,
    /// Transactions that the server gave up within it.
    pub errors: u64,
    /// The same by SQLSTATE.
    pub states: Errors,
    /// CPU time, user and system, of the threads that ran the clients, over the interval.
    pub client_cpu_s: f64,
    /// Transactions by second of the interval; the last may be a part of a second.
    pub per_second: Vec<u64>,
    /// Latencies by second of the interval.
    pub per_second_latency_ms: LatencyBySecond,
    /// A histogram of the latencies of each second, serialised; '' of none.
    pub per_second_histogram: Vec<String>,
    /// Latencies: from when a transaction was due; in a closed loop from when it began.
    pub latency_ms: Latency,
    /// What of each latency the load generator itself added, as far as it can see: it held a transaction up that was
    /// due, or read an answer later than it could have.
    pub own_delay_ms: Latency,
    /// The histogram of that.
    pub own_delay_histogram: String,
    /// Base64 of the compressed V2 serialisation of a HdrHistogram of microseconds.
    pub histogram: String,
    /// Transactions that ended before the interval.
    pub warmup_transactions: u64,
    /// Transactions that had begun by its end and ended after it.
    pub late_transactions: u64,
    /// Transactions whose latency was above the limit.
    pub over_limit: u64,
    /// For how long the threads were ready to run in the interval and had no processor, together.
    pub client_run_queue_s: f64,
    /// For how long the threads had nothing to do in the interval, together: what the load generator could do more.
    pub client_idle_s: f64,
    /// How many threads ran the clients.
    pub threads: usize,
    /// The scripts, where there are several.
    pub kinds: Vec<Kind>,
    /// The statements of its transactions, where these have several.
    pub statements: Vec<StatementRecord>,
    /// Where connections come and go.
    pub connections: Option<ConnectionRecord>,
    /// Of an open loop.
    pub open_loop: Option<OpenLoop>,
}

impl Record {
    /// The record of a load that was counted so, by so many threads.
    ///
    /// # Errors
    /// When no transaction ended within the interval: there is nothing to report. An open loop has its balance.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
    pub fn new(counting: Counting, tally: &Tally, threads: usize, labels: &[Label]) -> Result<Self, Failure> {
        let schedule = counting.schedule;
        let elapsed_s = (schedule.measured_to_ns - schedule.measured_from_ns) as f64 / 1e9;
        if tally.transactions == 0 && !counting.is_paced {
            return Err(Failure::client(format!(
                "no transaction ended within the measured interval of {elapsed_s} s ({} failed); make it longer",
                tally.errors
            )));
        }
        Ok(Self {
            transactions: tally.transactions,
            elapsed_s,
            start_ns: schedule.measured_from_ns,
            end_ns: schedule.measured_to_ns,
            errors: tally.errors,
            states: tally.states.clone(),
            client_cpu_s: (tally.cpu_ns + tally.opening_cpu_ns) as f64 / 1e9,
            latency_ms: tally.latency.figures(),
            histogram: serialise(&tally.latency.histogram)?,
            own_delay_ms: tally.own_delay.figures(),
            own_delay_histogram: serialise(&tally.own_delay.histogram)?,
            per_second: tally.seconds.iter().map(|second| second.transactions).collect(),
            per_second_latency_ms: LatencyBySecond::new(&tally.seconds),
            per_second_histogram: tally
                .seconds
                .iter()
                .map(Second::histogram)
                .collect::<Result<_, _>>()?,
            warmup_transactions: tally.warmup_transactions,
            late_transactions: tally.late_transactions,
            over_limit: tally.over_limit,
            client_run_queue_s: tally.run_queue_ns as f64 / 1e9,
            client_idle_s: tally.idle_ns as f64 / 1e9,
            threads,
            kinds: tally.kinds.iter().map(Kind::new).collect::<Result<_, _>>()?,
            statements: records(&tally.statements, labels)?,
            connections: match &tally.connections {
                Some(counts) => Some(ConnectionRecord::new(counts, schedule)?),
                None => None,
            },
            open_loop: if counting.is_paced {
                Some(OpenLoop::new(tally)?)
            } else {
                None
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Meter;
    use crate::spec::Schedule;
    use crate::tally::Timing;

    const COUNTING: Counting = Counting {
        schedule: Schedule {
            start_ns: 0,
            measured_from_ns: 1_000_000_000,
            measured_to_ns: 3_000_000_000,
        },
        is_paced: false,
        limit_ns: None,
        kinds: 1,
        counts_undone: false,
    };

    #[test]
    fn percentiles_stay_within_the_exact_range() {
        let mut meter = Meter::new(COUNTING);
        for index in 0..1000_u64 {
            let timing = Timing::at_once(1_000_000_000, 0);
            meter.committed(timing, 1_000_000_000 + 12_345_678 + index, 0);
        }
        let record = Record::new(COUNTING, &meter.into_tally(), 1, &[]).unwrap();
        let latency = record.latency_ms;
        assert!(latency.min <= latency.p50 && latency.p99_9 <= latency.max);
        assert!((latency.mean - 12.346_177_5).abs() < 1e-9, "{}", latency.mean);
        assert!((record.elapsed_s - 2.0).abs() < f64::EPSILON);
        assert_eq!(
            (
                record.per_second_histogram.len(),
                record.per_second_histogram[1].as_str()
            ),
            (2, "")
        );
        assert!(record.open_loop.is_none() && record.kinds.is_empty());
    }

    #[test]
    fn nothing_measured_is_an_error() {
        let failure = Record::new(COUNTING, &Meter::new(COUNTING).into_tally(), 1, &[]).unwrap_err();
        assert!(failure.message.contains("no transaction ended"), "{failure}");
    }

    #[test]
    fn an_open_loop_s_queue_is_what_was_due_and_had_not_begun() {
        let counting = Counting {
            is_paced: true,
            ..COUNTING
        };
        let mut meter = Meter::new(counting);
        let from = 1_000_000_000;
        for due in 0..5 {
            meter.left_queue(from + due, from + due * 300_000_000);
        }
        meter.queued(from + 1_999_999_999, from + 9_000_000_000);
        let open = Record::new(counting, &meter.into_tally(), 1, &[])
            .unwrap()
            .open_loop
            .unwrap();
        assert_eq!(open.per_second_due, [5, 1]);
        assert_eq!(open.per_second_queue, [1, 1]);
        assert_eq!(open.balance.queued, 1);
    }
}
