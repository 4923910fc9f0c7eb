//! The coordinator of a load: starts the workers together, reports each second, adds up what they counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use mio::{Poll, Waker};
use pgassay_pgbench::random::Streams;
use pgassay_protocol::Failure;

use crate::client::{Source, Work};
use crate::clock::monotonic_ns;
use crate::programs::Programs;
use crate::record::{Progress, Record};
use crate::spec::{LoadSpec, Schedule};
use crate::tally::Tally;
use crate::transport::Connector;
use crate::worker::{Share, Shared, Worker, waker};

/// Long enough for every thread to have been told before it comes.
pub(crate) const START_DELAY_NS: u64 = 5_000_000;
const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const STACK_BYTES: usize = 16 << 20;

enum Message {
    Ready,
    Finished(Box<Tally>),
    Failed(Failure),
}

struct Handle {
    shared: Arc<Shared>,
    waker: Waker,
}

/// Runs a load from the first connection to the last answer; `report` is called once a second.
///
/// # Errors
/// When the specification can't be run, a connection can't be opened or is lost, or a statement fails for good.
/// The threads that remain then end by themselves.
pub fn run<C: Connector>(
    spec: &LoadSpec,
    connector: C,
    report: impl FnMut(Progress),
) -> Result<Record, Failure> {
    spec.check()?;
    let (sender, receiver) = channel();
    let mut handles = Vec::new();
    let outcome = start_workers(spec, connector, &sender, &mut handles)
        .and_then(|()| coordinate(spec, &handles, &receiver, report));
    if outcome.is_err() {
        for handle in &handles {
            handle.shared.stop.store(true, Ordering::Relaxed);
            // A thread that can't be woken ends with the process.
            let _ = handle.waker.wake();
        }
    }
    outcome
}

fn start_workers<C: Connector>(
    spec: &LoadSpec,
    connector: C,
    sender: &Sender<Message>,
    handles: &mut Vec<Handle>,
) -> Result<(), Failure> {
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
    let work = Arc::new(Work {
        source,
        protocol: spec.protocol,
        continues_on_error: false,
        counts_queries: false,
        tells_place: true,
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
            connects: true,
        };
        client_streams = rest;
        first += clients;
        let poll = Poll::new().map_err(|error| system_failure(&error))?;
        let waker = waker(&poll).map_err(|error| system_failure(&error))?;
        let shared = Arc::new(Shared::default());
        handles.push(Handle {
            shared: Arc::clone(&shared),
            waker,
        });
        let (spec, connector, sender) = (spec.clone(), Arc::clone(&connector), sender.clone());
        thread::Builder::new()
            .name(format!("load-{thread}"))
            // Deep expressions of scripts are evaluated level by level.
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let outcome = Worker::open(&*connector, share, poll, shared).and_then(|worker| {
                    // The coordinator is gone only when the load has failed.
                    let _ = sender.send(Message::Ready);
                    worker.run(&spec)
                });
                let _ = sender.send(match outcome {
                    Ok(tally) => Message::Finished(Box::new(tally)),
                    Err(failure) => Message::Failed(failure),
                });
            })
            .map_err(|error| system_failure(&error))?;
    }
    Ok(())
}

fn coordinate(
    spec: &LoadSpec,
    handles: &[Handle],
    receiver: &Receiver<Message>,
    mut report: impl FnMut(Progress),
) -> Result<Record, Failure> {
    for _ in handles {
        match receiver.recv() {
            Ok(Message::Ready) => {}
            Ok(Message::Failed(failure)) => return Err(failure),
            Ok(Message::Finished(_)) | Err(_) => return Err(thread_failure()),
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
    let mut running = handles.len();
    while running > 0 {
        match receiver.recv_timeout(ticker.wait()) {
            Ok(Message::Finished(part)) => {
                tally.merge(&part);
                running -= 1;
            }
            Ok(Message::Failed(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => {
                ticker.tick(monotonic_ns(), counts(handles), &mut report);
                if ticker.at_edge {
                    // Threads whose clients all wait for long transactions take the CPU clock here.
                    wake_all(handles)?;
                }
            }
            Ok(Message::Ready) | Err(RecvTimeoutError::Disconnected) => return Err(thread_failure()),
        }
    }
    Record::new(counting, &tally, handles.len())
}

/// Transactions that ended so far, and those of them that the server gave up.
fn counts(handles: &[Handle]) -> (u64, u64) {
    let shared = handles.iter().map(|handle| &handle.shared);
    shared.fold((0, 0), |(ended, failed), each| {
        (
            ended + each.ended.load(Ordering::Relaxed),
            failed + each.failed.load(Ordering::Relaxed),
        )
    })
}

fn wake_all(handles: &[Handle]) -> Result<(), Failure> {
    for handle in handles {
        handle.waker.wake().map_err(|error| system_failure(&error))?;
    }
    Ok(())
}

/// When the coordinator has something to do: at each second since the start, and at both ends of the interval.
struct Ticker {
    schedule: Schedule,
    second: u64,
    before: (u64, u64),
    edges_ns: Vec<u64>,
    at_edge: bool,
}

impl Ticker {
    fn new(schedule: Schedule) -> Self {
        let edges_ns = vec![schedule.measured_to_ns, schedule.measured_from_ns];
        Self {
            schedule,
            second: 1,
            before: (0, 0),
            edges_ns,
            at_edge: false,
        }
    }

    fn second_end_ns(&self) -> u64 {
        self.schedule.start_ns + self.second * SECOND_NS
    }

    fn wait(&self) -> Duration {
        let next_ns = self
            .edges_ns
            .last()
            .map_or(u64::MAX, |&edge| edge)
            .min(self.second_end_ns());
        Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()))
    }

    fn tick(&mut self, now_ns: u64, (ended, failed): (u64, u64), report: &mut impl FnMut(Progress)) {
        self.at_edge = false;
        while self.edges_ns.last().is_some_and(|&edge| now_ns >= edge) {
            self.edges_ns.pop();
            self.at_edge = true;
        }
        if now_ns < self.second_end_ns() {
            return;
        }
        if self.second_end_ns() <= self.schedule.measured_to_ns {
            report(Progress {
                second: self.second,
                warmup: self.second_end_ns() <= self.schedule.measured_from_ns,
                transactions: ended - self.before.0,
                errors: failed - self.before.1,
            });
        }
        self.before = (ended, failed);
        self.second = (now_ns - self.schedule.start_ns) / SECOND_NS + 1;
    }
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
