//! A pool of aligned buffers in one mapping, as a server's shared buffers are.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// What x86-64 and arm64 with 4 kB pages call a huge page; elsewhere it is an alignment like another.
const HUGE_PAGE_BYTES: usize = 2 << 20;
const SMALL_PAGE_BYTES: usize = 4096;

/// A mapping, given back with the last of its buffers.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Where its buffers begin: at a multiple of a huge page.
    first: NonNull<u8>,
}

// SAFETY: it is an address range; what lies in it is reached through `Buffer`s alone, which don't overlap.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself is never changed after it was made.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the whole of a mapping made by `buffers`, and no buffer of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A part of the pool that belongs to its holder; it starts at a multiple of 4096, as O_DIRECT wants.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: a buffer is the only way to its bytes, so it may travel between threads as a Box<[u8]> may.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference gives a shared slice.
unsafe impl Sync for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping, was zeroed by the kernel, and belongs to this buffer alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the exclusive reference is to the only holder.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Mapping {
    /// An anonymous mapping with `wanted` bytes for buffers, all present.
    fn new(wanted: usize, pages: Pages) -> io::Result<Self> {
        // Room for whole huge pages wherever it begins.
        let bytes = wanted.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let skipped = start.as_ptr().align_offset(HUGE_PAGE_BYTES).min(HUGE_PAGE_BYTES);
        let mapping = Self {
            start,
            bytes,
            // SAFETY: a huge page is less than the mapping's length.
            first: unsafe { start.add(skipped) },
        };
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range lies in the mapping; it is advice, and a kernel that can't follow gives small pages.
        unsafe { libc::madvise(mapping.first.as_ptr().cast(), bytes - HUGE_PAGE_BYTES, advice) };
        mapping.populate(wanted)?;
        Ok(mapping)
    }

    /// Makes the first `wanted` bytes present.
    fn populate(&self, wanted: usize) -> io::Result<()> {
        // SAFETY: the range lies in the mapping; what it holds doesn't change.
        if unsafe { libc::madvise(self.first.as_ptr().cast(), wanted, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Before Linux 5.14 the advice is unknown.
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        for offset in (0..wanted).step_by(SMALL_PAGE_BYTES) {
            // SAFETY: offset < wanted, and nobody has a reference into the mapping yet.
            unsafe { self.first.add(offset).write_volatile(0) };
        }
        Ok(())
    }
}

/// The pages of memory that a pool lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// As a server's shared buffers without reserved huge pages.
    Small,
    /// For a device that writes to the buffers itself; small where the kernel has no huge ones
    /// (transparent_hugepage/enabled is never).
    ///
    /// A disk is told of a buffer by its ranges of physical memory. The kernel hands out small pages in rising or in
    /// falling order, as they were given back before, and only rising ones make one range of several pages: of cells
    /// that differed in nothing else, every other one read 1600 MB/s from a disk and the rest 2200; in huge pages all
    /// of them 2700.
    Huge,
}

/// Maps `count` buffers of `bytes` bytes each (a multiple of 4096), one after the other, present in memory.
///
/// # Errors
/// When the system gives no memory.
pub fn buffers(count: usize, bytes: usize, pages: Pages) -> io::Result<Vec<Buffer>> {
    assert!(
        bytes > 0 && bytes % SMALL_PAGE_BYTES == 0 && count > 0,
        "whole aligned buffers"
    );
    let mapping = Arc::new(Mapping::new(wanted_bytes(count, bytes)?, pages)?);
    let buffer = |index: usize| Buffer {
        // SAFETY: index < count, so the sum lies within the mapping's buffers.
        start: unsafe { mapping.first.add(index * bytes) },
        bytes,
        _mapping: Arc::clone(&mapping),
    };
    Ok((0..count).map(buffer).collect())
}

fn wanted_bytes(count: usize, bytes: usize) -> io::Result<usize> {
    count
        .checked_mul(bytes)
        .filter(|bytes| *bytes <= isize::MAX as usize - 2 * HUGE_PAGE_BYTES)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_apart_and_outlive_each_other() {
        let mut pool = buffers(3, 8192, Pages::Small).expect("memory");
        for (index, buffer) in pool.iter_mut().enumerate() {
            assert_eq!(buffer.as_ptr().addr() % 4096, 0);
            buffer.fill(u8::try_from(index).expect("small"));
        }
        let last = pool.pop().expect("three");
        drop(pool);
        assert!(last.iter().all(|byte| *byte == 2) && last.len() == 8192);
    }

    #[test]
    fn a_pool_for_a_device_asks_for_huge_pages_and_another_for_none() {
        for (pages, flag) in [(Pages::Huge, "hg"), (Pages::Small, "nh")] {
            let pool = buffers(3, 1 << 20, pages).expect("memory");
            assert_eq!(pool[0].as_ptr().addr() % HUGE_PAGE_BYTES, 0);
            let Some(flags) = flags_of(pool[2].as_ptr().addr()) else {
                continue;
            };
            assert!(
                flags.split_whitespace().any(|found| found == flag),
                "{pages:?}: {flags}"
            );
        }
    }

    /// What the kernel notes of the mapping at an address; None where it knows no huge pages.
    fn flags_of(address: usize) -> Option<String> {
        std::fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut lines = maps.lines().skip_while(|line| !holds(line, address));
        Some(lines.find(|line| line.starts_with("VmFlags:"))?.to_owned())
    }

    fn holds(line: &str, address: usize) -> bool {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|word| word.split_once('-'));
        let Some((from, to)) = range else { return false };
        let number = |word| usize::from_str_radix(word, 16).ok();
        matches!((number(from), number(to)), (Some(from), Some(to)) if (from..to).contains(&address))
    }

    #[test]
    fn more_memory_than_there_are_addresses_is_refused() {
        let refused = buffers(usize::MAX >> 12, 1 << 20, Pages::Small)
            .err()
            .expect("too much");
        assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM));
    }
}
