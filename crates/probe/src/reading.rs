//! A request on its way through an engine, and what every engine does with it.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::failure::{Code, Failure};
use crate::page::layout::PAGE_BYTES;
use crate::page::validity::{Verdict, verify};
use crate::sys::memory::Buffer;
use crate::time::stopwatch::{Stopwatch, Task};

/// A run of neighbouring pages of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first page.
    pub block: u64,
    /// How many.
    pub pages: u64,
}

/// A request: pages of the file, to be read into a buffer.
pub struct Read {
    /// Counts the consumer's requests.
    pub number: u64,
    /// The pages that are wanted.
    pub run: PageRun,
    /// Where they go; at least as large.
    pub buffer: Buffer,
    /// When it was begun, CLOCK_MONOTONIC.
    pub started_ns: u64,
}

impl Read {
    /// Where in the file it begins.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.run.block * PAGE_BYTES as u64
    }

    /// Its length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.run.pages as usize * PAGE_BYTES
    }
}

/// A request that has been read and, if that is wanted, verified.
pub struct Completed {
    /// The request.
    pub read: Read,
    /// From its begin to the arrival of its data.
    pub latency_ns: u64,
    /// Blocks of the file that PostgreSQL would refuse.
    pub broken: Vec<u64>,
}

/// The file that is read, and how.
pub struct Target {
    /// The file, open for reading.
    pub file: Arc<File>,
    /// Its name, for messages.
    pub path: String,
    /// Past the page cache.
    pub direct: bool,
    /// Whether pages are verified.
    pub verify: bool,
    /// The number of its first page in its relation.
    pub first_block: u32,
}

impl Target {
    /// Reads by one system call, more only where the kernel returns less than it was asked for. Tells the time of
    /// the end.
    ///
    /// # Errors
    /// When the system reports one, or the file ends too soon.
    pub fn read(&self, read: &mut Read, watch: &mut Stopwatch) -> Result<u64, Failure> {
        let outcome = self.read_from(read, 0);
        let now = watch.lap(Task::Read);
        outcome.map(|()| now)
    }

    /// Announces a request to the kernel, which may begin to read it into the page cache.
    pub fn announce(&self, read: &Read) {
        let bytes = NonZeroU64::new(read.bytes() as u64);
        // Advice: one that can't be followed is no error.
        let _ = fadvise(&*self.file, read.offset(), bytes, Advice::WillNeed);
    }

    /// Reads from the page cache alone; `false` when not all of it is there, and whenever anything went wrong, which
    /// another attempt will tell more of.
    pub fn read_if_cached(&self, read: &mut Read) -> bool {
        let (offset, bytes) = (read.offset(), read.bytes());
        let mut parts = [IoSliceMut::new(&mut read.buffer[..bytes])];
        preadv2(&*self.file, &mut parts, offset, ReadWriteFlags::NOWAIT) == Ok(bytes)
    }

    /// Reads what is missing after the first `done` bytes.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_from(&self, read: &mut Read, mut done: usize) -> Result<(), Failure> {
        let (offset, bytes) = (read.offset(), read.bytes());
        while done < bytes {
            match self
                .file
                .read_at(&mut read.buffer[done..bytes], offset + done as u64)
            {
                Ok(0) => return Err(self.ended(offset + done as u64)),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error, offset + done as u64)),
            }
        }
        Ok(())
    }

    /// Makes a completion of what the kernel answered to an asynchronous read: bytes or an error's number.
    ///
    /// # Errors
    /// As `read`.
    pub fn settle(&self, read: &mut Read, result: Result<usize, i32>) -> Result<(), Failure> {
        match result {
            Ok(count) if count == read.bytes() => Ok(()),
            Ok(0) => Err(self.ended(read.offset())),
            Ok(count) => self.read_from(read, count),
            Err(errno) => Err(self.failed(&io::Error::from_raw_os_error(errno), read.offset())),
        }
    }

    /// Verifies the pages of a request that was read; returns the blocks that PostgreSQL would refuse.
    pub fn check(&self, read: &Read, watch: &mut Stopwatch) -> Vec<u64> {
        let mut broken = Vec::new();
        if self.verify {
            let pages = read.buffer[..read.bytes()].chunks_exact(PAGE_BYTES);
            for (page, block) in pages.zip(read.run.block..) {
                let number = self.first_block.wrapping_add(block as u32);
                if verify(page, number) == Verdict::Broken {
                    broken.push(block);
                }
            }
            watch.lap(Task::Checksum);
        }
        broken
    }

    fn ended(&self, at: u64) -> Failure {
        let size = self.file.metadata().map_or(0, |metadata| metadata.len());
        Failure::new(
            Code::ShortRead,
            format!(
                "{}: there is nothing to read at byte {at}, the file has {size} bytes now: it became shorter while \
                 it was read",
                self.path
            ),
        )
    }

    fn failed(&self, error: &io::Error, at: u64) -> Failure {
        Failure::of(error, &format!("reading {} at byte {at}", self.path))
    }
}
