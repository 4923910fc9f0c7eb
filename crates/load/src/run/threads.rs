//! The threads of a run: clients divided among them, begun together, stopped together. What a thread does with its
//! clients is for the rules of the run.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mio::{Poll, Waker};
use pgassay_pgbench::random::{Streams, ThreadStreams};
use pgassay_protocol::Failure;

use crate::client::Work;
use crate::clock::monotonic_ns;
use crate::transport::Connector;
use crate::worker::{Share, Shared, Worker, waker};

/// Long enough for every thread to have been told before it comes.
const START_DELAY_NS: u64 = 5_000_000;
/// Deep expressions of scripts are evaluated level by level.
const STACK_BYTES: usize = 16 << 20;

/// By what rules a run's threads work.
pub(crate) trait Rules<C: Connector>: Send + Sync + Sized + 'static {
    /// What the coordinator reads of a thread meanwhile.
    type Seen: Default + Send + 'static;
    /// What a thread has to say at once.
    type Said: Send + 'static;
    /// What a thread counts.
    type Books: Send + 'static;
    /// What a thread needs that is opened before any of them starts.
    type Opened: Send + 'static;

    /// Whether connections are opened before the run begins.
    fn connects(&self) -> bool;

    /// Opens what the thread of this number needs.
    fn open(&self, number: usize, streams: &ThreadStreams) -> Result<Self::Opened, Failure>;

    /// Gets a thread ready, after its connections were opened.
    fn prepare(&self, _: &mut Worker<C>, _: &Given<C, Self>) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs a thread's clients from the start to their end. With what was counted comes what ended it before its time.
    fn run(
        &self,
        worker: Worker<C>,
        given: Given<C, Self>,
        opened: Self::Opened,
        start_ns: u64,
    ) -> Ended<Self::Books>;
}

/// A thread that is over; a failure where it could not begin.
pub(crate) type Ended<B> = Result<(B, Option<Failure>), Failure>;

/// What a thread has beside its clients.
pub(crate) struct Given<C: Connector, R: Rules<C>> {
    /// Opens connections.
    pub connector: Arc<C>,
    /// Wakes the thread.
    pub waker: Arc<Waker>,
    /// Where it shows what it counts.
    pub seen: Arc<Mutex<R::Seen>>,
    sender: Sender<Message<R::Said, R::Books>>,
}

impl<C: Connector, R: Rules<C>> Given<C, R> {
    /// Says something to the coordinator.
    pub fn say(&self, said: R::Said) {
        tell(&self.sender, Message::Heard(Heard::Said(said)));
    }
}

enum Message<S, B> {
    Ready,
    Heard(Heard<S, B>),
    Failed(Failure),
}

/// What the coordinator hears of a thread.
pub(crate) enum Heard<S, B> {
    /// Something to pass on.
    Said(S),
    /// The thread of this number is over: what it counted, and what ended it before its time.
    Ended(usize, Box<B>, Option<Failure>),
    /// Nothing in the time that it was waited for.
    Nothing,
}

struct Thread<S> {
    shared: Arc<Shared>,
    seen: Arc<Mutex<S>>,
    waker: Arc<Waker>,
}

/// All threads of a run, as the coordinator has them. They stop when it drops them.
pub(crate) struct Threads<C: Connector, R: Rules<C>> {
    threads: Vec<Thread<R::Seen>>,
    running: usize,
    sender: Sender<Message<R::Said, R::Books>>,
    receiver: Receiver<Message<R::Said, R::Books>>,
}

impl<C: Connector, R: Rules<C>> Threads<C, R> {
    /// Starts a thread for each set of streams, and waits until all are ready. Clients are shared as evenly as can
    /// be: what is left over goes to the first threads.
    pub fn start(rules: R, connector: C, mut streams: Streams, work: Work) -> Result<Self, Failure> {
        let (rules, connector, work) = (Arc::new(rules), Arc::new(connector), Arc::new(work));
        let (clients, count) = (streams.clients.len(), streams.threads.len());
        let (sender, receiver) = channel();
        let mut all = Self {
            threads: Vec::new(),
            running: 0,
            sender,
            receiver,
        };
        let mut first = 0;
        for (number, of_thread) in streams.threads.into_iter().enumerate() {
            let rest = streams.clients.split_off(share_of(clients, (number, count)));
            let opened = rules.open(number, &of_thread)?;
            let share = Share {
                first,
                streams: std::mem::replace(&mut streams.clients, rest),
                choose: of_thread.choose,
                throttle: of_thread.throttle,
                thread: (number, count),
                work: Arc::clone(&work),
                connects: rules.connects(),
            };
            first += share.streams.len();
            all.add((Arc::clone(&rules), opened), Arc::clone(&connector), share)?;
        }
        for _ in &all.threads {
            match all.receiver.recv() {
                Ok(Message::Ready) => {}
                Ok(Message::Failed(failure)) => return Err(failure),
                Ok(Message::Heard(_)) | Err(_) => return Err(thread_failure()),
            }
        }
        Ok(all)
    }

    fn add(
        &mut self,
        (rules, opened): (Arc<R>, R::Opened),
        connector: Arc<C>,
        share: Share,
    ) -> Result<(), Failure> {
        let poll = Poll::new().map_err(|error| system_failure(&error))?;
        let waker = Arc::new(waker(&poll).map_err(|error| system_failure(&error))?);
        let (shared, number) = (Arc::new(Shared::default()), share.thread.0);
        let given = Given {
            connector,
            waker: Arc::clone(&waker),
            seen: Arc::default(),
            sender: self.sender.clone(),
        };
        self.threads.push(Thread {
            shared: Arc::clone(&shared),
            seen: Arc::clone(&given.seen),
            waker,
        });
        let body = move || {
            let sender = given.sender.clone();
            let ended = run_thread(&*rules, (given, opened), share, (poll, shared));
            let message = match ended {
                Ok((books, failure)) => Message::Heard(Heard::Ended(number, Box::new(books), failure)),
                Err(failure) => Message::Failed(failure),
            };
            tell(&sender, message);
        };
        let named = thread::Builder::new().name(format!("load-{number}"));
        let spawned = named.stack_size(STACK_BYTES).spawn(body);
        spawned.map_err(|error| system_failure(&error))?;
        self.running += 1;
        Ok(())
    }

    /// The instant at which all will begin; they are told of it by [`Threads::begin`].
    pub fn next_start_ns() -> u64 {
        monotonic_ns() + START_DELAY_NS
    }

    /// Has all begin at an instant.
    pub fn begin(&self, start_ns: u64) -> Result<(), Failure> {
        for thread in &self.threads {
            thread.shared.start_ns.store(start_ns, Ordering::Release);
        }
        self.wake()
    }

    /// Wakes all.
    pub fn wake(&self) -> Result<(), Failure> {
        for thread in &self.threads {
            thread.waker.wake().map_err(|error| system_failure(&error))?;
        }
        Ok(())
    }

    /// Has all end, whatever they are at.
    pub fn stop(&self) {
        for thread in &self.threads {
            thread.shared.stop.store(true, Ordering::Relaxed);
            // A thread that can't be woken ends with the process.
            let _ = thread.waker.wake();
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Whether one is not over yet.
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// What is heard next.
    pub fn hear(&mut self, within: Duration) -> Result<Heard<R::Said, R::Books>, Failure> {
        match self.receiver.recv_timeout(within) {
            Ok(Message::Heard(heard)) => {
                self.running -= usize::from(matches!(heard, Heard::Ended(..)));
                Ok(heard)
            }
            Ok(Message::Failed(failure)) => Err(failure),
            Err(RecvTimeoutError::Timeout) => Ok(Heard::Nothing),
            Ok(Message::Ready) | Err(RecvTimeoutError::Disconnected) => Err(thread_failure()),
        }
    }

    /// What each shares with the coordinator.
    pub fn shared(&self) -> impl Iterator<Item = &Shared> + Clone {
        self.threads.iter().map(|thread| &*thread.shared)
    }

    /// What each shows of its counts.
    pub fn seen(&self) -> impl Iterator<Item = MutexGuard<'_, R::Seen>> {
        let threads = self.threads.iter();
        threads.map(|thread| thread.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<C: Connector, R: Rules<C>> Drop for Threads<C, R> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_thread<C: Connector, R: Rules<C>>(
    rules: &R,
    (given, opened): (Given<C, R>, R::Opened),
    share: Share,
    (poll, shared): (Poll, Arc<Shared>),
) -> Ended<R::Books> {
    let mut worker = Worker::open(&*given.connector, share, poll, shared)?;
    rules.prepare(&mut worker, &given)?;
    tell(&given.sender, Message::Ready);
    let start_ns = worker.await_start()?.ok_or_else(thread_failure)?;
    rules.run(worker, given, opened, start_ns)
}

/// Tells the coordinator. It is gone only when the run has failed already, of which it has told: then nobody is left
/// who could act on this message, or on its loss.
fn tell<S, B>(coordinator: &Sender<Message<S, B>>, message: Message<S, B>) {
    let _ = coordinator.send(message);
}

/// How many of these a thread has, by its number and how many threads there are.
pub(crate) fn share_of(total: usize, (number, count): (usize, usize)) -> usize {
    total / count + usize::from(number < total % count)
}

fn system_failure(error: &io::Error) -> Failure {
    Failure::client(format!(
        "the system refused what a thread of the load needs: {error}"
    ))
}

fn thread_failure() -> Failure {
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
