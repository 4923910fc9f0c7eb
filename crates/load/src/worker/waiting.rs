//! How a worker waits: for events, and for instants.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use pgassay_protocol::Failure;

use super::arriving::Arriving;
use super::pool::Pool;
use super::{TIMER, Worker, epoll_failure};
use crate::clock::monotonic_ns;
use crate::transport::Connector;

/// How long a thread polls before it sleeps, for each of its clients: the more there are the nearer is the next
/// answer, and a thread that sleeps makes the server pay for its wake-up. On a machine of two virtual processors
/// that is a tenth of the throughput at 50 connections. pgbench's own loop over its sockets takes time that grows
/// with them and does the same unasked; a leaner loop has to wait on purpose to load a server as pgbench does.
const POLL_NS_PER_CLIENT: u64 = 770;
/// About what a sleep and a wake-up cost: a thread that polls so long never pays more than twice what the better
/// of polling and sleeping would have cost it (Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive
/// Spinning for a Shared-Memory Multiprocessor", 1991).
const POLL_MAX_NS: u64 = 10_000;

impl<C: Connector> Worker<C> {
    /// Waits for something to do; since when there was nothing, None where something was there at once.
    #[inline]
    pub(crate) fn wait(&mut self) -> Result<Option<u64>, Failure> {
        let waiting = self.waiting_clients();
        if waiting > 1 || !self.again.is_empty() {
            self.poll_once(Some(Duration::ZERO))?;
            if !self.again.is_empty() || !self.events.is_empty() {
                return Ok(None);
            }
        }
        let until_ns = self.next_instant();
        let from_ns = monotonic_ns();
        if until_ns <= from_ns {
            self.poll_once(Some(Duration::ZERO))?;
            return Ok(None);
        }
        if waiting > 1 {
            let end_ns = from_ns + (POLL_NS_PER_CLIENT * waiting as u64).min(POLL_MAX_NS);
            while monotonic_ns() < end_ns.min(until_ns) {
                self.poll_once(Some(Duration::ZERO))?;
                if !self.events.is_empty() {
                    return Ok(Some(from_ns));
                }
            }
        }
        if until_ns == u64::MAX {
            self.poll_once(None)?;
        } else {
            self.wait_until(until_ns)?;
        }
        Ok(Some(from_ns))
    }

    /// Waits for events, at most until an instant: by a timer, and the last bit by polling while a core is free.
    fn wait_until(&mut self, until_ns: u64) -> Result<(), Failure> {
        let mut now_ns = monotonic_ns();
        let wake_ns = until_ns.saturating_sub(self.timer.lead_ns(now_ns));
        if now_ns < wake_ns {
            self.timer.arm(wake_ns).map_err(|error| epoll_failure(&error))?;
            self.poll_once(None)?;
            // An answer that came meanwhile is dealt with first.
            if self.ready().next().is_some() {
                return Ok(());
            }
            now_ns = monotonic_ns();
        }
        while now_ns < until_ns {
            self.poll_once(Some(Duration::ZERO))?;
            if self.events.iter().any(|event| event.token() != TIMER) {
                return Ok(());
            }
            now_ns = monotonic_ns();
        }
        Ok(())
    }

    /// When something is to be done without an answer: a client has slept enough, or a transaction is due and a client
    /// is free for it.
    #[inline]
    fn next_instant(&self) -> u64 {
        let sleeper_ns = self
            .sleepers
            .peek()
            .map_or(u64::MAX, |&Reverse((until_ns, _))| until_ns);
        let begin_ns = self.arriving.as_ref().map_or(u64::MAX, Arriving::next_begin_ns);
        let connection_ns = self.pool.as_ref().map_or(u64::MAX, Pool::next_instant);
        sleeper_ns.min(begin_ns).min(connection_ns)
    }

    #[inline]
    fn waiting_clients(&self) -> usize {
        let idle = self.arriving.as_ref().map_or(0, Arriving::idle);
        let wanting = self.pool.as_ref().map_or(0, |pool| pool.wanting);
        self.clients
            .len()
            .saturating_sub(idle + self.sleepers.len() + wanting)
    }

    #[inline]
    fn poll_once(&mut self, timeout: Option<Duration>) -> Result<(), Failure> {
        loop {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(epoll_failure(&error)),
            }
        }
        if !self.events.is_empty() {
            self.told_ns = monotonic_ns();
        }
        Ok(())
    }
}
