//! What a server answers, recorded as far as a replay is compared with it.

use std::sync::Arc;

use super::collector::{BODY_BYTES_MAX, Collector, Edge, ROW_BYTES_MAX};
use super::cut::BadMessage;
use super::queue::Record;
use super::recording::{Recorder, Recording};
use crate::format::event::{Answer, Rows};

const ROWS_KEPT_MAX: u32 = 1000;

/// The server's side of a session.
pub struct Back {
    collector: Collector,
    rows_kept: u32,
    answers: Vec<Answer>,
    /// What a request to cancel must show: process and key.
    pub key: Option<Vec<u8>>,
    /// The last error before the session was ready.
    pub sqlstate: Option<[u8; 5]>,
}

impl Back {
    /// At the first message of the server.
    pub fn new() -> Self {
        Self {
            collector: Collector::new(),
            rows_kept: 0,
            answers: Vec::new(),
            key: None,
            sqlstate: None,
        }
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// When they are no messages.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        recording: &mut Recording,
        recorder: &mut Recorder,
    ) -> Result<(), BadMessage> {
        while let Some(edge) = self.collector.next(&mut bytes)? {
            match edge {
                Edge::Begin(tag, length) => self.begin(tag, length, recording),
                Edge::End(tag) => self.end(tag, recording, recorder),
            }
        }
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers);
            if recording.number != 0 {
                match recorder.has_room() {
                    true => recorder.add(recording.number, Record::Answers(answers)),
                    false => recording.leave(recorder),
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, tag: u8, length: usize, recording: &Recording) {
        let is_recorded = recording.number != 0;
        if matches!(tag, b'D' | b'd' | b'V') {
            self.collector.count_row(length, is_recorded);
            self.collector.keeps_body = tag == b'D'
                && is_recorded
                && length <= ROW_BYTES_MAX
                && self.rows_kept < ROWS_KEPT_MAX
                && recording.flow.keeps_rows();
        } else {
            let is_read = match tag {
                b'Z' => true,
                b'C' | b'T' | b't' => is_recorded,
                b'E' => is_recorded || !recording.is_ready,
                b'K' => !recording.is_ready,
                _ => false,
            };
            self.collector.keeps_body = is_read && length <= BODY_BYTES_MAX;
        }
    }

    fn end(&mut self, tag: u8, recording: &mut Recording, recorder: &mut Recorder) {
        if !recording.is_ready {
            self.before_ready(tag, recording, recorder);
        } else if recording.number != 0 {
            self.recorded(tag, recording);
        }
    }

    fn before_ready(&mut self, tag: u8, recording: &mut Recording, recorder: &mut Recorder) {
        match tag {
            b'K' => self.key = Some(self.collector.body.clone()),
            b'E' => self.sqlstate = sqlstate(&self.collector.body),
            b'Z' => {
                recording.is_ready = true;
                if recording.number != 0 {
                    recorder.add(recording.number, Record::Ready);
                }
            }
            _ => {}
        }
    }

    fn recorded(&mut self, tag: u8, recording: &mut Recording) {
        let answer = match tag {
            b'D' | b'd' => {
                self.collector.add_sum();
                if self.collector.keeps_body {
                    self.rows_kept += 1;
                    self.answers.push(Answer::Row(self.collector.body.clone()));
                }
                return;
            }
            b'V' => {
                self.collector.add_sum();
                Answer::FunctionResult(self.taken())
            }
            b'C' => {
                recording.flow.completed();
                let rows = self.taken();
                complete(&self.collector.body, rows)
            }
            b's' => {
                recording.flow.completed();
                Answer::Suspended(self.taken())
            }
            b'E' => {
                recording.flow.failed();
                Answer::Error {
                    sqlstate: sqlstate(&self.collector.body).unwrap_or(*b"XX000"),
                    rows: self.taken(),
                }
            }
            b'Z' => {
                recording.flow.ready();
                Answer::Ready(self.collector.body.first().copied().unwrap_or(b'I'))
            }
            b'I' => {
                recording.flow.completed();
                Answer::Plain(b'I')
            }
            b'T' | b't' => Answer::Description(tag, Arc::from(&self.collector.body[..])),
            b'1' | b'2' | b'3' | b'n' | b'G' | b'H' | b'W' | b'A' => Answer::Plain(tag),
            // Notices, parameters, the end of COPY data: nothing that a replay is compared by.
            _ => return,
        };
        self.answers.push(answer);
    }

    fn taken(&mut self) -> Rows {
        self.rows_kept = 0;
        self.collector.take_rows()
    }
}

/// CommandComplete: the tag, and the number that it ends with.
pub fn complete(body: &[u8], rows: Rows) -> Answer {
    let text = body.strip_suffix(b"\0").unwrap_or(body);
    let split = text.iter().rposition(|byte| *byte == b' ').and_then(|at| {
        let number = std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
        Some((&text[..at], number))
    });
    let (tag, affected) = split.map_or((text, None), |(tag, number)| (tag, Some(number)));
    Answer::Complete {
        tag: Arc::from(tag),
        affected,
        rows,
    }
}

/// The field C of an ErrorResponse.
pub fn sqlstate(body: &[u8]) -> Option<[u8; 5]> {
    body.split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"C"))
        .and_then(|state| state.try_into().ok())
}
