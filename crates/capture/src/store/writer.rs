//! Writes the files of a capture, a block at a time: what was written stays whole, whatever happens to the process.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::fault::Fault;
use crate::format::block::{self, BlockHeader, FileHeader};
use crate::format::encode::Encoder;

/// A block is written when it has so many bytes before compression.
const BLOCK_BYTES: usize = 256 << 10;

/// When a further file is begun for the sessions that come.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// At so many sessions.
    pub sessions: u32,
    /// At so many bytes as stored.
    pub bytes: u64,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            sessions: 50_000,
            bytes: 1 << 30,
        }
    }
}

struct Group {
    file: File,
    encoder: Encoder,
    sessions: u32,
    open_sessions: u32,
    records: u64,
    bytes: u64,
}

impl Group {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        let Some(found) = self.encoder.take() else {
            return Ok(());
        };
        let header = BlockHeader {
            records: found.records,
            dropped: found.dropped,
            first_ns: found.first_ns,
            last_ns: found.last_ns,
            ..BlockHeader::default()
        };
        self.records += u64::from(found.records);
        let bytes = block::block(header, &found.raw).map_err(io::Error::other)?;
        self.write(&bytes)
    }

    /// Gives the file's length.
    fn finish(mut self) -> io::Result<u64> {
        self.write_block()?;
        let end = block::trailer(self.records, u64::from(self.sessions));
        self.write(&end)?;
        self.file.sync_all()?;
        Ok(self.bytes)
    }
}

/// The writer of a capture. Times that it is given must not go back.
pub struct CaptureWriter {
    folder: PathBuf,
    limits: GroupLimits,
    started_unix_ns: u64,
    groups: HashMap<u32, Group>,
    of_session: HashMap<u32, u32>,
    current: u32,
    finished_bytes: u64,
}

impl CaptureWriter {
    /// A capture in this folder, which is made (readable by its owner alone) unless it is there.
    ///
    /// # Errors
    /// When the folder can't be made or written.
    pub fn create(folder: &Path, started_unix_ns: u64, limits: GroupLimits) -> io::Result<Self> {
        if !folder.is_dir() {
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        let mut writer = Self {
            folder: folder.to_owned(),
            limits,
            started_unix_ns,
            groups: HashMap::new(),
            of_session: HashMap::new(),
            current: 0,
            finished_bytes: 0,
        };
        writer.next_group()?;
        Ok(writer)
    }

    fn next_group(&mut self) -> io::Result<()> {
        self.current += 1;
        let path = self.folder.join(format!("sessions-{:06}.pgcap", self.current));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut group = Group {
            file,
            encoder: Encoder::default(),
            sessions: 0,
            open_sessions: 0,
            records: 0,
            bytes: 0,
        };
        group.write(&block::file_header(FileHeader {
            group: self.current,
            started_unix_ns: self.started_unix_ns,
        }))?;
        self.groups.insert(self.current, group);
        Ok(())
    }

    /// A session begins: all that it does goes into one file.
    ///
    /// # Errors
    /// When a further file can't be begun.
    pub fn open_session(&mut self, session: u32) -> io::Result<()> {
        let is_full = self
            .groups
            .get(&self.current)
            .is_some_and(|group| group.sessions >= self.limits.sessions || group.bytes >= self.limits.bytes);
        if is_full {
            let before = self.current;
            self.next_group()?;
            self.finish_if_over(before)?;
        }
        if let Some(group) = self.groups.get_mut(&self.current) {
            group.sessions += 1;
            group.open_sessions += 1;
            self.of_session.insert(session, self.current);
        }
        Ok(())
    }

    /// The session writes no more.
    ///
    /// # Errors
    /// When its file can't be finished.
    pub fn close_session(&mut self, session: u32) -> io::Result<()> {
        let Some(number) = self.of_session.remove(&session) else {
            return Ok(());
        };
        if let Some(group) = self.groups.get_mut(&number) {
            group.open_sessions -= 1;
        }
        self.finish_if_over(number)
    }

    fn finish_if_over(&mut self, number: u32) -> io::Result<()> {
        let is_over = number != self.current
            && self
                .groups
                .get(&number)
                .is_some_and(|group| group.open_sessions == 0);
        if is_over {
            if let Some(group) = self.groups.remove(&number) {
                self.finished_bytes += group.finish()?;
            }
        }
        Ok(())
    }

    /// Writes a record of an open session; of another nothing.
    ///
    /// # Errors
    /// When a block had to be written and could not be.
    pub fn record(&mut self, session: u32, write: impl FnOnce(&mut Encoder)) -> io::Result<()> {
        let Some(group) = self
            .of_session
            .get(&session)
            .and_then(|number| self.groups.get_mut(number))
        else {
            return Ok(());
        };
        write(&mut group.encoder);
        if group.encoder.waiting_bytes() >= BLOCK_BYTES {
            group.write_block()?;
        }
        Ok(())
    }

    /// Writes what waits: after this it survives the end of the process.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.groups.values_mut().try_for_each(Group::write_block)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.finished_bytes + self.groups.values().map(|group| group.bytes).sum::<u64>()
    }

    /// Ends all files, and has them on the disk.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn finish(self) -> Result<u64, Fault> {
        let mut bytes = self.finished_bytes;
        for group in self.groups.into_values() {
            bytes += group
                .finish()
                .map_err(|error| Fault(format!("the capture's end can't be written: {error}")))?;
        }
        Ok(bytes)
    }
}
