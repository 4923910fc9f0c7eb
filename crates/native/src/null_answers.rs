//! What the null server says: bytes in, bytes out, nothing done.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, BytesMut};

const PROTOCOL_3: u32 = 3 << 16;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// As of a server (MAX_STARTUP_PACKET_LENGTH, PQ_LARGE_MESSAGE_LIMIT).
const STARTUP_BYTES: RangeInclusive<usize> = 8..=10_000;
const MESSAGE_BYTES: RangeInclusive<usize> = 4..=(1 << 30) - 1;

const AUTHENTICATION_OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
const BACKEND_KEY: &[u8] = b"K\0\0\0\x0c\0\0\0\x01\0\0\0\0";
/// What drivers look at.
const PARAMETERS: &[(&str, &str)] = &[
    ("server_version", "18.0"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];
const READY: &[u8] = b"Z\0\0\0\x05I";
const NO_COLUMNS: &[u8] = b"T\0\0\0\x06\0\0";
const NO_ROWS: &[u8] = b"C\0\0\0\x0dSELECT 0\0";

/// How many bytes of a query are kept: enough to tell those of `ASKED_FIRST`.
const START_BYTES: usize = 40;
/// The values of a row, `None` for null.
type Values = &'static [Option<&'static [u8]>];
/// What pgbench asks for its built-in scripts before it begins (GetTableInfo of pgbench.c), and a row for each: tables of
/// scale 1 without partitions. It reads the first row without looking whether there is one.
const ASKED_FIRST: [(&[u8], Values); 2] = [
    (b"select count(*) from pgbench_branches", &[Some(b"1")]),
    (
        b"select o.n, p.partstrat, pg_catalog.coun",
        &[Some(b"1"), None, Some(b"0")],
    ),
];

/// Whether the session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// More messages may come.
    Open,
    /// The client ended it, or sent something that is not the protocol.
    Closed,
}

/// One connection of the null server. It keeps no message, so it has the same size whatever is sent.
#[derive(Default)]
pub struct NullSession {
    is_started: bool,
    message: Option<Message>,
}

/// One whose end has not come yet.
struct Message {
    kind: Kind,
    bytes_left: usize,
    first: Option<u8>,
    is_blank: bool,
    /// What a query begins with.
    start: [u8; START_BYTES],
    start_bytes: usize,
}

enum Kind {
    Startup(u32),
    Tagged(u8),
}

impl NullSession {
    /// Answers all messages that end in `input`, and takes what it has read out of it.
    pub fn answer(&mut self, input: &mut BytesMut, output: &mut BytesMut) -> SessionState {
        loop {
            let Some(message) = &mut self.message else {
                match self.begin(input) {
                    Ok(Some(begun)) => self.message = Some(begun),
                    Ok(None) => return SessionState::Open,
                    Err(closed) => return closed,
                }
                continue;
            };
            message.read(input);
            if message.bytes_left > 0 {
                return SessionState::Open;
            }
            let state = match message.kind {
                Kind::Startup(code) => self.start(code, output),
                Kind::Tagged(tag) => answer_message(tag, message, output),
            };
            self.message = None;
            if state == SessionState::Closed {
                return state;
            }
        }
    }

    /// The next message, once its header is there; the state where its length is none that the kind may have.
    fn begin(&self, input: &mut BytesMut) -> Result<Option<Message>, SessionState> {
        // A startup message has no tag; its code is behind the length, and counted in it.
        let (tag_bytes, code_bytes, allowed) = if self.is_started {
            (1, 0, MESSAGE_BYTES)
        } else {
            (0, 4, STARTUP_BYTES)
        };
        let Some(&bytes) = input.get(tag_bytes..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(bytes) as usize;
        if !allowed.contains(&length) {
            return Err(SessionState::Closed);
        }
        if input.len() < tag_bytes + 4 + code_bytes {
            return Ok(None);
        }
        let first = input[0];
        input.advance(tag_bytes + 4);
        Ok(Some(Message {
            kind: if self.is_started {
                Kind::Tagged(first)
            } else {
                Kind::Startup(input.get_u32())
            },
            bytes_left: length - 4 - code_bytes,
            first: None,
            is_blank: true,
            start: [0; START_BYTES],
            start_bytes: 0,
        }))
    }

    fn start(&mut self, code: u32, output: &mut BytesMut) -> SessionState {
        match code {
            SSL_REQUEST | GSS_REQUEST => output.extend_from_slice(b"N"),
            // Minor versions of 3 are answered as 3.0, which every client accepts.
            version if version & 0xffff_0000 == PROTOCOL_3 => {
                self.is_started = true;
                write_startup_answer(output);
            }
            // A request to cancel, too: there is never anything to cancel.
            _ => return SessionState::Closed,
        }
        SessionState::Open
    }
}

impl Message {
    fn read(&mut self, input: &mut BytesMut) {
        let count = self.bytes_left.min(input.len());
        let bytes = &input[..count];
        self.first = self.first.or(bytes.first().copied());
        self.is_blank = self.is_blank && bytes.iter().all(|&byte| byte == 0 || byte.is_ascii_whitespace());
        if matches!(self.kind, Kind::Tagged(b'Q')) {
            let kept = bytes.len().min(START_BYTES - self.start_bytes);
            self.start[self.start_bytes..self.start_bytes + kept].copy_from_slice(&bytes[..kept]);
            self.start_bytes += kept;
        }
        self.bytes_left -= count;
        input.advance(count);
    }
}

/// The row of a query that has one.
fn row_of(message: &Message) -> Option<Values> {
    let start = &message.start[..message.start_bytes];
    let mut asked = ASKED_FIRST.iter();
    asked
        .find(|(text, _)| start.starts_with(text))
        .map(|(_, row)| *row)
}

/// A result of one row, its columns texts without names.
fn write_row(row: Values, output: &mut BytesMut) {
    let count = u16::try_from(row.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(b"T");
    output.put_u32(6 + 19 * u32::from(count));
    output.put_u16(count);
    for _ in row {
        // An empty name, no table and column, text (oid 25) of any length, as text.
        output.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
    }
    output.extend_from_slice(b"D");
    let bytes: usize = row.iter().map(|value| value.map_or(0, <[u8]>::len)).sum();
    output.put_u32(6 + 4 * u32::from(count) + u32::try_from(bytes).unwrap_or(u32::MAX));
    output.put_u16(count);
    for value in row {
        match value {
            Some(text) => {
                output.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
                output.extend_from_slice(text);
            }
            None => output.put_i32(-1),
        }
    }
    output.extend_from_slice(b"C\0\0\0\x0dSELECT 1\0");
}

fn write_startup_answer(output: &mut BytesMut) {
    output.extend_from_slice(AUTHENTICATION_OK);
    for (name, value) in PARAMETERS {
        let length = u8::try_from(4 + name.len() + 1 + value.len() + 1).unwrap_or(u8::MAX);
        output.extend_from_slice(&[b'S', 0, 0, 0, length]);
        for text in [name, value] {
            output.extend_from_slice(text.as_bytes());
            output.extend_from_slice(&[0]);
        }
    }
    output.extend_from_slice(BACKEND_KEY);
    output.extend_from_slice(READY);
}

fn answer_message(tag: u8, message: &Message, output: &mut BytesMut) -> SessionState {
    match tag {
        b'Q' if message.is_blank => {
            output.extend_from_slice(b"I\0\0\0\x04");
            output.extend_from_slice(READY);
        }
        b'Q' => {
            if let Some(row) = row_of(message) {
                write_row(row, output);
            } else {
                output.extend_from_slice(NO_COLUMNS);
                output.extend_from_slice(NO_ROWS);
            }
            output.extend_from_slice(READY);
        }
        b'P' => output.extend_from_slice(b"1\0\0\0\x04"),
        b'B' => output.extend_from_slice(b"2\0\0\0\x04"),
        // A statement is described with its parameters, of which the null server knows none; then its columns.
        b'D' if message.first == Some(b'S') => {
            output.extend_from_slice(b"t\0\0\0\x06\0\0");
            output.extend_from_slice(NO_COLUMNS);
        }
        b'D' => output.extend_from_slice(NO_COLUMNS),
        b'E' => output.extend_from_slice(NO_ROWS),
        b'C' => output.extend_from_slice(b"3\0\0\0\x04"),
        b'S' => output.extend_from_slice(READY),
        b'H' => {}
        _ => return SessionState::Closed,
    }
    SessionState::Open
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_protocol::{
        Answer, AnswerState, Channel, InputBuffer, Parameters, Startup, TransactionStatus, requests,
    };

    fn receive(input: &mut InputBuffer, bytes: &mut BytesMut) {
        let count = bytes.len();
        input.space()[..count].copy_from_slice(bytes);
        input.received(count);
        bytes.clear();
    }

    #[test]
    fn a_client_of_the_protocol_crate_is_content() {
        let parameters: Parameters =
            serde_json::from_str(r#"{"host": "/tmp", "port": 1, "user": "u", "dbname": "d"}"#).unwrap();
        let (mut client_out, mut server_out) = (BytesMut::new(), BytesMut::new());
        let mut startup = Startup::begin(&parameters, Channel::Plain, &mut client_out).unwrap();
        let mut server = NullSession::default();
        assert_eq!(
            server.answer(&mut client_out, &mut server_out),
            SessionState::Open
        );
        let mut input = InputBuffer::with_capacity(4096);
        receive(&mut input, &mut server_out);
        let session = startup.receive(&mut input, &mut client_out).unwrap().unwrap();
        assert_eq!(session.server_version, "18.0");

        requests::prepare("a", "select $1", [], &mut client_out).unwrap();
        requests::execute_prepared("a", [requests::Argument::Integer(1)], 0, &mut client_out).unwrap();
        assert_eq!(
            server.answer(&mut client_out, &mut server_out),
            SessionState::Open
        );
        assert!(client_out.is_empty());
        receive(&mut input, &mut server_out);
        let mut answer = Answer::default();
        assert_eq!(
            answer.read(&mut input).unwrap(),
            AnswerState::Ready(TransactionStatus::Idle)
        );
        assert_eq!((answer.rows, answer.error), (0, None));
    }

    #[test]
    fn nonsense_closes_the_connection() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\0\0\0\x08\0\0\0\0",
            b"\0\0\0\x04",
            b"\0\0\0\0",
        ] {
            let mut session = NullSession::default();
            let state = session.answer(&mut BytesMut::from(bytes), &mut BytesMut::new());
            assert_eq!(state, SessionState::Closed, "{bytes:?}");
        }
    }
}
