//! How long clients are idle within their transactions, as applications are.

use pgassay_pgbench::random::seeded;
use rand_xoshiro::Xoroshiro128StarStar;

use crate::pacing::waiting;

/// Keeps the pauses apart from what the scripts draw with the same seed.
const SEED_OF_PAUSES: u64 = 0x5061_7573_6573;

/// How long clients are idle within their transactions.
#[derive(Clone, Copy, Debug)]
pub struct Idling {
    /// The mean, of an exponential distribution.
    pub mean_ns: f64,
    /// What the pauses are drawn from.
    pub seed: u64,
}

/// The pauses of one client.
pub struct Pauses {
    mean_ns: f64,
    random: Xoroshiro128StarStar,
}

impl Pauses {
    /// Of the client with this number.
    pub fn new(idling: Idling, number: usize) -> Self {
        let seed = idling.seed ^ SEED_OF_PAUSES ^ ((number as u64) << 32);
        Self {
            mean_ns: idling.mean_ns,
            random: seeded(seed),
        }
    }

    /// The next one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The mean is bounded.
    pub fn next_ns(&mut self) -> u64 {
        (waiting(&mut self.random) * self.mean_ns) as u64
    }
}
