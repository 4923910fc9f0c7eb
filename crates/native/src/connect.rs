//! Opens connections: a Unix or a TCP socket, TLS where it is asked for, then the startup of the protocol, all of it
//! blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgassay_protocol::{Channel, Failure, InputBuffer, Parameters, Session, SslMode, Startup, requests};
use rustix::net::sockopt;
use rustls::{ClientConnection, StreamOwned};

use crate::tls;

/// A server that has not finished the startup by then never will: its own limit (authentication_timeout) is 60 s.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
const INPUT_CAPACITY_BYTES: usize = 16 << 10;

/// A blocking socket.
pub enum Socket {
    /// On this host.
    Unix(UnixStream),
    /// Anywhere.
    Tcp(TcpStream),
    /// Anywhere, encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
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
            Self::Tls(stream) => stream.sock.set_read_timeout(timeout),
        }
    }

    /// Ends the connection for both sides.
    pub fn shut_down(&mut self) {
        // It may be closed already, which is as good.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                stream.sock.shutdown(Shutdown::Both)
            }
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            // A server that ends at once sends no close_notify: the end of the stream, as without TLS.
            Self::Tls(stream) => match stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                outcome => outcome,
            },
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A connection that is ready for queries.
pub struct Connection {
    /// The stream, blocking, without a timeout.
    pub socket: Socket,
    /// What was read ahead.
    pub input: InputBuffer,
    /// The session of the server that answers.
    pub session: Session,
}

impl Connection {
    /// Ends the session.
    pub fn end(mut self) {
        let mut request = BytesMut::new();
        requests::terminate(&mut request);
        // The server may be gone already, which is as good.
        let _ = self.socket.write_all(&request);
        self.socket.shut_down();
    }
}

/// Opens a socket to the server, encrypted where that is asked for, without a word of the protocol.
///
/// # Errors
/// When nobody listens there, or TLS can't be agreed on.
pub fn open_socket(parameters: &Parameters, timeout: Duration) -> Result<Socket, Failure> {
    if let Some(path) = parameters.socket_path() {
        return UnixStream::connect(path)
            .map(Socket::Unix)
            .map_err(|error| unreachable(parameters, &error));
    }
    let mut stream = open_tcp(parameters, timeout).map_err(|error| unreachable(parameters, &error))?;
    if parameters.sslmode == SslMode::Disable {
        return Ok(Socket::Tcp(stream));
    }
    let connection = tls::negotiate(&mut stream, parameters, Instant::now() + timeout)
        .map_err(|failure| failure.within(&format!("connecting to {} failed", parameters.server_name())))?;
    Ok(Socket::Tls(Box::new(StreamOwned::new(connection, stream))))
}

fn open_tcp(parameters: &Parameters, timeout: Duration) -> io::Result<TcpStream> {
    let host = parameters.hostaddr.as_deref().unwrap_or(&parameters.host);
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, parameters.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                // As libpq does: a request must not wait for the answer to the one before.
                stream.set_nodelay(true)?;
                keep_alive(&stream, parameters)?;
                return Ok(stream);
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// A peer that vanished is found out as libpq finds it out (fe-connect.c, useKeepalives).
fn keep_alive(stream: &TcpStream, parameters: &Parameters) -> io::Result<()> {
    if parameters.keepalives != 0 {
        sockopt::set_socket_keepalive(stream, true)?;
        let seconds = |value: u32| Duration::from_secs(value.into());
        if parameters.keepalives_idle > 0 {
            sockopt::set_tcp_keepidle(stream, seconds(parameters.keepalives_idle))?;
        }
        if parameters.keepalives_interval > 0 {
            sockopt::set_tcp_keepintvl(stream, seconds(parameters.keepalives_interval))?;
        }
        if parameters.keepalives_count > 0 {
            sockopt::set_tcp_keepcnt(stream, parameters.keepalives_count)?;
        }
    }
    if parameters.tcp_user_timeout > 0 {
        sockopt::set_tcp_user_timeout(stream, parameters.tcp_user_timeout)?;
    }
    Ok(())
}

fn unreachable(parameters: &Parameters, error: &io::Error) -> Failure {
    Failure::client(format!(
        "no server can be reached at {}: {error}; check that it runs and listens there",
        parameters.server_name()
    ))
}

/// Opens a connection and authenticates.
///
/// # Errors
/// When the server can't be reached, refuses, or does not answer in time.
pub fn open(parameters: &Parameters) -> Result<Connection, Failure> {
    let timeout = match parameters.connect_timeout {
        0 => STARTUP_TIMEOUT,
        seconds => Duration::from_secs(seconds.into()),
    };
    let deadline = Instant::now() + timeout;
    let mut socket = open_socket(parameters, timeout)?;
    let mut input = InputBuffer::with_capacity(INPUT_CAPACITY_BYTES);
    let session = start_up(parameters, &mut socket, &mut input, timeout, deadline)
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
    timeout: Duration,
    deadline: Instant,
) -> Result<Session, Failure> {
    let mut output = BytesMut::new();
    let channel = match socket {
        Socket::Tls(stream) => Channel::Tls(tls::certificate::binding_hash(&stream.conn)),
        Socket::Unix(_) | Socket::Tcp(_) => Channel::Plain,
    };
    let mut startup = Startup::begin(parameters, channel, &mut output)?;
    loop {
        // What the server has to say about a startup that it refuses is read even where writing fails.
        let written = socket.write_all(&output).and_then(|()| socket.flush());
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
                    timeout.as_secs()
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
