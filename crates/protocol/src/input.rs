//! The bytes received on a connection, cut into messages where they lie.

use crate::failure::Failure;

/// Longest message whose body is kept. Rows and COPY data are dropped as they arrive and have no limit but the
/// protocol's own (1 GiB); everything else that a server sends is far shorter.
const KEPT_BODY_BYTES_MAX: usize = 64 << 20;
const DROPPED_BODY_BYTES_MAX: usize = 1 << 30;
const HEADER_BYTES: usize = 5;

/// One message. The body of a row (`D`) or of COPY data (`d`) is empty: it is dropped unread, unless the buffer
/// was asked to keep rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type of the message.
    pub tag: u8,
    /// What follows the length.
    pub body: &'a [u8],
}

/// A reusable buffer: the caller reads into [`InputBuffer::space`], says how much with
/// [`InputBuffer::received`], and takes frames until there are none.
pub struct InputBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    dropping: usize,
    keeps_rows: bool,
    received_bytes: u64,
}

impl InputBuffer {
    /// A buffer of this many bytes at first; it grows only for a message longer than that.
    pub fn with_capacity(capacity_bytes: usize) -> Self {
        let bytes = vec![0; capacity_bytes.max(HEADER_BYTES)];
        Self {
            bytes,
            start: 0,
            end: 0,
            dropping: 0,
            keeps_rows: false,
            received_bytes: 0,
        }
    }

    /// Whether rows that arrive from now on keep their bodies, for the few queries whose answer is read.
    pub fn keep_rows(&mut self, keeps: bool) {
        self.keeps_rows = keeps;
    }

    /// Where the next bytes go; never empty.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.end == self.bytes.len() {
            self.make_room();
        }
        &mut self.bytes[self.end..]
    }

    #[cold]
    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            // Doubled as bytes arrive, never to the length that a message claims.
            let doubled = self.bytes.len() * 2;
            self.bytes.resize(doubled, 0);
        }
    }

    /// Says that `count` bytes were read into [`InputBuffer::space`].
    ///
    /// # Panics
    /// If `count` is more than the space was.
    #[inline]
    pub fn received(&mut self, count: usize) {
        assert!(
            count <= self.bytes.len() - self.end,
            "more bytes received than there was space for"
        );
        self.end += count;
        self.received_bytes += count as u64;
        if self.dropping > 0 {
            let dropped = self.dropping.min(self.end - self.start);
            self.start += dropped;
            self.dropping -= dropped;
        }
    }

    /// All bytes received since the buffer was made.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// The next message, or none before it has arrived whole (a row: before its header has).
    ///
    /// # Errors
    /// When the bytes can't be a message of the protocol.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Failure> {
        let available = self.end - self.start;
        if available < HEADER_BYTES {
            return Ok(None);
        }
        let header = &self.bytes[self.start..self.start + HEADER_BYTES];
        let tag = header[0];
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let is_dropped = tag == b'd' || (tag == b'D' && !self.keeps_rows);
        let limit = if is_dropped {
            DROPPED_BODY_BYTES_MAX
        } else {
            KEPT_BODY_BYTES_MAX
        };
        if length < 4 || length > limit {
            return Err(bad_length(tag, length));
        }
        let total = length + 1;
        if is_dropped {
            let dropped = total.min(available);
            self.start += dropped;
            self.dropping = total - dropped;
            return Ok(Some(Frame { tag, body: &[] }));
        }
        if available < total {
            return Ok(None);
        }
        let body_start = self.start + HEADER_BYTES;
        self.start += total;
        Ok(Some(Frame {
            tag,
            body: &self.bytes[body_start..self.start],
        }))
    }
}

#[cold]
fn bad_length(tag: u8, length: usize) -> Failure {
    Failure::client(format!(
        "the peer does not speak PostgreSQL's protocol: it sent a message of type {:?} and length {length}; \
         check host and port",
        char::from(tag)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(input: &mut InputBuffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = input.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            input.received(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn a_message_split_anywhere_is_the_same_message() {
        let bytes = b"C\0\0\0\x0bSELECT\0Z\0\0\0\x05I";
        for cut in 0..=bytes.len() {
            let mut input = InputBuffer::with_capacity(8);
            let mut seen = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                feed(&mut input, part);
                while let Some(frame) = input.next_frame().unwrap() {
                    seen.push((frame.tag, frame.body.to_vec()));
                }
            }
            assert_eq!(
                seen,
                [(b'C', b"SELECT\0".to_vec()), (b'Z', b"I".to_vec())],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_long_row_is_dropped_as_it_arrives_and_the_buffer_does_not_grow() {
        let mut input = InputBuffer::with_capacity(64);
        feed(&mut input, b"D\0\x01\0\x04");
        assert_eq!(input.next_frame().unwrap(), Some(Frame { tag: b'D', body: &[] }));
        for _ in 0..1024 {
            assert!(input.next_frame().unwrap().is_none());
            feed(&mut input, &[b'Z'; 64]);
        }
        assert!(input.next_frame().unwrap().is_none());
        feed(&mut input, b"Z\0\0\0\x05T");
        assert_eq!(
            input.next_frame().unwrap(),
            Some(Frame {
                tag: b'Z',
                body: b"T"
            })
        );
        assert_eq!(input.bytes.len(), 64);
    }

    #[test]
    fn a_row_is_kept_where_that_is_asked_for() {
        let mut input = InputBuffer::with_capacity(8);
        input.keep_rows(true);
        feed(&mut input, b"D\0\0\0\x0b\0\x01\0\0\0\x01x");
        let frame = input.next_frame().unwrap().unwrap();
        assert_eq!((frame.tag, frame.body), (b'D', &b"\0\x01\0\0\0\x01x"[..]));
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        for bytes in [*b"Z\0\0\0\x03", *b"HTTP/", *b"D\xff\xff\xff\xff"] {
            let mut input = InputBuffer::with_capacity(64);
            feed(&mut input, &bytes);
            assert!(input.next_frame().unwrap_err().message.contains("does not speak"));
        }
    }
}
