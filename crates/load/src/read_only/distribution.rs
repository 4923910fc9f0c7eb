//! The distributions that sysbench's keys are drawn from.

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::Rng;
use serde::Deserialize;

/// The special distribution's parameters are sysbench's defaults: --rand-spec-iter, -pct and -res.
const SPECIAL_ITERATIONS: u32 = 12;
const SPECIAL_WIDTH: f64 = 0.01;
const SPECIAL_SHARE: f64 = 0.75;

/// How an `id` is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every row as often as any other; sysbench's default after 1.0.20.
    Uniform,
    /// Three quarters of the draws in the central hundredth of the table, the others bell-shaped around its
    /// middle; the default of sysbench up to 1.0.20.
    Special,
}

/// An id from 1 to `table_size` by sysbench's "special" distribution (src/sb_rand.c, sb_rand_special).
///
/// One draw decides between the two parts and, for the central part, is the place in it as well: as it is
/// at least 1 - SPECIAL_SHARE then, the first quarter of the centre is never drawn, as in sysbench.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // at most 2^31
pub fn special(random: &mut Xoroshiro128StarStar, table_size: i64) -> i64 {
    let span = (table_size - 1) as f64;
    let decision = fraction(random);
    if decision < 1.0 - SPECIAL_SHARE {
        let sum: f64 = (0..SPECIAL_ITERATIONS).map(|_| fraction(random)).sum();
        return 1 + (sum * span / f64::from(SPECIAL_ITERATIONS)) as i64;
    }
    let centre_begins = span / 2.0 - span * SPECIAL_WIDTH / 2.0;
    1 + (decision * (span * SPECIAL_WIDTH + 1.0) + centre_begins) as i64
}

/// A number from 0 up to and without 1, of 53 random bits.
#[allow(clippy::cast_precision_loss)] // 53 bits are what the type holds
fn fraction(random: &mut Xoroshiro128StarStar) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use pgassay_pgbench::random::seeded;

    use super::*;

    #[test]
    fn the_special_distribution_favours_the_centre() {
        let mut random = seeded(11);
        let draws: Vec<i64> = (0..100_000).map(|_| special(&mut random, 100_000)).collect();
        assert!(draws.iter().all(|id| (1..=100_000).contains(id)));
        let centre = draws.iter().filter(|id| (49_500..=50_502).contains(*id)).count();
        // 75 % by design, and 4.9 % of the bell's quarter; a standard deviation of 0.13 %.
        assert!((75_500..77_000).contains(&centre), "{centre}");
        let wide = draws.iter().filter(|id| !(30_000..=70_000).contains(*id)).count();
        // The mean of twelve uniform numbers has a standard deviation of a twelfth: 1.6 % of 25 % are out.
        assert!((250..600).contains(&wide), "{wide}");
        assert!((0..1000).all(|_| special(&mut random, 1) == 1));
    }
}
