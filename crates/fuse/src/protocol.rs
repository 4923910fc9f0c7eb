//! The kernel's messages: those that a file system of one file needs (`include/uapi/linux/fuse.h`).
//!
//! All numbers are in the machine's byte order.

use std::io;

/// Bytes of the header before each request.
pub(crate) const IN_HEADER: usize = 40;
/// Bytes of the header before each answer.
const OUT_HEADER: usize = 16;
/// Bytes of `fuse_write_in`, after which the data follow.
pub(crate) const WRITE_IN: usize = 40;
/// The most bytes of one request: 256 pages.
pub(crate) const TRANSFER_MAX: u32 = 1 << 20;
/// Requests on their way at once, beyond what a loop device has.
const BACKGROUND_MAX: u16 = 1024;

/// The one file's name.
pub const FILE_NAME: &str = "disk";
/// The root folder's inode.
pub(crate) const ROOT: u64 = 1;
/// The file's inode.
pub(crate) const DISK: u64 = 2;

const MAJOR: u32 = 7;
const MINOR: u32 = 31;
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;
/// Around the page cache: what is cached is cached once, above the block device.
const DIRECT_IO: u32 = 1 << 0;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
/// Nothing of it changes behind the kernel's back.
const KNOWN_FOR_S: u64 = 3600;
const SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES: u32 = 4096;
const DIRECTORY: u32 = 0o040_700;
const REGULAR: u32 = 0o100_600;
const TYPE_REGULAR: u32 = 8;

/// What the kernel asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask<'a> {
    Init {
        major: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    GetAttributes,
    SetAttributes,
    Open,
    OpenFolder,
    ReadFolder {
        offset: u64,
    },
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Flush,
    Statistics,
    /// To be answered with success and no more.
    Nothing,
    /// To be left without an answer.
    Silent,
    Destroy,
    Unknown,
}

/// A request: its number, the inode it is about, and what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub unique: u64,
    pub node: u64,
    pub ask: Ask<'a>,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads one message; `None` for one that is cut off.
pub(crate) fn decode(message: &[u8]) -> Option<Asked<'_>> {
    let length = u32_at(message, 0)? as usize;
    let opcode = u32_at(message, 4)?;
    let unique = u64_at(message, 8)?;
    let node = u64_at(message, 16)?;
    let body = message.get(IN_HEADER..length)?;
    let ask = match opcode {
        1 => Ask::Lookup {
            name: body.split(|byte| *byte == 0).next()?,
        },
        2 | 36 | 42 => Ask::Silent,
        3 => Ask::GetAttributes,
        4 => Ask::SetAttributes,
        14 => Ask::Open,
        15 => Ask::Read {
            offset: u64_at(body, 8)?,
            length: u32_at(body, 16)?,
        },
        16 => {
            let size = u32_at(body, 16)? as usize;
            Ask::Write {
                offset: u64_at(body, 8)?,
                data: body.get(WRITE_IN..WRITE_IN + size)?,
            }
        }
        17 => Ask::Statistics,
        20 => Ask::Flush,
        18 | 25 | 29 | 34 => Ask::Nothing,
        26 => Ask::Init {
            major: u32_at(body, 0)?,
            flags: u32_at(body, 12)?,
        },
        27 => Ask::OpenFolder,
        28 => Ask::ReadFolder {
            offset: u64_at(body, 8)?,
        },
        38 => Ask::Destroy,
        _ => Ask::Unknown,
    };
    Some(Asked { unique, node, ask })
}

/// An answer that is being written: the header and what follows it, data apart.
#[derive(Debug, Default)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// A header alone; `error` is the number of an error, 0 for success. `data_bytes` follow from elsewhere.
    pub(crate) fn header(unique: u64, error: i32, data_bytes: usize) -> [u8; OUT_HEADER] {
        let mut header = [0; OUT_HEADER];
        let length = u32::try_from(OUT_HEADER + data_bytes).unwrap_or(u32::MAX);
        header[..4].copy_from_slice(&length.to_ne_bytes());
        header[4..8].copy_from_slice(&(-error).to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        header
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// What is to follow the header.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `fuse_init_out`; `None` where the kernel lacks asynchronous direct I/O or speaks another version.
    pub(crate) fn init(major: u32, flags: u32) -> Option<Self> {
        if major != MAJOR || flags & ASYNC_DIO == 0 {
            return None;
        }
        let wanted = (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES) & flags;
        let pages = u16::try_from(TRANSFER_MAX / BLOCK_BYTES).unwrap_or(u16::MAX);
        let answer = Self::default().u32(MAJOR).u32(MINOR).u32(0).u32(wanted);
        let answer = answer.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX).u32(TRANSFER_MAX);
        Some(answer.u32(1).u16(pages).u16(0).zeros(32))
    }

    /// `fuse_attr` of the root or the file.
    fn attributes(self, node: u64, size: u64) -> Self {
        let (mode, links, size) = if node == DISK {
            (REGULAR, 1, size)
        } else {
            (DIRECTORY, 2, 0)
        };
        let answer = self.u64(node).u64(size).u64(size / SECTOR_BYTES).zeros(24 + 12);
        answer.u32(mode).u32(links).zeros(12).u32(BLOCK_BYTES).u32(0)
    }

    /// `fuse_entry_out` of the file.
    pub(crate) fn entry(size: u64) -> Self {
        let answer = Self::default().u64(DISK).u64(0).u64(KNOWN_FOR_S).u64(KNOWN_FOR_S);
        answer.zeros(8).attributes(DISK, size)
    }

    /// `fuse_attr_out`.
    pub(crate) fn of_node(node: u64, size: u64) -> Self {
        Self::default().u64(KNOWN_FOR_S).zeros(8).attributes(node, size)
    }

    /// `fuse_open_out`.
    pub(crate) fn opened(is_file: bool) -> Self {
        let flags = if is_file {
            DIRECT_IO | PARALLEL_DIRECT_WRITES
        } else {
            0
        };
        Self::default().u64(0).u32(flags).u32(0)
    }

    /// `fuse_write_out`.
    pub(crate) fn written(bytes: u32) -> Self {
        Self::default().u32(bytes).u32(0)
    }

    /// `fuse_statfs_out` of a file system that the file fills.
    pub(crate) fn statistics(size: u64) -> Self {
        let answer = Self::default()
            .u64(size / u64::from(BLOCK_BYTES))
            .u64(0)
            .u64(0)
            .u64(1);
        answer
            .u64(0)
            .u32(BLOCK_BYTES)
            .u32(255)
            .u32(BLOCK_BYTES)
            .zeros(4 + 24)
    }

    /// The entries of the root folder from `offset` on: one.
    pub(crate) fn entries(name: &str, offset: u64) -> Self {
        if offset > 0 {
            return Self::default();
        }
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let mut answer = Self::default().u64(DISK).u64(1).u32(length).u32(TYPE_REGULAR);
        answer.0.extend_from_slice(name.as_bytes());
        let padding = answer.0.len().next_multiple_of(8) - answer.0.len();
        answer.zeros(padding)
    }
}

// Numbers of errors (errno.h).
pub(crate) const ENOENT: i32 = 2;
pub(crate) const EIO: i32 = 5;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EPROTO: i32 = 71;

/// What the kernel is told of an error of the image.
pub(crate) fn number(error: &io::Error) -> i32 {
    const ENOSPC: i32 = 28;
    match error.kind() {
        io::ErrorKind::StorageFull => error.raw_os_error().unwrap_or(ENOSPC),
        _ => error.raw_os_error().unwrap_or(EIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(IN_HEADER + body.len()).unwrap();
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&7_u64.to_ne_bytes());
        bytes.extend_from_slice(&DISK.to_ne_bytes());
        bytes.resize(IN_HEADER, 0);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn answers_have_the_sizes_of_the_kernels_structures() {
        assert_eq!(Answer::init(7, u32::MAX).unwrap().bytes().len(), 64);
        assert_eq!(Answer::entry(1 << 20).bytes().len(), 128);
        assert_eq!(Answer::of_node(ROOT, 1 << 20).bytes().len(), 104);
        assert_eq!(Answer::opened(true).bytes().len(), 16);
        assert_eq!(Answer::written(1).bytes().len(), 8);
        assert_eq!(Answer::statistics(1 << 20).bytes().len(), 80);
        assert_eq!(Answer::entries("disk", 0).bytes().len(), 32);
        assert!(Answer::entries("disk", 1).bytes().is_empty());
    }

    #[test]
    fn a_kernel_without_asynchronous_direct_io_is_refused() {
        assert!(Answer::init(7, !ASYNC_DIO).is_none());
        assert!(Answer::init(8, u32::MAX).is_none());
    }

    #[test]
    fn a_write_carries_its_data() {
        let mut body = vec![0; WRITE_IN];
        body[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        body[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        body.extend_from_slice(b"abc");
        let bytes = message(16, &body);
        let asked = decode(&bytes).unwrap();
        assert_eq!((asked.unique, asked.node), (7, DISK));
        let expected = Ask::Write {
            offset: 4096,
            data: b"abc",
        };
        assert_eq!(asked.ask, expected);
    }

    #[test]
    fn whatever_is_cut_off_is_no_message() {
        let mut body = vec![0; WRITE_IN + 100];
        body[16..20].copy_from_slice(&100_u32.to_ne_bytes());
        for opcode in 0..60 {
            let whole = message(opcode, &body);
            for length in 0..whole.len() {
                assert!(decode(&whole[..length]).is_none());
            }
            // A length in the header that is more or less than there is.
            for claimed in [0_u32, 39, 40, 41, 79, u32::MAX] {
                let mut lying = whole.clone();
                lying[..4].copy_from_slice(&claimed.to_ne_bytes());
                let _ = decode(&lying);
            }
        }
    }

    #[test]
    fn a_failure_is_a_negative_number() {
        let header = Answer::header(9, 5, 0);
        assert_eq!(header[..4], 16_u32.to_ne_bytes());
        assert_eq!(header[4..8], (-5_i32).to_ne_bytes());
        assert_eq!(header[8..], 9_u64.to_ne_bytes());
    }
}
