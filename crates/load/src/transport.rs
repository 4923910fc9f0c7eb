//! What a client's bytes travel through.

use std::io::{Read, Write};

use mio::event::Source;
use pgassay_protocol::{Failure, InputBuffer};

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
