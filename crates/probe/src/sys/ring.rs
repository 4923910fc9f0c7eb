//! An io_uring that reads into buffers: it owns each buffer while the kernel may write to it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

use super::memory::Buffer;

/// A ring for reading one file.
pub struct ReadRing {
    ring: IoUring,
    file: Arc<File>,
    /// Buffers by the number of their read; None where no read is on its way.
    slots: Vec<Option<Buffer>>,
    /// Reads that were given to `stage` and whose completion was not taken yet.
    pending: usize,
    staged: usize,
}

/// A read that has ended.
pub struct RingCompletion {
    /// The number under which it was staged.
    pub slot: usize,
    /// The buffer, now the caller's again.
    pub buffer: Buffer,
    /// Bytes read, or the system's error number.
    pub result: Result<usize, i32>,
}

impl ReadRing {
    /// A ring with room for `slots` reads at a time, without a kernel thread that polls. It may be used by the
    /// calling thread alone.
    ///
    /// With `defers` the kernel keeps completions back until the ring is entered again, and interrupts nobody before
    /// (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1). A kernel that knows no such ring gives a plain one.
    ///
    /// # Errors
    /// What the kernel answers to `io_uring_setup` or to mapping the ring.
    pub fn new(file: Arc<File>, slots: usize, defers: bool) -> io::Result<Self> {
        let entries = u32::try_from(slots.next_power_of_two()).unwrap_or(u32::MAX);
        Ok(Self {
            ring: make_ring(entries, defers)?,
            file,
            slots: (0..slots).map(|_| None).collect(),
            pending: 0,
            staged: 0,
        })
    }

    /// Puts a read of the first `bytes` bytes of a buffer into the submission queue.
    ///
    /// # Panics
    /// When the slot is in use or the buffer is too small: the caller's mistake.
    pub fn stage(&mut self, slot: usize, mut buffer: Buffer, offset: u64, bytes: usize, asynchronous: bool) {
        assert!(self.slots[slot].is_none(), "slot {slot} is in use");
        assert!(bytes <= buffer.len(), "the buffer is too small");
        let flags = if asynchronous {
            Flags::ASYNC
        } else {
            Flags::empty()
        };
        let count = u32::try_from(bytes).expect("a request of at most 1 MB");
        let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), buffer.as_mut_ptr(), count)
            .offset(offset)
            .build()
            .flags(flags)
            .user_data(slot as u64);
        self.slots[slot] = Some(buffer);
        self.pending += 1;
        self.staged += 1;
        // SAFETY: the file and the buffer stay with this ring until the completion is taken, which `drop` waits
        // for; there are as many entries as slots, so the queue can't be full.
        unsafe { self.ring.submission().push(&read) }.expect("an entry for every slot");
    }

    /// Gives what was staged to the kernel; one system call, none when there is nothing.
    ///
    /// # Errors
    /// What `io_uring_enter` answers.
    pub fn submit(&mut self) -> io::Result<()> {
        while self.staged > 0 {
            match self.ring.submit() {
                Ok(count) => self.staged -= count.min(self.staged),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Submits what is staged and waits until a completion can be taken.
    ///
    /// # Errors
    /// What `io_uring_enter` answers.
    pub fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(count) => {
                    self.staged -= count.min(self.staged);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a completion can be taken without a system call.
    pub fn is_ready(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// The next completion that is there.
    pub fn take(&mut self) -> Option<RingCompletion> {
        let entry = self.ring.completion().next()?;
        let slot = usize::try_from(entry.user_data()).ok()?;
        let buffer = self.slots[slot].take()?;
        self.pending -= 1;
        let result = usize::try_from(entry.result()).map_err(|_| -entry.result());
        Some(RingCompletion { slot, buffer, result })
    }

    /// Reads on their way, and completions not yet taken.
    pub fn pending(&self) -> usize {
        self.pending
    }
}

fn make_ring(entries: u32, defers: bool) -> io::Result<IoUring> {
    if defers {
        let mut builder = IoUring::builder();
        // The flag tells of completions kept back, and then a submission takes them as well.
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag();
        match builder.build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            made => return made,
        }
    }
    IoUring::new(entries)
}

impl Drop for ReadRing {
    fn drop(&mut self) {
        // The kernel writes to the buffers until each read has ended: they must not be given back before.
        while self.pending > 0 {
            if self.wait().is_err() {
                // Nothing tells when the kernel is done: the buffers are never used again.
                for buffer in self.slots.drain(..) {
                    std::mem::forget(buffer);
                }
                return;
            }
            while self.take().is_some() {}
        }
    }
}
