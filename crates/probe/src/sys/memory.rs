//! A pool of aligned buffers in one mapping, as a server's shared buffers are.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A mapping, given back with the last of its buffers.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
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

/// Maps `count` buffers of `bytes` bytes each (a multiple of 4096), one after the other, present in memory.
///
/// # Errors
/// When the system gives no memory.
pub fn buffers(count: usize, bytes: usize) -> io::Result<Vec<Buffer>> {
    assert!(
        bytes > 0 && bytes % 4096 == 0 && count > 0,
        "whole aligned buffers"
    );
    let total = count
        .checked_mul(bytes)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            total,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let mapping = Arc::new(Mapping { start, bytes: total });
    let buffer = |index: usize| Buffer {
        // SAFETY: index < count, so the sum lies within the mapping.
        start: unsafe { start.add(index * bytes) },
        bytes,
        _mapping: Arc::clone(&mapping),
    };
    Ok((0..count).map(buffer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_apart_and_outlive_each_other() {
        let mut pool = buffers(3, 8192).expect("memory");
        for (index, buffer) in pool.iter_mut().enumerate() {
            assert_eq!(buffer.as_ptr().addr() % 4096, 0);
            buffer.fill(u8::try_from(index).expect("small"));
        }
        let last = pool.pop().expect("three");
        drop(pool);
        assert!(last.iter().all(|byte| *byte == 2) && last.len() == 8192);
    }
}
