//! The file's outside: header, blocks with their checksums, trailer; all numbers little-endian.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::VERSION;
use crate::fault::Fault;

const MAGIC: &[u8; 8] = b"PGAcaptr";
const BLOCK: &[u8; 4] = b"BLCK";
const TRAILER: &[u8; 4] = b"DONE";
/// The length of a file's header.
pub const HEADER_BYTES: usize = 32;
/// The length of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 48;
/// The length of a trailer.
pub const TRAILER_BYTES: usize = 24;
/// No block holds more than this before compression; what claims more is damaged.
pub const RAW_BYTES_MAX: usize = 64 << 20;

/// What a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Which of the capture's files it is, from 1.
    pub group: u32,
    /// Time 0 of the capture, nanoseconds of Unix time.
    pub started_unix_ns: u64,
}

/// What stands before a block's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// Bytes of the payload as stored, deflated.
    pub stored_bytes: u32,
    /// Bytes of the records.
    pub raw_bytes: u32,
    /// How many records there are.
    pub records: u32,
    /// How many of them say that a session is dropped.
    pub dropped: u32,
    /// Time of the first record, nanoseconds from time 0.
    pub first_ns: u64,
    /// Time of the last record.
    pub last_ns: u64,
}

/// What follows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A block: its header; its payload comes next.
    Block(BlockHeader, u32),
    /// The end, with how many records and sessions the file has.
    End(u64, u64),
    /// Neither: the file was cut off or is damaged here.
    Cut,
}

/// A file's header.
pub fn file_header(header: FileHeader) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&header.group.to_le_bytes());
    bytes.extend_from_slice(&header.started_unix_ns.to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Reads a file's header.
///
/// # Errors
/// When it is no capture, of another version, or damaged.
pub fn read_file_header(bytes: &[u8]) -> Result<FileHeader, Fault> {
    if bytes.len() < HEADER_BYTES || &bytes[..8] != MAGIC {
        return Err(Fault("it is not a capture of pgassay".to_owned()));
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(Fault(format!(
            "it is a capture of format {version}, and this pgassay reads format {VERSION}"
        )));
    }
    if crc32fast::hash(&bytes[..28]) != u32_at(bytes, 28) {
        return Err(Fault("its header is damaged".to_owned()));
    }
    Ok(FileHeader {
        group: u32_at(bytes, 12),
        started_unix_ns: u64_at(bytes, 16),
    })
}

/// A whole block of these records; the header's two lengths are filled in.
///
/// # Errors
/// When the records are more than a block may hold.
pub fn block(mut header: BlockHeader, raw: &[u8]) -> Result<Vec<u8>, Fault> {
    let too_long = || Fault(format!("a block of {} bytes is too long", raw.len()));
    if raw.len() > RAW_BYTES_MAX {
        return Err(too_long());
    }
    let mut encoder = DeflateEncoder::new(vec![0; BLOCK_HEADER_BYTES], Compression::fast());
    let mut bytes = encoder
        .write_all(raw)
        .and_then(|()| encoder.finish())
        .map_err(|error| Fault(format!("a block can't be compressed: {error}")))?;
    header.stored_bytes = u32::try_from(bytes.len() - BLOCK_HEADER_BYTES).map_err(|_| too_long())?;
    header.raw_bytes = u32::try_from(raw.len()).map_err(|_| too_long())?;
    let mut head = BLOCK.to_vec();
    for number in [
        header.stored_bytes,
        header.raw_bytes,
        header.records,
        header.dropped,
    ] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(&header.first_ns.to_le_bytes());
    head.extend_from_slice(&header.last_ns.to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(&bytes[BLOCK_HEADER_BYTES..]).to_le_bytes());
    head.extend_from_slice(&0_u32.to_le_bytes());
    let sum = crc32fast::hash(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&head);
    Ok(bytes)
}

/// The end of a file.
pub fn trailer(records: u64, sessions: u64) -> Vec<u8> {
    let mut bytes = TRAILER.to_vec();
    bytes.extend_from_slice(&records.to_le_bytes());
    bytes.extend_from_slice(&sessions.to_le_bytes());
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Reads what follows: a block's header or the trailer, from as many bytes as the longer of both has, or the file's rest.
pub fn read_next(bytes: &[u8]) -> Next {
    if bytes.len() >= TRAILER_BYTES && &bytes[..4] == TRAILER {
        return match crc32fast::hash(&bytes[..20]) == u32_at(bytes, 20) {
            true => Next::End(u64_at(bytes, 4), u64_at(bytes, 12)),
            false => Next::Cut,
        };
    }
    if bytes.len() < BLOCK_HEADER_BYTES
        || &bytes[..4] != BLOCK
        || crc32fast::hash(&bytes[..44]) != u32_at(bytes, 44)
    {
        return Next::Cut;
    }
    let header = BlockHeader {
        stored_bytes: u32_at(bytes, 4),
        raw_bytes: u32_at(bytes, 8),
        records: u32_at(bytes, 12),
        dropped: u32_at(bytes, 16),
        first_ns: u64_at(bytes, 20),
        last_ns: u64_at(bytes, 28),
    };
    match header.raw_bytes as usize > RAW_BYTES_MAX {
        true => Next::Cut,
        false => Next::Block(header, u32_at(bytes, 36)),
    }
}

/// Whether a block's payload is what was written.
pub fn is_whole(header: &BlockHeader, sum: u32, payload: &[u8]) -> bool {
    payload.len() == header.stored_bytes as usize && crc32fast::hash(payload) == sum
}

/// The records of a block; `None` where its payload is not what was written.
pub fn unpack(header: &BlockHeader, sum: u32, payload: &[u8]) -> Option<Vec<u8>> {
    if !is_whole(header, sum, payload) {
        return None;
    }
    let wanted = header.raw_bytes as usize;
    let mut raw = Vec::with_capacity(wanted);
    // One byte more than is claimed, so that a payload that holds more is seen and doesn't fill the memory.
    let limit = u64::from(header.raw_bytes) + 1;
    DeflateDecoder::new(payload)
        .take(limit)
        .read_to_end(&mut raw)
        .ok()?;
    (raw.len() == wanted).then_some(raw)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_changed_anywhere_or_cut_is_not_read() {
        let header = BlockHeader {
            records: 3,
            first_ns: 5,
            last_ns: 9,
            ..BlockHeader::default()
        };
        let raw = b"some records, some records, some records";
        let whole = block(header, raw).unwrap();
        let read = |bytes: &[u8]| match read_next(bytes) {
            Next::Block(header, sum) => unpack(&header, sum, &bytes[BLOCK_HEADER_BYTES..]),
            _ => None,
        };
        assert_eq!(read(&whole).as_deref(), Some(&raw[..]));
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0x10;
            assert_eq!(read(&changed), None, "byte {place}");
            assert_eq!(read(&whole[..place]), None, "cut at {place}");
        }
    }

    #[test]
    fn a_header_of_another_version_is_named() {
        let header = FileHeader {
            group: 7,
            started_unix_ns: 1,
        };
        let mut bytes = file_header(header);
        assert_eq!(read_file_header(&bytes), Ok(header));
        bytes[8] = 9;
        assert!(read_file_header(&bytes).unwrap_err().0.contains("format 9"));
        assert!(
            read_file_header(b"PGAtrace")
                .unwrap_err()
                .0
                .contains("not a capture")
        );
    }
}
