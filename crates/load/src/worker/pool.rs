//! The connections of a worker whose clients don't each keep one from the beginning to the end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use mio::Waker;
use pgassay_pgbench::random::fraction;
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use super::opener::{Opened, Opener};
use crate::connections::{Gap, Holding};
use crate::meter::Meter;
use crate::transport::{Connector, Held};

/// Pauses before a connection is tried again: the first, which doubles each time, and the longest.
const PAUSE_NS_MIN: u64 = 50_000_000;
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// One connection's place: who has it, and until when it lives.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    client: Option<usize>,
    expires_ns: u64,
    /// Attempts to open it that failed one after the other.
    failures: u32,
}

/// A transaction that waits for its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub due_ns: u64,
    pub since_ns: u64,
}

/// The connections of a worker.
pub(super) struct Pool<T> {
    opener: Opener<T>,
    /// Whether any client may have any connection; else each has the one of its own number.
    pub is_shared: bool,
    pub reconnects: bool,
    lifetime_ns: Option<u64>,
    slots: Vec<Slot>,
    /// Open ones that nobody has; the one that was given back last is taken first.
    free: Vec<(usize, Held<T>)>,
    /// By client: the connection it has, and what it wants one for.
    pub has: Vec<Option<usize>>,
    wants: Vec<Option<Want>>,
    /// Clients that wait for a shared one, in their order, and how many want one in all.
    queue: VecDeque<usize>,
    pub wanting: usize,
    retries: BinaryHeap<Reverse<(u64, usize)>>,
    random: Xoroshiro128StarStar,
    /// From when on nobody waits any more.
    pub closes_ns: u64,
    /// When a transaction ended last, and whether connections were lost since then.
    ended_ns: u64,
    is_troubled: bool,
    /// Clients that are done, beside the one that is dealt with.
    pub done_aside: usize,
}

impl<T: crate::transport::Transport> Pool<T> {
    /// So many connections for so many clients, none of them open yet.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new<C: Connector<Transport = T>>(
        connector: &Arc<C>,
        waker: &Arc<Waker>,
        holding: &Holding,
        (size, clients): (usize, usize),
        random: Xoroshiro128StarStar,
    ) -> Result<Self, Failure> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Its bounds are checked.
        let lifetime_ns = holding.lifetime_s.map(|seconds| (seconds * 1e9) as u64);
        Ok(Self {
            opener: Opener::start(connector, waker, size)?,
            is_shared: holding.pool.is_some(),
            reconnects: holding.reconnects,
            lifetime_ns,
            slots: vec![Slot::default(); size],
            free: Vec::with_capacity(size),
            has: vec![None; clients],
            wants: vec![None; clients],
            queue: VecDeque::new(),
            wanting: 0,
            retries: BinaryHeap::new(),
            random,
            closes_ns: u64::MAX,
            ended_ns: 0,
            is_troubled: false,
            done_aside: 0,
        })
    }

    /// The client that has a connection.
    pub fn client_of(&self, slot: usize) -> Option<usize> {
        self.slots.get(slot).and_then(|slot| slot.client)
    }

    /// A connection is open: it lives from now on. Those of the beginning are of all ages, as if the load had gone on
    /// for long, so that they don't all end at once.
    pub fn lives(&mut self, slot: usize, now_ns: u64, is_first: bool) {
        let share = if is_first { fraction(&mut self.random) } else { 1.0 };
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let lifetime_ns = self.lifetime_ns.map(|whole| (whole as f64 * share) as u64);
        let place = &mut self.slots[slot];
        place.expires_ns = lifetime_ns.map_or(u64::MAX, |left| now_ns.saturating_add(left));
        place.failures = 0;
    }

    /// Whether a connection is to be closed and opened again.
    pub fn is_expired(&self, slot: usize, now_ns: u64) -> bool {
        now_ns >= self.slots[slot].expires_ns
    }

    /// A client wants a connection, and has one or takes one that is free; None where it has to wait.
    pub fn want(&mut self, client: usize, want: Want) -> Option<Option<(usize, Held<T>)>> {
        self.wants[client] = Some(want);
        self.wanting += 1;
        if self.has[client].is_some() {
            return Some(None);
        }
        if let Some((slot, held)) = self.free.pop() {
            self.give(client, slot);
            return Some(Some((slot, held)));
        }
        if self.is_shared {
            self.queue.push_back(client);
        }
        None
    }

    /// What a client wanted its connection for, now that it has it.
    pub fn wanted(&mut self, client: usize) -> Option<Want> {
        let want = self.wants[client].take()?;
        self.wanting -= 1;
        Some(want)
    }

    /// Whether a client waits for its connection, or for what is prepared on it.
    pub fn is_wanting(&self, client: usize) -> bool {
        self.wants[client].is_some()
    }

    /// A client lost the connection that it wanted: the next one is for it.
    pub fn wants_again(&mut self, client: usize) {
        if self.is_shared && self.is_wanting(client) {
            self.queue.push_front(client);
        }
    }

    pub fn give(&mut self, client: usize, slot: usize) {
        self.slots[slot].client = Some(client);
        self.has[client] = Some(slot);
    }

    /// A client has its connection no more.
    pub fn take_from(&mut self, client: usize) -> Option<usize> {
        let slot = self.has[client].take()?;
        self.slots[slot].client = None;
        Some(slot)
    }

    /// Who gets a connection that is free: the client of its number, or the one that waits for longest.
    pub fn next_for(&mut self, slot: usize) -> Option<usize> {
        match self.is_shared {
            true => self.queue.pop_front(),
            false => Some(slot),
        }
    }

    pub fn put_aside(&mut self, slot: usize, held: Held<T>) {
        self.free.push((slot, held));
    }

    /// An event of a connection that nobody has; why it is lost, if it is. It is taken away then.
    pub fn look_at_free(&mut self, slot: usize) -> Option<Failure> {
        let place = self.free.iter().position(|(each, _)| *each == slot)?;
        let why = self.free[place].1.look()?;
        self.free.swap_remove(place);
        Some(why)
    }

    pub fn free(&mut self) -> impl Iterator<Item = &mut Held<T>> {
        self.free.iter_mut().map(|(_, held)| held)
    }

    /// Has a connection opened.
    ///
    /// # Errors
    /// As of [`Opener::open`].
    pub fn open(&mut self, slot: usize) -> Result<(), Failure> {
        self.opener.open(slot)
    }

    /// Has a connection opened that could not be, after a pause.
    pub fn open_later(&mut self, slot: usize, now_ns: u64) {
        let place = &mut self.slots[slot];
        let doubled = PAUSE_NS_MIN << place.failures.min(10);
        place.failures += 1;
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let pause_ns = (doubled.min(PAUSE_NS_MAX) as f64 * (0.5 + fraction(&mut self.random) / 2.0)) as u64;
        self.retries.push(Reverse((now_ns + pause_ns, slot)));
    }

    /// Begins the attempts that are due.
    ///
    /// # Errors
    /// As of [`Opener::open`].
    pub fn open_due(&mut self, now_ns: u64) -> Result<(), Failure> {
        while let Some(&Reverse((at_ns, slot))) = self.retries.peek() {
            if at_ns > now_ns {
                break;
            }
            self.retries.pop();
            self.open(slot)?;
        }
        Ok(())
    }

    /// The next connection that was opened, or was not.
    pub fn next_opened(&mut self) -> Option<Opened<T>> {
        self.opener.next()
    }

    /// When there is something to do without an event.
    pub fn next_instant(&self) -> u64 {
        let retry_ns = self.retries.peek().map_or(u64::MAX, |&Reverse((at_ns, _))| at_ns);
        match self.wanting {
            0 => retry_ns,
            _ => retry_ns.min(self.closes_ns),
        }
    }

    /// The transactions that have waited until nobody does any more, and their clients.
    pub fn give_up(&mut self, now_ns: u64) -> Vec<Want> {
        if self.wanting == 0 || now_ns < self.closes_ns {
            return Vec::new();
        }
        self.queue.clear();
        self.wanting = 0;
        self.wants.iter_mut().filter_map(Option::take).collect()
    }

    pub fn begins(&mut self, start_ns: u64, closes_ns: u64) {
        (self.ended_ns, self.closes_ns) = (start_ns, closes_ns);
    }

    /// A connection was lost or refused: until a transaction ends this is an outage.
    pub fn note_trouble(&mut self) {
        self.is_troubled = true;
    }

    /// A transaction has ended well.
    #[inline]
    pub fn ended(&mut self, now_ns: u64, meter: &mut Meter) {
        if std::mem::take(&mut self.is_troubled) {
            meter.gap(self.gap(now_ns, true));
        }
        self.ended_ns = now_ns;
    }

    /// The load is over: an outage may not be.
    pub fn close(&mut self, now_ns: u64, meter: &mut Meter) {
        if std::mem::take(&mut self.is_troubled) {
            meter.gap(self.gap(now_ns, false));
        }
    }

    fn gap(&self, to_ns: u64, is_over: bool) -> Gap {
        Gap {
            from_ns: self.ended_ns,
            to_ns,
            is_over,
        }
    }
}
