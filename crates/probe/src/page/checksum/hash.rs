//! The hash of a page, twice: word by word, and all columns of a row at once.
//!
//! The page is 64 rows of 32 words. Each column is hashed by itself: `t = h ^ word; h = t·16777619 ^ (t >> 17)`,
//! from a published offset of its own, then twice more with a word of 0. The XOR of the columns and the block
//! number, modulo 65535 and plus 1, is the checksum. The checksum's own two bytes count as 0.

use crate::page::layout::{CHECKSUM_AT, PAGE_BYTES};

const COLUMNS: usize = 32;
const ROWS: usize = PAGE_BYTES / (4 * COLUMNS);
const PRIME: u32 = 16_777_619;
const OFFSETS: [u32; COLUMNS] = [
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
const ROW_BYTES: usize = 4 * COLUMNS;

/// The definition as it reads.
pub(super) fn scalar(page: &[u8; PAGE_BYTES]) -> u32 {
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
fn mix(sum: u32, word: u32) -> u32 {
    let mixed = sum ^ word;
    mixed.wrapping_mul(PRIME) ^ (mixed >> 17)
}

#[inline(always)]
fn finish(sums: [u32; COLUMNS]) -> u32 {
    sums.into_iter()
        .fold(0, |folded, sum| folded ^ mix(mix(sum, 0), 0))
}

/// All columns of a row at once: the rows depend on each other, the columns don't. The compiler turns the inner loop
/// into the vector instructions that the function around it is allowed to use.
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
