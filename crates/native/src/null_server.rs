//! `null-server`: answers every query at once with an empty result, so that what is measured is the client.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::exit;

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
    let mut peers = HashMap::new();
    let mut next_token = LISTENER.0;
    let mut events = Events::with_capacity(1024);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            outcome => outcome?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept_all(&listener, &poll, &mut peers, &mut next_token)?;
                continue;
            }
            // A connection that fails concerns nobody but its client.
            let goes_on = peers
                .get_mut(&event.token())
                .is_some_and(|peer: &mut Peer| peer.serve().unwrap_or(false));
            if !goes_on {
                peers.remove(&event.token());
            }
        }
    }
}

fn accept_all(
    listener: &UnixListener,
    poll: &Poll,
    peers: &mut HashMap<Token, Peer>,
    next_token: &mut usize,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                *next_token += 1;
                let token = Token(*next_token);
                // Both edges: bytes to send are few and rarely wait.
                poll.registry()
                    .register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                peers.insert(token, Peer::new(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

struct Peer {
    stream: UnixStream,
    session: NullSession,
    input: BytesMut,
    output: BytesMut,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            session: NullSession::default(),
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }

    /// Reads, answers and sends what can be; `false` when the connection is over.
    fn serve(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        // Nothing is read while answers wait to be sent: a client that doesn't read must not fill the memory.
        while self.send()? {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.input.extend_from_slice(&bytes[..count]);
                    let state = self.session.answer(&mut self.input, &mut self.output);
                    if state == SessionState::Closed {
                        return Ok(false);
                    }
                    if count < READ_BYTES {
                        self.send()?;
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
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
