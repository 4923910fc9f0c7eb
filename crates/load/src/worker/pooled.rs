//! Clients that come to a connection and part with it again: shared ones, those that grow old, those that are lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::{Interest, Token, Waker};
use pgassay_protocol::Failure;

use super::pool::{Pool, Want};
use super::{Ready, Worker, epoll_failure};
use crate::client::Outcome;
use crate::clock::monotonic_ns;
use crate::connections::Holding;
use crate::errors::{is_lasting, is_outage};
use crate::meter::Meter;
use crate::tally::Timing;
use crate::transport::{Connector, Held};

impl<C: Connector> Worker<C> {
    /// Opens so many connections, which come and go from then on.
    ///
    /// # Errors
    /// When one can't be opened.
    pub fn open_pool(
        &mut self,
        connector: &Arc<C>,
        waker: &Arc<Waker>,
        holding: &Holding,
        size: usize,
    ) -> Result<(), Failure> {
        let clients = self.clients.len();
        let mut pool = Pool::new(connector, waker, holding, (size, clients), self.throttle.clone())?;
        for slot in 0..size {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let opened = connector.connect();
            let opened = opened.map_err(|failure| failure.within("a client could not connect"))?;
            let mut held = Held::fresh(opened);
            self.register(&mut held, slot)?;
            pool.lives(slot, monotonic_ns(), true);
            if pool.is_shared {
                pool.put_aside(slot, held);
            } else {
                pool.give(slot, slot);
                self.clients[slot].take(held);
            }
        }
        self.pool = Some(pool);
        Ok(())
    }

    fn register(&self, held: &mut Held<C::Transport>, slot: usize) -> Result<(), Failure> {
        let registry = self.poll.registry();
        let registered = registry.register(held.transport(), Token(slot), Interest::READABLE);
        registered.map_err(|error| epoll_failure(&error))
    }

    /// The client that an event is for; None for a connection that nobody has.
    #[inline]
    pub(super) fn client_of(&self, event: Ready) -> Option<usize> {
        match &self.pool {
            None => Some(event.index),
            Some(pool) => pool.client_of(event.index),
        }
    }

    /// What a client's connection is registered as.
    #[inline]
    pub(super) fn token_of(&self, index: usize) -> Token {
        let slot = self.pool.as_ref().and_then(|pool| pool.has[index]);
        Token(slot.unwrap_or(index))
    }

    /// Begins a client's transaction that was due at an instant, or as soon as it has a connection.
    #[inline]
    pub(super) fn begin_due(&mut self, index: usize, due_ns: u64, now_ns: u64) -> Result<Outcome, Failure> {
        if let Some(pool) = &mut self.pool {
            let want = Want {
                due_ns,
                since_ns: now_ns,
            };
            match pool.want(index, want) {
                None => return Ok(Outcome::Waiting),
                Some(Some((_, held))) => self.clients[index].take(held),
                Some(None) => {}
            }
            return self.begin_wanted(index, now_ns);
        }
        let client = &mut self.clients[index];
        let outcome = client.begin(now_ns, &mut self.choose)?;
        client.timing = Timing {
            due_ns,
            held_ns: now_ns.saturating_sub(due_ns.max(client.free_ns)),
            ..client.timing
        };
        Ok(outcome)
    }

    /// Begins what a client wanted its connection for, once that knows the statements.
    pub(super) fn begin_wanted(&mut self, index: usize, now_ns: u64) -> Result<Outcome, Failure> {
        let client = &mut self.clients[index];
        let prepared = client.prepare_once()?;
        if prepared != Outcome::Prepared {
            return Ok(prepared);
        }
        let Some(want) = self.pool.as_mut().and_then(|pool| pool.wanted(index)) else {
            return Ok(Outcome::Waiting);
        };
        let outcome = client.begin(now_ns, &mut self.choose);
        let waited_ns = now_ns.saturating_sub(want.since_ns);
        // Also of one that finds its connection lost: it failed, and counts by when it was due.
        client.timing = Timing {
            due_ns: want.due_ns,
            held_ns: want.since_ns.saturating_sub(want.due_ns.max(client.free_ns)),
            waited_ns,
            ..client.timing
        };
        outcome
    }

    /// What comes after an outcome; a connection that is lost is opened again where that is wanted. `true` where the
    /// client is done.
    #[inline]
    pub(super) fn follow_or_lose(
        &mut self,
        index: usize,
        outcome: Result<Outcome, Failure>,
        meter: &mut Meter,
    ) -> Result<bool, Failure> {
        match outcome {
            Ok(outcome) => self.follow(index, outcome, meter),
            Err(failure) => self.lose(index, failure, meter),
        }
    }

    #[cold]
    pub(super) fn lose(&mut self, index: usize, why: Failure, meter: &mut Meter) -> Result<bool, Failure> {
        let now_ns = monotonic_ns();
        let Some(pool) = self
            .pool
            .as_mut()
            .filter(|pool| pool.reconnects && is_outage(&why))
        else {
            return Err(why);
        };
        pool.note_trouble();
        meter.lost_connection();
        let client = &mut self.clients[index];
        let was_in_transaction = client.is_in_transaction();
        drop(client.drop_connection());
        client.free_ns = now_ns;
        self.is_waiting_to_send[index] = false;
        if let Some(slot) = pool.take_from(index) {
            pool.open(slot)?;
        }
        if !was_in_transaction {
            pool.wants_again(index);
            return Ok(false);
        }
        self.sleepers.retain(|sleeper| sleeper.0.1 != index);
        self.shared.failed.fetch_add(1, Ordering::Relaxed);
        let is_over = meter.failed(client.timing, now_ns, Some(&why));
        self.shared.ended.store(meter.ended(), Ordering::Relaxed);
        if is_over && self.arriving.is_none() {
            return Ok(true);
        }
        self.begin_next(index, now_ns, meter)
    }

    /// A client's transaction has ended: its connection is for the next one.
    pub(super) fn release(&mut self, index: usize, now_ns: u64, meter: &mut Meter) -> Result<(), Failure> {
        let Some(pool) = &mut self.pool else {
            return Ok(());
        };
        let Some(slot) = pool.has[index] else {
            return Ok(());
        };
        let client = &mut self.clients[index];
        if pool.is_expired(slot, now_ns) {
            pool.take_from(index);
            drop(client.disconnect());
            self.is_waiting_to_send[index] = false;
            pool.open(slot)?;
        } else if pool.is_shared {
            pool.take_from(index);
            if let Some(held) = client.give_back() {
                return self.hand_on(slot, held, now_ns, meter);
            }
        }
        Ok(())
    }

    /// A connection goes to whoever waits for one.
    fn hand_on(
        &mut self,
        slot: usize,
        held: Held<C::Transport>,
        now_ns: u64,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let Some(pool) = &mut self.pool else {
            return Ok(());
        };
        let Some(index) = pool.next_for(slot) else {
            pool.put_aside(slot, held);
            return Ok(());
        };
        pool.give(index, slot);
        let is_wanting = pool.is_wanting(index);
        self.clients[index].take(held);
        if is_wanting {
            let outcome = self.begin_wanted(index, now_ns);
            let is_done = match outcome {
                Ok(outcome) => self.follow_begun(index, outcome, meter)?,
                Err(failure) => self.lose(index, failure, meter)?,
            };
            if let Some(pool) = self.pool.as_mut().filter(|_| is_done) {
                pool.done_aside += 1;
            }
        }
        Ok(())
    }

    /// Deals with what concerns connections alone. How many clients are done.
    pub(super) fn tend_connections(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        while let Some(opened) = self.pool.as_mut().and_then(Pool::next_opened) {
            let now_ns = monotonic_ns();
            let slot = opened.slot;
            match opened.outcome {
                Ok(connection) => {
                    meter.opened(opened.took_ns, opened.cpu_ns);
                    let mut held = Held::fresh(connection);
                    self.register(&mut held, slot)?;
                    if let Some(pool) = &mut self.pool {
                        pool.lives(slot, now_ns, false);
                    }
                    self.told_ns = now_ns;
                    self.hand_on(slot, held, now_ns, meter)?;
                }
                Err(failure) => self.refused(slot, failure, now_ns, meter)?,
            }
        }
        let Some(pool) = &mut self.pool else {
            return Ok(0);
        };
        let now_ns = monotonic_ns();
        pool.open_due(now_ns)?;
        let given_up = pool.give_up(now_ns);
        for want in &given_up {
            meter.abandoned(want.due_ns, pool.closes_ns);
        }
        Ok(given_up.len() + std::mem::take(&mut pool.done_aside))
    }

    #[cold]
    fn refused(&mut self, slot: usize, why: Failure, now_ns: u64, meter: &mut Meter) -> Result<(), Failure> {
        meter.refused(&why);
        match &mut self.pool {
            Some(pool) if pool.reconnects && !is_lasting(&why) => {
                pool.note_trouble();
                pool.open_later(slot, now_ns);
                Ok(())
            }
            _ => Err(why.within("a connection could not be opened again")),
        }
    }

    /// An event of a connection that nobody has: the server may have ended it.
    pub(super) fn look_at_free(&mut self, event: Ready, meter: &mut Meter) -> Result<(), Failure> {
        let Some(pool) = &mut self.pool else {
            return Ok(());
        };
        let Some(why) = pool.look_at_free(event.index) else {
            return Ok(());
        };
        if !pool.reconnects {
            return Err(why.within("a connection of the pool that was not in use ended"));
        }
        meter.lost_connection();
        pool.note_trouble();
        pool.open(event.index)
    }

    /// Ends all connections.
    pub(super) fn end_pool(&mut self, meter: &mut Meter) {
        if let Some(pool) = &mut self.pool {
            pool.close(monotonic_ns().min(pool.closes_ns), meter);
            pool.free().for_each(Held::end);
        }
    }
}
