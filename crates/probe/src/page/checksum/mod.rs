//! The checksum of a PostgreSQL data page, from its published definition (`src/include/storage/checksum_impl.h`).
//!
//! The page is 64 rows of 32 words. Each column is hashed by itself: `t = h ^ word; h = t·16777619 ^ (t >> 17)`,
//! from a published offset of its own, then twice more with a word of 0. The XOR of the columns and the block
//! number, modulo 65535 and plus 1, is the checksum. The checksum's own two bytes count as 0.

mod simd;

pub(crate) use simd::columns;

use std::fmt;
use std::sync::OnceLock;

use crate::page::{CHECKSUM_AT, PAGE_BYTES};

pub(crate) const COLUMNS: usize = 32;
pub(crate) const ROWS: usize = PAGE_BYTES / (4 * COLUMNS);
pub(crate) const PRIME: u32 = 16_777_619;
pub(crate) const OFFSETS: [u32; COLUMNS] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];

/// How a page is hashed on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// The definition, word by word.
    Scalar,
    /// All columns of a row at once, with whatever every processor of this architecture has.
    Portable,
    /// All columns of a row in eight registers of 128 bits.
    Sse41,
    /// All columns of a row in four registers of 256 bits.
    Avx2,
}

impl fmt::Display for Implementation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Scalar => "scalar",
            Self::Portable => "portable",
            Self::Sse41 => "sse4.1",
            Self::Avx2 => "avx2",
        })
    }
}

/// The implementations that this processor can run, the slowest first.
pub fn available() -> Vec<Implementation> {
    let mut found = vec![Implementation::Scalar, Implementation::Portable];
    found.extend(simd::available());
    found
}

/// The fastest implementation that this processor can run.
#[inline]
pub fn best() -> Implementation {
    static BEST: OnceLock<Implementation> = OnceLock::new();
    *BEST.get_or_init(|| available().pop().unwrap_or(Implementation::Scalar))
}

/// The checksum of a page of `PAGE_BYTES` bytes that is block `block` of its relation, from 1 to 65535.
///
/// # Panics
/// When the page has another size.
#[inline]
pub fn page_checksum(page: &[u8], block: u32) -> u16 {
    page_checksum_by(best(), page, block)
}

/// The same by an implementation of the caller's choice.
///
/// # Panics
/// When the page has another size, or this processor can't run the implementation.
#[inline]
pub fn page_checksum_by(implementation: Implementation, page: &[u8], block: u32) -> u16 {
    let page: &[u8; PAGE_BYTES] = page.try_into().expect("a whole page");
    let hash = match implementation {
        Implementation::Scalar => scalar(page),
        other => simd::hash(other, page),
    };
    let folded = (hash ^ block) % 65535 + 1;
    u16::try_from(folded).unwrap_or(u16::MAX)
}

/// The definition as it reads.
fn scalar(page: &[u8; PAGE_BYTES]) -> u32 {
    let mut sums = OFFSETS;
    for row in 0..ROWS {
        for (column, sum) in sums.iter_mut().enumerate() {
            let at = (row * COLUMNS + column) * 4;
            let mut bytes = [page[at], page[at + 1], page[at + 2], page[at + 3]];
            if at == CHECKSUM_AT {
                bytes[0] = 0;
                bytes[1] = 0;
            }
            *sum = mix(*sum, u32::from_ne_bytes(bytes));
        }
    }
    finish(sums)
}

#[inline(always)]
pub(crate) fn mix(sum: u32, word: u32) -> u32 {
    let mixed = sum ^ word;
    mixed.wrapping_mul(PRIME) ^ (mixed >> 17)
}

#[inline(always)]
pub(crate) fn finish(sums: [u32; COLUMNS]) -> u32 {
    sums.into_iter()
        .fold(0, |folded, sum| folded ^ mix(mix(sum, 0), 0))
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn every_implementation_agrees_with_the_definition() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut page = vec![0; PAGE_BYTES];
        for _ in 0..300 {
            random.fill_bytes(&mut page);
            let block = random.next_u32();
            let expected = page_checksum_by(Implementation::Scalar, &page, block);
            for implementation in available() {
                assert_eq!(
                    page_checksum_by(implementation, &page, block),
                    expected,
                    "{implementation}"
                );
            }
        }
    }

    #[test]
    fn its_own_field_does_not_count_and_every_other_bit_does() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
        let mut page = vec![0; PAGE_BYTES];
        random.fill_bytes(&mut page);
        let checksum = page_checksum(&page, 5);
        for at in 0..PAGE_BYTES {
            page[at] ^= 1;
            let is_own = (CHECKSUM_AT..CHECKSUM_AT + 2).contains(&at);
            assert_eq!(page_checksum(&page, 5) == checksum, is_own, "byte {at}");
            page[at] ^= 1;
        }
        assert_ne!(page_checksum(&page, 6), checksum);
    }
}
