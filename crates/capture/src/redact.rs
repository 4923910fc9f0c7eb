//! A capture that can be handed out: the same sessions, messages and times, with other values.
//!
//! Values of parameters and literals become stand-ins (`stand_in`), which keep kind and length. Rows, checksums, data of COPY,
//! arguments of function calls and comments go. Names stay: of tables and columns, roles, databases, prepared statements.

mod binary;
pub mod done;
mod permute;
mod session;
mod shapes;
mod sql;
mod stand_in;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::fault::Fault;
use crate::format::encode::Seen;
use crate::format::event::{Event, Message, What};
use crate::store::reader::Capture;
use crate::store::writer::{CaptureWriter, GroupLimits};
use done::Redacted;
use permute::Permuter;
use session::Session;

/// Longer bodies are written in parts of so many bytes.
const PART_BYTES: usize = 8 << 20;

/// Writes a capture of `from` without its values to `to`, a folder that is there and empty.
///
/// # Errors
/// When it can't be read or written.
pub fn redact(from: &Path, to: &Path) -> Result<Redacted, Fault> {
    let capture = Capture::open(from)?;
    let failed = |error: io::Error| Fault(format!("{} can't be written: {error}", to.display()));
    let mut writer =
        CaptureWriter::create(to, capture.started_unix_ns, GroupLimits::default()).map_err(failed)?;
    let permuter = Permuter::default();
    let mut open: HashMap<u32, Session> = HashMap::new();
    let mut done = Redacted::default();
    for event in capture.events()? {
        write(event?, &permuter, &mut writer, &mut open, &mut done).map_err(failed)?;
    }
    done.bytes = writer.finish()?;
    Ok(done)
}

fn write(
    event: Event,
    permuter: &Permuter,
    writer: &mut CaptureWriter,
    open: &mut HashMap<u32, Session>,
    done: &mut Redacted,
) -> io::Result<()> {
    let Event { session, at_ns, what } = event;
    match what {
        What::Begin(begin) => {
            done.sessions += 1;
            let begin = session::begin(begin, done);
            open.insert(session, Session::default());
            writer.open_session(session)?;
            writer.record(session, |to| to.begin(session, at_ns, &begin))
        }
        What::Ready => writer.record(session, |to| to.ready(session, at_ns)),
        What::Messages(messages) => {
            let known = open.entry(session).or_default();
            let messages: Vec<_> = messages
                .into_iter()
                .filter_map(|message| known.message(message, permuter, done))
                .collect();
            for group in messages.chunk_by(|one, next| !is_long(one) && !is_long(next)) {
                write_group(group, (session, at_ns), writer)?;
            }
            Ok(())
        }
        What::Answers(answers) => {
            let known = open.entry(session).or_default();
            let answers: Vec<_> = answers
                .into_iter()
                .filter_map(|answer| known.answer(answer, done))
                .collect();
            writer.record(session, |to| to.answers(session, at_ns, &answers))
        }
        What::Cancel => writer.record(session, |to| to.cancel(session, at_ns)),
        What::End(end) => {
            open.remove(&session);
            writer.record(session, |to| to.end(session, at_ns, end))?;
            writer.close_session(session)
        }
        What::Dropped => Ok(()),
    }
}

/// Whether a body goes to the file in parts, as a block has no room for it.
fn is_long(message: &Message) -> bool {
    message.body.len() > PART_BYTES && !matches!(message.tag, b'Q' | b'P')
}

/// Writes messages that came together; a long one stands alone.
fn write_group(
    group: &[Message],
    (session, at_ns): (u32, u64),
    writer: &mut CaptureWriter,
) -> io::Result<()> {
    let mut rest = group.first().map_or(&[][..], |message| &message.body[..]);
    while group.len() == 1 && is_long(&group[0]) && rest.len() > PART_BYTES {
        let (part, behind) = rest.split_at(PART_BYTES);
        writer.record(session, |to| to.part(session, at_ns, part))?;
        rest = behind;
    }
    let seen = group.iter().map(|message| Seen {
        tag: message.tag,
        body: if is_long(message) { rest } else { &message.body },
        left_out_bytes: message.left_out_bytes,
    });
    writer.record(session, |to| to.messages(session, at_ns, seen))
}
