//! Latency that no limit causes: lognormal, seeded.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::model::{Distribution, SECOND_NS};

/// A stream of standard normal numbers.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    random: Xoshiro256PlusPlus,
    /// The second of a pair.
    kept: Option<f64>,
}

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            kept: None,
        }
    }

    /// The next number, by Marsaglia's polar method (G. Marsaglia, T. A. Bray: A Convenient Method for
    /// Generating Normal Variables, SIAM Review 6, 1964).
    #[inline]
    fn next(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let x = 2.0 * self.fraction() - 1.0;
            let y = 2.0 * self.fraction() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.kept = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// A number from 0 up to and without 1, of 53 random bits.
    #[allow(clippy::cast_precision_loss)] // 53 bits are what the type holds
    fn fraction(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A distribution made ready to draw from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    median_ns: f64,
    sigma: f64,
    ns_per_byte: f64,
}

impl Draws {
    #[allow(clippy::cast_precision_loss)] // a speed of 2^53 bytes a second is out of reach
    pub(crate) fn new(distribution: &Distribution) -> Self {
        Self {
            median_ns: distribution.median_ns,
            sigma: distribution.sigma,
            ns_per_byte: distribution
                .bytes_per_second
                .map_or(0.0, |speed| SECOND_NS as f64 / speed as f64),
        }
    }

    /// How long a request of this length takes, in nanoseconds. One number is drawn whatever the distribution is,
    /// so that models that differ in a distribution meet the same luck.
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative; saturates
    pub(crate) fn draw(&self, normal: &mut Normal, length: u32) -> u64 {
        let factor = (self.sigma * normal.next()).exp();
        (self.median_ns * factor + f64::from(length) * self.ns_per_byte).round() as u64
    }
}
