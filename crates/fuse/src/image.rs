//! What the volume holds: in memory, or in a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::disable_transparent_huge_pages;

/// The content of a volume, of a size that stays.
#[derive(Debug)]
pub struct Image {
    bytes: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    File { file: File, buffer: Vec<u8> },
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
        let content = vec![0; size];
        let is_locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT).is_ok();
        let content = Content::Memory(content);
        Ok((Self { bytes, content }, is_locked))
    }

    /// A file that is there; it is read and written through the page cache.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len();
        let content = Content::File {
            file,
            buffer: Vec::new(),
        };
        Ok(Self { bytes, content })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from `offset` on, fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<&[u8]> {
        let end = offset.saturating_add(u64::from(length)).min(self.bytes);
        let (begin, end) = (offset.min(end) as usize, end as usize);
        match &mut self.content {
            Content::Memory(content) => Ok(&content[begin..end]),
            Content::File { file, buffer } => {
                buffer.resize(end - begin, 0);
                file.read_exact_at(buffer, begin as u64)?;
                Ok(buffer)
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
                content[offset as usize..end as usize].copy_from_slice(data);
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
    }
}
