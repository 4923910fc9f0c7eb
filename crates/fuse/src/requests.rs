//! The requests of a volume: taken, given a time by what holds, answered.

use std::io;

use pgassay_volume::Kind;

use crate::connection::Connection;
use crate::figures::{Counting, Second};
use crate::image::Image;
use crate::instance::Imposed;
use crate::overhead::KNOWN_NS;
use crate::protocol::{
    Answer, Ask, Asked, DISK, EIO, ENOENT, ENOSYS, EPROTO, FILE_NAME, IN_HEADER, ROOT, decode, number,
};
use crate::schedule::{Pending, Schedule, What, now_ns};
use crate::trace::Tracing;
use crate::waiting::Waiting;
use crate::way::Way;

/// An answer is late when it comes later by more than this part of its latency.
const TOLERANCE_PART: u64 = 20;
/// An answer may be sent earlier or later by this part of its latency, so as to go along with others. Four
/// times as much saves a third of the processor's time at depth 32, and moves the 99th percentile by 4 %.
const SLACK_PART: u64 = 200;

/// When requests are done.
#[derive(Debug)]
pub(crate) enum Regime {
    AtOnce,
    /// Each after a known time, while the overhead is measured.
    Known,
    Model(Box<Imposed>),
}

/// Requests from their coming to their answers.
#[derive(Debug)]
pub(crate) struct Requests {
    pub connection: Connection,
    pub image: Image,
    pub regime: Regime,
    pub schedule: Schedule,
    pub counting: Counting,
    pub way: Way,
    pub tracing: Tracing,
}

impl Requests {
    /// The figures since they were asked for last.
    pub(crate) fn figures(&mut self, now: u64) -> Second {
        let credits = match &self.regime {
            Regime::Model(imposed) => imposed.levels(now),
            Regime::AtOnce | Regime::Known => Vec::new(),
        };
        let mut second = self.counting.take(now, self.schedule.len(), credits);
        second.overhead_us = self.way.small_ns() as f64 / 1e3;
        second
    }

    /// Whether no message needs to be seen until then. A recording has each request's own time.
    pub(crate) fn may_be_taken_later(&self, until_ns: u64) -> bool {
        match &self.regime {
            Regime::Model(imposed) => !self.tracing.is_on() && imposed.may_take_later(until_ns),
            Regime::AtOnce | Regime::Known => false,
        }
    }

    /// Sends the answers whose time has come.
    pub(crate) fn answer_due(&mut self, waiting: &Waiting) -> io::Result<()> {
        let mut is_any = false;
        loop {
            let now = now_ns();
            let Some(pending) = self.schedule.take_due(now) else {
                if is_any {
                    waiting.complete();
                }
                return Ok(());
            };
            is_any = true;
            let (kind, _, length) = pending.what.request();
            let late_ns = now.saturating_sub(pending.due_ns);
            self.counting.answered(kind, late_ns, pending.tolerance_ns);
            self.tracing.answered(pending.unique, now);
            self.answer(&pending)?;
            if kind != Kind::Flush && pending.latency_ns > 0 {
                self.way.answered(pending.latency_ns, pending.taken_ns, length);
            }
        }
    }

    fn answer(&mut self, pending: &Pending) -> io::Result<()> {
        let Self {
            connection, image, ..
        } = self;
        if pending.error != 0 {
            self.counting.failed(pending.error);
            return connection.answer(pending.unique, pending.error, &[]);
        }
        match pending.what {
            What::Read { offset, length } => match image.read(offset, length) {
                Ok(data) => connection.answer(pending.unique, 0, data),
                Err(error) => {
                    let error = number(&error);
                    self.counting.failed(error);
                    connection.answer(pending.unique, error, &[])
                }
            },
            What::Write { bytes, .. } => connection.answer(pending.unique, 0, Answer::written(bytes).bytes()),
            What::Flush => connection.answer(pending.unique, 0, &[]),
        }
    }

    /// Takes a message that came then: what the volume does is scheduled, all else is answered at once.
    pub(crate) fn take(&mut self, message: &[u8], came_ns: u64) -> io::Result<()> {
        let Some(Asked { unique, node, ask }) = decode(message) else {
            return if message.len() >= IN_HEADER {
                let unique = message[8..16].try_into().map_or(0, u64::from_ne_bytes);
                self.connection.answer(unique, EIO, &[])
            } else {
                Ok(())
            };
        };
        let bytes = self.image.bytes();
        let answer = match ask {
            Ask::Read { offset, length } if node == DISK => {
                self.schedule_one(came_ns, unique, What::Read { offset, length }, 0);
                return Ok(());
            }
            Ask::Write { offset, data } if node == DISK => {
                // Written now and acknowledged when the model says: nobody may rely on it before that.
                let done = self.image.write(offset, data);
                let error = done.as_ref().err().map_or(0, number);
                let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                self.schedule_one(came_ns, unique, What::Write { offset, bytes }, error);
                return Ok(());
            }
            Ask::Flush if node == DISK => {
                // What was acknowledged survives a killed process, as it lies in memory or the page cache.
                self.schedule_one(came_ns, unique, What::Flush, 0);
                return Ok(());
            }
            Ask::Silent => return Ok(()),
            Ask::Init { major, flags } => Answer::init(major, flags).ok_or(EPROTO),
            Ask::Lookup { name } if node == ROOT && name == FILE_NAME.as_bytes() => Ok(Answer::entry(bytes)),
            Ask::Lookup { .. } => Err(ENOENT),
            Ask::GetAttributes | Ask::SetAttributes => Ok(Answer::of_node(node, bytes)),
            Ask::Open => Ok(Answer::opened(true)),
            Ask::OpenFolder => Ok(Answer::opened(false)),
            Ask::ReadFolder { offset } => Ok(Answer::entries(FILE_NAME, offset)),
            Ask::Statistics => Ok(Answer::statistics(bytes)),
            Ask::Nothing | Ask::Destroy | Ask::Flush => Ok(Answer::default()),
            Ask::Read { .. } | Ask::Write { .. } => Err(EIO),
            Ask::Unknown => Err(ENOSYS),
        };
        match answer {
            Ok(answer) => self.connection.answer(unique, 0, answer.bytes()),
            Err(error) => self.connection.answer(unique, error, &[]),
        }
    }

    /// Gives a request its time. `error`: what it is to be answered with, 0 for success.
    fn schedule_one(&mut self, came_ns: u64, unique: u64, what: What, error: i32) {
        let mut now = came_ns;
        let mut tolerance_ns = u64::MAX;
        let mut taken_ns = 0;
        let (due_ns, latency_ns) = match &mut self.regime {
            Regime::AtOnce => (now, 0),
            Regime::Known => {
                if let What::Read { offset, length } = what {
                    self.image.own(offset, length);
                }
                (now + KNOWN_NS, KNOWN_NS)
            }
            Regime::Model(imposed) => {
                let (kind, offset, length) = what.request();
                let completion = imposed.submit(&mut now, kind, offset, length);
                self.counting.arrived(kind, length, &completion);
                self.tracing.issued(unique, now, kind, offset, length);
                let due_ns = imposed.began_ns().saturating_add(completion.done_ns);
                let latency_ns = due_ns.saturating_sub(now);
                tolerance_ns = latency_ns / TOLERANCE_PART;
                taken_ns = self.way.of(length).min(latency_ns);
                (due_ns - taken_ns, latency_ns)
            }
        };
        // A recording has each answer's own time as well.
        let slack_ns = if self.tracing.is_on() {
            0
        } else {
            latency_ns / SLACK_PART
        };
        self.schedule.add(Pending {
            due_ns,
            unique,
            slack_ns: slack_ns.min(due_ns),
            tolerance_ns,
            latency_ns: if taken_ns > 0 { latency_ns } else { 0 },
            taken_ns,
            error,
            what,
        });
    }
}
