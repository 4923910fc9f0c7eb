//! What the way through the kernel takes, and how much passes there: measured from above the block device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use rustix::fs::{OFlags, SeekFrom, seek};
use serde::Serialize;

use crate::schedule::now_ns;

/// What every request takes while the overhead is measured: more than the way takes, less than a volume.
pub(crate) const KNOWN_NS: u64 = 500_000;
const READS: usize = 400;
const READ_BYTES: usize = 4096;
const LARGE_READS: usize = 200;
const LARGE_READ_BYTES: usize = 128 << 10;

/// What a read of the block device takes beyond the time that was asked for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// The median of small reads, which is taken from every latency from now on.
    pub p50_ns: u64,
    /// The 99th percentile of small reads.
    pub p99_ns: u64,
    /// The median of reads of 128 KiB: of larger requests more is taken, by their bytes.
    pub large_p50_ns: u64,
}

impl Overhead {
    /// What is taken from the latency of a request.
    pub(crate) fn of(&self, length: u32) -> u64 {
        let beyond = u64::from(length).saturating_sub(READ_BYTES as u64);
        let more_ns = self.large_p50_ns.saturating_sub(self.p50_ns);
        self.p50_ns + more_ns * beyond / (LARGE_READ_BYTES - READ_BYTES) as u64
    }
}

/// The most that passes while each answer waits for its time: random reads of 8 kB a second, and bytes a second
/// in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// With 32 on their way.
    pub random_reads_per_s: f64,
    /// In reads of 256 kB, with 32 on their way.
    pub bytes_per_s: f64,
}

/// As many would get 64,000 answers a second, each after [`KNOWN_NS`].
const READERS: u64 = 32;
const CEILING_NS: u64 = 500_000_000;
const RANDOM_BYTES: usize = 8 << 10;
const SEQUENTIAL_BYTES: usize = 256 << 10;

/// Reads the device one request at a time while the server answers each after [`KNOWN_NS`].
pub(crate) fn measure(device: &Path) -> io::Result<Overhead> {
    let beyond_ns = beyond_known(device, READ_BYTES, READS)?;
    let large_ns = beyond_known(device, LARGE_READ_BYTES, LARGE_READS)?;
    Ok(Overhead {
        p50_ns: beyond_ns[READS / 2],
        p99_ns: beyond_ns[READS * 99 / 100],
        large_p50_ns: large_ns[LARGE_READS / 2],
    })
}

/// What so many reads of a size took beyond [`KNOWN_NS`], the shortest first.
fn beyond_known(device: &Path, size: usize, count: usize) -> io::Result<Vec<u64>> {
    let (file, bytes) = opened(device)?;
    let places = (bytes / size as u64).max(1);
    let mut memory = vec![0; size + READ_BYTES];
    let buffer = aligned(&mut memory, size);
    let mut beyond_ns = Vec::with_capacity(count);
    for index in 0..count as u64 {
        let began_ns = now_ns();
        file.read_exact_at(buffer, scattered(index, places) * size as u64)?;
        beyond_ns.push((now_ns() - began_ns).saturating_sub(KNOWN_NS));
    }
    beyond_ns.sort_unstable();
    Ok(beyond_ns)
}

/// Reads the device as fast as the server answers, each request after [`KNOWN_NS`].
pub(crate) fn measure_ceiling(device: &Path) -> io::Result<Ceiling> {
    Ok(Ceiling {
        random_reads_per_s: reads_per_s(device, RANDOM_BYTES, true)?,
        bytes_per_s: reads_per_s(device, SEQUENTIAL_BYTES, false)? * SEQUENTIAL_BYTES as f64,
    })
}

fn reads_per_s(device: &Path, size: usize, is_random: bool) -> io::Result<f64> {
    let (_, bytes) = opened(device)?;
    let places = (bytes / size as u64).max(1);
    let began_ns = now_ns();
    let counts: io::Result<u64> = thread::scope(|scope| {
        let reader = |number: u64| {
            scope.spawn(move || -> io::Result<u64> {
                let (file, _) = opened(device)?;
                let mut memory = vec![0; size + READ_BYTES];
                let buffer = aligned(&mut memory, size);
                let mut count = 0;
                while now_ns() - began_ns < CEILING_NS {
                    let index = count * READERS + number;
                    let place = if is_random {
                        scattered(index, places)
                    } else {
                        index % places
                    };
                    file.read_exact_at(buffer, place * size as u64)?;
                    count += 1;
                }
                Ok(count)
            })
        };
        let readers: Vec<_> = (0..READERS).map(reader).collect();
        let counts = readers.into_iter().map(|each| {
            each.join()
                .unwrap_or_else(|_| Err(io::Error::other("a reader failed")))
        });
        counts.sum()
    });
    Ok(counts? as f64 / ((now_ns() - began_ns) as f64 / 1e9))
}

/// The device, read around the page cache, and its size.
fn opened(device: &Path) -> io::Result<(File, u64)> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(device)?;
    let bytes = seek(&file, SeekFrom::End(0))?;
    if bytes < SEQUENTIAL_BYTES as u64 {
        return Err(io::Error::other("the device is too small"));
    }
    Ok((file, bytes))
}

/// A part of the memory that begins where direct I/O wants it.
fn aligned(memory: &mut [u8], size: usize) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(READ_BYTES);
    &mut memory[begin..begin + size]
}

/// Places spread over the device.
fn scattered(index: u64, places: u64) -> u64 {
    index.wrapping_mul(2_654_435_761) % places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_larger_request_more_is_taken() {
        let overhead = Overhead {
            p50_ns: 60_000,
            p99_ns: 90_000,
            large_p50_ns: 91_000,
        };
        assert_eq!((overhead.of(0), overhead.of(4096)), (60_000, 60_000));
        assert_eq!((overhead.of(8192), overhead.of(128 << 10)), (61_000, 91_000));
        assert_eq!(overhead.of(1 << 20), 60_000 + 31_000 * 255 / 31);
        // As noise may have it.
        let odd = Overhead {
            large_p50_ns: 50_000,
            ..overhead
        };
        assert_eq!(odd.of(1 << 20), 60_000);
    }
}
