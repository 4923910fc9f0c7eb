//! A volume in use: one request after the other.

use serde::Serialize;

use crate::first_touch::Chunks;
use crate::latency::{Draws, Normal};
use crate::limiter::Gate;
use crate::model::{Fault, Limiter, Model, Scope, Stripes, Unit};
use crate::request::{Kind, Request};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When it is done: an absolute deadline, from which a server of real requests takes its own time.
    /// Requests need not be done in the order of their arrival.
    pub done_ns: u64,
    /// The part of it that no limit caused; drawn once, however many volumes of the stripe set it touches.
    pub latency_ns: u64,
    /// How much later than `arrival + latency` it is done because of limits.
    pub queued_ns: u64,
    /// The operations that the volumes counted for it: 0 where it was merged with one before it. For a volume
    /// that counts none, one for each volume of the stripe set that it touches.
    pub operations: u32,
}

/// What is left of the credits of a limiter that has any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// The limiter's name.
    pub limiter: String,
    /// Which volume of the stripe set it belongs to, from 0; `None` for the set's and the instance's.
    pub volume: Option<u32>,
    /// What it counts.
    pub unit: Unit,
    /// Whole operations or bytes left; 0 while requests wait.
    pub credits: u64,
    /// What it can hold.
    pub capacity: u64,
    /// When they first ended: a request waited for them and for nothing else from then on.
    pub emptied_ns: Option<u64>,
}

/// One limiter of the model, and its states: one for each volume, or one for all.
#[derive(Clone, Debug)]
struct Stage {
    limiter: Limiter,
    gates: Vec<Gate>,
    /// Whether its operations are those of the volume's completions.
    counts: bool,
}

/// What a request waits for: the latest of all buckets, and the latest of the others.
struct Ready {
    all_ns: u64,
    others_ns: u64,
    /// The stage and the gate whose credits are later than everything else; `None` where it is something else.
    credits_of: Option<(usize, u32)>,
}

impl Ready {
    #[inline]
    fn wait_for(&mut self, ready_ns: u64, credits_of: Option<(usize, u32)>) {
        if ready_ns > self.all_ns {
            self.others_ns = self.all_ns;
            self.all_ns = ready_ns;
            self.credits_of = credits_of;
        } else if ready_ns > self.others_ns {
            self.others_ns = ready_ns;
        }
    }
}

/// The state of a [`Model`]: what its limiters have let through, and the draws to come.
#[derive(Clone, Debug)]
pub struct Volume {
    stripes: Stripes,
    stages: Vec<Stage>,
    /// Whether a limiter of the volumes counts operations.
    counts_operations: bool,
    read: Draws,
    write: Draws,
    flush: Draws,
    normal: Normal,
    /// What has been fetched of a snapshot; `None` where all of the volume is there.
    chunks: Option<Chunks>,
    last_arrival_ns: u64,
}

impl Volume {
    /// A volume at time 0, with every bucket at its fill. `seed` decides all draws of latency.
    ///
    /// # Errors
    /// What [`Model::check`] refuses.
    pub fn new(model: &Model, seed: u64) -> Result<Self, Fault> {
        model.check()?;
        let mut counts_operations = false;
        let mut stages = Vec::new();
        for limiter in &model.limiters {
            let copies = if limiter.scope == Scope::Volume {
                model.stripes.count
            } else {
                1
            };
            let gates: Vec<Gate> = (0..copies).map(|_| Gate::new(limiter)).collect();
            let counts = limiter.scope == Scope::Volume && gates[0].counts_operations() && !counts_operations;
            counts_operations |= counts;
            stages.push(Stage {
                limiter: limiter.clone(),
                gates,
                counts,
            });
        }
        Ok(Self {
            stripes: model.stripes,
            stages,
            counts_operations,
            read: Draws::new(&model.latency.read),
            write: Draws::new(&model.latency.write),
            flush: Draws::new(&model.latency.flush),
            normal: Normal::new(seed),
            chunks: model.first_touch.as_ref().map(|first| Chunks::new(first, seed)),
            last_arrival_ns: 0,
        })
    }

    /// Takes the next request and says when it is done.
    #[inline]
    pub fn submit(&mut self, request: &Request) -> Completion {
        self.submit_through(request, None)
    }

    /// As [`Volume::submit`], for one of several volumes on an instance, all of which give the same `instance`: a
    /// volume whose model has the instance's limiters, while theirs have them not. Its latency counts for nothing.
    /// Requests to all of them are submitted in the order of their arrival.
    #[inline]
    pub fn submit_through(&mut self, request: &Request, instance: Option<&mut Self>) -> Completion {
        let draws = match request.kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
            Kind::Flush => &self.flush,
        };
        let transferred = if request.kind == Kind::Flush {
            0
        } else {
            request.length
        };
        let mut latency_ns = draws.draw(&mut self.normal, transferred);
        let arrival_ns = request.arrival_ns.max(self.last_arrival_ns);
        self.last_arrival_ns = arrival_ns;
        match &mut self.chunks {
            Some(chunks) if request.kind != Kind::Flush => {
                let wait_ns = chunks.wait_ns(arrival_ns, request.offset, request.length);
                latency_ns = latency_ns.saturating_add(wait_ns);
            }
            _ => {}
        }
        let unlimited_ns = arrival_ns.saturating_add(latency_ns);
        if request.kind == Kind::Flush {
            return Completion {
                done_ns: unlimited_ns,
                latency_ns,
                queued_ns: 0,
                operations: 0,
            };
        }
        let (ready_ns, operations) = self.admit(request, arrival_ns);
        let mut done_ns = unlimited_ns.max(ready_ns);
        if let Some(instance) = instance {
            done_ns = done_ns.max(instance.admit(request, arrival_ns).0);
            instance.settle(done_ns);
        }
        self.settle(done_ns);
        Completion {
            done_ns,
            latency_ns,
            queued_ns: done_ns - unlimited_ns,
            operations,
        }
    }

    /// Tells all limiters when the request that was admitted last is done.
    #[inline]
    fn settle(&mut self, done_ns: u64) {
        for stage in self.stages.iter_mut().filter(|stage| stage.limiter.merging) {
            for gate in &mut stage.gates {
                gate.settle(done_ns);
            }
        }
    }

    /// When all limiters have let the request through, and the operations that the volumes counted.
    #[inline]
    fn admit(&mut self, request: &Request, arrival_ns: u64) -> (u64, u32) {
        let Request {
            kind, offset, length, ..
        } = *request;
        let mut ready = Ready {
            all_ns: arrival_ns,
            others_ns: arrival_ns,
            credits_of: None,
        };
        let mut operations = 0;
        for (index, stage) in self.stages.iter_mut().enumerate() {
            let is_shared = stage.limiter.scope != Scope::Volume;
            for (volume, gate) in (0_u32..).zip(&mut stage.gates) {
                let part = if is_shared {
                    Some((offset, length))
                } else {
                    self.stripes.part(volume, offset, length)
                };
                let Some((begin, bytes)) = part else {
                    continue;
                };
                let admitted = gate.admit(kind, begin, bytes, arrival_ns);
                ready.wait_for(admitted.peak_ns, None);
                ready.wait_for(admitted.credits_ns, Some((index, volume)));
                operations += if stage.counts { admitted.units } else { 0 };
            }
        }
        if let Some((index, volume)) = ready.credits_of {
            self.stages[index].gates[volume as usize].credits_ended(ready.others_ns);
        }
        if !self.counts_operations {
            operations = (0..self.stripes.count)
                .filter(|volume| self.stripes.part(*volume, offset, length).is_some())
                .fold(0, |count, _| count + 1);
        }
        (ready.all_ns, u32::try_from(operations).unwrap_or(u32::MAX))
    }

    /// Before this time the limits let through no read or write that is yet to come, on whichever volume of the
    /// stripe set it lies. Until then it is all the same to it when a request comes: it waits behind the others.
    pub fn busy_until_ns(&self) -> u64 {
        let of_volume = |volume: usize| {
            self.stages
                .iter()
                .filter_map(|stage| stage.gates.get(volume).or(stage.gates.first()))
                .map(Gate::busy_until_ns)
                .max()
        };
        (0..self.stripes.count as usize)
            .filter_map(of_volume)
            .min()
            .unwrap_or(0)
    }

    /// What is left of all credits at `now_ns`, which is no earlier than the last request's arrival; in the order
    /// of the model's limiters.
    pub fn levels(&self, now_ns: u64) -> Vec<Level> {
        let mut levels = Vec::new();
        for stage in &self.stages {
            let is_member = stage.limiter.scope == Scope::Volume && self.stripes.count > 1;
            for (index, gate) in (0_u32..).zip(&stage.gates) {
                let Some(credits) = gate.credits_left(now_ns) else {
                    continue;
                };
                levels.push(Level {
                    limiter: stage.limiter.name.clone(),
                    volume: is_member.then_some(index),
                    unit: stage.limiter.unit,
                    credits,
                    capacity: stage.limiter.capacity,
                    emptied_ns: gate.emptied_ns(),
                });
            }
        }
        levels
    }
}
