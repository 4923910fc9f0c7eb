//! What is on its way to the disk, and the thread that writes it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::format::encode::Seen;
use crate::format::event::{Answer, Begin, End};
use crate::store::writer::{CaptureWriter, GroupLimits};

/// The type of a message of the queue whose content is left out; its body is the type and the length, 8 bytes.
pub const LEFT_OUT: u8 = 1;
/// What an item takes beyond its bytes, roughly.
const ITEM_BYTES: usize = 96;
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// One thing to be written.
pub struct Item {
    /// Which session.
    pub session: u32,
    /// When, from time 0.
    pub at_ns: u64,
    /// What.
    pub what: Record,
}

/// What is to be written.
pub enum Record {
    Begin(Begin),
    Ready,
    /// Whole messages as on the wire, but for those that are left out.
    Messages(Vec<u8>),
    Part(Vec<u8>),
    Answers(Vec<Answer>),
    Cancel,
    End(End),
    Dropped,
}

impl Item {
    /// The memory that it takes, roughly.
    pub fn bytes(&self) -> usize {
        ITEM_BYTES
            + match &self.what {
                Record::Messages(bytes) | Record::Part(bytes) => bytes.capacity(),
                Record::Answers(answers) => answers.iter().map(answer_bytes).sum(),
                _ => 0,
            }
    }
}

fn answer_bytes(answer: &Answer) -> usize {
    size_of::<Answer>()
        + match answer {
            Answer::Row(body) => body.len(),
            Answer::Description(_, body) => body.len(),
            _ => 0,
        }
}

/// What both threads know.
#[derive(Default)]
pub struct Shared {
    queued_bytes: AtomicUsize,
    written_bytes: AtomicU64,
    has_failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    /// What waits to be written.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// What is in the files.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Whether writing has failed; nothing is recorded any more.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Why it has.
    pub fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn fail(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

/// What was seen, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Recorded sessions that began.
    pub sessions: u64,
    /// Connections of all kinds at this moment.
    pub open: u64,
    /// Queries, executions and function calls that were recorded.
    pub statements: u64,
    /// Bytes that went through, both ways.
    pub passed_bytes: u64,
    /// Bytes in the capture's files.
    pub written_bytes: u64,
    /// Sessions that left the capture since the disk or the memory did not follow.
    pub dropped: u64,
    /// Sessions that are not selected.
    pub not_selected: u64,
    /// Sessions of replication, which are never recorded.
    pub replication: u64,
    /// Connections that were closed for what is no message.
    pub bad_messages: u64,
    /// Sessions whose offer of channel binding was taken away, since TLS ends at the proxy.
    pub without_channel_binding: u64,
    /// Why nothing is written any more.
    pub failure: Option<String>,
}

/// The end of the queue that is written to.
pub struct Queue {
    sender: Option<Sender<Vec<Item>>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    /// Makes the capture's folder and starts the thread that writes.
    ///
    /// # Errors
    /// When the folder can't be written.
    pub fn start(folder: &Path, started_unix_ns: u64) -> io::Result<Self> {
        let writer = CaptureWriter::create(folder, started_unix_ns, GroupLimits::default())?;
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = channel();
        let others = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("capture-writer".to_owned())
            .spawn(move || write_all(writer, &receiver, &others))?;
        Ok(Self {
            sender: Some(sender),
            shared,
            thread: Some(thread),
        })
    }

    /// What both threads know.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Hands these items on, which have so many bytes.
    pub fn send(&self, items: Vec<Item>, bytes: usize) {
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(sender) = &self.sender {
            // The thread ends only after the sender does.
            let _ = sender.send(items);
        }
    }

    /// Waits until all is written.
    pub fn finish(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(mut writer: CaptureWriter, receiver: &Receiver<Vec<Item>>, shared: &Shared) {
    let mut flushed = Instant::now();
    loop {
        let result = match receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(items) => {
                let bytes = items.iter().map(Item::bytes).sum();
                let result = match shared.has_failed() {
                    true => Ok(()),
                    false => items.into_iter().try_for_each(|item| write(&mut writer, item)),
                };
                shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                result
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let result = result.and_then(|()| {
            if flushed.elapsed() < FLUSH_INTERVAL || shared.has_failed() {
                return Ok(());
            }
            flushed = Instant::now();
            writer.flush()
        });
        if let Err(error) = result {
            shared.fail(error.to_string());
        }
        shared.written_bytes.store(writer.bytes(), Ordering::Relaxed);
    }
    if shared.has_failed() {
        return;
    }
    match writer.finish() {
        Ok(bytes) => shared.written_bytes.store(bytes, Ordering::Relaxed),
        Err(fault) => shared.fail(fault.0),
    }
}

fn write(writer: &mut CaptureWriter, item: Item) -> io::Result<()> {
    let Item { session, at_ns, what } = item;
    match what {
        Record::Begin(begin) => {
            writer.open_session(session)?;
            writer.record(session, |to| to.begin(session, at_ns, &begin))
        }
        Record::Ready => writer.record(session, |to| to.ready(session, at_ns)),
        Record::Messages(bytes) => {
            writer.record(session, |to| to.messages(session, at_ns, Frames { rest: &bytes }))
        }
        Record::Part(bytes) => writer.record(session, |to| to.part(session, at_ns, &bytes)),
        Record::Answers(answers) => writer.record(session, |to| to.answers(session, at_ns, &answers)),
        Record::Cancel => writer.record(session, |to| to.cancel(session, at_ns)),
        Record::End(end) => {
            writer.record(session, |to| to.end(session, at_ns, end))?;
            writer.close_session(session)
        }
        Record::Dropped => {
            writer.record(session, |to| to.drop_session(session, at_ns))?;
            writer.close_session(session)
        }
    }
}

/// The messages of a record, cut as on the wire.
struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Frames<'a> {
    type Item = Seen<'a>;

    fn next(&mut self) -> Option<Seen<'a>> {
        let (tag, rest) = self.rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_at_checked((u32::from_be_bytes(*length) as usize).checked_sub(4)?)?;
        self.rest = rest;
        if *tag != LEFT_OUT {
            return Some(Seen {
                tag: *tag,
                body,
                left_out_bytes: None,
            });
        }
        let (tag, length) = body.split_first()?;
        Some(Seen {
            tag: *tag,
            body: &[],
            left_out_bytes: Some(u64::from_be_bytes(length.try_into().ok()?)),
        })
    }
}
