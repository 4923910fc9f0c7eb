//! One thread of the load: an epoll loop over its share of the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use crate::client::{Client, Outcome, Work};
use crate::clock::monotonic_ns;
use crate::meter::{Meter, Tally};
use crate::spec::{LoadSpec, Schedule};
use crate::transport::Connector;

const WAKE: Token = Token(usize::MAX);
const EVENTS_PER_WAIT: usize = 1024;
/// How long a thread polls before it sleeps, for each of its clients: the more there are the nearer is the next
/// answer, and a thread that sleeps makes the server pay for its wake-up. On a machine of two virtual processors
/// that is a tenth of the throughput at 50 connections. pgbench's own loop over its sockets takes time that grows
/// with them and does the same unasked; a leaner loop has to wait on purpose to load a server as pgbench does.
const POLL_NS_PER_CLIENT: u64 = 770;
/// About what a sleep and a wake-up cost: a thread that polls so long never pays more than twice what the better
/// of polling and sleeping would have cost it (Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive
/// Spinning for a Shared-Memory Multiprocessor", 1991).
const POLL_MAX_NS: u64 = 10_000;

/// What the coordinator and one worker share. On a cache line of its own: the worker writes to it often.
#[repr(align(128))]
#[derive(Default)]
pub struct Shared {
    /// The instant to begin at; 0 until it is known.
    pub start_ns: AtomicU64,
    /// Transactions ended so far.
    pub ended: AtomicU64,
    /// Set when another worker failed.
    pub stop: AtomicBool,
}

/// A worker.
pub struct Worker<C: Connector> {
    poll: Poll,
    events: Events,
    clients: Vec<Client<C::Transport>>,
    is_waiting_to_send: Vec<bool>,
    choose: Xoroshiro128StarStar,
    /// When clients that sleep go on, and which they are.
    sleepers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Clients whose transaction ended without a word to the server.
    again: Vec<usize>,
    shared: Arc<Shared>,
}

/// A client that an event tells of.
#[derive(Clone, Copy)]
struct Ready {
    index: usize,
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
    /// What they run.
    pub work: Arc<Work>,
}

impl<C: Connector> Worker<C> {
    /// A worker with all its connections open and their statements prepared.
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
            let connection = connector
                .connect()
                .map_err(|failure| failure.within(&format!("client {number} could not connect")))?;
            let mut client = Client::new(number, connection, Arc::clone(&share.work), random);
            poll.registry()
                .register(client.transport(), Token(index), Interest::READABLE)
                .map_err(|error| epoll_failure(&error))?;
            clients.push(client);
        }
        let is_waiting_to_send = vec![false; clients.len()];
        let events = Events::with_capacity(EVENTS_PER_WAIT);
        let mut worker = Self {
            poll,
            events,
            clients,
            is_waiting_to_send,
            choose: share.choose,
            sleepers: BinaryHeap::new(),
            again: Vec::new(),
            shared,
        };
        worker.prepare()?;
        Ok(worker)
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let mut unprepared = 0;
        for index in 0..self.clients.len() {
            if self.clients[index].prepare()? == Outcome::Waiting {
                unprepared += 1;
            }
            self.watch_sending(index)?;
        }
        while unprepared > 0 && !self.shared.stop.load(Ordering::Relaxed) {
            self.wait()?;
            let ready: Vec<Ready> = self.ready().collect();
            for client in ready {
                if self.serve(client)? == Outcome::Prepared {
                    unprepared -= 1;
                }
            }
        }
        Ok(())
    }

    /// Runs transactions from the common start to the end of the measured interval, and lets those that have
    /// begun by then end. Nothing at all when the load is stopped before it begins.
    ///
    /// # Errors
    /// When a connection is lost or a statement fails for good.
    pub fn run(mut self, spec: &LoadSpec) -> Result<Tally, Failure> {
        let Some(start_ns) = self.await_start()? else {
            return Ok(Tally::new(0));
        };
        let mut meter = Meter::new(Schedule::new(spec, start_ns));
        sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())));
        let mut running = self.clients.len();
        for index in 0..self.clients.len() {
            let outcome = self.clients[index].begin(monotonic_ns(), &mut self.choose)?;
            running -= usize::from(self.follow(index, outcome, &mut meter)?);
        }
        let mut ready = Vec::with_capacity(EVENTS_PER_WAIT);
        while running > 0 {
            self.wait()?;
            running -= self.go_on_without_answers(&mut meter)?;
            ready.clear();
            ready.extend(self.ready());
            if ready.len() < self.events.iter().count() {
                // Woken by the coordinator: an edge of the schedule, or the end of it all.
                if self.shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                meter.tick(monotonic_ns());
            }
            for &event in &ready {
                let outcome = self.serve(event)?;
                running -= usize::from(self.follow(event.index, outcome, &mut meter)?);
            }
        }
        self.clients.iter_mut().for_each(Client::terminate);
        Ok(meter.into_tally())
    }

    /// What comes after a client's outcome; `true` where it was its last transaction.
    #[inline]
    fn follow(&mut self, index: usize, outcome: Outcome, meter: &mut Meter) -> Result<bool, Failure> {
        match outcome {
            Outcome::Waiting | Outcome::Prepared => self.watch_sending(index)?,
            Outcome::Sleeping(until_ns) => {
                self.sleepers.push(Reverse((until_ns, index)));
                self.watch_sending(index)?;
            }
            Outcome::Committed | Outcome::GivenUp => {
                let now_ns = monotonic_ns();
                let client = &mut self.clients[index];
                let is_over = match outcome {
                    Outcome::Committed => meter.committed(client.started_ns, now_ns),
                    _ => meter.failed(now_ns),
                };
                self.shared.ended.store(meter.ended(), Ordering::Relaxed);
                if is_over {
                    return Ok(true);
                }
                // The end of a transaction is the beginning of the next: a closed loop without a pause, and one
                // reading of the clock for both.
                match client.begin(now_ns, &mut self.choose)? {
                    // It asked the server nothing: others get their turn before it goes on.
                    Outcome::Committed => self.again.push(index),
                    other => return self.follow(index, other, meter),
                }
            }
        }
        Ok(false)
    }

    /// Goes on with the clients that wait for no answer: those that slept long enough, and those whose
    /// transaction has ended already. How many of them ran their last transaction.
    fn go_on_without_answers(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        let mut ended = 0;
        for index in std::mem::take(&mut self.again) {
            ended += usize::from(self.follow(index, Outcome::Committed, meter)?);
        }
        while let Some(&Reverse((until_ns, index))) = self.sleepers.peek() {
            let now_ns = monotonic_ns();
            if until_ns > now_ns {
                break;
            }
            self.sleepers.pop();
            let outcome = self.clients[index].go_on(now_ns)?;
            ended += usize::from(self.follow(index, outcome, meter)?);
        }
        Ok(ended)
    }

    fn await_start(&mut self) -> Result<Option<u64>, Failure> {
        loop {
            let start_ns = self.shared.start_ns.load(Ordering::Acquire);
            if start_ns != 0 {
                return Ok(Some(start_ns));
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.wait()?;
            // Notices may come while waiting, and the end of a connection is better found now than later.
            let ready: Vec<Ready> = self.ready().collect();
            for client in ready {
                self.serve(client)?;
            }
        }
    }

    #[inline]
    fn wait(&mut self) -> Result<(), Failure> {
        if !self.again.is_empty() {
            return self.poll_once(Some(Duration::ZERO));
        }
        if let Some(&Reverse((until_ns, _))) = self.sleepers.peek() {
            // Whole milliseconds are slept, as epoll counts them, and what is left is polled away.
            let left_ms = until_ns.saturating_sub(monotonic_ns()) / 1_000_000;
            return self.poll_once(Some(Duration::from_millis(left_ms)));
        }
        if self.clients.len() > 1 {
            let end_ns = monotonic_ns() + (POLL_NS_PER_CLIENT * self.clients.len() as u64).min(POLL_MAX_NS);
            while monotonic_ns() < end_ns {
                self.poll_once(Some(Duration::ZERO))?;
                if !self.events.is_empty() {
                    return Ok(());
                }
            }
        }
        self.poll_once(None)
    }

    #[inline]
    fn poll_once(&mut self, timeout: Option<Duration>) -> Result<(), Failure> {
        loop {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(epoll_failure(&error)),
            }
        }
    }

    #[inline]
    fn ready(&self) -> impl Iterator<Item = Ready> + '_ {
        let clients = self.events.iter().filter(|event| event.token() != WAKE);
        clients.map(|event| Ready {
            index: event.token().0,
            is_closing: event.is_read_closed(),
        })
    }

    #[inline]
    fn serve(&mut self, Ready { index, is_closing }: Ready) -> Result<Outcome, Failure> {
        let client = &mut self.clients[index];
        if client.has_unsent() {
            client.send()?;
        }
        let outcome = client.receive(is_closing)?;
        self.watch_sending(index)?;
        Ok(outcome)
    }

    /// Asks for an event when the socket takes bytes again, if there are any left to send; usually there are none.
    #[inline]
    fn watch_sending(&mut self, index: usize) -> Result<(), Failure> {
        let wants = self.clients[index].has_unsent();
        if wants == self.is_waiting_to_send[index] {
            return Ok(());
        }
        self.is_waiting_to_send[index] = wants;
        let interest = if wants {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let transport = self.clients[index].transport();
        let registered = self.poll.registry().reregister(transport, Token(index), interest);
        registered.map_err(|error| epoll_failure(&error))
    }
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
