//! The recording side of the thread that moves bytes: what it saw, in batches; when a session must leave the capture.

use super::flow::Flow;
use super::queue::{Item, Queue, Record, Totals};

/// A batch is handed on at so many bytes, or after so long, and in any case when the loop has nothing to do.
const BATCH_BYTES: usize = 64 << 10;
const BATCH_NS: u64 = 200_000_000;
/// What all sessions may hold of messages that have not come whole.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Takes what was seen.
pub struct Recorder {
    queue: Queue,
    batch: Vec<Item>,
    batch_bytes: usize,
    /// When the batch was begun.
    batch_ns: u64,
    queue_bytes_max: usize,
    /// What sessions hold of messages that have not come whole.
    pub held_bytes: usize,
    /// The time from time 0, read once for each turn.
    pub now_ns: u64,
    /// The numbers so far.
    pub totals: Totals,
}

impl Recorder {
    /// Writes to this queue.
    pub fn new(queue: Queue, queue_bytes_max: usize) -> Self {
        Self {
            queue,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_ns: 0,
            queue_bytes_max,
            held_bytes: 0,
            now_ns: 0,
            totals: Totals::default(),
        }
    }

    /// Whether there is room for more; where not, the session that has something to say leaves the capture.
    pub fn has_room(&self) -> bool {
        let shared = self.queue.shared();
        self.batch_bytes + shared.queued_bytes() < self.queue_bytes_max
            && self.held_bytes < HELD_BYTES_MAX
            && !shared.has_failed()
    }

    /// Records something, whether there is room or not.
    pub fn add(&mut self, session: u32, what: Record) {
        let at_ns = self.now_ns;
        let item = Item { session, at_ns, what };
        if self.batch.is_empty() {
            self.batch_ns = at_ns;
        }
        self.batch_bytes += item.bytes();
        self.batch.push(item);
        if self.batch_bytes >= BATCH_BYTES || at_ns.saturating_sub(self.batch_ns) >= BATCH_NS {
            self.hand_on();
        }
    }

    /// Hands on what there is.
    pub fn hand_on(&mut self) {
        if !self.batch.is_empty() {
            let bytes = std::mem::take(&mut self.batch_bytes);
            self.queue.send(std::mem::take(&mut self.batch), bytes);
        }
    }

    /// Whether something waits to be handed on.
    pub fn has_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// The numbers so far.
    pub fn totals(&self) -> Totals {
        Totals {
            written_bytes: self.queue.shared().written_bytes(),
            failure: self.queue.shared().failure(),
            ..self.totals.clone()
        }
    }

    /// Writes all that is left and gives the last numbers.
    pub fn finish(mut self) -> Totals {
        self.hand_on();
        self.queue.finish();
        self.totals()
    }
}

/// What both sides of a session know of its recording.
#[derive(Default)]
pub struct Recording {
    /// Its number in the capture; 0 while, or since, it is not recorded.
    pub number: u32,
    /// Whether the server has let the client in.
    pub is_ready: bool,
    /// Whether the data of COPY FROM STDIN are kept.
    pub keeps_copy_data: bool,
    /// What is on its way.
    pub flow: Flow,
}

impl Recording {
    /// The session leaves the capture, whole.
    pub fn leave(&mut self, recorder: &mut Recorder) {
        if self.number != 0 {
            recorder.add(self.number, Record::Dropped);
            recorder.totals.dropped += 1;
            self.number = 0;
            self.flow = Flow::default();
        }
    }
}
