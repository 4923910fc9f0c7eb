//! A recording on another volume: what waited for what is inferred, and replayed.
//!
//! A block device knows neither processes nor what they wait for. What is assumed:
//!
//! 1. Reads, flushes and writes of a log are **waited for**. Each belongs to a lane: a client, a reading process,
//!    or one place of a look-ahead. A lane computes, issues a request, waits until it is done, and goes on. There
//!    are as many lanes as requests are on their way at once: a number that [`LANES_SHARE`] of the [`NEARBY`]
//!    requests before and behind reach, as a stray request is no client.
//! 2. The lane that has been free for longest issues the next request, and its **computing** is the time between,
//!    as far as it had a processor: of n lanes that compute on c processors each gets c / n of one, or all of it.
//! 3. A request that finds no lane free begins one, as long after the request before it as it was.
//! 4. A write that rewrites the end of one before it or goes on where that one ended, after that one was done, is
//!    of a **log** once there are [`LOG_WRITES_MIN`] of them. Of a log one is on its way at a time. Those that
//!    come meanwhile are one write after it, as commits share a flush.
//! 5. Other writes are **write-back**. Nobody waits for them; each comes as long after the request of a lane
//!    before it as it did.
//!
//! So the order of requests stays, and their number but for those of logs that are merged. The replay goes
//! through the same rules with another volume's answers. With those that were recorded it gives the recorded
//! times back. Computing that was hidden behind a slower volume's answers (a look-ahead's consumer) is not seen:
//! a prediction is no better than the time on a fast volume, which whoever asks has to set as a floor.

mod infer;
mod processors;
mod replay;
mod writes;

use serde::Serialize;

use super::figures::{Figures, Simulated};
use crate::model::{Fault, Model, SECOND_NS};
use crate::recording::Recording;
use crate::request::Kind;
use crate::volume::Volume;

/// How many requests before and behind one tell how many lanes there are.
pub const NEARBY: usize = 200;
/// Such a share of them must reach a number for there to be so many lanes.
pub const LANES_SHARE: f64 = 0.02;
/// So many writes behind each other make a log.
pub const LOG_WRITES_MIN: u32 = 4;
const PROCESSORS: std::ops::RangeInclusive<f64> = 0.01..=4096.0;

/// How a request comes to be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// By a lane that is free, after computing.
    Claimed,
    /// By a new lane, so long after the request of a lane before it.
    Begins,
    /// By nobody who waits, so long after the request of a lane before it.
    WriteBack,
}

/// One request and what it waits for.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Computing, or the time since the request of a lane before it.
    after_ns: u64,
    offset: u64,
    length: u32,
    /// How many lanes there are around it at most.
    lanes: u32,
    /// The log that it belongs to, or [`NO_LOG`].
    log: u32,
    kind: Kind,
    role: Role,
}

const NO_LOG: u32 = u32::MAX;

/// A recording, or parts of it, with what was inferred.
#[derive(Clone, Debug)]
pub struct Dependencies {
    steps: Vec<Step>,
    logs: usize,
    processors: f64,
    /// From the last completion of a lane to the end of the parts.
    tail_ns: u64,
    facts: Facts,
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
    /// Requests that were served and not written down.
    pub lost: u64,
    /// Whether the recording has its end.
    pub is_complete: bool,
}

impl Dependencies {
    /// Infers what waited for what, on so many processors (they need not be whole).
    ///
    /// `parts` are the stretches that count, by CLOCK_MONOTONIC from and until, in their order; what was issued
    /// between them is left out, with its time. None is all of the recording, from its first request on.
    ///
    /// # Errors
    /// Parts without requests or out of order, or a number of processors that can't be.
    pub fn infer(recording: &Recording, parts: &[(u64, u64)], processors: f64) -> Result<Self, Fault> {
        if !PROCESSORS.contains(&processors) {
            let (least, most) = (PROCESSORS.start(), PROCESSORS.end());
            return Err(Fault(format!(
                "processors is {processors}, but must be from {least} to {most}"
            )));
        }
        infer::infer(recording, parts, processors)
    }

    /// What was recorded, and what was inferred.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Replays it on a new volume of the model; as [`super::simulate`].
    ///
    /// # Errors
    /// What [`Model::check`] refuses, and an interval of no length.
    pub fn simulate(&self, model: &Model, interval_s: f64, seed: u64) -> Result<Simulated, Fault> {
        let mut volume = Volume::new(model, seed)?;
        let mut figures = Figures::new(interval_s)?;
        let elapsed_ns = replay::replay(self, |request| {
            let completion = volume.submit(request);
            figures.count(request, &completion);
            completion.done_ns
        });
        let mut simulated = figures.finish(&model.name, &volume);
        let elapsed_s = elapsed_ns as f64 / SECOND_NS as f64;
        simulated.elapsed_s = elapsed_s;
        if elapsed_s > 0.0 {
            simulated.requests_per_s = simulated.requests as f64 / elapsed_s;
            simulated.bytes_per_s = simulated.bytes as f64 / elapsed_s;
        }
        Ok(simulated)
    }

    /// Replays it with answers of the caller's own, in the order of arrival: when each is done. Returns how long
    /// it takes, in nanoseconds.
    pub fn replay(&self, serve: impl FnMut(&crate::Request) -> u64) -> u64 {
        replay::replay(self, serve)
    }
}
