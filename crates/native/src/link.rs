//! The non-blocking sockets of a load, and how they are opened.

use std::io::{self, Read, Write};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use pgassay_load::Connector;
use pgassay_protocol::{Failure, InputBuffer, Parameters};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::connect::{self, Socket};
use crate::tls::link::TlsLink;

/// A socket for an epoll loop.
pub enum Link {
    /// On this host.
    Unix(mio::net::UnixStream),
    /// Anywhere.
    Tcp(mio::net::TcpStream),
    /// Anywhere, encrypted.
    Tls(Box<TlsLink>),
}

impl Read for Link {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(link) => link.read(buffer),
        }
    }
}

impl Write for Link {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(link) => link.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Link {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.register(registry, token, interests),
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Tls(link) => link.stream().register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.reregister(registry, token, interests),
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Tls(link) => link.stream().reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Tls(link) => link.stream().deregister(registry),
        }
    }
}

impl Link {
    /// A socket that was opened blocking, made non-blocking.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn from_socket(socket: Socket) -> Result<Self, Failure> {
        let link = match socket {
            Socket::Unix(stream) => stream
                .set_nonblocking(true)
                .map(|()| Self::Unix(mio::net::UnixStream::from_std(stream))),
            Socket::Tcp(stream) => stream
                .set_nonblocking(true)
                .map(|()| Self::Tcp(mio::net::TcpStream::from_std(stream))),
            Socket::Tls(stream) => stream.sock.set_nonblocking(true).map(|()| {
                let (tls, socket) = (stream.conn, mio::net::TcpStream::from_std(stream.sock));
                Self::Tls(Box::new(TlsLink::new(tls, socket)))
            }),
        };
        link.map_err(|error| Failure::client(format!("the socket can't be made non-blocking: {error}")))
    }
}

/// Opens the connections of a load.
pub struct LinkConnector {
    /// Where to.
    pub parameters: Parameters,
}

impl Connector for LinkConnector {
    type Transport = Link;

    fn connect(&self) -> Result<(Link, InputBuffer), Failure> {
        let connection = connect::open(&self.parameters)?;
        Ok((Link::from_socket(connection.socket)?, connection.input))
    }
}

/// Allows this process as many open files as the system lets it: a connection is one.
pub fn allow_many_sockets() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, opening one connection too many says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
