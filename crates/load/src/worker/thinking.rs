//! The pauses of a closed loop's clients between their transactions, as people and programs make them.

use rand_xoshiro::Xoroshiro128StarStar;

use crate::pacing::waiting;

/// Which clients of a worker pause, and for how long they do.
pub(super) struct Thinking {
    mean_ns: f64,
    random: Xoroshiro128StarStar,
    is_pausing: Vec<bool>,
    /// No pause lasts longer than the measured interval.
    ends_ns: u64,
}

impl Thinking {
    /// Of so many clients; None where they make no pauses.
    pub fn new(mean_s: f64, clients: usize, ends_ns: u64, random: &Xoroshiro128StarStar) -> Option<Self> {
        (mean_s > 0.0).then(|| Self {
            mean_ns: mean_s * 1e9,
            random: random.clone(),
            is_pausing: vec![false; clients],
            ends_ns,
        })
    }

    /// Until when a client pauses that is to begin a transaction, drawn exponentially; None where it has done so.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A pause is bounded by the interval.
    pub fn pause(&mut self, index: usize, now_ns: u64) -> Option<u64> {
        self.is_pausing[index] = !self.is_pausing[index];
        self.is_pausing[index].then(|| {
            let pause_ns = (waiting(&mut self.random) * self.mean_ns) as u64;
            now_ns.saturating_add(pause_ns).min(self.ends_ns.max(now_ns))
        })
    }

    /// Whether the client pauses, and does not sleep within its transaction.
    pub fn is_pausing(&self, index: usize) -> bool {
        self.is_pausing[index]
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn pauses_have_their_mean_and_end_with_the_interval() {
        let random = Xoroshiro128StarStar::seed_from_u64(7);
        assert!(Thinking::new(0.0, 1, 1, &random).is_none());
        let mut thinking = Thinking::new(0.002, 2, u64::MAX, &random).unwrap();
        let mut total_ns = 0;
        for _ in 0..10_000 {
            total_ns += thinking.pause(1, 5).unwrap() - 5;
            assert!(thinking.is_pausing(1) && !thinking.is_pausing(0));
            assert_eq!(thinking.pause(1, 9), None);
        }
        let mean_ns = total_ns / 10_000;
        assert!((1_940_000..2_060_000).contains(&mean_ns), "{mean_ns}");
        let mut short = Thinking::new(5.0, 1, 1_000, &random).unwrap();
        assert!(short.pause(0, 10).unwrap() <= 1_000);
    }
}
