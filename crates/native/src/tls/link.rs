//! A connection of a load through TLS: encrypts and decrypts on the way to and from a non-blocking socket.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;

use mio::net::TcpStream;
use rustls::ClientConnection;

/// Behaves as a socket does for a loop that waits for edges: a read empties it, and a write that it can't take
/// now is repeated with the same bytes once the socket is writable.
pub struct TlsLink {
    connection: ClientConnection,
    stream: TcpStream,
    /// Bytes that were encrypted, and not yet all sent, when the socket was full.
    owed: usize,
}

impl TlsLink {
    /// A link on an established connection.
    pub fn new(connection: ClientConnection, stream: TcpStream) -> Self {
        Self {
            connection,
            stream,
            owed: 0,
        }
    }

    /// The socket, to be waited for.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes what has been decrypted already; 0 when there is nothing.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.connection.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            // The end of the stream, with a close_notify of TLS or without; the socket tells of it as well.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            outcome => outcome,
        }
    }
}

impl Read for TlsLink {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take(buffer)?;
        while filled < buffer.len() {
            match self.connection.read_tls(&mut self.stream) {
                Ok(0) => return Ok(filled),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The socket is empty: the next bytes are an event of their own.
                Err(error) if error.kind() == ErrorKind::WouldBlock && filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            }
            self.connection
                .process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            match self.send_encrypted() {
                // An answer of TLS itself goes out with the next write.
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            filled += self.take(&mut buffer[filled..])?;
        }
        Ok(filled)
    }
}

impl Write for TlsLink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.owed == 0 {
            self.send_encrypted()?;
            self.owed = self.connection.writer().write(bytes)?;
        }
        self.send_encrypted()?;
        Ok(mem::take(&mut self.owed))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_encrypted()
    }
}
