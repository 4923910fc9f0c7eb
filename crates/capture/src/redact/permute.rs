//! Permutations by a key that is drawn for each run and kept nowhere.

use std::hash::{BuildHasher, Hash, RandomState};

const ROUNDS: u64 = 8;

/// A digit, and how many there are of its kind.
pub type Digit = (u32, u32);

/// Permutations of numbers and of rows of digits; those of one are of one key.
#[derive(Default)]
pub struct Permuter {
    key: RandomState,
}

impl Permuter {
    /// Of the numbers below `count`.
    pub fn number(&self, number: u64, count: u64) -> u64 {
        if count < 2 || number >= count {
            return number;
        }
        let half = (u64::BITS - (count - 1).leading_zeros()).div_ceil(2).max(1);
        let mask = (1_u64 << half) - 1;
        let mut found = number;
        loop {
            let (mut left, mut right) = (found >> half, found & mask);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ (self.key.hash_one((count, round, right)) & mask));
            }
            found = (left << half) | right;
            // What lies beyond leads on along its cycle, which comes back to the number itself at the latest.
            if found < count {
                return found;
            }
        }
    }

    /// Of all rows of digits of these kinds: each digit hangs on all others.
    pub fn digits(&self, digits: &mut [Digit]) {
        let free: Vec<usize> = (0..digits.len()).filter(|at| digits[*at].1 > 1).collect();
        let (first, second) = free.split_at(free.len() / 2);
        for round in 0..ROUNDS {
            let (given, changed) = match round % 2 {
                0 => (first, second),
                _ => (second, first),
            };
            let seen: Vec<Digit> = given.iter().map(|at| digits[*at]).collect();
            let seed = self.key.hash_one((round, changed.len(), seen));
            for (place, at) in changed.iter().enumerate() {
                let (digit, kinds) = digits[*at];
                let more = self.key.hash_one((seed, place)) % u64::from(kinds);
                let moved = (u64::from(digit) + more) % u64::from(kinds);
                digits[*at].0 = u32::try_from(moved).unwrap_or(digit);
            }
        }
    }

    /// Of all bytes.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut digits: Vec<Digit> = bytes.iter().map(|byte| (u32::from(*byte), 256)).collect();
        self.digits(&mut digits);
        digits
            .into_iter()
            .map(|(digit, _)| u8::try_from(digit).unwrap_or(0))
            .collect()
    }

    /// A number that hangs on something, and on the key.
    pub fn drawn(&self, by: impl Hash) -> u64 {
        self.key.hash_one(by)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_stay_below_and_apart() {
        let permuter = Permuter::default();
        for count in [1, 2, 3, 9, 10, 90, 1000] {
            let found: HashSet<u64> = (0..count).map(|number| permuter.number(number, count)).collect();
            assert_eq!(found.len() as u64, count);
            assert!(found.iter().all(|number| *number < count));
        }
        assert!(permuter.number(u64::MAX - 3, u64::MAX) < u64::MAX);
    }

    #[test]
    fn digits_keep_their_kinds_and_rows_stay_apart() {
        let permuter = Permuter::default();
        let mut seen = HashSet::new();
        for number in 0..1000_u32 {
            let mut row = [
                (number / 100, 10),
                (7, 1),
                (number / 10 % 10, 10),
                (number % 10, 10),
            ];
            permuter.digits(&mut row);
            assert!(row[1] == (7, 1) && row.iter().all(|(digit, kinds)| digit < kinds || *kinds == 1));
            seen.insert(row);
        }
        assert_eq!(seen.len(), 1000);
    }
}
