//! Numbers that don't repeat, for rows whose `id` the client chooses (`--auto_inc=off` of oltp_insert).
//!
//! The method is Jeff Preshing's ("How to Generate a Sequence of Unique Random Integers", 2012), which sysbench has
//! as well: modulo a prime that is 3 modulo 4, squares of the lower half and negated squares of the upper half are a
//! permutation.

use std::sync::atomic::{AtomicU32, Ordering};

/// The largest prime below 2^32; 3 modulo 4.
const PRIME: u32 = 4_294_967_291;

/// A sequence that all clients of a load take from.
#[derive(Debug)]
pub struct Unique {
    index: AtomicU32,
    offset: u32,
}

impl Unique {
    /// A sequence of its own for each seed.
    #[allow(clippy::cast_possible_truncation)] // Halves of the seed.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Self {
            index: AtomicU32::new(permute(permute(low).wrapping_add(0x682f_0161))),
            offset: permute(permute(high).wrapping_add(0x4679_0905)),
        }
    }

    /// The next id, of the whole range of a 32-bit integer.
    pub fn next(&self) -> i64 {
        let index = self.index.fetch_add(1, Ordering::Relaxed);
        let value = permute(permute(index).wrapping_add(self.offset) ^ 0x5bf0_3635);
        i64::from(value) - (1 << 31)
    }
}

#[allow(clippy::cast_possible_truncation)] // The remainder is below the prime.
fn permute(value: u32) -> u32 {
    if value >= PRIME {
        return value;
    }
    let residue = (u64::from(value) * u64::from(value) % u64::from(PRIME)) as u32;
    if value <= PRIME / 2 {
        residue
    } else {
        PRIME - residue
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice_and_all_are_32_bit_integers() {
        let unique = Unique::new(0x1234_5678_9abc_def0);
        let found: HashSet<i64> = (0..200_000).map(|_| unique.next()).collect();
        assert_eq!(found.len(), 200_000);
        assert!(found.iter().all(|id| i32::try_from(*id).is_ok()));
        // Spread over the whole range and not in one place.
        let negative = found.iter().filter(|id| **id < 0).count();
        assert!(negative.abs_diff(100_000) < 2000, "{negative}");
    }

    #[test]
    fn another_seed_is_another_sequence() {
        assert_ne!(Unique::new(1).next(), Unique::new(2).next());
    }
}
