//! The coordinator of a run by sysbench's rules: starts the threads together, tells of intervals, adds up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mio::{Poll, Waker};
use pgassay_pgbench::random::ThreadStreams;
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use super::books::{Books, Seen};
use super::record::{SysbenchProgress, SysbenchRecord};
use super::seat::Seat;
use super::spec::SysbenchSpec;
use crate::client::{Source, Work};
use crate::clock::{Schedule, monotonic_ns};
use crate::pacing::{Arrivals, Pace, Pacer};
use crate::run::{STACK_BYTES, START_DELAY_NS, streams_of, system_failure, thread_failure};
use crate::script::Script;
use crate::transport::Connector;
use crate::worker::opener::Opener;
use crate::worker::{Share, Shared, Worker, waker};

const SECOND_NS: u64 = 1_000_000_000;

/// What is told while a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// All connections are open and their statements prepared.
    Started,
    /// An interval is over.
    Progress(SysbenchProgress),
}

enum Message {
    Ready,
    /// What a thread counted, and what ended it before its time.
    Finished(Box<Books>, Option<Failure>),
    Failed(Failure),
}

struct Thread {
    shared: Arc<Shared>,
    seen: Arc<Mutex<Seen>>,
    waker: Arc<Waker>,
}

/// Runs a script from the first connection to the last answer.
///
/// # Errors
/// When the specification can't be run, or the run can't begin. What ends it later stands in the record.
pub fn run<C: Connector>(
    spec: SysbenchSpec,
    connector: C,
    mut report: impl FnMut(Event),
) -> Result<SysbenchRecord, Failure> {
    spec.check()?;
    let (sender, receiver) = channel();
    let mut threads = Vec::new();
    let spec = Arc::new(spec);
    let outcome = start(&spec, connector, &sender, &mut threads)
        .and_then(|()| coordinate(&spec, &threads, &receiver, &mut report));
    stop(&threads);
    outcome
}

fn stop(threads: &[Thread]) {
    for thread in threads {
        thread.shared.stop.store(true, Ordering::Relaxed);
        // A thread that can't be woken ends with the process.
        let _ = thread.waker.wake();
    }
}

/// Which connections a thread has, and its random streams.
struct Place {
    number: usize,
    count: usize,
    first: usize,
    clients: Vec<Xoroshiro128StarStar>,
    of_thread: ThreadStreams,
}

fn start<C: Connector>(
    spec: &Arc<SysbenchSpec>,
    connector: C,
    sender: &Sender<Message>,
    threads: &mut Vec<Thread>,
) -> Result<(), Failure> {
    let connector = Arc::new(connector);
    let count = spec.threads_used();
    let mut streams = streams_of(false, (spec.seed, spec.connections, count));
    let work = Arc::new(Work {
        source: Source::Builtin(Script::sysbench(&spec.sysbench, spec.connections, spec.seed)),
        protocol: spec.protocol,
        continues_on_error: false,
        counts_queries: true,
        tells_place: true,
        times_statements: false,
        idling: None,
    });
    let begun = Arc::new(AtomicU64::new(0));
    let mut first = 0;
    for (number, of_thread) in streams.threads.into_iter().enumerate() {
        let clients = spec.connections / count + usize::from(number < spec.connections % count);
        let rest = streams.clients.split_off(clients);
        let place = Place {
            number,
            count,
            first,
            clients: std::mem::replace(&mut streams.clients, rest),
            of_thread,
        };
        first += clients;
        threads.push(start_thread(
            (spec, &begun),
            &connector,
            &work,
            place,
            sender.clone(),
        )?);
    }
    Ok(())
}

fn start_thread<C: Connector>(
    (spec, begun): (&Arc<SysbenchSpec>, &Arc<AtomicU64>),
    connector: &Arc<C>,
    work: &Arc<Work>,
    place: Place,
    sender: Sender<Message>,
) -> Result<Thread, Failure> {
    let number = place.number;
    let share = Share {
        first: place.first,
        streams: place.clients,
        choose: place.of_thread.choose,
        throttle: place.of_thread.throttle.clone(),
        thread: (number, place.count),
        work: Arc::clone(work),
        connects: true,
    };
    let poll = Poll::new().map_err(|error| system_failure(&error))?;
    let waker = Arc::new(waker(&poll).map_err(|error| system_failure(&error))?);
    let waker_of_opener = Arc::clone(&waker);
    let (shared, seen) = (Arc::new(Shared::default()), Arc::new(Mutex::new(Seen::default())));
    let thread = Thread {
        shared: Arc::clone(&shared),
        seen: Arc::clone(&seen),
        waker,
    };
    let (spec, begun, connector) = (Arc::clone(spec), Arc::clone(begun), Arc::clone(connector));
    let body = move |sender: &Sender<Message>| -> Result<(Books, Option<Failure>), Failure> {
        let mut worker = Worker::open(&*connector, share, poll, shared)?;
        // The coordinator is gone only when the run has failed.
        let _ = sender.send(Message::Ready);
        let start_ns = worker.await_start()?.ok_or_else(thread_failure)?;
        let schedule = schedule(&spec, start_ns);
        let pacer = spec.rate.map(|rate| {
            let pace = Pace {
                arrivals: Arrivals::Poisson,
                rates: vec![(0.0, rate)],
                drain_s: None,
            };
            Pacer::new(&pace, schedule, (number, place.count), place.of_thread.throttle)
        });
        let opener = match spec.reconnect_after {
            0 => None,
            _ => Some(Opener::start(&connector, &waker_of_opener, worker.clients.len())?),
        };
        thread::sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())));
        let seat = Seat {
            worker,
            spec,
            pacer,
            opener,
            seen,
            begun,
            counts_from_ns: schedule.measured_from_ns,
            end_ns: schedule.measured_to_ns,
        };
        Ok(seat.run())
    };
    thread::Builder::new()
        .name(format!("load-{number}"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let finished = body(&sender);
            let _ = sender.send(match finished {
                Ok((books, failure)) => Message::Finished(Box::new(books), failure),
                Err(failure) => Message::Failed(failure),
            });
        })
        .map_err(|error| system_failure(&error))?;
    Ok(thread)
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
fn coordinate(
    spec: &SysbenchSpec,
    threads: &[Thread],
    receiver: &Receiver<Message>,
    report: &mut impl FnMut(Event),
) -> Result<SysbenchRecord, Failure> {
    for _ in threads {
        match receiver.recv() {
            Ok(Message::Ready) => {}
            Ok(Message::Failed(failure)) => return Err(failure),
            _ => return Err(thread_failure()),
        }
    }
    report(Event::Started);
    let start_ns = monotonic_ns() + START_DELAY_NS;
    for thread in threads {
        thread.shared.start_ns.store(start_ns, Ordering::Release);
        thread.waker.wake().map_err(|error| system_failure(&error))?;
    }
    let from_ns = schedule(spec, start_ns).measured_from_ns;
    let (mut books, mut running, mut failure) = (Books::default(), threads.len(), None);
    let mut ticker = Ticker::new(spec.report_interval_s, from_ns);
    while running > 0 {
        match receiver.recv_timeout(ticker.wait()) {
            Ok(Message::Finished(part, why)) => {
                running -= 1;
                books.merge(&part);
                if failure.is_none() && why.is_some() {
                    stop(threads);
                    failure = why;
                }
            }
            Ok(Message::Failed(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => ticker.tick(spec, threads, report),
            Ok(Message::Ready) | Err(RecvTimeoutError::Disconnected) => return Err(thread_failure()),
        }
    }
    let elapsed_s = monotonic_ns().saturating_sub(from_ns) as f64 / 1e9;
    SysbenchRecord::new(spec, &books, elapsed_s, failure)
}

/// When an interval is told of.
struct Ticker {
    interval_ns: Option<u64>,
    from_ns: u64,
    last_ns: u64,
    next_ns: u64,
}

impl Ticker {
    fn new(interval_s: Option<u32>, from_ns: u64) -> Self {
        let interval_ns = interval_s.map(|seconds| u64::from(seconds) * SECOND_NS);
        Self {
            interval_ns,
            from_ns,
            last_ns: from_ns,
            next_ns: from_ns.saturating_add(interval_ns.unwrap_or(u64::MAX)),
        }
    }

    fn wait(&self) -> Duration {
        Duration::from_nanos(self.next_ns.saturating_sub(monotonic_ns()))
    }

    #[allow(clippy::cast_precision_loss)]
    fn tick(&mut self, spec: &SysbenchSpec, threads: &[Thread], report: &mut impl FnMut(Event)) {
        let now_ns = monotonic_ns();
        let Some(interval_ns) = self.interval_ns.filter(|_| now_ns >= self.next_ns) else {
            return;
        };
        let mut seen = Seen::default();
        for thread in threads {
            seen.merge(&thread.seen.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        let (elapsed, interval) = (now_ns - self.from_ns, now_ns - self.last_ns);
        let times_s = (elapsed as f64 / 1e9, interval as f64 / 1e9);
        report(Event::Progress(SysbenchProgress::new(spec, &seen, times_s)));
        self.last_ns = now_ns;
        // The next one is in the future, whatever held this one up.
        while self.next_ns <= now_ns {
            self.next_ns += interval_ns;
        }
    }
}
