//! One session of a capture that is redacted: which types its parameters have, and its messages without values.

use std::collections::{HashMap, VecDeque};

use super::binary::binary;
use super::done::Redacted;
use super::permute::Permuter;
use super::sql::{Counts, statement};
use super::stand_in::text;
use crate::format::bind::{Bind, format_of};
use crate::format::event::{Answer, Begin, Message, Rows};

/// Startup parameters that tell names and forms alone; all others are left out.
const STARTUP_KEPT: [&str; 8] = [
    "user",
    "database",
    "client_encoding",
    "datestyle",
    "timezone",
    "intervalstyle",
    "extra_float_digits",
    "replication",
];

/// How a session began, without what a client says of itself.
pub fn begin(mut begin: Begin, done: &mut Redacted) -> Begin {
    let before = begin.parameters.len();
    begin.parameters.retain(|(name, _)| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        STARTUP_KEPT.contains(&name.as_str())
    });
    done.startup += (before - begin.parameters.len()) as u64;
    begin
}

/// What a session's messages hang on.
#[derive(Default)]
pub struct Session {
    /// By name of a prepared statement, the types of its parameters as far as they are known.
    types: HashMap<Vec<u8>, Vec<u32>>,
    /// Statements that the client asked to have described and were not yet.
    asked: VecDeque<Vec<u8>>,
}

impl Session {
    /// The message without values; none where it has not the form that it must have.
    pub fn message(
        &mut self,
        mut message: Message,
        permuter: &Permuter,
        done: &mut Redacted,
    ) -> Option<Message> {
        if message.left_out_bytes.is_some() {
            return Some(message);
        }
        match message.tag {
            b'Q' => {
                let sql = message.body.strip_suffix(b"\0")?;
                message.body = [redacted(sql, permuter, done).as_slice(), b"\0"].concat();
            }
            b'P' => {
                let (name, rest) = split(&message.body)?;
                let (sql, types) = split(rest)?;
                self.types.insert(name.to_vec(), numbers(types));
                message.body = [
                    name,
                    b"\0",
                    redacted(sql, permuter, done).as_slice(),
                    b"\0",
                    types,
                ]
                .concat();
            }
            b'B' => self.bind(&mut message.body, permuter, done)?,
            b'D' => {
                if let Some((b'S', name)) = message.body.split_first() {
                    self.asked.push_back(split(name)?.0.to_vec());
                }
            }
            b'f' => {
                let reason = message.body.strip_suffix(b"\0")?;
                message.body = [text(permuter, reason).as_slice(), b"\0"].concat();
            }
            b'd' | b'F' => {
                done.left_out += 1;
                message.left_out_bytes = Some(message.body.len() as u64);
                message.body.clear();
            }
            b'E' | b'S' | b'H' | b'C' | b'c' | b'X' => {}
            _ => return None,
        }
        message.text = None;
        Some(message)
    }

    fn bind(&self, body: &mut [u8], permuter: &Permuter, done: &mut Redacted) -> Option<()> {
        let bind = Bind::read(body)?;
        let types = self.types.get(bind.statement);
        let (values, formats) = (bind.values, bind.formats);
        let types: Vec<u32> = types.cloned().unwrap_or_default();
        for (index, range) in values.into_iter().enumerate() {
            let Some(range) = range else {
                continue;
            };
            let value = &body[range.clone()];
            let found = match format_of(&formats, index) {
                0 => text(permuter, value),
                _ => binary(permuter, value, types.get(index).copied().unwrap_or(0)),
            };
            done.parameters += 1;
            if found.len() == range.len() {
                body[range].copy_from_slice(&found);
            } else {
                body[range].fill(b'x');
            }
        }
        Some(())
    }

    /// The answer without values; none for a row.
    pub fn answer(&mut self, answer: Answer, done: &mut Redacted) -> Option<Answer> {
        Some(match answer {
            Answer::Row(_) => {
                done.rows += 1;
                return None;
            }
            Answer::Description(b't', body) => {
                if let Some(name) = self.asked.pop_front() {
                    self.types.insert(name, numbers(&body));
                }
                Answer::Description(b't', body)
            }
            Answer::Complete { tag, affected, rows } => Answer::Complete {
                tag,
                affected,
                rows: counted(rows),
            },
            Answer::Suspended(rows) => Answer::Suspended(counted(rows)),
            Answer::Error { sqlstate, rows } => {
                // What comes to the next Sync is not described any more.
                self.asked.clear();
                Answer::Error {
                    sqlstate,
                    rows: counted(rows),
                }
            }
            Answer::FunctionResult(rows) => Answer::FunctionResult(counted(rows)),
            Answer::Plain(_) | Answer::Description(..) | Answer::Ready(_) | Answer::Unknown => answer,
        })
    }
}

/// A checksum of few bytes tells them to whoever tries them all.
fn counted(rows: Rows) -> Rows {
    Rows { sum: 0, ..rows }
}

fn redacted(sql: &[u8], permuter: &Permuter, done: &mut Redacted) -> Vec<u8> {
    let mut counts = Counts::default();
    let found = statement(permuter, sql, &mut counts);
    done.literals += counts.literals;
    done.comments += counts.comments;
    found
}

/// What stands before a zero byte, and behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Numbers of types behind their count.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    let listed = bytes.get(2..).unwrap_or_default().chunks_exact(4);
    listed
        .map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
        .collect()
}
