//! The texts of sysbench's tables: groups of eleven random digits joined by dashes (`get_c_value` and
//! `get_pad_value` in src/lua/oltp_common.lua).

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::Rng;

/// Groups of the column c; its type pads them to 120 characters.
pub const C_GROUPS: usize = 10;
/// Groups of the column pad; its type pads them to 60.
pub const PAD_GROUPS: usize = 5;
const DIGITS_PER_GROUP: usize = 11;
/// So many that a hundredfold fits into 64.
const FRACTION_BITS: u32 = 57;
/// The numbers up to 99 as they are written.
static PAIRS: [[u8; 2]; 100] = pairs();

/// How many characters so many groups have.
pub const fn length(groups: usize) -> usize {
    groups * (DIGITS_PER_GROUP + 1) - 1
}

/// Fills a text of `length(groups)` bytes.
#[inline]
pub fn fill(random: &mut Xoroshiro128StarStar, text: &mut [u8]) {
    for group in text.chunks_mut(DIGITS_PER_GROUP + 1) {
        // A fraction of 57 bits, of which each multiplication by 100 brings two digits above the point: no division.
        // Eleven digits use 37 bits of it.
        let mut fraction = random.next_u64() >> (64 - FRACTION_BITS);
        let mut pairs = group[..DIGITS_PER_GROUP].chunks_exact_mut(2);
        for pair in &mut pairs {
            pair.copy_from_slice(&PAIRS[take(&mut fraction, 100)]);
        }
        for digit in pairs.into_remainder() {
            *digit = PAIRS[take(&mut fraction, 10)][1];
        }
        if let Some(dash) = group.get_mut(DIGITS_PER_GROUP) {
            *dash = b'-';
        }
    }
}

/// What stands above the point of a fraction times a factor, which it then begins anew from.
#[inline]
#[allow(clippy::cast_possible_truncation)] // Below the factor.
fn take(fraction: &mut u64, factor: u64) -> usize {
    let scaled = *fraction * factor;
    *fraction = scaled & ((1 << FRACTION_BITS) - 1);
    (scaled >> FRACTION_BITS) as usize
}

#[allow(clippy::cast_possible_truncation)] // Digits.
const fn pairs() -> [[u8; 2]; 100] {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
}

/// Appends a text of so many groups.
#[inline]
pub fn append(random: &mut Xoroshiro128StarStar, groups: usize, text: &mut String) {
    let mut bytes = [b'-'; length(C_GROUPS)];
    let used = &mut bytes[..length(groups)];
    fill(random, used);
    text.push_str(std::str::from_utf8(used).expect("digits and dashes"));
}

#[cfg(test)]
mod tests {
    use pgassay_pgbench::random::seeded;

    use super::*;

    #[test]
    fn a_text_is_groups_of_digits() {
        let mut random = seeded(5);
        for groups in [C_GROUPS, PAD_GROUPS] {
            let mut text = String::new();
            append(&mut random, groups, &mut text);
            assert_eq!(text.len(), length(groups));
            let parts: Vec<&str> = text.split('-').collect();
            assert_eq!(parts.len(), groups);
            assert!(
                parts
                    .iter()
                    .all(|part| part.len() == 11 && part.bytes().all(|byte| byte.is_ascii_digit()))
            );
        }
    }

    #[test]
    fn every_digit_is_as_frequent_as_any_other() {
        let mut random = seeded(6);
        let mut text = String::new();
        for _ in 0..2000 {
            append(&mut random, C_GROUPS, &mut text);
        }
        for digit in b'0'..=b'9' {
            let count = text.bytes().filter(|&byte| byte == digit).count();
            // 22,000 expected, a standard deviation of 141: six of them.
            assert!(count.abs_diff(22_000) < 850, "{digit} {count}");
        }
    }
}
