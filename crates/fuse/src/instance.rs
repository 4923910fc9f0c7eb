//! The limits of an instance, which all volumes that are attached to it share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgassay_volume::{Completion, Fault, Kind, Level, Model, Request, Volume};

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

/// A model in force: a volume, and the instance that it may be attached to.
#[derive(Debug)]
pub(crate) struct Imposed {
    volume: Volume,
    began_ns: u64,
    instance: Option<Arc<Instance>>,
}

impl Imposed {
    pub(crate) fn new(
        model: &Model,
        seed: u64,
        instance: Option<Arc<Instance>>,
        now_ns: u64,
    ) -> Result<Self, Fault> {
        Ok(Self {
            volume: Volume::new(model, seed)?,
            began_ns: instance.as_ref().map_or(now_ns, |shared| shared.began_ns()),
            instance,
        })
    }

    /// Time 0 of the model, CLOCK_MONOTONIC.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Takes a request that comes now; `now_ns` is set to when the instance got it, where there is one.
    pub(crate) fn submit(&mut self, now_ns: &mut u64, kind: Kind, offset: u64, length: u32) -> Completion {
        let mut shared = self.instance.as_ref().map(|instance| instance.limits());
        if shared.is_some() {
            *now_ns = crate::schedule::now_ns();
        }
        let request = Request {
            arrival_ns: *now_ns - self.began_ns,
            kind,
            offset,
            length,
        };
        self.volume.submit_through(&request, shared.as_deref_mut())
    }

    /// What is left of all credits.
    pub(crate) fn levels(&self, now_ns: u64) -> Vec<Level> {
        let mut levels = self.volume.levels(now_ns.saturating_sub(self.began_ns));
        levels.extend(self.instance.iter().flat_map(|shared| shared.levels(now_ns)));
        levels
    }
}
