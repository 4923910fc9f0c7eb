//! The random streams of clients and threads, and the distributions that values are drawn from
//! (src/common/pg_prng.c; getrand and its siblings in pgbench.c).

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The least parameter of a gaussian distribution.
pub const GAUSSIAN_MIN: f64 = 2.0;
/// The range of a zipfian distribution's parameter.
pub const ZIPFIAN_RANGE: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// The streams of one load, each seeded by the base sequence, in the order in which pgbench seeds them.
pub struct Streams {
    /// One for each client: what its scripts draw.
    pub clients: Vec<Xoroshiro128StarStar>,
    /// The value of the variable `default_seed`.
    pub default_seed: i64,
    /// One set for each thread.
    pub threads: Vec<ThreadStreams>,
}

/// The streams of one thread.
pub struct ThreadStreams {
    /// Which script comes next.
    pub choose: Xoroshiro128StarStar,
    /// When the next transaction is due.
    pub throttle: Xoroshiro128StarStar,
    /// Whether a transaction is logged.
    pub sample: Xoroshiro128StarStar,
}

impl Streams {
    /// All streams of a load with this seed.
    pub fn new(seed: u64, clients: usize, threads: usize) -> Self {
        Self::drawn(seed, clients, threads, true)
    }

    /// The same where the variable `default_seed` is given: pgbench takes nothing from the base sequence for it then.
    pub fn without_default_seed(seed: u64, clients: usize, threads: usize) -> Self {
        Self::drawn(seed, clients, threads, false)
    }

    fn drawn(seed: u64, clients: usize, threads: usize, draws_default_seed: bool) -> Self {
        let mut base = seeded(seed);
        let mut next = || Xoroshiro128StarStar::seed_from_u64(base.next_u64());
        let clients = (0..clients).map(|_| next()).collect();
        #[allow(clippy::cast_possible_wrap)] // pgbench stores the 64 bits as they are.
        let default_seed = if draws_default_seed {
            base.next_u64() as i64
        } else {
            0
        };
        let mut next = || Xoroshiro128StarStar::seed_from_u64(base.next_u64());
        let threads = (0..threads)
            .map(|_| ThreadStreams {
                choose: next(),
                throttle: next(),
                sample: next(),
            })
            .collect();
        Self {
            clients,
            default_seed,
            threads,
        }
    }
}

/// A generator with this seed (pg_prng_seed).
pub fn seeded(seed: u64) -> Xoroshiro128StarStar {
    Xoroshiro128StarStar::seed_from_u64(seed)
}

/// A uniform integer of an inclusive range, by rejection, so without bias (pg_prng_uint64_range).
#[inline]
pub fn uniform(random: &mut Xoroshiro128StarStar, min: i64, max: i64) -> i64 {
    #[allow(clippy::cast_sign_loss)] // max is never below min, so the difference is not negative.
    let range = max.wrapping_sub(min) as u64;
    min.wrapping_add_unsigned(uniform_up_to(random, range))
}

fn uniform_up_to(random: &mut Xoroshiro128StarStar, range: u64) -> u64 {
    if range == 0 {
        return 0;
    }
    let shift = range.leading_zeros();
    loop {
        let value = random.next_u64() >> shift;
        if value <= range {
            return value;
        }
    }
}

/// A number from 0 up to and without 1, of 52 random bits (pg_prng_double).
#[allow(clippy::cast_precision_loss)] // 52 bits fit.
pub fn fraction(random: &mut Xoroshiro128StarStar) -> f64 {
    (random.next_u64() >> (64 - 52)) as f64 / (1_u64 << 52) as f64
}

fn normal(random: &mut Xoroshiro128StarStar) -> f64 {
    let (first, second) = (1.0 - fraction(random), 1.0 - fraction(random));
    (-2.0 * first.ln()).sqrt() * (2.0 * std::f64::consts::PI * second).sin()
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // As in C.
fn scaled(min: i64, max: i64, share: f64) -> i64 {
    min.wrapping_add(((max.wrapping_sub(min).wrapping_add(1)) as f64 * share) as i64)
}

/// An integer of an inclusive range; the nearer to `min` the likelier, the more so the greater the parameter.
pub fn exponential(random: &mut Xoroshiro128StarStar, min: i64, max: i64, parameter: f64) -> i64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - fraction(random);
    scaled(min, max, -(cut + (1.0 - cut) * uniform).ln() / parameter)
}

/// An integer of an inclusive range, bell-shaped around its middle.
pub fn gaussian(random: &mut Xoroshiro128StarStar, min: i64, max: i64, parameter: f64) -> i64 {
    let deviation = loop {
        let drawn = normal(random);
        if (-parameter..parameter).contains(&drawn) {
            break drawn;
        }
    };
    scaled(min, max, (deviation + parameter) / (parameter * 2.0))
}

/// An integer of an inclusive range, of Zipf's law, by rejection (Devroye 1986, "Non-Uniform Random Variate
/// Generation", page 551).
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // As in C.
pub fn zipfian(random: &mut Xoroshiro128StarStar, min: i64, max: i64, parameter: f64) -> i64 {
    let count = max.wrapping_sub(min).wrapping_add(1);
    if count <= 1 {
        return min;
    }
    let bound = 2.0_f64.powf(parameter - 1.0);
    loop {
        let (first, second) = (fraction(random), fraction(random));
        let drawn = first.powf(-1.0 / (parameter - 1.0)).floor();
        let slope = (1.0 + 1.0 / drawn).powf(parameter - 1.0);
        if second * drawn * (slope - 1.0) / (bound - 1.0) <= slope / bound && drawn <= count as f64 {
            return min.wrapping_sub(1).wrapping_add(drawn as i64);
        }
    }
}

/// The place of `value` in a permutation of 0 … size − 1 that the seed chooses (permute in pgbench.c).
#[allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)] // pgbench computes on the unsigned values.
pub fn permuted(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let size = size as u64;
    let mut random = seeded(seed as u64);
    let mut place = (value as u64) % size;
    let bits = 63 - size.leading_zeros();
    let mask = (1_u64 << bits) - 1;
    let mix = |place: u64, multiplier: u64, pattern: u64| {
        let mixed = (place.wrapping_mul(multiplier) ^ pattern) & mask;
        ((mixed << 1) & mask) | (mixed >> (bits - 1))
    };
    for _ in 0..6 {
        let (multiplier, pattern) = ((random.next_u64() & mask) | 1, random.next_u64() & mask);
        if place <= mask {
            place = mix(place, multiplier, pattern);
        }
        let (multiplier, pattern) = ((random.next_u64() & mask) | 1, random.next_u64() & mask);
        let mirrored = size - 1 - place;
        if mirrored <= mask {
            place = size - 1 - mix(mirrored, multiplier, pattern);
        }
        let offset = uniform_up_to(&mut random, size - 1);
        place = (u128::from(place) + u128::from(offset)).rem_euclid(u128::from(size)) as u64;
    }
    place as i64
}

/// The FNV-1a hash of the eight bytes of a value.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)]
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed as u64;
    let bytes = value.to_le_bytes();
    let hash = bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash as i64
}

/// The MurmurHash2 (64 bits) of the eight bytes of a value.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)]
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const ROTATION: u32 = 47;
    let mut hash = (seed as u64) ^ MULTIPLIER.wrapping_mul(8);
    let mut key = (value as u64).wrapping_mul(MULTIPLIER);
    key = (key ^ (key >> ROTATION)).wrapping_mul(MULTIPLIER);
    hash = (hash ^ key).wrapping_mul(MULTIPLIER);
    hash = (hash ^ (hash >> ROTATION)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> ROTATION)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_keeps_its_stream_whatever_the_number_of_clients() {
        let mut few = Streams::new(1, 2, 1);
        let mut many = Streams::new(1, 9, 3);
        assert_eq!(few.clients[1].next_u64(), many.clients[1].next_u64());
        assert_ne!(few.clients[0].next_u64(), many.clients[2].next_u64());
        assert_eq!(many.threads.len(), 3);
    }

    #[test]
    fn a_permutation_has_every_place_once() {
        for size in [1, 2, 3, 7, 8, 100, 1023, 1024, 1025] {
            let mut places: Vec<i64> = (0..size).map(|value| permuted(value, size, 42)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>(), "of {size}");
        }
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut random = seeded(7);
        for _ in 0..10_000 {
            assert!((-5..=5).contains(&uniform(&mut random, -5, 5)));
            assert!((1..=9).contains(&exponential(&mut random, 1, 9, 2.5)));
            assert!((1..=9).contains(&gaussian(&mut random, 1, 9, 2.5)));
            assert!((1..=9).contains(&zipfian(&mut random, 1, 9, 1.1)));
        }
        assert_eq!(zipfian(&mut random, 4, 4, 1.1), 4);
        // The whole range of the type, which overflows where it is subtracted without care.
        uniform(&mut random, i64::MIN, i64::MAX);
    }
}
