//! From the records of a block to events.

use std::collections::HashMap;
use std::sync::Arc;

use super::encode::LEFT_OUT;
use super::event::{Answer, Begin, End, EndReason, Event, Message, Rows, What};
use super::kind;
use super::number::{get, get_byte, get_bytes, get_u32, take};

/// What a file's reader remembers from block to block.
#[derive(Default)]
pub struct Decoder {
    texts: Vec<Arc<[u8]>>,
    parts: HashMap<u32, Vec<u8>>,
}

/// The place in a block.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The next record's first byte.
    pub at: usize,
    /// The time of the record before; at the block's beginning that of its first one.
    pub at_ns: u64,
}

impl Decoder {
    /// The next event of a block; `Ok(None)` at its end.
    ///
    /// # Errors
    /// When the bytes are no records.
    pub fn next(&mut self, raw: &[u8], place: &mut Place) -> Result<Option<Event>, Malformed> {
        loop {
            let mut rest = raw.get(place.at..).ok_or(Malformed)?;
            if rest.is_empty() {
                return Ok(None);
            }
            let kind = get_byte(&mut rest).ok_or(Malformed)?;
            let session = get_u32(&mut rest).ok_or(Malformed)?;
            let later_ns = get(&mut rest).ok_or(Malformed)?;
            let payload = get_bytes(&mut rest).ok_or(Malformed)?;
            place.at = raw.len() - rest.len();
            place.at_ns = place.at_ns.checked_add(later_ns).ok_or(Malformed)?;
            let what = self.what(kind, session, payload).ok_or(Malformed)?;
            if let Some(what) = what {
                let at_ns = place.at_ns;
                return Ok(Some(Event { session, at_ns, what }));
            }
        }
    }

    /// `None` when it can't be read, `Some(None)` when it is no event.
    fn what(&mut self, kind: u8, session: u32, mut payload: &[u8]) -> Option<Option<What>> {
        Some(Some(match kind {
            kind::TEXT => {
                self.texts.push(payload.into());
                return Some(None);
            }
            kind::PART => {
                self.parts.entry(session).or_default().extend_from_slice(payload);
                return Some(None);
            }
            kind::BEGIN => What::Begin(begin(&mut payload)?),
            kind::READY => What::Ready,
            kind::MESSAGES => {
                let mut messages = Vec::new();
                while !payload.is_empty() {
                    messages.push(self.message(session, &mut payload)?);
                }
                What::Messages(messages)
            }
            kind::ANSWERS => {
                let mut answers = Vec::new();
                while !payload.is_empty() {
                    answers.push(self.answer(&mut payload)?);
                }
                What::Answers(answers)
            }
            kind::CANCEL => What::Cancel,
            kind::END => {
                self.parts.remove(&session);
                let reason = EndReason::from_code(get_byte(&mut payload)?)?;
                let sqlstate = take(&mut payload, 5).and_then(|state| state.try_into().ok());
                What::End(End { reason, sqlstate })
            }
            kind::DROPPED => {
                self.parts.remove(&session);
                What::Dropped
            }
            // Of a later version that this one need not know.
            _ => return Some(None),
        }))
    }

    fn message(&mut self, session: u32, payload: &mut &[u8]) -> Option<Message> {
        let mut message = Message {
            tag: get_byte(payload)?,
            body: self.parts.remove(&session).unwrap_or_default(),
            text: None,
            left_out_bytes: None,
        };
        match message.tag {
            LEFT_OUT => {
                message.tag = get_byte(payload)?;
                message.left_out_bytes = Some(get(payload)?);
            }
            b'Q' => {
                let text = self.text(payload)?;
                message.body.extend_from_slice(&text);
                message.body.push(0);
                message.text = Some(text);
            }
            b'P' => {
                message.body.extend_from_slice(get_bytes(payload)?);
                message.body.push(0);
                let text = self.text(payload)?;
                message.body.extend_from_slice(&text);
                message.body.push(0);
                message.text = Some(text);
                message.body.extend_from_slice(get_bytes(payload)?);
            }
            _ => message.body.extend_from_slice(get_bytes(payload)?),
        }
        Some(message)
    }

    fn answer(&mut self, payload: &mut &[u8]) -> Option<Answer> {
        Some(match get_byte(payload)? {
            tag @ (b't' | b'T') => Answer::Description(tag, self.text(payload)?),
            b'D' => Answer::Row(get_bytes(payload)?.to_vec()),
            b'C' => Answer::Complete {
                tag: self.text(payload)?,
                affected: get(payload)?.checked_sub(1),
                rows: rows(payload)?,
            },
            b's' => Answer::Suspended(rows(payload)?),
            b'E' => Answer::Error {
                sqlstate: take(payload, 5)?.try_into().ok()?,
                rows: rows(payload)?,
            },
            b'V' => Answer::FunctionResult(rows(payload)?),
            b'Z' => Answer::Ready(get_byte(payload)?),
            b'U' => Answer::Unknown,
            tag => Answer::Plain(tag),
        })
    }

    fn text(&self, payload: &mut &[u8]) -> Option<Arc<[u8]>> {
        match get(payload)? {
            0 => Some(get_bytes(payload)?.into()),
            number => self.texts.get(usize::try_from(number).ok()? - 1).cloned(),
        }
    }
}

/// The bytes are no records: a writer's mistake, since checksums were right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

fn begin(payload: &mut &[u8]) -> Option<Begin> {
    let protocol = get_u32(payload)?;
    let is_encrypted = get_byte(payload)? != 0;
    let count = get(payload)?;
    let mut parameters = Vec::new();
    for _ in 0..count {
        let name = get_bytes(payload)?.to_vec();
        parameters.push((name, get_bytes(payload)?.to_vec()));
    }
    Some(Begin {
        protocol,
        is_encrypted,
        parameters,
    })
}

fn rows(payload: &mut &[u8]) -> Option<Rows> {
    let count = get(payload)?;
    if count == 0 {
        return Some(Rows::default());
    }
    Some(Rows {
        count,
        bytes: get(payload)?,
        sum: u32::from_le_bytes(take(payload, 4)?.try_into().ok()?),
    })
}
