//! What a client's bytes travel through.

use std::io::{ErrorKind, Read, Write};

use bytes::BytesMut;
use mio::event::Source;
use pgassay_protocol::{Answer, AnswerState, Failure, InputBuffer, requests};

use crate::interpreter::sessions::Session;

/// A non-blocking byte stream that an epoll loop can wait for. TLS would be one more implementation.
pub trait Transport: Read + Write + Source + Send + 'static {}

impl<T: Read + Write + Source + Send + 'static> Transport for T {}

/// Opens connections; called from the threads of the load.
pub trait Connector: Send + Sync + 'static {
    /// What the connections are made of.
    type Transport: Transport;

    /// Opens and authenticates a connection: the stream, and the buffer with what was read ahead.
    ///
    /// # Errors
    /// When the server can't be reached or refuses.
    fn connect(&self) -> Result<(Self::Transport, InputBuffer), Failure>;
}

/// An open connection that no client has.
pub struct Held<T> {
    pub(crate) transport: T,
    pub(crate) input: InputBuffer,
    /// What scripts have prepared on it.
    pub(crate) session: Session,
    pub(crate) is_fresh: bool,
}

impl<T: Transport> Held<T> {
    /// One that has just been opened.
    pub fn fresh((transport, input): (T, InputBuffer)) -> Self {
        Self {
            transport,
            input,
            session: Session::default(),
            is_fresh: true,
        }
    }

    /// The stream, to be registered for events.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Ends the session.
    pub fn end(&mut self) {
        let mut request = BytesMut::new();
        requests::terminate(&mut request);
        // Whether it arrives doesn't matter any more.
        let _ = self.transport.write(&request);
    }

    /// What an event means that nobody waits for: why the connection is lost, None where the server only told
    /// something.
    pub fn look(&mut self) -> Option<Failure> {
        let mut answer = Answer::default();
        loop {
            let count = match self.transport.read(self.input.space()) {
                Ok(0) => return Some(lost("the server closed it")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Some(lost(&error.to_string())),
            };
            self.input.received(count);
            match answer.read(&mut self.input) {
                Ok(AnswerState::Incomplete) => {}
                Ok(_) => return Some(lost("the server answered what was not asked")),
                Err(failure) => return Some(failure),
            }
        }
    }
}

fn lost(reason: &str) -> Failure {
    Failure::client(format!("the connection to the server was lost: {reason}"))
}
