//! `capture-write`: a capture written from what was read elsewhere, a server's log.

use std::io::{self, BufRead};
use std::path::PathBuf;

use pgassay_capture::format::encode::Seen;
use pgassay_capture::format::event::{Answer, Begin, End, EndReason, Rows};
use pgassay_capture::store::writer::{CaptureWriter, GroupLimits};
use pgassay_protocol::Failure;
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, bad_input, fail, write_line};

const COPY_DONE: u8 = b'c';

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteSpec {
    folder: PathBuf,
    started_unix_ns: u64,
}

/// One line: something that happened in a session; times must not go back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    session: u32,
    at_ns: u64,
    what: What,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum What {
    /// Startup parameters; the session is ready at once.
    Begin(Vec<(String, String)>),
    /// A simple query.
    Query(String),
    /// One that is COPY FROM STDIN: a log has no data of it, so none are sent, and the server is told that it was all.
    Copy(String),
    /// An execution by the extended protocol.
    Execute(Execute),
    /// How it ended.
    Answer(Outcome),
    /// The client went.
    End {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Execute {
    /// The statement's name; empty for the unnamed one.
    name: String,
    /// Its text, where it has to be prepared.
    text: Option<String>,
    values: Vec<Option<String>>,
    /// Whether it is COPY FROM STDIN.
    #[serde(default)]
    copies: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    sqlstate: Option<String>,
    /// Of the transaction: I, T or E.
    status: char,
}

/// Runs the command and gives its exit status; the capture is whole when standard input closes.
pub fn capture_write() -> i32 {
    match write_all() {
        Ok(bytes) => {
            write_line(&json!({ "written": { "bytes": bytes } }));
            0
        }
        Err((failure, status)) => fail(&failure, status),
    }
}

fn write_all() -> Result<u64, (Failure, i32)> {
    let unusable = |error: &serde_json::Error| (bad_input(error), EXIT_USAGE);
    let failed = |error: io::Error| {
        let text = format!("the capture can't be written: {error}");
        (Failure::client(text), EXIT_FAILURE)
    };
    let mut lines = io::stdin().lock().lines();
    let first = lines.next().transpose().map_err(failed)?.unwrap_or_default();
    let spec: WriteSpec = serde_json::from_str(&first).map_err(|error| unusable(&error))?;
    let mut writer =
        CaptureWriter::create(&spec.folder, spec.started_unix_ns, GroupLimits::default()).map_err(failed)?;
    for line in lines {
        let line: Line = serde_json::from_str(&line.map_err(failed)?).map_err(|error| unusable(&error))?;
        write(&mut writer, &line).map_err(failed)?;
    }
    writer
        .finish()
        .map_err(|fault| (Failure::client(fault.0), EXIT_FAILURE))
}

fn write(writer: &mut CaptureWriter, line: &Line) -> io::Result<()> {
    let Line { session, at_ns, what } = line;
    let (session, at_ns) = (*session, *at_ns);
    match what {
        What::Begin(parameters) => {
            let as_bytes =
                |(name, value): &(String, String)| (name.clone().into_bytes(), value.clone().into_bytes());
            let begin = Begin {
                protocol: 0,
                is_encrypted: false,
                parameters: parameters.iter().map(as_bytes).collect(),
            };
            writer.open_session(session)?;
            writer.record(session, |to| to.begin(session, at_ns, &begin))?;
            writer.record(session, |to| to.ready(session, at_ns))
        }
        What::Query(text) | What::Copy(text) => {
            let body = [text.as_bytes(), b"\0"].concat();
            let done = matches!(what, What::Copy(_)).then(|| seen(COPY_DONE, &[]));
            let sent = [seen(b'Q', &body)].into_iter().chain(done);
            writer.record(session, |to| to.messages(session, at_ns, sent))
        }
        What::Execute(execute) => {
            let bodies = messages(execute);
            let sent = bodies.iter().map(|(tag, body)| seen(*tag, body));
            writer.record(session, |to| to.messages(session, at_ns, sent))
        }
        What::Answer(outcome) => {
            let sqlstate = outcome
                .sqlstate
                .as_ref()
                .and_then(|state| state.as_bytes().try_into().ok());
            let ended = match sqlstate {
                Some(sqlstate) => Answer::Error {
                    sqlstate,
                    rows: Rows::default(),
                },
                None => Answer::Unknown,
            };
            let status = u8::try_from(outcome.status).unwrap_or(b'I');
            writer.record(session, |to| {
                to.answers(session, at_ns, &[ended, Answer::Ready(status)])
            })
        }
        What::End {} => {
            let end = End {
                reason: EndReason::ClientLost,
                sqlstate: None,
            };
            writer.record(session, |to| to.end(session, at_ns, end))?;
            writer.close_session(session)
        }
    }
}

fn seen(tag: u8, body: &[u8]) -> Seen<'_> {
    Seen {
        tag,
        body,
        left_out_bytes: None,
    }
}

/// What a client would have sent: Parse where it is needed, Bind with texts, Describe, Execute, Sync.
fn messages(execute: &Execute) -> Vec<(u8, Vec<u8>)> {
    let name = execute.name.as_bytes();
    let mut found = Vec::new();
    if let Some(text) = &execute.text {
        if !name.is_empty() {
            // When a name was closed, to be used for another statement, is not in a log.
            found.push((b'C', [&b"S"[..], name, b"\0"].concat()));
        }
        found.push((b'P', [name, b"\0", text.as_bytes(), b"\0", &[0, 0]].concat()));
    }
    let mut bind = [b"\0", name, b"\0", &[0, 0]].concat();
    // The protocol has no more than 65,535 parameters, and a log line no value of 2 GiB.
    bind.extend_from_slice(
        &u16::try_from(execute.values.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes(),
    );
    for value in &execute.values {
        match value {
            Some(value) => {
                bind.extend_from_slice(&i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
                bind.extend_from_slice(value.as_bytes());
            }
            None => bind.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
    bind.extend_from_slice(&[0, 1, 0, 0]);
    found.push((b'B', bind));
    found.push((b'D', b"P\0".to_vec()));
    found.push((b'E', vec![0; 5]));
    if execute.copies {
        found.push((COPY_DONE, Vec::new()));
    }
    found.push((b'S', Vec::new()));
    found
}
