//! A client and its connection to the server: from the first packet to the end.

mod opening;

use std::collections::HashMap;
use std::io;

use mio::{Registry, Token};

use super::back::Back;
use super::cut::BadMessage;
use super::front::Front;
use super::queue::Record;
use super::recording::{Recorder, Recording};
use super::settings::Settings;
use super::startup::fatal;
use super::stream::Stream;
use crate::format::event::{End, EndReason};

/// After so many reads it is the others' turn.
const READS_MAX: usize = 16;

/// What a pair needs of the loop.
pub struct Surroundings<'a> {
    pub settings: &'a Settings,
    pub registry: &'a Registry,
    pub recorder: &'a mut Recorder,
    /// Which session a request to cancel is for.
    pub keys: &'a mut HashMap<Vec<u8>, u32>,
    pub scratch: &'a mut [u8],
    pub clock: &'a dyn Fn() -> u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// Packets before the session.
    Hello,
    /// To the server, by TCP.
    Connecting,
    /// The server says whether it has TLS.
    Asking,
    /// Both ways.
    Passing,
    /// What the server said last is still to be sent to the client.
    Draining,
    /// What the client said last is still to be sent to the server.
    Parting,
    Over,
}

/// Why a pair is over.
enum Ending {
    Because(EndReason),
    /// The client is told so.
    Told(EndReason, Vec<u8>),
}

impl From<BadMessage> for Ending {
    fn from(_: BadMessage) -> Self {
        Self::Told(
            EndReason::BadMessage,
            fatal("08P01", "what was sent is not a message of PostgreSQL's protocol"),
        )
    }
}

/// A client and its connection to the server.
pub struct Pair {
    client: Stream,
    server: Option<Stream>,
    server_token: Token,
    phase: Phase,
    /// When the phase before the session, or after it, began, from time 0.
    pub waiting_since_ns: u64,
    /// What of the client's first packet came, then what is sent to the server first, then messages of the server.
    packet: Vec<u8>,
    front: Front,
    back: Back,
    recording: Recording,
    key: Option<Vec<u8>>,
    server_is_deaf: bool,
    /// Whether there may be more to read at once.
    pub goes_on: bool,
}

impl Pair {
    /// A client that has just come.
    pub fn new(client: Stream, server_token: Token, now_ns: u64) -> Self {
        Self {
            client,
            server: None,
            server_token,
            phase: Phase::Hello,
            waiting_since_ns: now_ns,
            packet: Vec::new(),
            front: Front::new(),
            back: Back::new(),
            recording: Recording::default(),
            key: None,
            server_is_deaf: false,
            goes_on: false,
        }
    }

    /// Whether the pair can be forgotten.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it is before its session, or after it, for which there is a limit of time.
    pub fn is_waiting(&self) -> bool {
        !matches!(self.phase, Phase::Passing | Phase::Over) || !self.recording.is_ready
    }

    /// One of the two has something, or room.
    pub fn woken(&mut self, is_server: bool, is_readable: bool, is_closed: bool) {
        let side = match is_server {
            true => self.server.as_mut(),
            false => Some(&mut self.client),
        };
        if let Some(side) = side {
            side.is_readable |= is_readable || is_closed;
            side.is_closed |= is_closed;
        }
    }

    /// Does what can be done now.
    pub fn step(&mut self, around: &mut Surroundings<'_>) {
        self.goes_on = false;
        match self.advance(around) {
            Ok(()) => {}
            Err(Ending::Because(reason)) => self.close(reason, around),
            Err(Ending::Told(reason, message)) => {
                let _ = self.client.write(&message);
                self.close(reason, around);
            }
        }
        if self.phase != Phase::Over {
            let waits = self.client.has_pending();
            let _ = self.client.wait_to_write(waits, around.registry);
            if let Some(server) = &mut self.server {
                let waits = server.has_pending() || self.phase == Phase::Connecting;
                let _ = server.wait_to_write(waits, around.registry);
            }
        }
    }

    /// Ends the session's record; the connections go with the pair.
    pub fn close(&mut self, reason: EndReason, around: &mut Surroundings<'_>) {
        // A client that goes without a word sends nothing that the clock was looked at for.
        around.recorder.now_ns = (around.clock)();
        self.finish_record(reason, around);
        self.client.say_goodbye();
        if let Some(server) = &mut self.server {
            server.say_goodbye();
        }
        self.phase = Phase::Over;
    }

    fn finish_record(&mut self, reason: EndReason, around: &mut Surroundings<'_>) {
        if reason == EndReason::BadMessage {
            around.recorder.totals.bad_messages += 1;
        }
        self.front.release(around.recorder);
        if let Some(key) = self.key.take() {
            around.keys.remove(&key);
        }
        let number = std::mem::take(&mut self.recording.number);
        if number == 0 {
            return;
        }
        // Whoever closes first after the server has refused.
        let is_refused =
            !self.recording.is_ready && (self.back.sqlstate.is_some() || reason == EndReason::ServerClosed);
        let end = End {
            reason: match is_refused {
                true => EndReason::Refused,
                false => reason,
            },
            sqlstate: self.back.sqlstate,
        };
        around.recorder.add(number, Record::End(end));
    }

    fn advance(&mut self, around: &mut Surroundings<'_>) -> Result<(), Ending> {
        loop {
            match self.phase {
                Phase::Hello => {
                    if !self.hello(around)? {
                        return Ok(());
                    }
                }
                Phase::Connecting => {
                    let server = self.server.as_mut().ok_or(Ending::Because(EndReason::Refused))?;
                    if !server.is_connected().map_err(|error| unreachable(&error))? {
                        return Ok(());
                    }
                    self.greet(around)?;
                }
                Phase::Asking => {
                    if !self.asked(around)? {
                        return Ok(());
                    }
                }
                Phase::Passing => {
                    self.up(around)?;
                    return self.down(around);
                }
                Phase::Draining => {
                    let gone = Ending::Because(EndReason::ClientLost);
                    return match self.client.flush() {
                        Ok(false) => Ok(()),
                        _ => Err(gone),
                    };
                }
                Phase::Parting => {
                    let flushed = self.server.as_mut().map(Stream::flush);
                    return match flushed {
                        Some(Ok(false)) => Ok(()),
                        _ => Err(Ending::Because(EndReason::ServerClosed)),
                    };
                }
                Phase::Over => return Ok(()),
            }
        }
    }

    /// From the client to the server.
    fn up(&mut self, around: &mut Surroundings<'_>) -> Result<(), Ending> {
        let Some(server) = self.server.as_mut().filter(|_| !self.server_is_deaf) else {
            return Ok(());
        };
        for _ in 0..READS_MAX {
            match server.flush() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) => {
                    // What it has to say about its going may still be read.
                    self.server_is_deaf = true;
                    return Ok(());
                }
            }
            let count = match self.client.read(around.scratch) {
                Ok(None) => return Ok(()),
                Ok(Some(count)) => count,
                Err(_) => 0,
            };
            if count == 0 {
                return Err(Ending::Because(self.left_by_client()));
            }
            around.recorder.now_ns = (around.clock)();
            around.recorder.totals.passed_bytes += count as u64;
            let bytes = &around.scratch[..count];
            self.front.take(bytes, &mut self.recording, around.recorder)?;
            if self.front.could_bind && !self.recording.is_ready && server.is_encrypted() {
                let text =
                    "TLS ends here, so SCRAM can't bind to its channel: connect with channel_binding=disable";
                return Err(Ending::Told(EndReason::Refused, fatal("28000", text)));
            }
            if server.write(bytes).is_err() {
                self.server_is_deaf = true;
                return Ok(());
            }
            if self.front.is_terminated && server.has_pending() {
                self.finish_record(EndReason::Terminated, around);
                self.phase = Phase::Parting;
                self.waiting_since_ns = around.recorder.now_ns;
                return Ok(());
            }
        }
        self.goes_on = true;
        Ok(())
    }

    fn left_by_client(&self) -> EndReason {
        match self.front.is_terminated {
            true => EndReason::Terminated,
            false => EndReason::ClientLost,
        }
    }

    /// From the server to the client.
    fn down(&mut self, around: &mut Surroundings<'_>) -> Result<(), Ending> {
        if self.phase != Phase::Passing {
            return Ok(());
        }
        for _ in 0..READS_MAX {
            match self.client.flush() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) => return Err(Ending::Because(self.left_by_client())),
            }
            let Some(server) = &mut self.server else {
                return Ok(());
            };
            let count = match server.read(around.scratch) {
                Ok(None) => return Ok(()),
                Ok(Some(count)) => count,
                Err(_) => 0,
            };
            around.recorder.now_ns = (around.clock)();
            if count == 0 {
                let reason = match self.front.is_terminated {
                    true => EndReason::Terminated,
                    false => EndReason::ServerClosed,
                };
                if !self.client.has_pending() {
                    return Err(Ending::Because(reason));
                }
                self.finish_record(reason, around);
                self.phase = Phase::Draining;
                self.waiting_since_ns = around.recorder.now_ns;
                return Ok(());
            }
            around.recorder.totals.passed_bytes += count as u64;
            let sent = match server.is_encrypted() && !self.recording.is_ready {
                true => self.filtered(count, around)?,
                false => {
                    let bytes = &around.scratch[..count];
                    let was_ready = self.recording.is_ready;
                    self.back.take(bytes, &mut self.recording, around.recorder)?;
                    let sent = self.client.write(bytes);
                    if !was_ready {
                        self.learn_key(around);
                    }
                    sent
                }
            };
            if sent.is_err() {
                return Err(Ending::Because(self.left_by_client()));
            }
        }
        self.goes_on = true;
        Ok(())
    }

    fn learn_key(&mut self, around: &mut Surroundings<'_>) {
        if let Some(key) = self.back.key.take().filter(|_| self.recording.number != 0) {
            around.keys.insert(key.clone(), self.recording.number);
            self.key = Some(key);
        }
    }
}

fn unreachable(error: &io::Error) -> Ending {
    let text = format!("the server can't be reached: {error}");
    Ending::Told(EndReason::Refused, fatal("08006", &text))
}
