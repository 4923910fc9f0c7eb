//! The checksum of a PostgreSQL data page, from its published definition (`src/include/storage/checksum_impl.h`).

pub(crate) mod hash;

use std::fmt;
use std::sync::OnceLock;

use self::hash::{columns, scalar};
use crate::page::layout::PAGE_BYTES;
use crate::sys::simd;

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
    if simd::has_sse41() {
        found.push(Implementation::Sse41);
    }
    if simd::has_avx2() {
        found.push(Implementation::Avx2);
    }
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
        Implementation::Portable => columns(page),
        Implementation::Sse41 => simd::with_sse41(page),
        Implementation::Avx2 => simd::with_avx2(page),
    };
    let folded = (hash ^ block) % 65535 + 1;
    u16::try_from(folded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::page::layout::CHECKSUM_AT;

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
