//! CPU time that is spent on purpose: an executor's work on a page, and threads that compete for the cores.

use std::hint::black_box;
use std::sync::OnceLock;

use crate::time::clock::monotonic_ns;

const ROUNDS: u64 = 20_000;
const TRIALS: usize = 20;

/// Spends CPU time by computing, not by looking at the clock: a thread that is off its core meanwhile still does all
/// of its work afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Burn {
    rounds_per_ns: f64,
}

impl Burn {
    /// Calibrated on this machine, once.
    pub fn calibrated() -> Self {
        static RATE: OnceLock<f64> = OnceLock::new();
        let trial = || {
            let start = monotonic_ns();
            compute(ROUNDS);
            ROUNDS as f64 / (monotonic_ns() - start).max(1) as f64
        };
        // The fastest trial is the one that nothing disturbed.
        let rounds_per_ns = *RATE.get_or_init(|| (0..TRIALS).map(|_| trial()).fold(0.0, f64::max));
        Self { rounds_per_ns }
    }

    /// Computes for about `nanoseconds`.
    #[inline]
    pub fn spend(&self, nanoseconds: u64) {
        compute((nanoseconds as f64 * self.rounds_per_ns) as u64);
    }
}

/// A chain of dependent multiplications, of which a processor can neither skip nor overlap any.
#[inline(never)]
fn compute(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(value);
}
