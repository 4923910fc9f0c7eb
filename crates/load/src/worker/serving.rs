//! What events mean to the clients of a worker: they take what arrived, and send what they could not yet.

use std::sync::atomic::Ordering;

use mio::Interest;
use pgassay_protocol::Failure;

use super::live::QUEUE_MAX;
use super::{Ready, TIMER, Worker, epoll_failure};
use crate::client::Outcome;
use crate::clock::monotonic_ns;
use crate::meter::Meter;
use crate::transport::Connector;

impl<C: Connector> Worker<C> {
    pub(super) fn prepare(&mut self) -> Result<(), Failure> {
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

    pub(crate) fn await_start(&mut self) -> Result<Option<u64>, Failure> {
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
                // Of a pool nobody has asked anything yet: what became of a connection its first client finds out.
                if self.pool.is_none() {
                    self.serve(client)?;
                }
            }
        }
    }

    #[inline]
    pub(crate) fn ready(&self) -> impl Iterator<Item = Ready> + '_ {
        let clients = self.events.iter().filter(|event| event.token().0 < TIMER.0);
        clients.map(|event| Ready {
            index: event.token().0,
            is_closing: event.is_read_closed(),
        })
    }

    #[inline]
    pub(crate) fn serve(&mut self, Ready { index, is_closing }: Ready) -> Result<Outcome, Failure> {
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
    pub(crate) fn watch_sending(&mut self, index: usize) -> Result<(), Failure> {
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
        let token = self.token_of(index);
        let Some(transport) = self.clients[index].transport() else {
            return Ok(());
        };
        let registered = self.poll.registry().reregister(transport, token, interest);
        registered.map_err(|error| epoll_failure(&error))
    }

    /// Shows the last second where somebody has asked.
    pub(super) fn show(&self, meter: &mut Meter) {
        if !self.shared.live.is_asked() {
            return;
        }
        let due = self
            .arriving
            .as_ref()
            .map_or(0, |arriving| arriving.queue(monotonic_ns(), QUEUE_MAX));
        let wanting = self.pool.as_ref().map_or(0, |pool| pool.wanting as u64);
        self.shared
            .live
            .show(due + wanting, |latencies| meter.show(latencies));
    }
}
