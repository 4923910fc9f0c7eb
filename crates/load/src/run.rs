//! The coordinator of a load: starts the workers together, reports each second, adds up what they counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use mio::{Poll, Waker};
use pgassay_pgbench::command::Command;
use pgassay_pgbench::random::Streams;
use pgassay_protocol::Failure;

use crate::client::{Source, Work};
use crate::clock::monotonic_ns;
use crate::programs::Programs;
use crate::record::{Partial, Record, Told};
use crate::spec::LoadSpec;
use crate::statements::Label;
use crate::tally::Tally;
use crate::transport::Connector;
use crate::worker::{Share, Shared, Worker, waker};

/// Long enough for every thread to have been told before it comes.
pub(crate) const START_DELAY_NS: u64 = 5_000_000;
pub(crate) const STACK_BYTES: usize = 16 << 20;

mod ticker;
use ticker::Ticker;

enum Message {
    Ready,
    /// What a thread counted, and what ended it before its time.
    Finished(Box<Tally>, Option<Failure>),
    Failed(Failure),
}

/// A thread of the load, as the coordinator has it.
struct Handle {
    shared: Arc<Shared>,
    waker: Arc<Waker>,
}

/// Runs a load from the first connection to the last answer; `report` is called once a second, and with what was
/// counted until a failure ended the load before its time.
///
/// # Errors
/// When the specification can't be run, a connection can't be opened or is lost, or a statement fails for good.
/// The threads that remain then end by themselves.
pub fn run<C: Connector>(spec: &LoadSpec, connector: C, report: impl FnMut(Told)) -> Result<Record, Failure> {
    spec.check()?;
    let (sender, receiver) = channel();
    let mut handles = Vec::new();
    let outcome = start_workers(spec, connector, &sender, &mut handles)
        .and_then(|labels| coordinate(spec, &handles, (&labels, &receiver), report));
    if outcome.is_err() {
        stop(&handles);
    }
    outcome
}

fn stop(handles: &[Handle]) {
    for handle in handles {
        handle.shared.stop.store(true, Ordering::Relaxed);
        // A thread that can't be woken ends with the process.
        let _ = handle.waker.wake();
    }
}

fn start_workers<C: Connector>(
    spec: &LoadSpec,
    connector: C,
    sender: &Sender<Message>,
    handles: &mut Vec<Handle>,
) -> Result<Vec<Label>, Failure> {
    let connector = Arc::new(connector);
    let threads = spec.threads.min(spec.clients);
    let streams = streams_of(
        spec.variables.contains_key("default_seed"),
        (spec.seed, spec.clients, threads),
    );
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
    let work = Arc::new(Work {
        source,
        protocol: spec.protocol,
        continues_on_error: false,
        counts_queries: false,
        tells_place: true,
        times_statements,
        idling: spec.idling(),
    });
    let mut client_streams = streams.clients;
    let mut first = 0;
    for (thread, thread_streams) in streams.threads.into_iter().enumerate() {
        // As even as can be: what is left over goes to the first threads.
        let clients = spec.clients / threads + usize::from(thread < spec.clients % threads);
        let rest = client_streams.split_off(clients);
        let share = Share {
            first,
            streams: client_streams,
            choose: thread_streams.choose,
            throttle: thread_streams.throttle,
            thread: (thread, threads),
            work: Arc::clone(&work),
            connects: !spec.connections.is_managed(),
        };
        let pool_size = match spec.connections.pool {
            Some(pool) => pool / threads + usize::from(thread < pool % threads),
            None => clients,
        };
        client_streams = rest;
        first += clients;
        let poll = Poll::new().map_err(|error| system_failure(&error))?;
        let waker = Arc::new(waker(&poll).map_err(|error| system_failure(&error))?);
        let shared = Arc::new(Shared::default());
        handles.push(Handle {
            shared: Arc::clone(&shared),
            waker: Arc::clone(&waker),
        });
        let (spec, connector, sender) = (spec.clone(), Arc::clone(&connector), sender.clone());
        thread::Builder::new()
            .name(format!("load-{thread}"))
            // Deep expressions of scripts are evaluated level by level.
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let outcome = Worker::open(&*connector, share, poll, shared).and_then(|mut worker| {
                    if spec.connections.is_managed() {
                        worker.open_pool(&connector, &waker, &spec.connections, pool_size)?;
                    }
                    // The coordinator is gone only when the load has failed.
                    let _ = sender.send(Message::Ready);
                    worker.run(&spec)
                });
                let _ = sender.send(match outcome {
                    Ok((tally, failure)) => Message::Finished(Box::new(tally), failure),
                    Err(failure) => Message::Failed(failure),
                });
            })
            .map_err(|error| system_failure(&error))?;
    }
    Ok(labels)
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

fn coordinate(
    spec: &LoadSpec,
    handles: &[Handle],
    (labels, receiver): (&[Label], &Receiver<Message>),
    mut report: impl FnMut(Told),
) -> Result<Record, Failure> {
    for _ in handles {
        match receiver.recv() {
            Ok(Message::Ready) => {}
            Ok(Message::Failed(failure)) => return Err(failure),
            Ok(Message::Finished(..)) | Err(_) => return Err(thread_failure()),
        }
    }
    let counting = spec.counting(monotonic_ns() + START_DELAY_NS);
    let schedule = counting.schedule;
    for handle in handles {
        handle.shared.start_ns.store(schedule.start_ns, Ordering::Release);
    }
    wake_all(handles)?;

    let mut ticker = Ticker::new(schedule);
    let interval_ns = schedule.measured_to_ns - schedule.measured_from_ns;
    let mut tally = Tally::new(interval_ns, counting.kinds);
    let (mut running, mut failure) = (handles.len(), None);
    while running > 0 {
        match receiver.recv_timeout(ticker.wait()) {
            Ok(Message::Finished(part, why)) => {
                tally.merge(&part);
                running -= 1;
                if failure.is_none() && why.is_some() {
                    failure = why.map(|why| (why, monotonic_ns()));
                    stop(handles);
                }
            }
            Ok(Message::Failed(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => {
                let threads = handles.iter().map(|handle| &*handle.shared);
                ticker.tick(monotonic_ns(), threads, |progress| {
                    report(Told::Progress(progress))
                });
                if ticker.wakes {
                    // Threads whose clients all wait for long transactions take the CPU clock here.
                    wake_all(handles)?;
                }
            }
            Ok(Message::Ready) | Err(RecvTimeoutError::Disconnected) => return Err(thread_failure()),
        }
    }
    if let Some((why, at_ns)) = failure {
        report(Told::Partial(Partial::new(counting, &tally, at_ns)));
        return Err(why);
    }
    Record::new(counting, &tally, handles.len(), labels)
}

fn wake_all(handles: &[Handle]) -> Result<(), Failure> {
    for handle in handles {
        handle.waker.wake().map_err(|error| system_failure(&error))?;
    }
    Ok(())
}

pub(crate) fn system_failure(error: &io::Error) -> Failure {
    Failure::client(format!(
        "the system refused what a thread of the load needs: {error}"
    ))
}

pub(crate) fn thread_failure() -> Failure {
    Failure::client("a thread of the load ended before its time")
}

/// The random streams of a load with so many clients and threads, as pgbench has them.
pub(crate) fn streams_of(has_default_seed: bool, (seed, clients, threads): (u64, usize, usize)) -> Streams {
    if has_default_seed {
        Streams::without_default_seed(seed, clients, threads)
    } else {
        Streams::new(seed, clients, threads)
    }
}
