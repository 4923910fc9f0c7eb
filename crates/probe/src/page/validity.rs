//! Whether PostgreSQL would accept a page.

use crate::page::checksum::page_checksum;
use crate::page::layout::{CHECKSUM_AT, FLAGS_AT, LOWER_AT, PAGE_BYTES, SPECIAL_AT, UPPER_AT, VALID_FLAGS};

/// What PostgreSQL would say of a page that it has just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its checksum and its header are right.
    Valid,
    /// It was never filled: all zeros, which is no error.
    New,
    /// PostgreSQL would refuse it.
    Broken,
}

/// Judges a page as `PageIsVerified` does (`src/backend/storage/page/bufpage.c`).
#[inline]
pub fn verify(page: &[u8], block: u32) -> Verdict {
    if word(page, UPPER_AT) != 0 {
        let is_right = word(page, CHECKSUM_AT) == page_checksum(page, block);
        if is_right && has_sane_header(page) {
            return Verdict::Valid;
        }
    }
    if page.iter().all(|byte| *byte == 0) {
        Verdict::New
    } else {
        Verdict::Broken
    }
}

#[inline]
fn has_sane_header(page: &[u8]) -> bool {
    let (lower, upper, special) = (word(page, LOWER_AT), word(page, UPPER_AT), word(page, SPECIAL_AT));
    word(page, FLAGS_AT) & !VALID_FLAGS == 0
        && lower <= upper
        && upper <= special
        && usize::from(special) <= PAGE_BYTES
        && special % 8 == 0
}

#[inline]
fn word(page: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([page[at], page[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::maker::PageMaker;

    #[test]
    fn a_page_is_valid_as_the_block_it_was_made_for() {
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(verify(&page, 3), Verdict::New);
        PageMaker::new(9).make(3, &mut page);
        assert_eq!(verify(&page, 3), Verdict::Valid);
        assert_eq!(verify(&page, 4), Verdict::Broken);
        page[4000] ^= 0x10;
        assert_eq!(verify(&page, 3), Verdict::Broken);
    }

    #[test]
    fn a_header_that_makes_no_sense_is_broken_although_its_checksum_is_right() {
        let mut page = vec![0; PAGE_BYTES];
        PageMaker::new(9).make(3, &mut page);
        page[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&0x0100_u16.to_ne_bytes());
        let checksum = page_checksum(&page, 3);
        page[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_ne_bytes());
        assert_eq!(verify(&page, 3), Verdict::Broken);
    }
}
