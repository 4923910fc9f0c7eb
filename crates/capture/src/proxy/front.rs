//! What a client sends, recorded message by message.

use super::cut::{BadMessage, Cutter, Piece, Sender};

use super::queue::{LEFT_OUT, Record};
use super::recording::{Recorder, Recording};

/// A longer body is handed on in parts of this size.
const PART_BYTES: usize = 1 << 20;
/// A longer statement can't be looked through for secrets, so its session leaves the capture.
const TEXT_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum Keeping {
    /// Not recorded, or of authentication.
    Nothing,
    /// Its length alone.
    Length(usize),
    /// All of it.
    Whole,
    /// For the check of channel binding alone; never recorded.
    Token,
}

/// The client's side of a session.
pub struct Front {
    cutter: Cutter,
    /// Messages as on the wire; from `begun` on one that has not come whole.
    buffer: Vec<u8>,
    begun: usize,
    /// What of the buffer the recorder knows.
    counted_bytes: usize,
    keeping: Keeping,
    /// Whether the beginning of the message has been handed on, with its names.
    has_part: bool,
    token: Vec<u8>,
    /// Whether the client has said that it goes.
    pub is_terminated: bool,
    /// Whether the client said that it could have bound its authentication to the channel.
    pub could_bind: bool,
}

impl Front {
    /// At the first message after startup.
    pub fn new() -> Self {
        Self {
            cutter: Cutter::new(Sender::Client),
            buffer: Vec::new(),
            begun: 0,
            counted_bytes: 0,
            keeping: Keeping::Nothing,
            has_part: false,
            token: Vec::new(),
            is_terminated: false,
            could_bind: false,
        }
    }

    /// Takes bytes of the client.
    ///
    /// # Errors
    /// When they are no messages.
    pub fn take(
        &mut self,
        bytes: &[u8],
        recording: &mut Recording,
        recorder: &mut Recorder,
    ) -> Result<(), BadMessage> {
        let outcome = self.take_messages(bytes, recording, recorder);
        if recording.number == 0 {
            self.forget();
        }
        self.account(recorder);
        if !self.buffer.is_empty() && !recorder.has_room() {
            recording.leave(recorder);
            self.release(recorder);
        }
        outcome
    }

    fn take_messages(
        &mut self,
        mut bytes: &[u8],
        recording: &mut Recording,
        recorder: &mut Recorder,
    ) -> Result<(), BadMessage> {
        while let Some(piece) = self.cutter.next(&mut bytes)? {
            match piece {
                Piece::Begin(tag, length) => self.begin(tag, length, recording),
                Piece::Body(body) => match self.keeping {
                    Keeping::Whole => self.body(body, recording, recorder),
                    Keeping::Token => self.token.extend_from_slice(body),
                    Keeping::Nothing | Keeping::Length(_) => {}
                },
                Piece::End(tag) => self.end(tag, recording, recorder),
            }
        }
        if self.begun > 0 && recording.number != 0 {
            let rest = self.buffer.split_off(self.begun);
            let whole = std::mem::replace(&mut self.buffer, rest);
            self.begun = 0;
            match recorder.has_room() {
                true => recorder.add(recording.number, Record::Messages(whole)),
                false => recording.leave(recorder),
            }
        }
        Ok(())
    }

    fn begin(&mut self, tag: u8, length: usize, recording: &Recording) {
        self.keeping = if tag == b'p' {
            if recording.is_ready {
                Keeping::Nothing
            } else {
                Keeping::Token
            }
        } else if recording.number == 0 {
            Keeping::Nothing
        } else if tag == b'd' && !recording.keeps_copy_data {
            Keeping::Length(length)
        } else {
            Keeping::Whole
        };
        self.has_part = false;
        if self.keeping == Keeping::Whole {
            self.buffer.push(tag);
            // A message has less than 1 GiB.
            let length = u32::try_from(length + 4).unwrap_or(u32::MAX);
            self.buffer.extend_from_slice(&length.to_be_bytes());
        }
    }

    fn body(&mut self, body: &[u8], recording: &mut Recording, recorder: &mut Recorder) {
        if recording.number == 0 {
            return;
        }
        self.buffer.extend_from_slice(body);
        let held = self.buffer.len() - self.begun - HEAD_BYTES;
        let is_text = matches!(self.buffer[self.begun], b'Q' | b'P');
        if is_text && held > TEXT_BYTES_MAX {
            recording.leave(recorder);
        } else if !is_text && held >= PART_BYTES {
            // What came before goes first: records are in the order of time.
            let part = self.buffer.split_off(self.begun + HEAD_BYTES);
            let head = self.buffer.split_off(self.begun);
            if !self.has_part {
                self.has_part = true;
                sent(head[0], &part, recording, recorder);
            }
            let whole = std::mem::replace(&mut self.buffer, head);
            self.begun = 0;
            if !recorder.has_room() {
                return recording.leave(recorder);
            }
            if !whole.is_empty() {
                recorder.add(recording.number, Record::Messages(whole));
            }
            recorder.add(recording.number, Record::Part(part));
        }
    }

    fn end(&mut self, tag: u8, recording: &mut Recording, recorder: &mut Recorder) {
        match self.keeping {
            Keeping::Nothing => {}
            Keeping::Token => {
                self.could_bind |= super::scram::could_bind(&self.token);
                self.token.clear();
            }
            Keeping::Length(length) => {
                self.buffer.extend_from_slice(&[LEFT_OUT, 0, 0, 0, 4 + 9, tag]);
                self.buffer.extend_from_slice(&(length as u64).to_be_bytes());
                self.begun = self.buffer.len();
                recording.flow.sent(tag, &[]);
            }
            Keeping::Whole if recording.number != 0 => {
                // Of a message with parts the rest has its own length.
                let length = u32::try_from(self.buffer.len() - self.begun - 1).unwrap_or(u32::MAX);
                self.buffer[self.begun + 1..self.begun + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
                if !self.has_part {
                    sent(tag, &self.buffer[self.begun + HEAD_BYTES..], recording, recorder);
                }
                self.begun = self.buffer.len();
            }
            Keeping::Whole => {}
        }
        self.is_terminated |= tag == b'X';
    }

    fn forget(&mut self) {
        self.buffer = Vec::new();
        self.begun = 0;
    }

    /// Gives back what the session holds, at its end.
    pub fn release(&mut self, recorder: &mut Recorder) {
        self.forget();
        self.account(recorder);
    }

    /// Tells the recorder what is held now.
    fn account(&mut self, recorder: &mut Recorder) {
        recorder.held_bytes = recorder.held_bytes + self.buffer.len() - self.counted_bytes;
        self.counted_bytes = self.buffer.len();
    }
}

/// A message, or the beginning of a long one: that is where its names stand.
fn sent(tag: u8, body: &[u8], recording: &mut Recording, recorder: &mut Recorder) {
    let runs = recording.flow.sent(tag, body);
    recorder.totals.statements += u64::from(runs);
}

#[cfg(test)]
mod tests {
    use super::super::queue::Queue;
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag][..], &length[..], body].concat()
    }

    #[test]
    fn a_long_bind_says_at_its_beginning_whose_rows_are_kept() {
        let folder = std::env::temp_dir().join(format!("pgassay-front-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut recorder = Recorder::new(Queue::start(&folder, 0).unwrap(), 64 << 20);
        let mut recording = Recording {
            number: 1,
            is_ready: true,
            ..Recording::default()
        };
        let bytes = [
            message(b'P', b"s\0INSERT INTO t VALUES ($1) RETURNING id\0\0\0"),
            message(b'B', &[&b"\0s\0"[..], &vec![0; 3 * PART_BYTES][..]].concat()),
            message(b'E', b"\0\0\0\0\0"),
        ]
        .concat();
        let mut front = Front::new();
        for part in bytes.chunks(1 << 16) {
            front.take(part, &mut recording, &mut recorder).unwrap();
        }
        assert!(recording.flow.keeps_rows());
        assert_eq!(recorder.finish().statements, 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
