//! What the way through the kernel takes, and how much passes there: measured from above the block device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{OFlags, SeekFrom, seek};
use serde::Serialize;

use crate::counters::Counters;
use crate::schedule::now_ns;

/// What every request takes while the overhead is measured: more than the way takes, less than a volume.
pub(crate) const KNOWN_NS: u64 = 500_000;
/// Rounds that are some time apart, so that what else the machine does at one moment is in one of them.
const ROUNDS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
const READS: usize = 128;
const READ_BYTES: usize = 4096;
const LARGE_READS: usize = 64;
const LARGE_READ_BYTES: usize = 128 << 10;
/// Where they read: a few places, all of which have been read before.
const PLACES: u64 = 64;

/// What a read of the block device takes beyond the time that was asked for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overhead {
    /// Of small reads: the lower quartile of the medians of rounds, as what else the machine does makes it longer
    /// and never shorter. It is taken from every latency, until the device's own counters say otherwise.
    pub p50_ns: u64,
    /// The 99th percentile of small reads of all rounds.
    pub p99_ns: u64,
    /// As `p50_ns` of reads of 128 KiB: of larger requests more is taken, by their bytes.
    pub large_p50_ns: u64,
    /// The least median of a round of small reads.
    pub low_ns: u64,
    /// The largest median of a round of small reads.
    pub high_ns: u64,
    /// What of it lies above the block device; `None` where the device counts nothing.
    pub above_ns: Option<ByLength>,
}

/// Of a read of 4 KiB and of one of 128 KiB, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByLength {
    /// Of a small one.
    pub small_ns: u64,
    /// Of a large one.
    pub large_ns: u64,
}

impl ByLength {
    /// Of one of so many bytes.
    pub(crate) fn of(&self, bytes: u64) -> f64 {
        let more_ns = self.large_ns as f64 - self.small_ns as f64;
        self.small_ns as f64
            + more_ns * beyond_small(bytes) as f64 / beyond_small(LARGE_READ_BYTES as u64) as f64
    }
}

impl Overhead {
    /// What a request of so many bytes takes more than a small one.
    pub(crate) fn of_bytes(&self, bytes: u64) -> u64 {
        let more_ns = self.large_p50_ns.saturating_sub(self.p50_ns);
        more_ns * beyond_small(bytes) / beyond_small(LARGE_READ_BYTES as u64)
    }
}

fn beyond_small(bytes: u64) -> u64 {
    bytes.saturating_sub(READ_BYTES as u64)
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
/// So much of the device is read: more than a processor's cache holds.
const CEILING_BYTES: u64 = 64 << 20;
const RANDOM_BYTES: usize = 8 << 10;
const SEQUENTIAL_BYTES: usize = 256 << 10;

/// Reads the device one request at a time while the server answers each after [`KNOWN_NS`].
pub(crate) fn measure(device: &Path) -> io::Result<Overhead> {
    let (file, bytes) = opened(device)?;
    let counters = Counters::of(device).ok();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    Round::of(&file, bytes, LARGE_READ_BYTES, PLACES as usize, None)?;
    for _ in 0..ROUNDS {
        small.push(Round::of(&file, bytes, READ_BYTES, READS, counters.as_ref())?);
        large.push(Round::of(
            &file,
            bytes,
            LARGE_READ_BYTES,
            LARGE_READS,
            counters.as_ref(),
        )?);
        thread::sleep(PAUSE);
    }
    Ok(overhead_of(&small, &large))
}

fn overhead_of(small: &[Round], large: &[Round]) -> Overhead {
    let medians_ns = sorted(small.iter().map(Round::median_ns));
    let large_ns = sorted(large.iter().map(Round::median_ns));
    let all_ns = sorted(small.iter().flat_map(|round| round.beyond_ns.iter().copied()));
    Overhead {
        p50_ns: medians_ns[medians_ns.len() / 4],
        p99_ns: all_ns[all_ns.len() * 99 / 100],
        large_p50_ns: large_ns[large_ns.len() / 4],
        low_ns: medians_ns[0],
        high_ns: medians_ns[medians_ns.len() - 1],
        above_ns: above(small)
            .zip(above(large))
            .map(|(small_ns, large_ns)| ByLength { small_ns, large_ns }),
    }
}

/// The median over rounds, as the device counts whole milliseconds; of most of them at least.
fn above(rounds: &[Round]) -> Option<u64> {
    let sorted_ns = sorted(rounds.iter().filter_map(|round| round.above_ns));
    (2 * sorted_ns.len() > rounds.len()).then(|| sorted_ns[sorted_ns.len() / 2])
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}

/// Some reads of one size.
struct Round {
    /// What each took beyond [`KNOWN_NS`], the shortest first.
    beyond_ns: Vec<u64>,
    /// What each spent above the device, in the mean.
    above_ns: Option<u64>,
}

impl Round {
    fn of(
        file: &File,
        bytes: u64,
        size: usize,
        count: usize,
        counters: Option<&Counters>,
    ) -> io::Result<Self> {
        let apart = bytes / PLACES / LARGE_READ_BYTES as u64 * LARGE_READ_BYTES as u64;
        let mut memory = vec![0; size + READ_BYTES];
        let buffer = aligned(&mut memory, size);
        let mut beyond_ns = Vec::with_capacity(count);
        let mut elapsed_ns = 0_u64;
        let before = counters.map(Counters::read).transpose()?;
        for index in 0..count as u64 {
            let began_ns = now_ns();
            file.read_exact_at(buffer, scattered(index, PLACES) * apart)?;
            let took_ns = now_ns() - began_ns;
            elapsed_ns += took_ns;
            beyond_ns.push(took_ns.saturating_sub(KNOWN_NS));
        }
        let after = counters.map(Counters::read).transpose()?;
        beyond_ns.sort_unstable();
        // Where others read it too, the device's time is not that of these reads.
        let above_ns = before.zip(after).and_then(|(before, after)| {
            let is_alone = after.requests - before.requests == count as u64;
            is_alone.then(|| elapsed_ns.saturating_sub(after.ns - before.ns) / count as u64)
        });
        Ok(Self { beyond_ns, above_ns })
    }

    fn median_ns(&self) -> u64 {
        self.beyond_ns[self.beyond_ns.len() / 2]
    }
}

/// Reads the device as fast as the server answers, each request after [`KNOWN_NS`].
pub(crate) fn measure_ceiling(device: &Path) -> io::Result<Ceiling> {
    // What was never written takes no copying from memory: the server makes it its own when it is read first.
    let (file, _) = opened(device)?;
    let mut memory = vec![0; SEQUENTIAL_BYTES + READ_BYTES];
    let buffer = aligned(&mut memory, SEQUENTIAL_BYTES);
    for place in 0..CEILING_BYTES / SEQUENTIAL_BYTES as u64 {
        file.read_exact_at(buffer, place * SEQUENTIAL_BYTES as u64)?;
    }
    Ok(Ceiling {
        random_reads_per_s: reads_per_s(device, RANDOM_BYTES, true)?,
        bytes_per_s: reads_per_s(device, SEQUENTIAL_BYTES, false)? * SEQUENTIAL_BYTES as f64,
    })
}

fn reads_per_s(device: &Path, size: usize, is_random: bool) -> io::Result<f64> {
    let places = CEILING_BYTES / size as u64;
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
    if bytes < CEILING_BYTES {
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
            large_p50_ns: 91_000,
            ..Overhead::default()
        };
        assert_eq!((overhead.of_bytes(0), overhead.of_bytes(4096)), (0, 0));
        assert_eq!(
            (overhead.of_bytes(8192), overhead.of_bytes(128 << 10)),
            (1_000, 31_000)
        );
        assert_eq!(overhead.of_bytes(1 << 20), 31_000 * 255 / 31);
        // As noise may have it.
        let odd = Overhead {
            large_p50_ns: 50_000,
            ..overhead
        };
        assert_eq!(odd.of_bytes(1 << 20), 0);
    }

    fn round(median_ns: u64, above_ns: Option<u64>) -> Round {
        Round {
            beyond_ns: vec![median_ns - 1_000, median_ns, median_ns + 40_000],
            above_ns,
        }
    }

    #[test]
    fn rounds_while_others_ran_move_nothing_and_are_told() {
        let small = [46_000, 27_000, 45_000, 26_000, 28_000, 90_000, 27_000, 44_000];
        let small = small.map(|median_ns| round(median_ns, Some(median_ns / 3)));
        let large = [50_000; 8].map(|median_ns| round(median_ns, Some(20_000)));
        let found = overhead_of(&small, &large);
        assert_eq!((found.p50_ns, found.large_p50_ns), (27_000, 50_000));
        assert_eq!(
            (found.low_ns, found.high_ns, found.p99_ns),
            (26_000, 90_000, 130_000)
        );
        let above = found.above_ns.unwrap();
        assert_eq!((above.of(4096), above.of(128 << 10)), (14_666.0, 20_000.0));
        // Of a device without counters, or that others read as well.
        assert_eq!(overhead_of(&small, &[round(50_000, None)]).above_ns, None);
    }
}
