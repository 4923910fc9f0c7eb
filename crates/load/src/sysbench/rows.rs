//! The rows of sysbench's tables as a stream of PostgreSQL's binary COPY format (the manual's page of COPY).

use bytes::{BufMut, BytesMut};
use pgassay_pgbench::random::seeded;
use rand_xoshiro::Xoroshiro128StarStar;

use super::digits::{C_GROUPS, PAD_GROUPS, fill, length};
use super::distribution::Sampler;

/// Ends the stream.
pub const TRAILER: &[u8] = b"\xff\xff";
/// Begins it: the signature, no flags, no extension.
pub const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Of a row: the number of fields, then the length of each and the field.
pub const ROW_BYTES: usize = 2 + 4 * 4 + 4 + 4 + length(C_GROUPS) + length(PAD_GROUPS);

/// The rows of one table in the order of `id`.
pub struct Rows {
    random: Xoroshiro128StarStar,
    sampler: Sampler,
    table_size: i32,
    next: i32,
}

impl Rows {
    /// Of so many rows; another seed makes other rows.
    pub fn new(table_size: i32, sampler: Sampler, seed: u64) -> Self {
        Self {
            random: seeded(seed),
            sampler,
            table_size,
            next: 1,
        }
    }

    /// Appends so many rows at most; false once there is none.
    pub fn block(&mut self, most: usize, output: &mut BytesMut) -> bool {
        let left = usize::try_from(self.table_size - self.next + 1).unwrap_or(0);
        let count = left.min(most);
        output.reserve(count * ROW_BYTES);
        for _ in 0..count {
            self.row(output);
            self.next = self.next.wrapping_add(1);
        }
        count > 0
    }

    fn row(&mut self, output: &mut BytesMut) {
        let k = self.sampler.draw(&mut self.random, 1, i64::from(self.table_size));
        output.put_i16(4);
        output.put_i32(4);
        output.put_i32(self.next);
        output.put_i32(4);
        // Within the table's size, a 32-bit integer.
        output.put_i32(i32::try_from(k).unwrap_or(i32::MAX));
        let mut text = [0; length(C_GROUPS)];
        for groups in [C_GROUPS, PAD_GROUPS] {
            let bytes = length(groups);
            fill(&mut self.random, &mut text[..bytes]);
            output.put_i32(i32::try_from(bytes).unwrap_or(i32::MAX));
            output.put_slice(&text[..bytes]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysbench::distribution::{Distribution, RandomOptions};

    #[test]
    fn rows_are_whole_and_in_order() {
        let sampler = Sampler::new(RandomOptions::of(Distribution::Uniform));
        let mut rows = Rows::new(5, sampler, 1);
        let mut stream = BytesMut::new();
        assert!(rows.block(2, &mut stream) && rows.block(100, &mut stream));
        assert!(!rows.block(1, &mut stream));
        assert_eq!(stream.len(), 5 * ROW_BYTES);
        for (place, row) in stream.chunks(ROW_BYTES).enumerate() {
            assert_eq!(row[..6], [0, 4, 0, 0, 0, 4]);
            assert_eq!(usize::from(row[9]), place + 1);
            assert!((1..=5).contains(&row[17]), "{row:?}");
            assert_eq!(row[18..22], [0, 0, 0, 119]);
            assert_eq!((row[22 + 11], row[22 + 119 + 4 + 11]), (b'-', b'-'));
        }
    }
}
