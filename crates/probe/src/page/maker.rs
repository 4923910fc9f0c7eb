//! Valid pages as pgbench fills them.

use crate::page::checksum::page_checksum;
use crate::page::layout::{
    CHECKSUM_AT, HEADER_BYTES, LOWER_AT, PAGE_BYTES, SIZE_AND_VERSION, SIZE_AT, SPECIAL_AT, UPPER_AT,
};

/// Rows of a page of pgbench_accounts: 97 bytes and a header of 24, aligned to 8.
const ROWS: usize = 61;
const ROW_BYTES: usize = 128;
const ROW_DATA_BYTES: u32 = 121;

/// Makes the pages of a file: one template, of which only what differs between blocks is written anew.
pub struct PageMaker {
    template: Vec<u8>,
    seed: u32,
}

impl PageMaker {
    /// Pages that differ from those of another seed.
    pub fn new(seed: u32) -> Self {
        let mut template = vec![0; PAGE_BYTES];
        let lower = HEADER_BYTES + 4 * ROWS;
        let upper = PAGE_BYTES - ROWS * ROW_BYTES;
        put_word(&mut template, LOWER_AT, lower);
        put_word(&mut template, UPPER_AT, upper);
        put_word(&mut template, SPECIAL_AT, PAGE_BYTES);
        template[SIZE_AT..SIZE_AT + 2].copy_from_slice(&SIZE_AND_VERSION.to_ne_bytes());
        for row in 0..ROWS {
            let at = row_at(row);
            // A line pointer: offset in 15 bits, 1 = in use in 2, length in 15.
            let pointer = u32::try_from(at).unwrap_or(0) | (1 << 15) | (ROW_DATA_BYTES << 17);
            let place = HEADER_BYTES + 4 * row;
            template[place..place + 4].copy_from_slice(&pointer.to_ne_bytes());
            fill_row(&mut template[at..at + ROW_BYTES], row);
        }
        Self { template, seed }
    }

    /// Writes block `block` into `page`, checksum included.
    ///
    /// # Panics
    /// When `page` isn't of `PAGE_BYTES` bytes.
    pub fn make(&self, block: u32, page: &mut [u8]) {
        page.copy_from_slice(&self.template);
        page[4..8].copy_from_slice(&block.wrapping_mul(PAGE_BYTES as u32).to_ne_bytes());
        for row in 0..ROWS {
            let at = row_at(row);
            let account = block
                .wrapping_mul(ROWS as u32)
                .wrapping_add(row as u32)
                .wrapping_add(1);
            page[at + 12..at + 14].copy_from_slice(&((block >> 16) as u16).to_ne_bytes());
            page[at + 14..at + 16].copy_from_slice(&(block as u16).to_ne_bytes());
            page[at + 24..at + 28].copy_from_slice(&account.to_ne_bytes());
            page[at + 32..at + 36].copy_from_slice(&(account ^ self.seed).to_ne_bytes());
        }
        let checksum = page_checksum(page, block);
        page[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_ne_bytes());
    }
}

fn row_at(row: usize) -> usize {
    PAGE_BYTES - (row + 1) * ROW_BYTES
}

/// A tuple's header (`src/include/access/htup_details.h`) and its constant columns: bid 1 and the filler.
fn fill_row(row: &mut [u8], number: usize) {
    row[0..4].copy_from_slice(&2_u32.to_ne_bytes());
    put_word(row, 16, number + 1);
    put_word(row, 18, 4);
    put_word(row, 20, 0x0902);
    row[22] = 24;
    row[28..32].copy_from_slice(&1_u32.to_ne_bytes());
    // char(84) with a header of one byte: its length, header included, doubled and plus 1.
    row[36] = (85 << 1) | 1;
    row[37..121].fill(b' ');
}

fn put_word(bytes: &mut [u8], at: usize, value: usize) {
    let value = u16::try_from(value).expect("an offset within a page");
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}
