//! The coordinator of a load: starts the workers together, reports each second, adds up what they counted.

use std::convert::Infallible;
use std::sync::Arc;

use pgassay_pgbench::command::Command;
use pgassay_pgbench::random::ThreadStreams;
use pgassay_protocol::Failure;

use crate::client::{Source, Work};
use crate::clock::monotonic_ns;
use crate::programs::Programs;
use crate::record::{Partial, Record, Told};
use crate::spec::LoadSpec;
use crate::statements::Label;
use crate::tally::Tally;
use crate::transport::Connector;
use crate::worker::Worker;

pub(crate) mod interval;
pub(crate) mod queue;
pub(crate) mod threads;
mod ticker;
use threads::{Ended, Given, Heard, Rules, Threads, share_of, streams_of};
use ticker::Ticker;

/// Runs a load from the first connection to the last answer; `report` is called once a second, and with what was
/// counted until a failure ended the load before its time.
///
/// # Errors
/// When the specification can't be run, a connection can't be opened or is lost, or a statement fails for good.
/// The threads that remain then end by themselves.
pub fn run<C: Connector>(spec: &LoadSpec, connector: C, report: impl FnMut(Told)) -> Result<Record, Failure> {
    spec.check()?;
    let threads = spec.threads.min(spec.clients);
    let has_seed = spec.variables.contains_key("default_seed");
    let streams = streams_of(has_seed, (spec.seed, spec.clients, threads));
    let source = match spec.builtin() {
        Some(script) => Source::Builtin(script),
        None => Source::Programs(Arc::new(Programs::new(
            &spec.scripts,
            &spec.variables,
            spec.scale,
            (spec.seed, streams.default_seed),
        )?)),
    };
    let times_statements = match &source {
        Source::Builtin(script) => script.kind_texts.len() > 1,
        Source::Programs(_) => true,
    };
    let labels = labels_of(&source);
    let work = Work {
        source,
        protocol: spec.protocol,
        continues_on_error: false,
        counts_queries: false,
        tells_place: true,
        is_as_libpq: false,
        times_statements,
        idling: spec.idling(),
    };
    let threads = Threads::start(OfLoad { spec: spec.clone() }, connector, streams, work)?;
    coordinate(spec, threads, &labels, report)
}

/// The rules of a load.
struct OfLoad {
    spec: LoadSpec,
}

impl<C: Connector> Rules<C> for OfLoad {
    type Seen = ();
    type Said = Infallible;
    type Books = Tally;
    type Opened = ();

    fn connects(&self) -> bool {
        !self.spec.connections.is_managed()
    }

    fn open(&self, _: usize, _: &ThreadStreams) -> Result<(), Failure> {
        Ok(())
    }

    fn prepare(&self, worker: &mut Worker<C>, given: &Given<C, Self>) -> Result<(), Failure> {
        let connections = &self.spec.connections;
        if !connections.is_managed() {
            return Ok(());
        }
        let size = match connections.pool {
            Some(pool) => share_of(pool, worker.thread),
            None => worker.clients.len(),
        };
        worker.open_pool(&given.connector, &given.waker, connections, size)
    }

    fn run(&self, worker: Worker<C>, _: Given<C, Self>, (): (), start_ns: u64) -> Ended<Tally> {
        Ok(worker.run(&self.spec, start_ns))
    }
}

/// By statement the script it is of, its line there, and its text; nothing where there is one statement alone.
fn labels_of(source: &Source) -> Vec<Label> {
    match source {
        Source::Builtin(script) if script.kind_texts.len() > 1 => script
            .kind_texts
            .iter()
            .map(|text| Label::new("", 0, text))
            .collect(),
        Source::Builtin(_) => Vec::new(),
        Source::Programs(programs) => programs
            .programs
            .iter()
            .flat_map(|program| {
                let of = |command: &Command| Label::new(&program.name, command.line, &command.text);
                program.commands.iter().map(of)
            })
            .collect(),
    }
}

fn coordinate<C: Connector>(
    spec: &LoadSpec,
    mut threads: Threads<C, OfLoad>,
    labels: &[Label],
    mut report: impl FnMut(Told),
) -> Result<Record, Failure> {
    let counting = spec.counting(Threads::<C, OfLoad>::next_start_ns());
    let schedule = counting.schedule;
    threads.begin(schedule.start_ns)?;

    let mut ticker = Ticker::new(schedule);
    let interval_ns = schedule.measured_to_ns - schedule.measured_from_ns;
    let (mut tally, mut failure) = (Tally::new(interval_ns, counting.kinds), None);
    while threads.is_running() {
        match threads.hear(ticker.wait())? {
            Heard::Ended(_, part, why) => {
                tally.merge(&part);
                if failure.is_none() && why.is_some() {
                    failure = why.map(|why| (why, monotonic_ns()));
                    threads.stop();
                }
            }
            Heard::Said(said) => match said {},
            Heard::Nothing => {
                ticker.tick(monotonic_ns(), threads.shared(), |progress| {
                    report(Told::Progress(progress))
                });
                if ticker.wakes {
                    // Threads whose clients all wait for long transactions take the CPU clock here.
                    threads.wake()?;
                }
            }
        }
    }
    if let Some((why, at_ns)) = failure {
        report(Told::Partial(Partial::new(counting, &tally, at_ns)));
        return Err(why);
    }
    Record::new(counting, &tally, threads.count(), labels)
}
