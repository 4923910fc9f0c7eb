//! Messages of a server as they come in pieces: rows are counted and summed, and bodies kept where they are wanted.

use super::cut::{BadMessage, Cutter, Piece, Sender};
use crate::format::event::Rows;

/// Longer descriptions, keys and errors are not looked at.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Longer rows are not kept.
pub const ROW_BYTES_MAX: usize = 64 << 10;

/// Where a message begins or ends.
pub enum Edge {
    /// Its type and the length of its body: say what is wanted of it.
    Begin(u8, usize),
    /// Its type: what was wanted of it is there until the next one begins.
    End(u8),
}

/// What of a server's messages is collected.
pub struct Collector {
    cutter: Cutter,
    /// The body, where it is kept.
    pub body: Vec<u8>,
    /// Whether it is.
    pub keeps_body: bool,
    /// Rows since they were taken.
    pub rows: Rows,
    sum: Option<crc32fast::Hasher>,
}

impl Collector {
    /// At the first message of a server.
    pub fn new() -> Self {
        Self {
            cutter: Cutter::new(Sender::Server),
            body: Vec::new(),
            keeps_body: false,
            rows: Rows::default(),
            sum: None,
        }
    }

    /// The next edge in these bytes; none where they are used up.
    ///
    /// # Errors
    /// When they are no messages.
    #[inline]
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Edge>, BadMessage> {
        while let Some(piece) = self.cutter.next(bytes)? {
            match piece {
                Piece::Begin(tag, length) => {
                    self.body.clear();
                    self.sum = None;
                    return Ok(Some(Edge::Begin(tag, length)));
                }
                Piece::Body(body) => {
                    if self.keeps_body {
                        self.body.extend_from_slice(body);
                    }
                    if let Some(sum) = &mut self.sum {
                        sum.update(body);
                    }
                }
                Piece::End(tag) => return Ok(Some(Edge::End(tag))),
            }
        }
        Ok(None)
    }

    /// The message that has begun is a row, of COPY data or a function's result as well.
    #[inline]
    pub fn count_row(&mut self, length: usize, is_summed: bool) {
        self.rows.count += 1;
        self.rows.bytes += length as u64;
        self.sum = is_summed.then(crc32fast::Hasher::new);
    }

    /// The row has ended: its sum is added to those of the others.
    pub fn add_sum(&mut self) {
        let sum = self.sum.take().map_or(0, crc32fast::Hasher::finalize);
        self.rows.sum = self.rows.sum.wrapping_add(sum);
    }

    /// The rows so far; from here on they are counted anew.
    pub fn take_rows(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }
}

impl Default for Collector {
    fn default() -> Self {
        Self::new()
    }
}
