//! Questions about files, and orders for them, that have no safe form elsewhere.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

/// The system call's number, the same on all architectures (`arch/*/syscall.tbl`); the C library has no name for it.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of Linux 6.5's `cachestat`.
#[repr(C)]
struct CacheRange {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct CacheStatistics {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How much of a file is in the page cache, in bytes: by `cachestat`, before Linux 6.5 by `mincore`.
///
/// # Errors
/// What the system answers.
pub fn resident_bytes(file: &File) -> io::Result<u64> {
    let range = CacheRange { offset: 0, bytes: 0 };
    let mut found = CacheStatistics::default();
    // SAFETY: both structures have the layout of the kernel's, live through the call, and only `found` is written.
    let status = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut found,
            0_u32,
        )
    };
    if status == 0 {
        return Ok(found.cached * page_bytes());
    }
    resident_bytes_by_mincore(file)
}

fn resident_bytes_by_mincore(file: &File) -> io::Result<u64> {
    let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if bytes == 0 {
        return Ok(0);
    }
    // SAFETY: a new read-only mapping at an address of the kernel's choice, never read through.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let page = usize::try_from(page_bytes()).unwrap_or(4096);
    let mut present = vec![0_u8; bytes.div_ceil(page)];
    // SAFETY: the range is the mapping made above, and the vector has a byte for each of its pages.
    let status = unsafe { libc::mincore(start, bytes, present.as_mut_ptr()) };
    let failure = io::Error::last_os_error();
    // SAFETY: the range is the mapping made above, which nothing refers to.
    unsafe { libc::munmap(start, bytes) };
    if status != 0 {
        return Err(failure);
    }
    let count = present.iter().filter(|byte| **byte & 1 == 1).count();
    Ok(count as u64 * page_bytes())
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Starts writing a range of a file, and waits for nothing: what `pg_flush_data` does.
///
/// # Errors
/// What the system answers.
pub fn start_writeback(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let too_far = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let (offset, bytes) = (
        i64::try_from(offset).map_err(too_far)?,
        i64::try_from(bytes).map_err(too_far)?,
    );
    // SAFETY: a system call on an open file that takes numbers only.
    let status =
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The alignment that O_DIRECT needs of offsets and lengths in this file, in bytes; None where the kernel can't
/// tell (before 6.1, or the file system doesn't say) or the file can't be read so.
pub fn direct_alignment(file: &File) -> Option<u32> {
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut found: libc::statx = unsafe { mem::zeroed() };
    // SAFETY: an empty path with AT_EMPTY_PATH names the open file itself; `found` lives through the call.
    let status = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            STATX_DIOALIGN,
            &raw mut found,
        )
    };
    let is_told = status == 0 && found.stx_mask & STATX_DIOALIGN != 0 && found.stx_dio_offset_align > 0;
    is_told.then_some(found.stx_dio_offset_align)
}
