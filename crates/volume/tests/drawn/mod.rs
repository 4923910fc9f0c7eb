//! Models and requests drawn at random, for properties that hold for any.

use pgassay_volume::{Kind, Limiter, Request, Scope, Unit};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random models and requests from a seed.
pub struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn up_to(&mut self, most: u64) -> u64 {
        self.0.next_u64() % (most + 1)
    }

    /// Small numbers as often as large ones.
    pub fn magnitude(&mut self, most: u64) -> u64 {
        let shift = self.up_to(63);
        1 + (self.0.next_u64() >> shift) % most
    }

    pub fn limiter(&mut self, scope: Scope) -> Limiter {
        let rate = self.magnitude(100_000_000);
        let bursts = self.up_to(2) > 0;
        let capacity = if bursts { self.magnitude(50_000_000) } else { 0 };
        Limiter {
            name: "drawn".to_owned(),
            scope,
            unit: if self.up_to(1) == 0 {
                Unit::Operations
            } else {
                Unit::Bytes
            },
            rate,
            peak: bursts.then(|| rate + self.up_to(rate * 20)),
            capacity,
            fill: (self.up_to(1) == 0).then(|| self.up_to(capacity)),
            quantum_bytes: [1, 512, 8192, 262_144][self.up_to(3) as usize],
            merging: self.up_to(1) == 0,
            reset_period_s: None,
            window_ns: self.magnitude(50_000_000),
        }
    }

    /// Requests in bursts and pauses, some of them adjacent.
    pub fn requests(&mut self, count: usize) -> Vec<Request> {
        let (mut arrival_ns, mut offset) = (0, 0);
        (0..count)
            .map(|_| {
                if self.up_to(2) == 0 {
                    arrival_ns += self.magnitude(1_000_000_000);
                }
                if self.up_to(1) == 0 {
                    offset = self.up_to(1 << 40);
                }
                let length = self.magnitude(2_000_000) as u32;
                let kind = if self.up_to(3) == 0 {
                    Kind::Write
                } else {
                    Kind::Read
                };
                let request = Request {
                    arrival_ns,
                    kind,
                    offset,
                    length,
                };
                offset += u64::from(length);
                request
            })
            .collect()
    }
}
