//! A session while it is played.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use pgassay_load::Transport;

use super::answers::{Answers, Sent};

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not begun.
    Before,
    /// Its connection is being opened.
    Opening,
    /// It is open.
    Open,
    /// It has ended.
    Over,
}

/// A step that waits for other sessions.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    /// Since when.
    pub since_ns: u64,
    /// Who has to go on first.
    pub by: usize,
}

/// One session.
pub struct Played<T> {
    /// How far it is.
    pub phase: Phase,
    transport: Option<T>,
    /// What a request to cancel must show.
    pub key: (i32, i32),
    /// What the server says.
    pub answers: Answers,
    /// Steps that were sent and aren't over.
    pub sent: VecDeque<Sent>,
    /// The next step.
    pub next: usize,
    /// The next request to cancel.
    pub next_cancel: usize,
    /// Waits for others.
    pub blocked: Option<Blocked>,
    /// Does not wait for others this once.
    pub is_released: bool,
    /// Since when nothing but the player keeps the next step from going out.
    pub free_ns: u64,
    /// With which step next, and how many COPYs, it was looked whether the server waits for data that don't come.
    pub copy_checked: (usize, u32),
    output: Vec<u8>,
    written: usize,
}

/// What reading came to.
pub enum Taken {
    /// So many bytes.
    Bytes(usize),
    /// None for now.
    Later,
    /// The connection is over.
    Over(Option<io::Error>),
}

impl<T: Transport> Played<T> {
    /// Before it begins.
    pub fn new() -> Self {
        Self {
            phase: Phase::Before,
            transport: None,
            key: (0, 0),
            answers: Answers::new(),
            sent: VecDeque::new(),
            next: 0,
            next_cancel: 0,
            blocked: None,
            is_released: false,
            free_ns: 0,
            copy_checked: (0, 0),
            output: Vec::new(),
            written: 0,
        }
    }

    /// Its connection is there.
    pub fn opened(&mut self, transport: T, key: (i32, i32)) {
        self.transport = Some(transport);
        self.key = key;
        self.phase = Phase::Open;
    }

    /// The numbers of the steps that were sent and aren't over.
    pub fn under_way(&self) -> Range<usize> {
        self.sent.front().map_or(self.next, |sent| sent.step)..self.next
    }

    /// Where messages to send are appended.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Sends what there is, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(transport) = self.transport.as_mut() else {
            return Ok(());
        };
        while self.written < self.output.len() {
            match transport.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what there is.
    pub fn read(&mut self, buffer: &mut [u8]) -> Taken {
        let Some(transport) = self.transport.as_mut() else {
            return Taken::Later;
        };
        loop {
            match transport.read(buffer) {
                Ok(0) => return Taken::Over(None),
                Ok(count) => return Taken::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Taken::Later,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Taken::Over(Some(error)),
            }
        }
    }

    /// Ends the connection; the server is told where it still listens.
    pub fn close(&mut self) {
        if let Some(mut transport) = self.transport.take() {
            // It may be gone already, which is as good.
            let _ = transport.write(b"X\0\0\0\x04");
        }
        self.phase = Phase::Over;
        self.blocked = None;
    }
}
