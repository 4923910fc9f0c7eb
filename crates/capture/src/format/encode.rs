//! From what was seen to the records of a block.

use super::event::{Answer, Begin, End, Rows};
use super::kind;
use super::number::{put, put_bytes};
use super::texts::{Place, Texts};
use crate::secrets::without_secrets;

/// The type under which a message without its content is stored; the message's own follows, and its length.
pub const LEFT_OUT: u8 = 1;

/// A message of the client, as it came: not yet in the form of the file.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its type.
    pub tag: u8,
    /// What follows the length; of a long message that was stored in parts, the rest.
    pub body: &'a [u8],
    /// For CopyData whose content is not kept: how many bytes it had.
    pub left_out_bytes: Option<u64>,
}

/// Collects the records of one file until they make a block.
#[derive(Default)]
pub struct Encoder {
    texts: Texts,
    raw: Vec<u8>,
    payload: Vec<u8>,
    records: u32,
    dropped: u32,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// A block's content.
pub struct Records {
    /// The records, one after the other.
    pub raw: Vec<u8>,
    /// How many.
    pub records: u32,
    /// How many of them drop a session.
    pub dropped: u32,
    /// The first one's time.
    pub first_ns: u64,
    /// The last one's time.
    pub last_ns: u64,
}

impl Encoder {
    /// Bytes that wait to be taken.
    pub fn waiting_bytes(&self) -> usize {
        self.raw.len()
    }

    /// The records so far; none where there are none.
    pub fn take(&mut self) -> Option<Records> {
        let first_ns = self.first_ns.take()?;
        let records = Records {
            raw: std::mem::take(&mut self.raw),
            records: std::mem::take(&mut self.records),
            dropped: std::mem::take(&mut self.dropped),
            first_ns,
            last_ns: self.last_ns,
        };
        Some(records)
    }

    /// The startup message of a session.
    pub fn begin(&mut self, session: u32, at_ns: u64, begin: &Begin) {
        let mut payload = std::mem::take(&mut self.payload);
        put(&mut payload, u64::from(begin.protocol));
        payload.push(u8::from(begin.is_encrypted));
        put(&mut payload, begin.parameters.len() as u64);
        for (name, value) in &begin.parameters {
            put_bytes(&mut payload, name);
            put_bytes(&mut payload, value);
        }
        self.record(kind::BEGIN, session, at_ns, payload);
    }

    /// The first ReadyForQuery of a session.
    pub fn ready(&mut self, session: u32, at_ns: u64) {
        self.record(kind::READY, session, at_ns, Vec::new());
    }

    /// A request to cancel what the session runs.
    pub fn cancel(&mut self, session: u32, at_ns: u64) {
        self.record(kind::CANCEL, session, at_ns, Vec::new());
    }

    /// The session is not in the capture after all.
    pub fn drop_session(&mut self, session: u32, at_ns: u64) {
        self.record(kind::DROPPED, session, at_ns, Vec::new());
        self.dropped += 1;
    }

    /// The end of a session.
    pub fn end(&mut self, session: u32, at_ns: u64, end: End) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.push(end.reason.code());
        payload.extend_from_slice(end.sqlstate.as_ref().map_or(&[][..], |state| &state[..]));
        self.record(kind::END, session, at_ns, payload);
    }

    /// The beginning of a long message's body; more parts may follow, then the message with the rest.
    pub fn part(&mut self, session: u32, at_ns: u64, bytes: &[u8]) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.extend_from_slice(bytes);
        self.record(kind::PART, session, at_ns, payload);
    }

    /// Messages of the client that came together.
    pub fn messages<'a>(&mut self, session: u32, at_ns: u64, messages: impl IntoIterator<Item = Seen<'a>>) {
        let mut payload = std::mem::take(&mut self.payload);
        for message in messages {
            self.message(at_ns, message, &mut payload);
        }
        self.record(kind::MESSAGES, session, at_ns, payload);
    }

    fn message(&mut self, at_ns: u64, message: Seen<'_>, payload: &mut Vec<u8>) {
        if let Some(bytes) = message.left_out_bytes {
            payload.extend_from_slice(&[LEFT_OUT, message.tag]);
            put(payload, bytes);
            return;
        }
        let body = message.body;
        match message.tag {
            b'Q' if body.last() == Some(&0) => {
                payload.push(b'Q');
                self.text(at_ns, &without_secrets(&body[..body.len() - 1]), false, payload);
            }
            b'P' if split_parse(body).is_some() => {
                let (name, text, types) = split_parse(body).unwrap_or_default();
                payload.push(b'P');
                put_bytes(payload, name);
                self.text(at_ns, &without_secrets(text), true, payload);
                put_bytes(payload, types);
            }
            // A Query or Parse that has not its form would be refused by the server; its text is not looked through.
            b'Q' | b'P' => {
                payload.extend_from_slice(&[LEFT_OUT, message.tag]);
                put(payload, body.len() as u64);
            }
            tag => {
                payload.push(tag);
                put_bytes(payload, body);
            }
        }
    }

    /// Messages of the server that came together.
    pub fn answers<'a>(&mut self, session: u32, at_ns: u64, answers: impl IntoIterator<Item = &'a Answer>) {
        let mut payload = std::mem::take(&mut self.payload);
        for answer in answers {
            self.answer(at_ns, answer, &mut payload);
        }
        self.record(kind::ANSWERS, session, at_ns, payload);
    }

    fn answer(&mut self, at_ns: u64, answer: &Answer, payload: &mut Vec<u8>) {
        match answer {
            Answer::Plain(tag) => payload.push(*tag),
            Answer::Description(tag, body) => {
                payload.push(*tag);
                self.text(at_ns, body, true, payload);
            }
            Answer::Row(body) => {
                payload.push(b'D');
                put_bytes(payload, body);
            }
            Answer::Complete { tag, affected, rows } => {
                payload.push(b'C');
                self.text(at_ns, tag, true, payload);
                put(payload, affected.map_or(0, |number| number.saturating_add(1)));
                put_rows(payload, rows);
            }
            Answer::Suspended(rows) => {
                payload.push(b's');
                put_rows(payload, rows);
            }
            Answer::Error { sqlstate, rows } => {
                payload.push(b'E');
                payload.extend_from_slice(sqlstate);
                put_rows(payload, rows);
            }
            Answer::FunctionResult(rows) => {
                payload.push(b'V');
                put_rows(payload, rows);
            }
            Answer::Ready(status) => {
                payload.push(b'Z');
                payload.push(*status);
            }
            Answer::Unknown => payload.push(b'U'),
        }
    }

    fn text(&mut self, at_ns: u64, text: &[u8], comes_again: bool, payload: &mut Vec<u8>) {
        match self.texts.place(text, comes_again) {
            Place::Here => {
                put(payload, 0);
                put_bytes(payload, text);
            }
            Place::Known(number) => put(payload, number),
            Place::Entered(number) => {
                self.head(kind::TEXT, 0, at_ns, text.len());
                self.raw.extend_from_slice(text);
                put(payload, number);
            }
        }
    }

    fn record(&mut self, kind: u8, session: u32, at_ns: u64, mut payload: Vec<u8>) {
        self.head(kind, session, at_ns, payload.len());
        self.raw.extend_from_slice(&payload);
        payload.clear();
        self.payload = payload;
    }

    fn head(&mut self, kind: u8, session: u32, at_ns: u64, length: usize) {
        // A file's records never go back in time, whatever the clock does.
        let at_ns = at_ns.max(self.last_ns);
        if self.first_ns.is_none() {
            self.first_ns = Some(at_ns);
            self.last_ns = at_ns;
        }
        self.raw.push(kind);
        put(&mut self.raw, u64::from(session));
        put(&mut self.raw, at_ns - self.last_ns);
        put(&mut self.raw, length as u64);
        self.last_ns = at_ns;
        self.records += 1;
    }
}

/// Name, text and the rest of a Parse message.
fn split_parse(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let name_end = body.iter().position(|&byte| byte == 0)?;
    let rest = &body[name_end + 1..];
    let text_end = rest.iter().position(|&byte| byte == 0)?;
    Some((&body[..name_end], &rest[..text_end], &rest[text_end + 1..]))
}

fn put_rows(payload: &mut Vec<u8>, rows: &Rows) {
    put(payload, rows.count);
    if rows.count > 0 {
        put(payload, rows.bytes);
        payload.extend_from_slice(&rows.sum.to_le_bytes());
    }
}
