//! A non-blocking connection, encrypted or not, with what could not yet be sent.

use std::io::{self, ErrorKind, Read, Write};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::{ClientConnection, Connection, ServerConnection};

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One side of a pair.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<Connection>>,
    token: Token,
    pending: Vec<u8>,
    sent: usize,
    waits_to_write: bool,
    /// Whether a read may give something: set by an event, cleared when the socket is empty.
    pub is_readable: bool,
    /// Whether the peer has closed, so that a short read is not the last one.
    pub is_closed: bool,
}

impl Stream {
    /// A TCP connection; may still be on its way.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn tcp(stream: TcpStream, token: Token, registry: &Registry) -> io::Result<Self> {
        Self::register(Socket::Tcp(stream), token, registry)
    }

    /// A connection on this host.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn unix(stream: UnixStream, token: Token, registry: &Registry) -> io::Result<Self> {
        Self::register(Socket::Unix(stream), token, registry)
    }

    fn register(mut socket: Socket, token: Token, registry: &Registry) -> io::Result<Self> {
        registry.register(socket.source(), token, Interest::READABLE)?;
        Ok(Self {
            socket,
            tls: None,
            token,
            pending: Vec::new(),
            sent: 0,
            waits_to_write: false,
            is_readable: true,
            is_closed: false,
        })
    }

    /// Waits for the end of the connecting, or for room to write, as well, or no longer.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait_to_write(&mut self, waits: bool, registry: &Registry) -> io::Result<()> {
        if waits == self.waits_to_write {
            return Ok(());
        }
        self.waits_to_write = waits;
        let interest = match waits {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        registry.reregister(self.socket.source(), self.token, interest)
    }

    /// Whether the connection is there; an error when it never will be.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub fn is_connected(&mut self) -> io::Result<bool> {
        let (failure, peer) = match &self.socket {
            Socket::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Socket::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
        };
        if let Some(error) = failure {
            return Err(error);
        }
        match peer {
            Ok(()) => {
                if let Socket::Tcp(stream) = &self.socket {
                    stream.set_nodelay(true)?;
                }
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// From here on as a client of TLS.
    pub fn begin_tls_client(&mut self, mut connection: ClientConnection) {
        connection.set_buffer_limit(None);
        self.tls = Some(Box::new(Connection::Client(connection)));
    }

    /// From here on as a server of TLS; `read` is what came of it already.
    ///
    /// # Errors
    /// When that is no TLS.
    pub fn begin_tls_server(&mut self, mut connection: ServerConnection, mut read: &[u8]) -> io::Result<()> {
        connection.set_buffer_limit(None);
        while !read.is_empty() {
            connection.read_tls(&mut read)?;
            connection
                .process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
        self.tls = Some(Box::new(Connection::Server(connection)));
        self.flush().map(drop)
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads what there is: none when there is nothing now, 0 at the end.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.is_readable {
            return Ok(None);
        }
        let outcome = match self.tls.is_some() {
            true => self.read_tls(buffer),
            false => loop {
                match self.socket.read(buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    outcome => break outcome,
                }
            },
        };
        match outcome {
            Ok(count) => {
                // A short read has emptied the socket, and the next bytes are an event of their own (epoll(7)).
                if count < buffer.len() && count > 0 && self.tls.is_none() && !self.is_closed {
                    self.is_readable = false;
                }
                Ok(Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_tls(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The end without a close_notify, as without TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                outcome => return outcome,
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let processed = tls.process_new_packets();
            // Handshakes and alerts; what the socket doesn't take now goes with the next flush.
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Sends bytes, and keeps what the socket does not take.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            return self.flush().map(drop);
        }
        let mut rest = bytes;
        while self.pending.is_empty() && !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.pending.extend_from_slice(rest);
        Ok(())
    }

    /// Whether something waits to be sent.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what waits; whether nothing does any more.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.pending.len() {
            match self.socket.write(&self.pending[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.pending.clear();
        self.sent = 0;
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Says goodbye where TLS asks for it.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // The peer may be gone, which is as good.
        let _ = self.flush();
    }
}
