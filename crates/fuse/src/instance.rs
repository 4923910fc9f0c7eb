//! The limits of an instance, which all volumes that are attached to it share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgassay_volume::{Completion, Fault, Kind, Level, Model, Request, Volume};

use crate::schedule::now_ns;

/// So long after a flush no other one is expected.
const FLUSHES_GONE_NS: u64 = 1_000_000_000;
/// Of about so many requests the longest latency is remembered.
const LATENCIES: u64 = 64;

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
    /// About the longest latency of late that no limit caused.
    latency_ns: u64,
    last_flush_ns: u64,
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
            latency_ns: 0,
            last_flush_ns: 0,
        })
    }

    /// Time 0 of the model, CLOCK_MONOTONIC.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Whether requests that come until `until_ns` are done at the same time if they are taken then: the limits let
    /// none through before their latencies are over. A flush passes no limit, so there may be none about; and other
    /// volumes on the instance are to see requests in the order of their arrival.
    pub(crate) fn may_take_later(&self, until_ns: u64) -> bool {
        let until_ns = until_ns.saturating_sub(self.began_ns);
        self.instance.is_none()
            && until_ns > self.last_flush_ns + FLUSHES_GONE_NS
            && self.volume.busy_until_ns() >= until_ns + self.latency_ns
    }

    /// Takes a request that comes now; `now_ns` is set to when the instance got it, where there is one.
    pub(crate) fn submit(&mut self, now_ns: &mut u64, kind: Kind, offset: u64, length: u32) -> Completion {
        let mut shared = self.instance.as_ref().map(|instance| instance.limits());
        if shared.is_some() {
            *now_ns = crate::schedule::now_ns();
        }
        let request = Request {
            arrival_ns: now_ns.saturating_sub(self.began_ns),
            kind,
            offset,
            length,
        };
        let completion = self.volume.submit_through(&request, shared.as_deref_mut());
        if kind == Kind::Flush {
            self.last_flush_ns = request.arrival_ns;
        }
        let forgotten_ns = self.latency_ns - self.latency_ns / LATENCIES;
        self.latency_ns = forgotten_ns.max(completion.latency_ns);
        completion
    }

    /// What is left of all credits.
    pub(crate) fn levels(&self, now_ns: u64) -> Vec<Level> {
        let mut levels = self.volume.levels(now_ns.saturating_sub(self.began_ns));
        levels.extend(self.instance.iter().flat_map(|shared| shared.levels(now_ns)));
        levels
    }
}

#[cfg(test)]
mod tests {
    use pgassay_volume::{Distribution, Latency, Limiter, Scope, Stripes, Unit};

    use super::*;

    const MS_NS: u64 = 1_000_000;

    fn model() -> Model {
        let latency = Distribution {
            median_ns: 500_000.0,
            sigma: 0.0,
            bytes_per_second: None,
        };
        Model {
            name: "limited".to_owned(),
            stripes: Stripes::default(),
            limiters: vec![Limiter {
                name: "operations".to_owned(),
                scope: Scope::Volume,
                unit: Unit::Operations,
                rate: 1_000,
                peak: None,
                capacity: 0,
                fill: None,
                quantum_bytes: 1 << 18,
                merging: false,
                reset_period_s: None,
                window_ns: MS_NS,
            }],
            latency: Latency {
                read: latency,
                write: latency,
                flush: latency,
            },
            first_touch: None,
        }
    }

    fn asked(instance: Option<Arc<Instance>>, kinds: &[Kind]) -> Imposed {
        let mut imposed = Imposed::new(&model(), 1, instance, MS_NS).unwrap();
        for kind in kinds {
            imposed.submit(&mut (imposed.began_ns() + 5_000 * MS_NS), *kind, 0, 8192);
        }
        imposed
    }

    fn is_later(imposed: &Imposed, after_ms: u64) -> bool {
        imposed.may_take_later(imposed.began_ns() + (5_000 + after_ms) * MS_NS)
    }

    #[test]
    fn requests_are_taken_later_where_only_limits_keep_them() {
        assert!(!is_later(&asked(None, &[]), 1));
        assert!(!is_later(&asked(None, &[Kind::Read]), 1));
        // The last of ten is let through 9 ms after they came; a latency before that is too late.
        let ten = asked(None, &[Kind::Write; 10]);
        assert!(is_later(&ten, 1) && is_later(&ten, 8));
        assert!(!is_later(&ten, 9));
    }

    #[test]
    fn no_flush_is_kept_waiting_and_no_other_volume() {
        let mut kinds = vec![Kind::Read; 2_000];
        assert!(is_later(&asked(None, &kinds), 1_001));
        kinds.push(Kind::Flush);
        let flushed = asked(None, &kinds);
        assert!(!is_later(&flushed, 1) && !is_later(&flushed, 1_000));
        assert!(is_later(&flushed, 1_001));
        let instance = Instance::new(model(), 1).unwrap();
        assert!(!is_later(&asked(Some(instance), &[Kind::Read; 10]), 1));
    }
}
