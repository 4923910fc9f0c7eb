//! The coordinator of a run by sysbench's rules: starts the threads together, tells of intervals, adds up.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pgassay_pgbench::random::ThreadStreams;
use pgassay_protocol::Failure;

use super::books::{Books, Seen};
use super::client_thread::ClientThread;
use super::record::{SysbenchProgress, SysbenchRecord};
use super::spec::SysbenchSpec;
use crate::client::{Source, Work};
use crate::clock::{Schedule, monotonic_ns, sleep_until};
use crate::pacing::{Arrivals, Pace, Pacer};
use crate::run::interval::{Interval, Intervals};
use crate::run::threads::{Ended, Given, Heard, Rules, Threads, streams_of};
use crate::script::Script;
use crate::transport::Connector;
use crate::worker::Worker;
use crate::worker::opener::Opener;

/// What is told while a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// All connections are open and their statements prepared.
    Started,
    /// An interval is over.
    Progress(SysbenchProgress),
}

/// Runs a script from the first connection to the last answer.
///
/// # Errors
/// When the specification can't be run, or the run can't begin. What ends it later stands in the record.
pub fn run<C: Connector>(
    spec: SysbenchSpec,
    connector: C,
    report: impl FnMut(Event),
) -> Result<SysbenchRecord, Failure> {
    spec.check()?;
    let streams = streams_of(false, (spec.seed, spec.connections, spec.threads_used()));
    let work = Work {
        source: Source::Builtin(Script::sysbench(&spec.sysbench, spec.connections, spec.seed)),
        protocol: spec.protocol,
        continues_on_error: false,
        counts_queries: true,
        tells_place: true,
        is_as_libpq: false,
        times_statements: false,
        idling: None,
    };
    let spec = Arc::new(spec);
    let rules = OfSysbench {
        spec: Arc::clone(&spec),
        begun: Arc::default(),
    };
    let threads = Threads::start(rules, connector, streams, work)?;
    coordinate(&spec, threads, report)
}

/// sysbench's rules.
struct OfSysbench {
    spec: Arc<SysbenchSpec>,
    begun: Arc<AtomicU64>,
}

impl<C: Connector> Rules<C> for OfSysbench {
    type Seen = Seen;
    type Said = Infallible;
    type Books = Books;
    type Opened = ();

    fn connects(&self) -> bool {
        true
    }

    fn open(&self, _: usize, _: &ThreadStreams) -> Result<(), Failure> {
        Ok(())
    }

    fn run(&self, worker: Worker<C>, given: Given<C, Self>, (): (), start_ns: u64) -> Ended<Books> {
        let schedule = schedule(&self.spec, start_ns);
        let pacer = self.spec.rate.map(|rate| {
            let pace = Pace::steady(Arrivals::Poisson, rate);
            Pacer::new(&pace, schedule, worker.thread, worker.throttle.clone())
        });
        let opener = match self.spec.reconnect_after {
            0 => None,
            _ => Some(Opener::start(
                &given.connector,
                &given.waker,
                worker.clients.len(),
            )?),
        };
        sleep_until(start_ns);
        let thread = ClientThread {
            worker,
            spec: Arc::clone(&self.spec),
            pacer,
            opener,
            seen: given.seen,
            begun: Arc::clone(&self.begun),
            counts_from_ns: schedule.measured_from_ns,
            end_ns: schedule.measured_to_ns,
        };
        Ok(thread.run())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `check` bounds the seconds.
fn schedule(spec: &SysbenchSpec, start_ns: u64) -> Schedule {
    let measured_from_ns = start_ns + (spec.warmup_s * 1e9) as u64;
    Schedule {
        start_ns,
        measured_from_ns,
        measured_to_ns: spec
            .duration_s
            .map_or(u64::MAX, |seconds| measured_from_ns + (seconds * 1e9) as u64),
    }
}

#[allow(clippy::cast_precision_loss)]
fn coordinate<C: Connector>(
    spec: &SysbenchSpec,
    mut threads: Threads<C, OfSysbench>,
    mut report: impl FnMut(Event),
) -> Result<SysbenchRecord, Failure> {
    report(Event::Started);
    let start_ns = Threads::<C, OfSysbench>::next_start_ns();
    threads.begin(start_ns)?;
    let from_ns = schedule(spec, start_ns).measured_from_ns;
    let (mut books, mut failure) = (Books::default(), None);
    let mut intervals = Intervals::new(spec.report_interval_s, from_ns);
    while threads.is_running() {
        match threads.hear(intervals.wait())? {
            Heard::Ended(_, part, why) => {
                books.merge(&part);
                if failure.is_none() && why.is_some() {
                    threads.stop();
                    failure = why;
                }
            }
            Heard::Said(said) => match said {},
            Heard::Nothing => {
                if let Some(interval) = intervals.over() {
                    report(Event::Progress(progress(spec, &interval, &threads)));
                }
            }
        }
    }
    // One that is over as the run is.
    if let Some(interval) = intervals.over() {
        report(Event::Progress(progress(spec, &interval, &threads)));
    }
    let elapsed_s = monotonic_ns().saturating_sub(from_ns) as f64 / 1e9;
    SysbenchRecord::new(spec, &books, elapsed_s, failure)
}

fn progress<C: Connector>(
    spec: &SysbenchSpec,
    interval: &Interval,
    threads: &Threads<C, OfSysbench>,
) -> SysbenchProgress {
    let (mut seen, now_ns) = (Seen::default(), monotonic_ns());
    threads.seen().for_each(|mut each| seen.merge(&each.take(now_ns)));
    SysbenchProgress::new(spec, &seen, (interval.elapsed_s, interval.length_s))
}
