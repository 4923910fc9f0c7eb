//! Opens connections: a Unix or a TCP socket, then the startup of the protocol, all of it blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgassay_protocol::{Failure, InputBuffer, Parameters, Session, Startup};

/// A server that has not finished the startup by then never will: its own limit (authentication_timeout) is 60 s.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
const INPUT_CAPACITY_BYTES: usize = 16 << 10;

/// A blocking socket. An encrypted one would be one more variant.
pub enum Socket {
    /// On this host.
    Unix(UnixStream),
    /// Anywhere.
    Tcp(TcpStream),
}

impl Socket {
    /// Limits how long a read may take; none waits for ever.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Ends the connection for both sides.
    pub fn shut_down(&self) {
        // It may be closed already, which is as good.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that is ready for queries.
pub struct Connection {
    /// The stream, blocking, without a timeout.
    pub socket: Socket,
    /// What was read ahead.
    pub input: InputBuffer,
    /// Who answers.
    pub session: Session,
}

/// Opens a socket to the server, without a word of the protocol.
///
/// # Errors
/// When nobody listens there.
pub fn open_socket(parameters: &Parameters, timeout: Duration) -> Result<Socket, Failure> {
    let refused = |error: &io::Error| {
        Failure::client(format!(
            "no server can be reached at {}: {error}; check that it runs and listens there",
            parameters.server_name()
        ))
    };
    if let Some(path) = parameters.socket_path() {
        return UnixStream::connect(path)
            .map(Socket::Unix)
            .map_err(|error| refused(&error));
    }
    let addresses = (parameters.host.as_str(), parameters.port)
        .to_socket_addrs()
        .map_err(|e| refused(&e))?;
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                // As libpq does: a request must not wait for the answer to the one before.
                stream.set_nodelay(true).map_err(|error| refused(&error))?;
                return Ok(Socket::Tcp(stream));
            }
            Err(error) => last_error = error,
        }
    }
    Err(refused(&last_error))
}

/// Opens a connection and authenticates.
///
/// # Errors
/// When the server can't be reached, refuses, or does not answer in time.
pub fn open(parameters: &Parameters) -> Result<Connection, Failure> {
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    let mut socket = open_socket(parameters, STARTUP_TIMEOUT)?;
    let mut input = InputBuffer::with_capacity(INPUT_CAPACITY_BYTES);
    let session = start_up(parameters, &mut socket, &mut input, deadline)
        .map_err(|failure| failure.within(&format!("connecting to {} failed", parameters.server_name())))?;
    socket
        .set_read_timeout(None)
        .map_err(|error| Failure::client(error.to_string()))?;
    Ok(Connection {
        socket,
        input,
        session,
    })
}

fn start_up(
    parameters: &Parameters,
    socket: &mut Socket,
    input: &mut InputBuffer,
    deadline: Instant,
) -> Result<Session, Failure> {
    let mut output = BytesMut::new();
    let mut startup = Startup::begin(parameters, &mut output)?;
    loop {
        // What the server has to say about a startup that it refuses is read even where writing fails.
        let written = socket.write_all(&output);
        output.clear();
        let remaining = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        socket
            .set_read_timeout(Some(remaining))
            .map_err(|error| Failure::client(error.to_string()))?;
        match socket.read(input.space()) {
            Ok(0) => {
                let reason =
                    written.map_or_else(|error| error.to_string(), |()| "it closed the connection".into());
                return Err(Failure::client(format!("the server ended the startup: {reason}")));
            }
            Ok(count) => input.received(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(Failure::client(format!(
                    "the server did not answer within {} s",
                    STARTUP_TIMEOUT.as_secs()
                )));
            }
            Err(error) => return Err(Failure::client(error.to_string())),
        }
        if let Some(session) = startup.receive(input, &mut output)? {
            return Ok(session);
        }
        if Instant::now() >= deadline {
            return Err(Failure::client("the server keeps talking without becoming ready"));
        }
    }
}
