//! A recording on another volume: what waited for what is inferred, and replayed.
//!
//! A block device knows neither processes nor what they wait for. What is assumed:
//!
//! 1. Reads, flushes and writes of a log are **waited for**. Each belongs to a lane: a client, a reading process,
//!    or one place of a look-ahead. A lane computes, issues a request, waits until it is done, and goes on. There
//!    are as many lanes as requests are on their way at once: a number that [`LANES_SHARE`] of the [`NEARBY`]
//!    requests before and behind reach, as a stray request is no client. Who knows how many clients there were
//!    says so: then there are so many lanes from the beginning on, which a fast volume does not show, and no more.
//! 2. The lane that has been free for longest issues the next request, and its **computing** is the time between,
//!    as far as it had a processor: of n lanes that compute on c processors each gets c / n of one, or all of it.
//!    Where it is known how long processors were busy, no more than that is computing. Then fewer lanes compute
//!    at once, and those that have been free for longest waited for another lane's request, as the places of a
//!    look-ahead do whose reader is held up by the page that it needs next. Of clients that commit, all of whose
//!    waits are seen, fewer processors were had; but no fewer than are known to have been, as far as the log was
//!    busy: what comes before their commits is shortened then.
//! 3. A request that finds no lane free goes with the request before it, as long after that one as it was: the
//!    kernel asks for one reader's pages in several requests. Its lane ends with the first of them that is done,
//!    so that the reader goes on with the last.
//! 4. A write that rewrites the end of one before it or goes on where that one ended, after that one was done, is
//!    of a **log** once there are [`LOG_WRITES_MIN`] of them. Of a log one is on its way at a time. Those that
//!    come meanwhile are one write after it, as commits share a flush; to write what waits takes a processor for a
//!    time that is the same each time. Who knows how often clients committed says so: then each **commit** is a
//!    wait of a lane. Those that share a write came while the one before it was on its way; which of them computed
//!    for how long is not known. Without it, who waits for another's write does not compute: where it is known how
//!    long processors were busy, what comes before writes of logs is shortened.
//! 5. Other writes are waited for by all where no lane asked for anything for ten times as long as usual, until they
//!    were done: a log that goes on in a new file fills it first. Else they are **write-back**. Nobody waits for
//!    them; each comes as long after the request of a lane
//!    before it as it did.
//!
//! 6. Clients that commit hold **locks** until then, and some need a lock that another one holds. Where it is known how
//!    many waited so on average, the chance that a transaction needs the lock of a certain other one is that with
//!    which a replay has as many wait.
//! 7. A look-ahead asks in the **order of the file**. Where it is not known that there are clients, a read that
//!    goes on where one before it ended takes the place of those that came before it, as far as they were on their
//!    way at once. A volume that merges adjacent requests counts more of them where they come in order.
//!
//! So the times of requests are those of their lanes: when how many requests are done, and then computing. Their
//! number stays but for those of logs that are merged. The replay goes through the same rules with another
//! volume's answers. With those that were recorded it gives the recorded times back. Computing that was hidden behind a slower volume's answers (a look-ahead's consumer) is not seen:
//! a prediction is no better than the time on a fast volume, which whoever asks has to set as a floor.

mod commits;
mod dependencies;
mod infer;
mod lanes;
mod locks;
mod merged;
mod on_their_way;
mod order;
mod processors;
mod replay;
mod writes;

pub use dependencies::{Dependencies, Facts, LANES_SHARE, LOG_WRITES_MIN, NEARBY, STRETCHES, Who};

use super::figures::{Figures, Simulated};
use crate::model::{Fault, Model, SECOND_NS};
use crate::recording::Recording;
use crate::volume::Volume;

const PROCESSORS: std::ops::RangeInclusive<f64> = 0.01..=4096.0;

impl Dependencies {
    /// Infers what waited for what.
    ///
    /// `parts` are the stretches that count, by CLOCK_MONOTONIC from and until, in their order; what was issued
    /// between them is left out, with its time. None is all of the recording, from its first request on.
    ///
    /// # Errors
    /// Parts without requests or out of order, or a number of processors that can't be.
    pub fn infer(recording: &Recording, parts: &[(u64, u64)], who: Who) -> Result<Self, Fault> {
        Self::infer_all(&[recording], parts, who)
    }

    /// The same of recordings of several volumes, made at once on one machine.
    ///
    /// # Errors
    /// As [`Dependencies::infer`]; no recording at all.
    pub fn infer_all(recordings: &[&Recording], parts: &[(u64, u64)], who: Who) -> Result<Self, Fault> {
        let processors = who.processors;
        if !PROCESSORS.contains(&processors) {
            let (least, most) = (PROCESSORS.start(), PROCESSORS.end());
            return Err(Fault(format!(
                "processors is {processors}, but must be from {least} to {most}"
            )));
        }
        infer::infer(recordings, parts, who)
    }

    /// What was recorded, and what was inferred.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Replays it on a new volume of the model; as [`super::simulate`].
    ///
    /// # Errors
    /// What [`Model::check`] refuses, an interval of no length, and a recording of several volumes.
    pub fn simulate(&self, model: &Model, interval_s: f64, seed: u64) -> Result<Simulated, Fault> {
        self.simulate_all(&[model], None, interval_s, seed)
    }

    /// The same on as many volumes as were recorded, in their order. `instance`: the limits that all of them share,
    /// which their own models have not. The figures are of all volumes together, by the name of the first.
    ///
    /// # Errors
    /// As [`Dependencies::simulate`]; another number of volumes.
    pub fn simulate_all(
        &self,
        models: &[&Model],
        instance: Option<&Model>,
        interval_s: f64,
        seed: u64,
    ) -> Result<Simulated, Fault> {
        if models.len() != self.begins.len() {
            return Err(Fault(format!(
                "there are {} volumes, and requests of {} were recorded",
                models.len(),
                self.begins.len()
            )));
        }
        // Each draws latencies of its own.
        let seeds = seed..;
        let mut volumes = seeds
            .zip(models)
            .map(|(seed, model)| Volume::new(model, seed))
            .collect::<Result<Vec<_>, _>>()?;
        let mut instance = instance.map(|model| Volume::new(model, seed)).transpose()?;
        let mut figures = Figures::new(interval_s)?;
        let replayed = replay::replay(self, |volume, request| {
            let completion = volumes[volume].submit_through(request, instance.as_mut());
            figures.count(request, &completion);
            completion.done_ns
        });
        let mut simulated = figures.finish(&models[0].name, volumes.iter().chain(&instance));
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let elapsed_s = seconds(replayed.elapsed_ns);
        simulated.elapsed_s = elapsed_s;
        simulated.milestones_s = replayed.milestones_ns.into_iter().map(seconds).collect();
        if elapsed_s > 0.0 {
            simulated.requests_per_s = simulated.requests as f64 / elapsed_s;
            simulated.bytes_per_s = simulated.bytes as f64 / elapsed_s;
        }
        Ok(simulated)
    }

    /// Replays it with answers of the caller's own, in the order of arrival: of which volume it is, and when it is
    /// done. Returns how long it takes, in nanoseconds.
    pub fn replay(&self, serve: impl FnMut(usize, &crate::Request) -> u64) -> u64 {
        replay::replay(self, serve).elapsed_ns
    }
}
