//! The limits of an instance, which all volumes that are attached to it share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgassay_volume::{Fault, Level, Model, Volume};

use crate::schedule::now_ns;

/// An instance in use. Volumes served by several threads hold one and the same.
#[derive(Debug)]
pub struct Instance {
    model: Model,
    began_ns: u64,
    limits: Mutex<Volume>,
}

impl Instance {
    /// Its limits at their beginning; the latency of `model` counts for nothing. `seed` as for a volume.
    ///
    /// # Errors
    /// What [`Model::check`] refuses.
    pub fn new(model: Model, seed: u64) -> Result<Arc<Self>, Fault> {
        let limits = Mutex::new(Volume::new(&model, seed)?);
        Ok(Arc::new(Self {
            model,
            began_ns: now_ns(),
            limits,
        }))
    }

    /// Whether it has these limits.
    pub fn is_of(&self, model: &Model) -> bool {
        self.model == *model
    }

    /// Time 0 of its model, CLOCK_MONOTONIC. It is that of all volumes attached to it.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Its limits, for one thread at a time: whoever has them takes the time afterwards, so that requests come to
    /// them in the order of their arrival.
    pub(crate) fn limits(&self) -> MutexGuard<'_, Volume> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left of its credits.
    pub(crate) fn levels(&self, now_ns: u64) -> Vec<Level> {
        self.limits().levels(now_ns.saturating_sub(self.began_ns))
    }
}
