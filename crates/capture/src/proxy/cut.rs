//! Cuts a stream of bytes into messages where they lie; nothing is copied, and no length that a peer claims asks for memory.

/// The longest message that a server takes (MaxAllocSize, src/include/utils/memutils.h), and the longest of those
/// that have nothing long to say (PQ_SMALL_MESSAGE_LIMIT, src/include/libpq/libpq.h).
const LARGE_BYTES_MAX: usize = 0x3FFF_FFFF;
const SMALL_BYTES_MAX: usize = 10_000;
/// The longest answer to a request for authentication (PG_MAX_AUTH_TOKEN_LENGTH).
const TOKEN_BYTES_MAX: usize = 65_535;

/// What the peer sent is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A client: only the types that PostgreSQL takes, in their lengths.
    Client,
    /// A server.
    Server,
}

/// A part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A message begins: its type, and how long its body is.
    Begin(u8, usize),
    /// Some of its body.
    Body(&'a [u8]),
    /// It has come whole.
    End(u8),
}

/// The place in a stream.
pub struct Cutter {
    sender: Sender,
    head: [u8; 5],
    have: usize,
    left: usize,
    is_inside: bool,
}

impl Cutter {
    /// At the beginning of a stream.
    pub fn new(sender: Sender) -> Self {
        Self {
            sender,
            head: [0; 5],
            have: 0,
            left: 0,
            is_inside: false,
        }
    }

    /// The next piece; none when all bytes are used up.
    ///
    /// # Errors
    /// When what comes is no message.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, BadMessage> {
        if self.is_inside {
            if self.left == 0 {
                self.is_inside = false;
                self.have = 0;
                return Ok(Some(Piece::End(self.head[0])));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let (body, rest) = bytes.split_at(self.left.min(bytes.len()));
            *bytes = rest;
            self.left -= body.len();
            return Ok(Some(Piece::Body(body)));
        }
        let (head, rest) = bytes.split_at((5 - self.have).min(bytes.len()));
        self.head[self.have..self.have + head.len()].copy_from_slice(head);
        self.have += head.len();
        *bytes = rest;
        if self.have < 5 {
            // A type that nobody knows need not wait for its length.
            if self.have > 0 && self.limit(self.head[0]).is_none() {
                return Err(BadMessage);
            }
            return Ok(None);
        }
        let tag = self.head[0];
        let length = u32::from_be_bytes([self.head[1], self.head[2], self.head[3], self.head[4]]) as usize;
        let limit = self.limit(tag).ok_or(BadMessage)?;
        self.left = length
            .checked_sub(4)
            .filter(|_| length <= limit)
            .ok_or(BadMessage)?;
        self.is_inside = true;
        Ok(Some(Piece::Begin(tag, self.left)))
    }

    fn limit(&self, tag: u8) -> Option<usize> {
        match (self.sender, tag) {
            (Sender::Server, _) => Some(LARGE_BYTES_MAX),
            (Sender::Client, b'Q' | b'P' | b'B' | b'F' | b'd') => Some(LARGE_BYTES_MAX),
            (Sender::Client, b'p') => Some(TOKEN_BYTES_MAX),
            (Sender::Client, b'E' | b'D' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f') => Some(SMALL_BYTES_MAX),
            (Sender::Client, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sender: Sender, parts: &[&[u8]]) -> Result<Vec<(u8, Vec<u8>)>, BadMessage> {
        let mut cutter = Cutter::new(sender);
        let (mut found, mut body) = (Vec::new(), Vec::new());
        for part in parts {
            let mut rest = *part;
            while let Some(piece) = cutter.next(&mut rest)? {
                match piece {
                    Piece::Begin(..) => body.clear(),
                    Piece::Body(bytes) => body.extend_from_slice(bytes),
                    Piece::End(tag) => found.push((tag, body.clone())),
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn messages_are_the_same_wherever_the_stream_is_split() {
        let bytes = b"Q\0\0\0\x06a\0S\0\0\0\x04X\0\0\0\x04";
        let expected = vec![(b'Q', b"a\0".to_vec()), (b'S', vec![]), (b'X', vec![])];
        for place in 0..=bytes.len() {
            let (one, two) = bytes.split_at(place);
            assert_eq!(
                cut(Sender::Client, &[one, two]),
                Ok(expected.clone()),
                "split at {place}"
            );
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &b"Q\0\0\0\x03"[..],
            b"Q\xff\xff\xff\xff",
            b"Q\x40\0\0\0",
            b"S\0\0\x40\0",
            b"GET / HTTP/1.1\r\n",
            b"!",
        ] {
            assert_eq!(cut(Sender::Client, &[bytes]), Err(BadMessage), "{bytes:?}");
        }
        assert_eq!(cut(Sender::Server, &[b"D\x80\0\0\0"]), Err(BadMessage));
    }
}
