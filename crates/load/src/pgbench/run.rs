//! The coordinator of a run by pgbench's rules: starts the threads together, tells of progress, adds up.

use std::sync::Arc;

use pgassay_pgbench::random::ThreadStreams;
use pgassay_protocol::Failure;

use super::abort::refusal;
use super::books::{Books, Seen};
use super::client_thread::{ClientThread, Said};
use super::log::TransactionLog;
use super::record::{Instants, PgbenchProgress, PgbenchRecord};
use super::spec::{OfPgbench, PgbenchSpec};
use crate::client::{Source, Work};
use crate::clock::{monotonic_ns, sleep_until};
use crate::pacing::{Arrivals, Pace, Pacer};
use crate::programs::Programs;
use crate::run::interval::{Interval, Intervals};
use crate::run::threads::{Ended, Given, Heard, Rules, Threads, streams_of};
use crate::spec::Schedule;
use crate::timed::Percentiles;
use crate::transport::Connector;
use crate::worker::Worker;

const SECOND_NS: u64 = 1_000_000_000;

/// What is told while a run goes on.
#[derive(Clone, Debug)]
pub enum Event {
    /// At each interval.
    Progress(PgbenchProgress),
    /// At once.
    Said(Said),
}

/// Runs pgbench's scripts from the first connection to the last answer.
///
/// # Errors
/// When the specification can't be run, a script is none, a first connection can't be opened, or the system refuses
/// what is needed. A client that is aborted later is told of, and counted in the record.
pub fn run<C: Connector>(
    spec: PgbenchSpec,
    connector: C,
    report: impl FnMut(Event),
) -> Result<PgbenchRecord, Failure> {
    spec.check()?;
    let created_ns = monotonic_ns();
    let has_seed = spec.variables.contains_key("default_seed");
    let streams = streams_of(has_seed, (spec.seed, spec.clients, spec.threads_used()));
    let seeds = (spec.seed, streams.default_seed);
    let programs = Arc::new(Programs::new(&spec.scripts, &spec.variables, spec.scale, seeds)?);
    let work = Work {
        source: Source::Programs(Arc::clone(&programs)),
        protocol: spec.protocol,
        continues_on_error: spec.continues_on_error,
        counts_queries: false,
        tells_place: false,
        is_as_libpq: true,
        times_statements: false,
        idling: None,
    };
    let spec = Arc::new(spec);
    let rules = OfPgbench {
        spec: Arc::clone(&spec),
        programs: Arc::clone(&programs),
    };
    let threads = Threads::start(rules, connector, streams, work).map_err(refusal)?;
    coordinate(&spec, &programs, threads, created_ns, report)
}

impl<C: Connector> Rules<C> for OfPgbench {
    type Seen = Seen;
    type Said = Said;
    type Books = Books;
    type Opened = Option<TransactionLog>;

    fn connects(&self) -> bool {
        !self.spec.connects_each
    }

    fn open(&self, number: usize, streams: &ThreadStreams) -> Result<Self::Opened, Failure> {
        let create = |log| TransactionLog::create(&self.spec, log, number, streams.sample.clone());
        self.spec
            .log
            .as_ref()
            .map(create)
            .transpose()
            .map_err(Failure::client)
    }

    fn run(
        &self,
        worker: Worker<C>,
        given: Given<C, Self>,
        log: Self::Opened,
        start_ns: u64,
    ) -> Ended<Books> {
        let seconds = self.spec.duration_s;
        let end_ns = seconds.map_or(u64::MAX, |seconds| start_ns + u64::from(seconds) * SECOND_NS);
        let schedule = Schedule {
            start_ns,
            measured_from_ns: start_ns,
            measured_to_ns: end_ns,
        };
        let pacer = self.spec.rate.map(|rate| {
            let pace = Pace::steady(Arrivals::Pgbench, rate);
            Pacer::new(&pace, schedule, worker.thread, worker.throttle.clone())
        });
        sleep_until(start_ns);
        let thread = ClientThread {
            worker,
            given,
            spec: Arc::clone(&self.spec),
            programs: Arc::clone(&self.programs),
            pacer,
            log,
            end_ns,
        };
        Ok((thread.run()?, None))
    }
}

fn coordinate<C: Connector>(
    spec: &PgbenchSpec,
    programs: &Programs,
    mut threads: Threads<C, OfPgbench>,
    created_ns: u64,
    mut report: impl FnMut(Event),
) -> Result<PgbenchRecord, Failure> {
    let start_ns = Threads::<C, OfPgbench>::next_start_ns();
    threads.begin(start_ns)?;
    let commands = programs.offsets.last().copied().unwrap_or(0);
    let (mut books, mut aborted_threads) = (Books::new(programs.programs.len(), commands), Vec::new());
    let mut intervals = Intervals::new(spec.progress_s, start_ns);
    while threads.is_running() {
        match threads.hear(intervals.wait())? {
            Heard::Ended(number, part, _) => {
                books.merge(&part);
                if part.aborted > 0 {
                    aborted_threads.push(number);
                    if spec.exits_on_abort {
                        break;
                    }
                }
            }
            Heard::Said(said) => report(Event::Said(said)),
            Heard::Nothing => {
                if let Some(interval) = intervals.over() {
                    report(Event::Progress(progress(&interval, &threads)));
                }
            }
        }
    }
    // One that is over as the run is.
    if let Some(interval) = intervals.over().filter(|_| !threads.is_running()) {
        report(Event::Progress(progress(&interval, &threads)));
    }
    let instants = Instants {
        created_ns,
        start_ns,
        end_ns: monotonic_ns(),
    };
    PgbenchRecord::new(&instants, programs, &books, aborted_threads)
}

fn progress<C: Connector>(interval: &Interval, threads: &Threads<C, OfPgbench>) -> PgbenchProgress {
    let (mut all, mut queued, now_ns) = (Seen::default(), 0, monotonic_ns());
    threads.seen().for_each(|mut seen| {
        all.stats.merge(&seen.stats);
        all.latency.merge(&std::mem::take(&mut seen.latency));
        // By the clock: where no transaction ends a thread has nothing to tell, and its queue grows.
        queued += seen.queue.as_mut().map_or(0, |queue| queue.length(now_ns));
    });
    PgbenchProgress {
        elapsed_s: interval.elapsed_s,
        stats: all.stats,
        percentiles: Percentiles::of(&all.latency),
        queued,
    }
}
