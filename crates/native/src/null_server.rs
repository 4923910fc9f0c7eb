//! `null-server`: answers every query at once with an empty result, so that what is measured is the client.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

use bytes::BytesMut;
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token};
use pgassay_protocol::Failure;
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, read_document, watch_input, write_line};
use crate::link::allow_many_sockets;
use crate::null_answers::{NullSession, SessionState};

const LISTENER: Token = Token(0);
const READ_BYTES: usize = 16 << 10;
/// Then it is another client's turn.
const READS_IN_TURN: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NullServerSpec {
    socket: PathBuf,
}

/// Runs the command and gives its exit status; ends with the process when standard input closes.
pub fn null_server() -> i32 {
    let spec = match read_document::<NullServerSpec>() {
        Ok(spec) => spec,
        Err(failure) => {
            write_line(&json!({ "error": failure }));
            return EXIT_USAGE;
        }
    };
    allow_many_sockets();
    let Err(error) = serve(spec.socket.clone());
    let place = spec.socket.display();
    write_line(&json!({ "error": Failure::client(format!("the null server at {place} failed: {error}")) }));
    EXIT_FAILURE
}

fn serve(socket: PathBuf) -> io::Result<std::convert::Infallible> {
    let mut listener = UnixListener::bind(&socket)?;
    let ready = json!({ "ready": { "socket": socket } });
    watch_input(move || {
        // Another may have taken the place; then there is nothing of ours to remove.
        let _ = fs::remove_file(&socket);
        exit(0);
    })?;
    let mut poll = Poll::new()?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    write_line(&ready);
    let mut peers = Peers::default();
    let mut events = Events::with_capacity(1024);
    loop {
        // Who sends without a pause has others served between.
        let timeout = (!peers.unfinished.is_empty()).then_some(Duration::ZERO);
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            outcome => outcome?,
        }
        for token in mem::take(&mut peers.unfinished) {
            peers.serve(token, false);
        }
        for event in &events {
            if event.token() == LISTENER {
                peers.has_callers = true;
            } else {
                peers.serve(event.token(), event.is_read_closed() || event.is_error());
            }
        }
        if peers.has_callers {
            peers.accept_all(&listener, &poll)?;
        }
    }
}

/// All connections.
#[derive(Default)]
struct Peers {
    by_token: HashMap<Token, Peer>,
    last_token: usize,
    /// Those who have sent more than was read.
    unfinished: Vec<Token>,
    /// Whether somebody may wait to be accepted.
    has_callers: bool,
}

impl Peers {
    fn serve(&mut self, token: Token, is_ending: bool) {
        let Some(peer) = self.by_token.get_mut(&token) else {
            return;
        };
        peer.is_ending |= is_ending;
        // A connection that fails concerns nobody but its client.
        match peer.serve().unwrap_or(Served::Over) {
            Served::Waits => {}
            Served::HasMore => self.unfinished.push(token),
            Served::Over => drop(self.by_token.remove(&token)),
        }
    }

    fn accept_all(&mut self, listener: &UnixListener, poll: &Poll) -> io::Result<()> {
        loop {
            match listener.accept() {
                Ok((mut stream, _)) => {
                    self.last_token += 1;
                    let token = Token(self.last_token);
                    // Both edges: bytes to send are few and rarely wait.
                    let edges = Interest::READABLE | Interest::WRITABLE;
                    // Where the system can watch no more, the client is hung up on.
                    if poll.registry().register(&mut stream, token, edges).is_ok() {
                        self.by_token.insert(token, Peer::new(stream));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.has_callers = false;
                    return Ok(());
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                // No descriptor or no memory is free: they wait until others have gone.
                Err(_) if !self.by_token.is_empty() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What is left to do for a connection.
enum Served {
    Waits,
    HasMore,
    Over,
}

struct Peer {
    stream: UnixStream,
    session: NullSession,
    input: BytesMut,
    output: BytesMut,
    /// Whether the client has closed its side: what it sent before that is still answered.
    is_ending: bool,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            session: NullSession::default(),
            input: BytesMut::new(),
            output: BytesMut::new(),
            is_ending: false,
        }
    }

    /// Reads, answers and sends what can be.
    fn serve(&mut self) -> io::Result<Served> {
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS_IN_TURN {
            // Nothing is read while answers wait to be sent: a client that doesn't read must not fill the memory.
            if !self.send()? {
                return Ok(Served::Waits);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(Served::Over),
                Ok(count) => {
                    self.input.extend_from_slice(&bytes[..count]);
                    let state = self.session.answer(&mut self.input, &mut self.output);
                    if state == SessionState::Closed {
                        self.send()?;
                        return Ok(Served::Over);
                    }
                    // No other event tells of an end that came with these bytes.
                    if count < READ_BYTES && !self.is_ending {
                        self.send()?;
                        return Ok(Served::Waits);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Served::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Served::HasMore)
    }

    /// Whether everything is sent.
    fn send(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) if count == self.output.len() => self.output.clear(),
                Ok(count) => drop(self.output.split_to(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
