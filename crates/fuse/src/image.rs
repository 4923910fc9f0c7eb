//! What the volume holds: in memory, or in a file.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::disable_transparent_huge_pages;

use crate::protocol::TRANSFER_MAX;

const PAGE_BYTES: usize = 4096;
/// What is made memory at once.
const OWNED_BYTES: u64 = 128 << 10;

/// The content of a volume, of a size that stays.
#[derive(Debug)]
pub struct Image {
    bytes: u64,
    content: Content,
    /// The parts of it that were made memory.
    owned: BTreeSet<u64>,
}

#[derive(Debug)]
enum Content {
    Memory(Pages),
    File {
        file: File,
        /// What was read last.
        copy: Pages,
    },
}

/// Memory that begins with a page, and ends where it must.
///
/// The kernel copies page by page: what lies across two of its pages is two steps of some 300 ns each in place of
/// one. An allocator puts a few bytes of its own before what it gives out.
#[derive(Debug)]
pub(crate) struct Pages {
    room: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Pages {
    /// Zeros; `ahead` of them stand before the first page's beginning.
    pub(crate) fn new(length: usize, ahead: usize) -> Self {
        let room = vec![0; length + PAGE_BYTES + ahead.next_multiple_of(PAGE_BYTES)];
        let first_page = room.as_ptr().align_offset(PAGE_BYTES);
        Self {
            begin: first_page + ahead.next_multiple_of(PAGE_BYTES) - ahead,
            room,
            length,
        }
    }

    /// Zeros that are taken as they are written. Where the system has no room for so many, it says so: to ask for zeros
    /// at once ends the process then.
    fn try_new(length: usize) -> io::Result<Self> {
        let no_room = |_| {
            let message = format!("the system has no memory for an image of {} MiB", length >> 20);
            io::Error::new(io::ErrorKind::OutOfMemory, message)
        };
        let mut asked: Vec<u8> = Vec::new();
        asked
            .try_reserve_exact(length.saturating_add(PAGE_BYTES))
            .map_err(no_room)?;
        // Seen, as room that nobody uses is never asked for.
        drop(black_box(asked));
        Ok(Self::new(length, 0))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[self.begin..self.begin + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.begin..self.begin + self.length]
    }
}

impl Image {
    /// An empty image in memory, which is taken as it is written and stays in memory then.
    ///
    /// The second value says whether the system lets it be locked there.
    ///
    /// # Errors
    /// When there is no room for it in the process.
    pub fn in_memory(bytes: u64) -> io::Result<(Self, bool)> {
        // The first touch of a large page clears all of it, which would delay an answer.
        let _ = disable_transparent_huge_pages(true);
        let size = usize::try_from(bytes).map_err(io::Error::other)?;
        let content = Content::Memory(Pages::try_new(size)?);
        let is_locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT).is_ok();
        let image = Self {
            bytes,
            content,
            owned: BTreeSet::new(),
        };
        Ok((image, is_locked))
    }

    /// A file that is there; it is read and written through the page cache.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            bytes,
            content: Content::File {
                file,
                copy: Pages::new(TRANSFER_MAX as usize, 0),
            },
            owned: BTreeSet::new(),
        })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from `offset` on, fewer at the end; never more than a request may ask for.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<&[u8]> {
        let longest = offset.saturating_add(u64::from(length.min(TRANSFER_MAX)));
        let end = longest.min(self.bytes);
        let (begin, end) = (offset.min(end) as usize, end as usize);
        match &mut self.content {
            // The kernel copies out of it page by page. To have long reads in the processor's cache before it does, by
            // a copy or by touching each line, takes as long as it then saves, or longer.
            Content::Memory(content) => Ok(&content.bytes()[begin..end]),
            Content::File { file, copy } => {
                let copy = &mut copy.bytes_mut()[..end - begin];
                file.read_exact_at(copy, begin as u64)?;
                Ok(copy)
            }
        }
    }

    /// Makes memory of what was never written: the system has it all in one page of zeros before that, which is
    /// read much faster than data are, after a first time that takes much longer.
    pub(crate) fn own(&mut self, offset: u64, length: u32) {
        let Content::Memory(content) = &mut self.content else {
            return;
        };
        let end = offset.saturating_add(u64::from(length)).min(self.bytes);
        for part in offset / OWNED_BYTES..end.div_ceil(OWNED_BYTES) {
            if !self.owned.insert(part) {
                continue;
            }
            let until = ((part + 1) * OWNED_BYTES).min(self.bytes) as usize;
            for place in ((part * OWNED_BYTES) as usize..until).step_by(PAGE_BYTES) {
                let byte = &mut content.bytes_mut()[place];
                *byte = black_box(*byte);
            }
        }
    }

    /// Writes all the data.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.bytes {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "beyond the end of the image",
            ));
        }
        match &mut self.content {
            Content::Memory(content) => {
                content.bytes_mut()[offset as usize..end as usize].copy_from_slice(data);
                Ok(())
            }
            Content::File { file, .. } => file.write_all_at(data, offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_lies_beyond_the_end() {
        let (mut image, _) = Image::in_memory(10_000).unwrap();
        image.write(4090, b"abcdef").unwrap();
        assert_eq!(image.read(4088, 10).unwrap(), b"\0\0abcdef\0\0");
        assert_eq!(image.read(9_999, 4096).unwrap(), b"\0");
        assert!(image.read(10_000, 4096).unwrap().is_empty());
        assert!(image.read(u64::MAX, 4096).unwrap().is_empty());
        assert!(image.write(9_999, b"ab").is_err());
        assert!(image.write(u64::MAX, b"ab").is_err());
        for offset in [0, 4090, 9_999, 10_000, u64::MAX] {
            image.own(offset, 8192);
        }
        assert_eq!(image.read(4088, 10).unwrap(), b"\0\0abcdef\0\0");
    }

    #[test]
    fn an_image_that_no_memory_holds_is_refused() {
        for bytes in [1 << 60, u64::MAX] {
            let refused = Image::in_memory(bytes).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
            assert!(refused.to_string().contains("no memory for an image of"));
        }
    }

    #[test]
    fn long_reads_are_the_image_as_well() {
        let (mut image, _) = Image::in_memory(3 << 20).unwrap();
        let data: Vec<u8> = (0..2_000_000_u32).map(|place| (place % 251) as u8).collect();
        image.write(100, &data).unwrap();
        for length in [PAGE_BYTES - 1, PAGE_BYTES, (128 << 10) + 1, 1 << 20] {
            let read = image.read(300_100, u32::try_from(length).unwrap()).unwrap();
            assert!(read == &data[300_000..300_000 + length], "{length}");
        }
        assert_eq!(image.read(0, u32::MAX).unwrap().len(), TRANSFER_MAX as usize);
        assert_eq!(image.read((3 << 20) - 100_000, 1 << 20).unwrap().len(), 100_000);
    }

    #[test]
    fn memory_begins_with_a_page_or_so_far_before_one() {
        for (length, ahead) in [(1, 0), (10_000, 80), (1 << 21, 4096), (5, 5000)] {
            let mut pages = Pages::new(length, ahead);
            assert_eq!(pages.bytes().len(), length);
            assert_eq!((pages.bytes().as_ptr() as usize + ahead) % PAGE_BYTES, 0);
            pages.bytes_mut().fill(1);
        }
    }
}
