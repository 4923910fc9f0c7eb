//! What a recording is taken for: requests, and what each of them waits for.

use serde::Serialize;

use crate::request::Kind;

/// How many requests before and behind one tell how many lanes there are.
pub const NEARBY: usize = 200;
/// Such a share of them must reach a number for there to be so many lanes.
pub const LANES_SHARE: f64 = 0.02;
/// So many writes behind each other make a log.
pub const LOG_WRITES_MIN: u32 = 4;
/// No write is longer; a device takes no more in one piece.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;
/// The recorded time is divided into so many stretches, whose ends are told of every replay.
pub const STRETCHES: usize = 200;

/// How a request comes to be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// By a lane that is free when enough requests are done, after computing.
    Claimed,
    /// By a new lane, so long after the request of a lane before it.
    Begins,
    /// By nobody who waits, so long after the request of a lane before it.
    WriteBack,
}

/// One request and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Computing, or the time since the request of a lane before it.
    pub(super) after_ns: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Of a claimed one: its lane is free when so many requests of lanes are done.
    pub(super) after_done: u32,
    /// The log that it belongs to, or [`NO_LOG`].
    pub(super) log: u32,
    pub(super) kind: Kind,
    pub(super) role: Role,
    /// Whether a milestone is told by it.
    pub(super) is_milestone: bool,
}

pub(super) const NO_LOG: u32 = u32::MAX;

/// A point of the recorded time, at equal distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Milestone {
    /// The first request of a lane from then on; `None` behind the last.
    pub(super) step: Option<u32>,
    /// How long before it, or before the end, it is.
    pub(super) lead_ns: u64,
}

/// Who computed between the requests.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// On how many processors; they need not be whole.
    pub processors: f64,
    /// How many lanes there were from the beginning on; 0 where nobody knows.
    pub clients: u32,
    /// The time of processors that all of it took, in seconds; 0 where nobody knows.
    pub cpu_s: f64,
    /// How often one of the clients committed; 0 where nobody knows.
    pub commits: u64,
    /// What passing a log on takes of a processor, as another recording shows it; `None` where nobody knows.
    pub passing_on_ns: Option<u64>,
    /// At least so many processors were had, as what others took is known; 0 where nobody knows.
    pub processors_min: f64,
    /// How many clients waited for another's transaction to end, on average; 0 where nobody knows.
    pub lock_waits: f64,
    /// With which chance a transaction needs a lock that a certain other one holds, as another recording shows it;
    /// `None` where nobody knows.
    pub lock_chance: Option<f64>,
}

impl Who {
    /// Somebody unknown, on so many processors.
    pub fn on(processors: f64) -> Self {
        Self {
            processors,
            clients: 0,
            cpu_s: 0.0,
            commits: 0,
            passing_on_ns: None,
            processors_min: 0.0,
            lock_waits: 0.0,
            lock_chance: None,
        }
    }
}

/// A recording, or parts of it, with what was inferred.
#[derive(Clone, Debug)]
pub struct Dependencies {
    pub(super) steps: Vec<Step>,
    pub(super) milestones: Vec<Milestone>,
    pub(super) logs: usize,
    /// Where the places of each volume begin, in the steps.
    pub(super) begins: Vec<u64>,
    /// What passing a log on takes of a processor: from when one write is done until those who waited issue the next.
    pub(super) passing_on_ns: u64,
    /// With which chance a transaction needs a lock that a certain other one holds.
    pub(super) lock_chance: f64,
    /// On so many processors lanes compute.
    pub(super) processors: f64,
    /// From the last completion of a lane to the end of the parts.
    pub(super) tail_ns: u64,
    pub(super) facts: Facts,
}

/// What was recorded, and what was inferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Requests of the parts.
    pub reads: u64,
    /// As `reads`.
    pub writes: u64,
    /// As `reads`.
    pub flushes: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long the parts were.
    pub elapsed_s: f64,
    /// Requests that nobody waited for.
    pub write_back: u64,
    /// Writes of logs.
    pub log_writes: u64,
    /// The most lanes that there were at once.
    pub lanes: u32,
    /// Computing of all lanes.
    pub computing_s: f64,
    /// What passing a log on to those who wait takes of a processor, each time.
    pub passing_on_us: f64,
    /// With which chance a transaction needs a lock that a certain other one holds.
    pub lock_chance: f64,
    /// Requests that were served and not written down.
    pub lost: u64,
    /// Whether the recording has its end.
    pub is_complete: bool,
    /// How many requests of lanes had been issued by the ends of the equal stretches, with its beginning.
    pub issued: Vec<u64>,
}
