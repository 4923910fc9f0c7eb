//! The coordinator of a run by pgbench's rules: starts the threads together, tells of progress, adds up.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mio::{Poll, Waker};
use pgassay_pgbench::random::ThreadStreams;
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use super::books::Books;
use super::log::TransactionLog;
use super::record::{Instants, PgbenchProgress, PgbenchRecord};
use super::seat::{Finished, Said, Seat};
use super::spec::PgbenchSpec;
use super::stats::Stats;
use crate::client::{Source, Work};
use crate::clock::monotonic_ns;
use crate::pacing::{Arrivals, Pace, Pacer};
use crate::programs::Programs;
use crate::run::{STACK_BYTES, START_DELAY_NS, streams_of, system_failure, thread_failure};
use crate::spec::Schedule;
use crate::transport::Connector;
use crate::worker::{Share, Shared, Worker, waker};

const SECOND_NS: u64 = 1_000_000_000;

/// What is told while a run goes on.
#[derive(Clone, Debug)]
pub enum Event {
    /// At each interval.
    Progress(PgbenchProgress),
    /// At once.
    Said(Said),
}

enum Message {
    Ready,
    Said(Said),
    Finished(usize, Box<Books>),
    Failed(Failure),
}

struct Thread {
    shared: Arc<Shared>,
    seen: Arc<Mutex<Stats>>,
    waker: Waker,
}

/// Runs pgbench's scripts from the first connection to the last answer.
///
/// # Errors
/// When the specification can't be run, a script is none, a first connection can't be opened, or the system refuses
/// what is needed. A client that is aborted later is told of, and counted in the record.
pub fn run<C: Connector>(
    spec: PgbenchSpec,
    connector: C,
    mut report: impl FnMut(Event),
) -> Result<PgbenchRecord, Failure> {
    spec.check()?;
    let (sender, receiver) = channel();
    let mut threads = Vec::new();
    let created_ns = monotonic_ns();
    let spec = Arc::new(spec);
    let outcome = start(&spec, connector, &sender, &mut threads)
        .and_then(|programs| coordinate(&spec, &programs, (&threads, &receiver), created_ns, &mut report));
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

fn start<C: Connector>(
    spec: &Arc<PgbenchSpec>,
    connector: C,
    sender: &Sender<Message>,
    threads: &mut Vec<Thread>,
) -> Result<Arc<Programs>, Failure> {
    let connector = Arc::new(connector);
    let count = spec.threads_used();
    let has_seed = spec.variables.contains_key("default_seed");
    let mut streams = streams_of(has_seed, (spec.seed, spec.clients, count));
    let seeds = (spec.seed, streams.default_seed);
    let programs = Arc::new(Programs::new(&spec.scripts, &spec.variables, spec.scale, seeds)?);
    let work = Arc::new(Work {
        source: Source::Programs(Arc::clone(&programs)),
        protocol: spec.protocol,
        continues_on_error: spec.continues_on_error,
        counts_queries: false,
        tells_place: false,
        times_statements: false,
        idling: None,
    });
    let mut first = 0;
    for (number, of_thread) in streams.threads.into_iter().enumerate() {
        let clients = spec.clients / count + usize::from(number < spec.clients % count);
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
            spec,
            &connector,
            (&work, &programs),
            place,
            sender.clone(),
        )?);
    }
    Ok(programs)
}

/// Which clients a thread has, and its random streams.
struct Place {
    number: usize,
    count: usize,
    first: usize,
    clients: Vec<Xoroshiro128StarStar>,
    of_thread: ThreadStreams,
}

fn start_thread<C: Connector>(
    spec: &Arc<PgbenchSpec>,
    connector: &Arc<C>,
    (work, programs): (&Arc<Work>, &Arc<Programs>),
    place: Place,
    sender: Sender<Message>,
) -> Result<Thread, Failure> {
    let number = place.number;
    let log = match &spec.log {
        Some(log) => {
            Some(TransactionLog::create(spec, log, number, place.of_thread.sample).map_err(Failure::client)?)
        }
        None => None,
    };
    let share = Share {
        first: place.first,
        streams: place.clients,
        choose: place.of_thread.choose,
        throttle: place.of_thread.throttle.clone(),
        thread: (number, place.count),
        work: Arc::clone(work),
        connects: !spec.connects_each,
    };
    let poll = Poll::new().map_err(|error| system_failure(&error))?;
    let waker = waker(&poll).map_err(|error| system_failure(&error))?;
    let (shared, seen) = (
        Arc::new(Shared::default()),
        Arc::new(Mutex::new(Stats::default())),
    );
    let thread = Thread {
        shared: Arc::clone(&shared),
        seen: Arc::clone(&seen),
        waker,
    };
    let (spec, connector, programs) = (Arc::clone(spec), Arc::clone(connector), Arc::clone(programs));
    let throttle = place.of_thread.throttle;
    let body = move |sender: &Sender<Message>| -> Finished {
        let mut worker = Worker::open(&*connector, share, poll, shared)?;
        // The coordinator is gone only when the run has failed.
        let _ = sender.send(Message::Ready);
        let start_ns = worker.await_start()?.ok_or_else(thread_failure)?;
        let end_ns = end_of(&spec, start_ns);
        let pacer = spec
            .rate
            .map(|rate| pacer(rate, (start_ns, end_ns), (number, place.count), throttle));
        let voice = sender.clone();
        let say = Box::new(move |said| drop(voice.send(Message::Said(said))));
        thread::sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())));
        Seat {
            worker,
            connector,
            spec,
            programs,
            pacer,
            log,
            seen,
            say,
            end_ns,
        }
        .run()
    };
    thread::Builder::new()
        .name(format!("load-{number}"))
        // Deep expressions of scripts are evaluated level by level.
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let finished = body(&sender);
            let _ = sender.send(match finished {
                Ok(books) => Message::Finished(number, Box::new(books)),
                Err(failure) => Message::Failed(failure),
            });
        })
        .map_err(|error| system_failure(&error))?;
    Ok(thread)
}

fn pacer(
    rate: f64,
    (start_ns, end_ns): (u64, u64),
    thread: (usize, usize),
    throttle: Xoroshiro128StarStar,
) -> Pacer {
    let pace = Pace {
        arrivals: Arrivals::Pgbench,
        rates: vec![(0.0, rate)],
        drain_s: None,
    };
    let schedule = Schedule {
        start_ns,
        measured_from_ns: start_ns,
        measured_to_ns: end_ns,
    };
    Pacer::new(&pace, schedule, thread, throttle)
}

fn end_of(spec: &PgbenchSpec, start_ns: u64) -> u64 {
    spec.duration_s
        .map_or(u64::MAX, |seconds| start_ns + u64::from(seconds) * SECOND_NS)
}

fn coordinate(
    spec: &PgbenchSpec,
    programs: &Programs,
    (threads, receiver): (&[Thread], &Receiver<Message>),
    created_ns: u64,
    report: &mut impl FnMut(Event),
) -> Result<PgbenchRecord, Failure> {
    for _ in threads {
        match receiver.recv() {
            Ok(Message::Ready) => {}
            Ok(Message::Failed(failure)) => return Err(failure),
            _ => return Err(thread_failure()),
        }
    }
    let start_ns = monotonic_ns() + START_DELAY_NS;
    for thread in threads {
        thread.shared.start_ns.store(start_ns, Ordering::Release);
        thread.waker.wake().map_err(|error| system_failure(&error))?;
    }
    let mut books = Books::new(
        programs.programs.len(),
        programs.offsets.last().copied().unwrap_or(0),
    );
    let (mut running, mut aborted_threads) = (threads.len(), Vec::new());
    let mut ticker = Ticker::new(spec.progress_s, start_ns);
    while running > 0 {
        match receiver.recv_timeout(ticker.wait()) {
            Ok(Message::Finished(number, part)) => {
                running -= 1;
                books.merge(&part);
                if part.aborted > 0 {
                    aborted_threads.push(number);
                    if spec.exits_on_abort {
                        break;
                    }
                }
            }
            Ok(Message::Said(said)) => report(Event::Said(said)),
            Ok(Message::Failed(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => ticker.tick(threads, report),
            Ok(Message::Ready) | Err(RecvTimeoutError::Disconnected) => return Err(thread_failure()),
        }
    }
    let instants = Instants {
        created_ns,
        start_ns,
        end_ns: monotonic_ns(),
    };
    PgbenchRecord::new(&instants, programs, &books, aborted_threads)
}

/// When progress is told: at each interval since the start.
struct Ticker {
    interval_ns: Option<u64>,
    start_ns: u64,
    next_ns: u64,
}

impl Ticker {
    fn new(progress_s: Option<u32>, start_ns: u64) -> Self {
        let interval_ns = progress_s.map(|seconds| u64::from(seconds) * SECOND_NS);
        Self {
            interval_ns,
            start_ns,
            next_ns: start_ns.saturating_add(interval_ns.unwrap_or(u64::MAX)),
        }
    }

    fn wait(&self) -> Duration {
        Duration::from_nanos(self.next_ns.saturating_sub(monotonic_ns()))
    }

    #[allow(clippy::cast_precision_loss)]
    fn tick(&mut self, threads: &[Thread], report: &mut impl FnMut(Event)) {
        let now_ns = monotonic_ns();
        let Some(interval_ns) = self.interval_ns.filter(|_| now_ns >= self.next_ns) else {
            return;
        };
        let mut stats = Stats::default();
        for thread in threads {
            stats.merge(&thread.seen.lock().unwrap_or_else(PoisonError::into_inner));
        }
        report(Event::Progress(PgbenchProgress {
            elapsed_s: (now_ns - self.start_ns) as f64 / 1e9,
            stats,
        }));
        // The next one is in the future, whatever held this one up.
        while self.next_ns <= now_ns {
            self.next_ns += interval_ns;
        }
    }
}
