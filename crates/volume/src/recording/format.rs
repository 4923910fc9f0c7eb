//! The file of a trace, version 1; all numbers little-endian.
//!
//! ```text
//! header   "PGAtrace", u32 version, u32 0, u64 clock_ns of time 0, u64 overhead_ns
//! chunk    "CHNK", u32 bytes of the payload, u32 requests in it, u32 CRC-32 of the payload, payload
//! …
//! trailer  "DONE", u64 requests, u64 lost, u32 CRC-32 of these 16 bytes
//! ```
//!
//! A request of a payload is a few numbers of seven bits a byte (LEB128): its issue less that of the request
//! before it in the chunk (folded, so that small negative numbers are short) times 4, plus its kind; how long
//! it took; and, unless it is a flush, its first byte less the end of the one before it (folded), and its
//! length. Requests stand in the order in which they were done. A file without a trailer was cut off: its whole
//! chunks count. `overhead_ns` is what a request spends on its way to whoever recorded it and back.

use super::checksum::crc32;
use crate::model::Fault;
use crate::request::Kind;

const MAGIC: &[u8; 8] = b"PGAtrace";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const CHUNK: &[u8; 4] = b"CHNK";
const TRAILER: &[u8; 4] = b"DONE";
/// A chunk is handed on when it is so long.
const CHUNK_BYTES: usize = 64 * 1024;
/// More than any request takes.
const REQUEST_BYTES_MAX: usize = 40;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it was issued, in nanoseconds from time 0 of the recording.
    pub issue_ns: u64,
    /// When it was done.
    pub done_ns: u64,
    /// What it did.
    pub kind: Kind,
    /// Its first byte; 0 for a flush.
    pub offset: u64,
    /// Its bytes; 0 for a flush.
    pub length: u32,
}

/// A whole recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Time 0, CLOCK_MONOTONIC of the machine.
    pub clock_ns: u64,
    /// What a request spends on its way to the recorder and back, beyond what was recorded.
    pub overhead_ns: u64,
    /// In the order of issue; of those that were issued at once, in that of completion.
    pub requests: Vec<Recorded>,
    /// Requests that were served and not written down, since the file's disk did not keep up.
    pub lost: u64,
    /// Whether the file has its end.
    pub is_complete: bool,
}

/// The beginning of a file.
pub fn header(clock_ns: u64, overhead_ns: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes.extend_from_slice(&clock_ns.to_le_bytes());
    bytes.extend_from_slice(&overhead_ns.to_le_bytes());
    bytes
}

/// The end of a file.
pub fn trailer(requests: u64, lost: u64) -> Vec<u8> {
    let mut counts = requests.to_le_bytes().to_vec();
    counts.extend_from_slice(&lost.to_le_bytes());
    let sum = crc32(&counts);
    [&TRAILER[..], &counts, &sum.to_le_bytes()].concat()
}

/// Requests in, chunks out.
#[derive(Debug, Default)]
pub struct Encoder {
    payload: Vec<u8>,
    count: u32,
    last_issue_ns: u64,
    last_end: u64,
}

impl Encoder {
    /// Adds a request that is done. Returns a chunk with the number of its requests where it has become full.
    #[inline]
    pub fn add(&mut self, request: &Recorded) -> Option<(Vec<u8>, u32)> {
        let issued = fold(request.issue_ns.wrapping_sub(self.last_issue_ns));
        put(
            &mut self.payload,
            u128::from(issued) << 2 | u128::from(code(request.kind)),
        );
        put(
            &mut self.payload,
            u128::from(request.done_ns.saturating_sub(request.issue_ns)),
        );
        self.last_issue_ns = request.issue_ns;
        if request.kind != Kind::Flush {
            let moved = fold(request.offset.wrapping_sub(self.last_end));
            put(&mut self.payload, u128::from(moved));
            put(&mut self.payload, u128::from(request.length));
            self.last_end = request.offset.wrapping_add(u64::from(request.length));
        }
        self.count += 1;
        (self.payload.len() + REQUEST_BYTES_MAX > CHUNK_BYTES).then(|| self.take())
    }

    /// The chunk of all that was added since the last one; with 0 requests it says nothing.
    pub fn take(&mut self) -> (Vec<u8>, u32) {
        let Self { payload, count, .. } = std::mem::take(self);
        let mut chunk = Vec::with_capacity(payload.len() + 16);
        chunk.extend_from_slice(CHUNK);
        #[allow(clippy::cast_possible_truncation)] // bounded by CHUNK_BYTES
        chunk.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&count.to_le_bytes());
        chunk.extend_from_slice(&crc32(&payload).to_le_bytes());
        chunk.extend_from_slice(&payload);
        self.payload.reserve(CHUNK_BYTES);
        (chunk, count)
    }
}

/// Reads a file.
///
/// # Errors
/// A sentence when it is no trace, or one of another version. A file that was cut off, or whose chunks don't
/// have their checksums, gives what is whole of it, with `is_complete` false.
pub fn decode(bytes: &[u8]) -> Result<Recording, Fault> {
    if bytes.len() < HEADER_BYTES || &bytes[..8] != MAGIC {
        return Err(Fault("it is not a trace of a block device".to_owned()));
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(Fault(format!(
            "it is a trace of version {version}, and only version {VERSION} can be read"
        )));
    }
    let mut recording = Recording {
        clock_ns: u64_at(bytes, 16),
        overhead_ns: u64_at(bytes, 24),
        ..Recording::default()
    };
    let mut rest = &bytes[HEADER_BYTES..];
    loop {
        if rest.len() == 24 && &rest[..4] == TRAILER {
            let is_whole = crc32(&rest[4..20]) == u32_at(rest, 20);
            recording.is_complete = is_whole && u64_at(rest, 4) == recording.requests.len() as u64;
            recording.lost = u64_at(rest, 12);
            break;
        }
        let Some((payload, count, after)) = chunk(rest) else {
            break;
        };
        let Some(requests) = requests(payload, count) else {
            break;
        };
        recording.requests.extend(requests);
        rest = after;
    }
    recording.requests.sort_by_key(|request| request.issue_ns);
    Ok(recording)
}

/// The payload of the chunk at the front, its number of requests, and what follows it; `None` without a whole one.
fn chunk(bytes: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    if bytes.len() < 16 || &bytes[..4] != CHUNK {
        return None;
    }
    let length = u32_at(bytes, 4) as usize;
    let payload = bytes.get(16..16 + length)?;
    (crc32(payload) == u32_at(bytes, 12)).then(|| (payload, u32_at(bytes, 8), &bytes[16 + length..]))
}

fn requests(mut payload: &[u8], count: u32) -> Option<Vec<Recorded>> {
    // A request has two bytes at least, so what is claimed can't ask for more memory than the file has.
    let mut found = Vec::with_capacity((count as usize).min(payload.len() / 2));
    let (mut last_issue_ns, mut last_end) = (0_u64, 0_u64);
    for _ in 0..count {
        let first = get(&mut payload)?;
        let kind = match first & 3 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Flush,
            _ => return None,
        };
        let issued = unfold(u64::try_from(first >> 2).ok()?);
        let issue_ns = last_issue_ns.wrapping_add(issued);
        let done_ns = issue_ns.checked_add(u64::try_from(get(&mut payload)?).ok()?)?;
        last_issue_ns = issue_ns;
        let (mut offset, mut length) = (0, 0);
        if kind != Kind::Flush {
            let moved = unfold(u64::try_from(get(&mut payload)?).ok()?);
            offset = last_end.wrapping_add(moved);
            length = u32::try_from(get(&mut payload)?).ok()?;
            last_end = offset.wrapping_add(u64::from(length));
        }
        found.push(Recorded {
            issue_ns,
            done_ns,
            kind,
            offset,
            length,
        });
    }
    payload.is_empty().then_some(found)
}

fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Flush => 2,
    }
}

/// A difference, of which the upper half are negative numbers, so that these are short too: 0, -1, 1, -2, …
fn fold(difference: u64) -> u64 {
    if difference >> 63 == 0 {
        difference << 1
    } else {
        !(difference << 1)
    }
}

/// The difference again, to be added with wrapping.
fn unfold(number: u64) -> u64 {
    if number & 1 == 0 {
        number >> 1
    } else {
        !(number >> 1)
    }
}

#[inline]
fn put(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn get(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0_u128;
    // 66 bits of time and kind are ten groups of seven.
    for group in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u128::from(byte & 0x7F) << (7 * group);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}
