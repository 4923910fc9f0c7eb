//! All columns of a row at once. The rows depend on each other, the columns don't.

use super::{COLUMNS, Implementation, OFFSETS, finish, mix};
use crate::page::{CHECKSUM_AT, PAGE_BYTES};
use crate::sys;

const ROW_BYTES: usize = 4 * COLUMNS;

/// The implementations of this file that need a processor with more than the least.
pub(super) fn available() -> Vec<Implementation> {
    let mut found = Vec::new();
    if sys::simd::has_sse41() {
        found.push(Implementation::Sse41);
    }
    if sys::simd::has_avx2() {
        found.push(Implementation::Avx2);
    }
    found
}

#[inline]
pub(super) fn hash(implementation: Implementation, page: &[u8; PAGE_BYTES]) -> u32 {
    match implementation {
        Implementation::Avx2 => sys::simd::with_avx2(page),
        Implementation::Sse41 => sys::simd::with_sse41(page),
        Implementation::Portable | Implementation::Scalar => columns(page),
    }
}

/// The one body of all of them: the compiler turns the inner loop into the vector instructions that the function
/// around it is allowed to use.
#[inline(always)]
pub(crate) fn columns(page: &[u8; PAGE_BYTES]) -> u32 {
    let (first, rest) = page.split_at(ROW_BYTES);
    let mut head = [0; ROW_BYTES];
    head.copy_from_slice(first);
    head[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
    let mut sums = OFFSETS;
    mix_row(&mut sums, &head);
    for row in rest.chunks_exact(ROW_BYTES) {
        mix_row(&mut sums, row);
    }
    finish(sums)
}

#[inline(always)]
fn mix_row(sums: &mut [u32; COLUMNS], row: &[u8]) {
    for (sum, word) in sums.iter_mut().zip(row.chunks_exact(4)) {
        *sum = mix(*sum, u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
}
