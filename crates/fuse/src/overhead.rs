//! What the way through the kernel takes: measured from above the block device, to be taken from every latency.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, seek};
use serde::Serialize;

use crate::schedule::now_ns;

/// What every request takes while the overhead is measured: more than the way takes, less than a volume.
pub(crate) const KNOWN_NS: u64 = 500_000;
const READS: usize = 400;
const READ_BYTES: usize = 4096;

/// What a read of the block device takes beyond the time that was asked for, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// The median, which is taken from every latency from now on.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// Reads the device one request at a time while the server answers each after [`KNOWN_NS`].
pub(crate) fn measure(device: &Path) -> io::Result<Overhead> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(device)?;
    let blocks = seek(&file, SeekFrom::End(0))? / READ_BYTES as u64;
    if blocks == 0 {
        return Err(io::Error::other("the device is empty"));
    }
    let mut memory = vec![0; 2 * READ_BYTES];
    let aligned = memory.as_ptr().align_offset(READ_BYTES);
    let buffer = &mut memory[aligned..aligned + READ_BYTES];
    let mut beyond_ns = Vec::with_capacity(READS);
    for index in 0..READS as u64 {
        // Spread over the device, by a stride that shares no factor with its size.
        let block = index.wrapping_mul(2_654_435_761) % blocks;
        let began_ns = now_ns();
        file.read_exact_at(buffer, block * READ_BYTES as u64)?;
        beyond_ns.push((now_ns() - began_ns).saturating_sub(KNOWN_NS));
    }
    beyond_ns.sort_unstable();
    Ok(Overhead {
        p50_ns: beyond_ns[READS / 2],
        p99_ns: beyond_ns[READS * 99 / 100],
    })
}
