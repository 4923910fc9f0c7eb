//! What a plan is made of.

use std::collections::HashMap;
use std::sync::Arc;

/// What a word in a statement stands for: tables that it makes a statement read or write.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// Numbers of tables.
    pub reads: Vec<u32>,
    /// Numbers of tables; of a function that writes.
    pub writes: Vec<u32>,
    /// Numbers of tables that its foreign keys look into.
    pub refers: Vec<u32>,
    /// Whether a new row may take a value of a sequence.
    pub is_numbered: bool,
}

/// Which part of a capture is played, and where.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Nothing that was sent before this time, nanoseconds of the capture, but what set the sessions up.
    pub from_ns: Option<u64>,
    /// Nothing that was sent at this time or later, nanoseconds of the capture.
    pub until_ns: Option<u64>,
    /// These users' sessions alone; all where it is empty.
    pub users: Vec<String>,
    /// This share of the sessions, whole ones; all of them without.
    pub sample: Option<f64>,
    /// Databases of the capture, and the one of the server that each is played in; others are left out.
    pub databases: HashMap<String, String>,
    /// By database of the capture, what words stand for.
    pub names: HashMap<String, HashMap<String, Touch>>,
    /// How many tables there are; their numbers are below.
    pub tables: u32,
}

/// A session's number in the capture, and a step of it.
pub type Maker = (u32, u32);

/// A part of a list: from, to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: u32,
    /// The one behind the last.
    pub to: u32,
}

impl Span {
    /// As a range of indices.
    pub fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// The beginning of a numbered queue has to be done: that many of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which queue: of a table, or of ended sessions.
    pub queue: u32,
    /// How many members.
    pub count: u32,
}

/// A member of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which queue.
    pub queue: u32,
    /// Its place, from 0.
    pub place: u32,
}

/// Messages of a client that go out together.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// When they were sent, nanoseconds of the capture.
    pub at_ns: u64,
    /// They lie here in [`Plan::bytes`], as they go to a server.
    pub from: u64,
    /// Their end.
    pub to: u64,
    /// The client had seen so many ReadyForQuery before,
    pub readies: u32,
    /// and after them so many other answers.
    pub answers: u32,
    /// It is over with this many ReadyForQuery.
    pub over_readies: u32,
    /// What has to be done before, in [`Plan::waits`].
    pub waits: Span,
    /// What is done when it is over, in [`Plan::marks`].
    pub marks: Span,
    /// Values that may have become others, in [`Plan::places`].
    pub places: Span,
    /// Whether it reads without locks: what it sees is settled soon after it began.
    pub is_plain: bool,
    /// Whether it goes on with a pipeline, or with the data of a COPY: the first step of that waits for the order.
    pub is_within: bool,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CommandComplete: the tag without its number, and the number.
    Complete(Arc<[u8]>, Option<u64>),
    /// ErrorResponse.
    Error([u8; 5]),
    /// PortalSuspended.
    Suspended,
    /// An empty query, a function's result.
    Other(u8),
    /// The capture doesn't say.
    Unknown,
    /// No execution: the server was ready for the next request.
    Ready,
}

/// What came back then.
#[derive(Clone, Debug)]
pub struct Expected {
    /// In [`Plan::families`].
    pub family: u32,
    /// How it ended.
    pub kind: Kind,
    /// Rows.
    pub rows: u64,
    /// The sum of their checksums.
    pub sum: u32,
    /// What the session spent on it; of a batch, its share of that.
    pub busy_ns: u64,
    /// The step that asked for it, counted within the session.
    pub step: u32,
    /// Executions that follow each other with the same number were answered together; 0 for one that was alone.
    pub batch: u32,
    /// Values that the server made, in [`Plan::returned`].
    pub returned: Span,
    /// Which columns they are of, in [`Plan::columns`].
    pub columns: u32,
    /// Whether it can't come out the same: something of it is not in the capture, or it hung on timing.
    pub is_lacking: bool,
}

impl Expected {
    /// ReadyForQuery.
    pub fn ready() -> Self {
        Self {
            family: 0,
            kind: Kind::Ready,
            rows: 0,
            sum: 0,
            busy_ns: 0,
            step: 0,
            batch: 0,
            returned: Span::default(),
            columns: u32::MAX,
            is_lacking: false,
        }
    }
}

/// Statements that differ in values alone.
#[derive(Clone, Debug)]
pub struct Family {
    /// One of them.
    pub sample: Arc<[u8]>,
    /// Whether it may write.
    pub writes: bool,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// When it came, nanoseconds of the capture.
    pub begin_ns: u64,
    /// When it ended; none where the capture ended before.
    pub end_ns: Option<u64>,
    /// Startup parameters, as sent.
    pub parameters: Vec<(String, String)>,
    /// The role.
    pub user: String,
    /// The server's database.
    pub database: String,
    /// Its steps.
    pub steps: Vec<Step>,
    /// What came back.
    pub expected: Vec<Expected>,
    /// When requests to cancel came, and how many ReadyForQuery had come.
    pub cancels: Vec<(u64, u32)>,
    /// How many sessions had ended before it began.
    pub after_ended: u32,
    /// Its place among those that ended.
    pub ended_place: Option<u32>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Plan {
    /// Messages.
    pub bytes: Vec<u8>,
    /// What steps wait for.
    pub waits: Vec<Wait>,
    /// What steps do.
    pub marks: Vec<Mark>,
    /// What steps of sessions would have done that are left out: nobody has to wait for it.
    pub undone: Vec<Mark>,
    /// Values that may have become others.
    pub places: Vec<Place>,
    /// Values that the server made then: their source and number.
    pub returned: Vec<Returned>,
    /// Sets of columns whose values are followed.
    pub columns: Vec<Vec<Column>>,
    /// Sessions, in the order of their beginnings.
    pub sessions: Vec<Session>,
    /// Families.
    pub families: Vec<Family>,
    /// Queues from this number on are of values that the server makes: done when the step is over, and not before.
    pub queues_of_values: u32,
    /// How many queues there are.
    pub queues: usize,
    /// Time of the first thing that is played, nanoseconds of the capture.
    pub from_ns: u64,
    /// Time of the last.
    pub to_ns: u64,
    /// The longest execution of the capture.
    pub longest_ns: u64,
    /// Sessions that are left out: other users' and databases', and those that the server refused.
    pub left_out: u64,
    /// Files of the capture without their end.
    pub unfinished: usize,
}

impl Plan {
    /// Executions that are expected.
    pub fn executions(&self) -> usize {
        let all = self.sessions.iter().flat_map(|session| &session.expected);
        all.filter(|expected| expected.kind != Kind::Ready).count()
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As text.
    Text,
    /// A whole number, big-endian.
    Integer,
    /// One of four bytes without a sign, as of a transaction.
    Unsigned,
    /// 16 bytes.
    Uuid,
    /// A row's place in its table, six bytes.
    Place,
}

/// A column whose values are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its place in the row.
    pub place: usize,
    /// The source.
    pub source: u32,
    /// How values come.
    pub form: Form,
    /// Whether they come as an array.
    pub is_array: bool,
}

/// A value that the server made then; before those of an array comes their number, of no source.
#[derive(Clone, Copy, Debug)]
pub struct Returned {
    /// The source.
    pub source: u32,
    /// The value's number.
    pub value: u32,
}

/// A place in a message.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where the message begins, in [`Plan::bytes`].
    pub message: u64,
    /// Where the value begins.
    pub at: u64,
    /// How long it is.
    pub length: u32,
    /// Where the parameter begins that it is (of); its length stands in the four bytes before that.
    pub parameter: Option<u64>,
    /// Whether it is an element of a binary array, with its own length before it.
    pub is_element: bool,
    /// How it is written.
    pub form: Form,
    /// The source.
    pub source: u32,
    /// The value's number.
    pub value: u32,
    /// Who made it last, by number.
    pub maker: u32,
    /// The slot that it is of.
    pub slot: u32,
}

impl Place {
    /// Where lengths stand that change with the value's: the message's, the parameter's, the element's.
    pub fn lengths(&self) -> [Option<u64>; 3] {
        [
            Some(self.message + 1),
            self.parameter.map(|at| at - 4),
            self.is_element.then(|| self.at - 4),
        ]
    }
}
