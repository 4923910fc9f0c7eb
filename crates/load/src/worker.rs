//! One thread of the load: an epoll loop over its share of the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mio::{Events, Interest, Poll, Token};
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use crate::client::{Client, Outcome, Work};
use crate::clock::{monotonic_ns, sleep_until};
use crate::meter::Meter;
use crate::spec::LoadSpec;
use crate::tally::Tally;
use crate::transport::{Connector, Transport};

mod arriving;
pub mod live;
pub mod opener;
mod paced;
mod pool;
mod pooled;
mod serving;
mod thinking;
pub mod timer;
mod waiting;
use arriving::Arriving;
use live::Live;
use pool::Pool;
use thinking::Thinking;
use timer::Timer;

const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const EVENTS_PER_WAIT: usize = 1024;
/// What the coordinator and one worker share. On a cache line of its own: the worker writes to it often.
#[repr(align(128))]
#[derive(Default)]
pub struct Shared {
    /// The instant to begin at; 0 until it is known.
    pub start_ns: AtomicU64,
    /// Transactions ended so far.
    pub ended: AtomicU64,
    /// Transactions that the server gave up so far.
    pub failed: AtomicU64,
    /// Set when another worker failed.
    pub stop: AtomicBool,
    /// What is told of the last second.
    pub live: Live,
}

/// A worker.
pub struct Worker<C: Connector> {
    pub(crate) poll: Poll,
    events: Events,
    pub(crate) clients: Vec<Client<C::Transport>>,
    pub(crate) is_waiting_to_send: Vec<bool>,
    pub(crate) choose: Xoroshiro128StarStar,
    /// When clients that sleep go on, and which they are.
    pub(crate) sleepers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Clients whose transaction ended without a word to the server.
    pub(crate) again: Vec<usize>,
    timer: Timer,
    /// When what is dealt with could have been: an event was told of, a sleep was over.
    told_ns: u64,
    /// Of an open loop.
    arriving: Option<Arriving>,
    /// Of a closed loop with pauses.
    thinking: Option<Thinking>,
    /// Where connections come and go.
    pool: Option<Pool<C::Transport>>,
    pub(crate) throttle: Xoroshiro128StarStar,
    /// Its number, and how many threads there are.
    pub(crate) thread: (usize, usize),
    pub(crate) shared: Arc<Shared>,
}

/// A client that an event tells of.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) index: usize,
    is_closing: bool,
}

/// Which clients a worker runs, and what.
pub struct Share {
    /// The number of the first.
    pub first: usize,
    /// Their random streams, one each.
    pub streams: Vec<Xoroshiro128StarStar>,
    /// The thread's own: which script comes next.
    pub choose: Xoroshiro128StarStar,
    /// Another of the thread's own: when transactions are due.
    pub throttle: Xoroshiro128StarStar,
    /// The thread's number, and how many there are.
    pub thread: (usize, usize),
    /// What they run.
    pub work: Arc<Work>,
    /// Whether their connections are opened before they begin.
    pub connects: bool,
}

impl<C: Connector> Worker<C> {
    /// A worker with all its connections open, where they are opened at once, and their statements prepared.
    ///
    /// # Errors
    /// When a connection can't be opened or a statement can't be prepared.
    pub fn open(connector: &C, share: Share, poll: Poll, shared: Arc<Shared>) -> Result<Self, Failure> {
        let mut clients = Vec::with_capacity(share.streams.len());
        for (index, random) in share.streams.into_iter().enumerate() {
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let number = share.first + index;
            let connection = match share.connects {
                true => Some(
                    connector
                        .connect()
                        .map_err(|failure| failure.within(&format!("client {number} could not connect")))?,
                ),
                false => None,
            };
            let mut client = Client::new(number, connection, Arc::clone(&share.work), random);
            watch(&poll, &mut client, index)?;
            clients.push(client);
        }
        let is_waiting_to_send = vec![false; clients.len()];
        let events = Events::with_capacity(EVENTS_PER_WAIT);
        let timer = Timer::new(&poll, TIMER).map_err(|error| epoll_failure(&error))?;
        let mut worker = Self {
            poll,
            events,
            clients,
            is_waiting_to_send,
            choose: share.choose,
            sleepers: BinaryHeap::new(),
            again: Vec::new(),
            timer,
            told_ns: 0,
            arriving: None,
            thinking: None,
            pool: None,
            throttle: share.throttle,
            thread: share.thread,
            shared,
        };
        if share.connects {
            worker.prepare()?;
        }
        Ok(worker)
    }

    /// Runs transactions from the common start to the end of the measured interval, and lets those that have
    /// begun by then end. With what was counted comes what ended it before its time: a connection was lost, or a
    /// statement failed for good.
    pub fn run(mut self, spec: &LoadSpec, start_ns: u64) -> (Tally, Option<Failure>) {
        let counting = spec.counting(start_ns);
        let mut meter = Meter::new(counting);
        if let Some(pool) = &mut self.pool {
            pool.begins(start_ns, spec.closes_ns(counting.schedule));
            meter.count_connections();
        }
        self.arriving = Arriving::new(spec, counting.schedule, self.thread, &self.throttle);
        let ends_ns = counting.schedule.measured_to_ns;
        self.thinking = Thinking::new(spec.think_s, self.clients.len(), ends_ns, &self.throttle);
        sleep_until(start_ns);
        let failure = self.all_transactions(&mut meter).err();
        self.clients.iter_mut().for_each(Client::terminate);
        self.end_pool(&mut meter);
        self.count_the_queue(&mut meter);
        (meter.into_tally(), failure)
    }

    fn all_transactions(&mut self, meter: &mut Meter) -> Result<(), Failure> {
        let mut running = self.clients.len();
        for index in 0..self.clients.len() {
            let now_ns = monotonic_ns();
            let is_over = self.begin_next(index, now_ns, meter)?;
            running -= usize::from(is_over);
        }
        let mut ready = Vec::with_capacity(EVENTS_PER_WAIT);
        while running > 0 {
            let from_ns = self.wait()?;
            if let Some(from_ns) = from_ns {
                meter.idled(from_ns, monotonic_ns());
            }
            running -= self.go_on_without_answers(meter)?;
            running -= self.begin_what_is_due(meter)?;
            if self.pool.is_some() {
                running -= self.tend_connections(meter)?;
            }
            ready.clear();
            ready.extend(self.ready());
            if ready.len() < self.events.iter().count() {
                // Woken by the coordinator: an edge of the schedule, or the end of it all.
                if self.shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                meter.tick(monotonic_ns());
                self.show(meter);
            }
            for &event in &ready {
                running -= self.begin_between_answers(meter)?;
                let Some(index) = self.client_of(event) else {
                    self.look_at_free(event, meter)?;
                    continue;
                };
                let outcome = self.serve(Ready { index, ..event });
                running -= usize::from(self.follow_or_lose(index, outcome, meter)?);
            }
        }
        Ok(())
    }

    /// What comes after a client's outcome; `true` where it was its last transaction.
    #[inline]
    fn follow(&mut self, index: usize, outcome: Outcome, meter: &mut Meter) -> Result<bool, Failure> {
        match outcome {
            Outcome::Prepared if self.pool.is_some() => {
                let outcome = self.begin_wanted(index, monotonic_ns());
                return match outcome {
                    Ok(outcome) => self.follow_begun(index, outcome, meter),
                    Err(failure) => self.lose(index, failure, meter),
                };
            }
            Outcome::Waiting | Outcome::Prepared => self.watch_sending(index)?,
            Outcome::Sleeping(until_ns) => {
                self.sleepers.push(Reverse((until_ns, index)));
                self.watch_sending(index)?;
            }
            Outcome::Committed | Outcome::GivenUp => {
                let now_ns = monotonic_ns();
                let client = &mut self.clients[index];
                client.free_ns = now_ns;
                let is_over = match outcome {
                    Outcome::Committed => {
                        let read_ns = now_ns.saturating_sub(self.told_ns);
                        let is_over = meter.committed(client.timing, now_ns, read_ns);
                        meter.statements(client.timing, client.took());
                        if let Some(pool) = &mut self.pool {
                            pool.ended(now_ns, meter);
                        }
                        is_over
                    }
                    _ => {
                        self.shared.failed.fetch_add(1, Ordering::Relaxed);
                        meter.failed(client.timing, now_ns, client.given_up())
                    }
                };
                self.shared.ended.store(meter.ended(), Ordering::Relaxed);
                self.release(index, now_ns, meter)?;
                if is_over && self.arriving.is_none() {
                    return Ok(true);
                }
                // The end of a transaction is the beginning of the next: a closed loop without a pause, and one
                // reading of the clock for both.
                return self.begin_next(index, now_ns, meter);
            }
        }
        Ok(false)
    }

    /// Begins a free client's next transaction, if one is due; `true` where none will be.
    #[inline]
    fn begin_next(&mut self, index: usize, now_ns: u64, meter: &mut Meter) -> Result<bool, Failure> {
        if self.arriving.is_some() {
            return self.take_arrival(index, now_ns, meter);
        }
        if let Some(until_ns) = self
            .thinking
            .as_mut()
            .and_then(|thinking| thinking.pause(index, now_ns))
        {
            self.sleepers.push(Reverse((until_ns, index)));
            return Ok(false);
        }
        match self.begin_due(index, now_ns, now_ns) {
            Ok(outcome) => self.follow_begun(index, outcome, meter),
            Err(failure) => self.lose(index, failure, meter),
        }
    }

    #[inline]
    fn follow_begun(&mut self, index: usize, outcome: Outcome, meter: &mut Meter) -> Result<bool, Failure> {
        match outcome {
            // It asked the server nothing: others get their turn before it goes on.
            Outcome::Committed => {
                self.again.push(index);
                Ok(false)
            }
            other => self.follow(index, other, meter),
        }
    }

    /// Goes on with the clients that wait for no answer: those that slept long enough, and those whose
    /// transaction has ended already. How many of them ran their last transaction.
    fn go_on_without_answers(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        let mut ended = 0;
        if !self.again.is_empty() {
            self.told_ns = monotonic_ns();
        }
        for index in std::mem::take(&mut self.again) {
            ended += usize::from(self.follow(index, Outcome::Committed, meter)?);
        }
        while let Some(&Reverse((until_ns, index))) = self.sleepers.peek() {
            let now_ns = monotonic_ns();
            if until_ns > now_ns {
                break;
            }
            self.sleepers.pop();
            // What comes after the sleep could have come from then on.
            self.told_ns = until_ns;
            let is_pausing = self
                .thinking
                .as_ref()
                .is_some_and(|thinking| thinking.is_pausing(index));
            ended += usize::from(if is_pausing {
                meter.tick(now_ns) || self.begin_next(index, now_ns, meter)?
            } else {
                let outcome = self.clients[index].go_on(now_ns);
                self.follow_or_lose(index, outcome, meter)?
            });
        }
        Ok(ended)
    }
}

/// Asks for events of a client's new connection.
pub(crate) fn watch<T: Transport>(poll: &Poll, client: &mut Client<T>, index: usize) -> Result<(), Failure> {
    let Some(transport) = client.transport() else {
        return Ok(());
    };
    let registered = poll
        .registry()
        .register(transport, Token(index), Interest::READABLE);
    registered.map_err(|error| epoll_failure(&error))
}

/// What wakes a worker that waits on this poll.
///
/// # Errors
/// When the system gives no event descriptor.
pub fn waker(poll: &Poll) -> io::Result<mio::Waker> {
    mio::Waker::new(poll.registry(), WAKE)
}

#[cold]
fn epoll_failure(error: &io::Error) -> Failure {
    Failure::client(format!(
        "the system refused to wait for a connection (epoll): {error}"
    ))
}
