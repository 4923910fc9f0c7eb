//! Many requests against a model, as fast as the processor goes: a closed loop, a trace, or a recording.
//!
//! [`simulate`] and [`Dependencies::simulate`] are what `pgassay-native simulate` runs for each model of its
//! document.

mod figures;
mod pattern;
mod recorded;
mod trace;

use serde::Deserialize;

pub use figures::{Credits, LatencyMs, Series, Simulated};
pub use pattern::{Order, Pattern};
pub use recorded::{Dependencies, Facts, LANES_SHARE, LOG_WRITES_MIN, NEARBY, STRETCHES, Who};
pub use trace::Trace;

use crate::model::{Fault, Model};
use crate::volume::Volume;
use figures::Figures;

/// What is run: one of the two.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// A number of requests is kept on its way.
    Pattern(Pattern),
    /// Recorded requests.
    Trace(Trace),
}

impl Work {
    /// Refuses what can't be run.
    ///
    /// # Errors
    /// A sentence that names the first field at fault.
    pub fn check(&self) -> Result<(), Fault> {
        let fault = match self {
            Self::Pattern(pattern) => pattern.fault(),
            Self::Trace(trace) => trace.fault(),
        };
        fault.map_or(Ok(()), |fault| Err(Fault(fault)))
    }
}

/// Runs the work on a new volume of the model. `interval_s` is the length of an interval of the series, `seed`
/// decides the latencies and the pattern. The same arguments give the same answer.
///
/// # Errors
/// What [`Model::check`] or [`Work::check`] refuses, and an interval of no length.
pub fn simulate(model: &Model, work: &Work, interval_s: f64, seed: u64) -> Result<Simulated, Fault> {
    work.check()?;
    let mut volume = Volume::new(model, seed)?;
    let mut figures = Figures::new(interval_s)?;
    match work {
        Work::Pattern(pattern) => pattern.run(&mut volume, seed, &mut figures),
        Work::Trace(trace) => trace.run(&mut volume, &mut figures),
    }
    Ok(figures.finish(&model.name, [&volume]))
}
