//! The texts of sysbench's tables: groups of eleven random digits joined by dashes (`get_c_value` and
//! `get_pad_value` in src/lua/oltp_common.lua).

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::Rng;

/// Groups of the column c; its type pads them to 120 characters.
pub const C_GROUPS: usize = 10;
/// Groups of the column pad; its type pads them to 60.
pub const PAD_GROUPS: usize = 5;
const DIGITS_PER_GROUP: usize = 11;
const GROUP_END: u64 = 100_000_000_000;

/// How many characters so many groups have.
pub const fn length(groups: usize) -> usize {
    groups * (DIGITS_PER_GROUP + 1) - 1
}

/// Fills a text of `length(groups)` bytes.
#[inline]
pub fn fill(random: &mut Xoroshiro128StarStar, text: &mut [u8]) {
    for group in text.chunks_mut(DIGITS_PER_GROUP + 1) {
        // 64 bits hold a hundred million times eleven digits: their shares differ in the ninth place.
        let mut left = random.next_u64() % GROUP_END;
        for digit in group[..DIGITS_PER_GROUP].iter_mut().rev() {
            #[allow(clippy::cast_possible_truncation)] // One digit.
            let value = (left % 10) as u8;
            *digit = b'0' + value;
            left /= 10;
        }
        if let Some(dash) = group.get_mut(DIGITS_PER_GROUP) {
            *dash = b'-';
        }
    }
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
