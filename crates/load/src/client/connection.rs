//! A client's connection: taken, given back, lost.

use pgassay_protocol::{Failure, InputBuffer, TransactionStatus};

use super::{Client, Outcome, Source, State};
use crate::spec::QueryProtocol;
use crate::transport::{Held, Transport};

impl<T: Transport> Client<T> {
    /// Whether it has a connection.
    pub fn is_connected(&self) -> bool {
        self.transport.is_some()
    }

    /// Whether it is in a transaction, or was when it lost its connection.
    pub fn is_in_transaction(&self) -> bool {
        !matches!(self.state, State::Idle | State::Preparing)
    }

    /// Goes on with another connection, of which nothing is known yet.
    pub fn connect(&mut self, connection: (T, InputBuffer)) {
        self.take(Held::fresh(connection));
    }

    /// Goes on with this connection.
    pub fn take(&mut self, held: Held<T>) {
        let mut input = held.input;
        if let (Source::Programs(programs), Some(interpreter)) = (&self.work.source, &mut self.interpreter) {
            if programs.captures() {
                input.keep_rows(true);
            }
            interpreter.set_session(held.session);
        }
        (self.transport, self.input) = (Some(held.transport), input);
        self.is_fresh = held.is_fresh;
        self.status = TransactionStatus::Idle;
        self.failure = None;
        self.answer = self.work.answer();
    }

    /// Gives its connection back between two transactions.
    pub fn give_back(&mut self) -> Option<Held<T>> {
        self.output.clear();
        self.state = State::Idle;
        let input = std::mem::replace(&mut self.input, InputBuffer::with_capacity(0));
        let session = self
            .interpreter
            .as_mut()
            .map(|interpreter| interpreter.take_session())
            .unwrap_or_default();
        Some(Held {
            transport: self.transport.take()?,
            input,
            session,
            is_fresh: self.is_fresh,
        })
    }

    /// Has its statements prepared where the connection does not know them yet.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn prepare_once(&mut self) -> Result<Outcome, Failure> {
        let is_needed = self.is_fresh && self.work.protocol == QueryProtocol::Prepared;
        self.is_fresh = false;
        match is_needed {
            true => self.prepare(),
            false => Ok(Outcome::Prepared),
        }
    }

    /// Forgets a connection that is gone, and what it was doing.
    pub fn drop_connection(&mut self) -> Option<T> {
        self.output.clear();
        self.state = State::Idle;
        self.awaited = 0;
        self.transport.take()
    }

    /// Ends the session, and gives back its stream.
    pub fn disconnect(&mut self) -> Option<T> {
        self.terminate();
        self.output.clear();
        self.state = State::Idle;
        self.transport.take()
    }
}
