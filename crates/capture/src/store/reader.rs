//! Reads a capture: its files side by side, in the order of time, without holding more than a block of each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::fault::Fault;
use crate::format::block::{
    self, BLOCK_HEADER_BYTES, BlockHeader, FileHeader, HEADER_BYTES, Next, TRAILER_BYTES,
};
use crate::format::decode::{Decoder, Place};
use crate::format::event::{Event, What};

const SUFFIX: &str = "pgcap";

/// A capture's folder.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its files, by group.
    pub files: Vec<PathBuf>,
    /// Time 0, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// Sessions that are not in the capture, though records of them may be: they are left out by [`Capture::events`].
    pub dropped: HashSet<u32>,
    /// Files without their end: the process was killed, still writes, or the file is damaged. What stands before is whole.
    pub unfinished: Vec<PathBuf>,
    /// Time of the last record.
    pub last_ns: u64,
}

impl Capture {
    /// Looks through the blocks of all files and checks them; records are read only where a session was dropped.
    ///
    /// # Errors
    /// When the folder has no capture, or one of another version.
    pub fn open(folder: &Path) -> Result<Self, Fault> {
        let failed = |error: io::Error| Fault(format!("{} can't be read: {error}", folder.display()));
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(Fault(format!(
                "{} holds no capture: name the folder that `pgassay capture --out` wrote",
                folder.display()
            )));
        }
        files.sort();
        let mut capture = Self {
            files,
            started_unix_ns: 0,
            dropped: HashSet::new(),
            unfinished: Vec::new(),
            last_ns: 0,
        };
        for path in capture.files.clone() {
            capture.look_through(&path)?;
        }
        Ok(capture)
    }

    fn look_through(&mut self, path: &Path) -> Result<(), Fault> {
        let mut blocks = Blocks::open(path)?;
        self.started_unix_ns = blocks.header.started_unix_ns;
        let mut decoder = Decoder::default();
        // Texts are needed to read what comes after them, so a file with dropped sessions is read as far as them.
        let is_read = has_dropped(path)?;
        while let Some((header, raw)) = blocks.next_block(is_read)? {
            self.last_ns = self.last_ns.max(header.last_ns);
            let mut place = Place {
                at: 0,
                at_ns: header.first_ns,
            };
            if is_read {
                while let Ok(Some(event)) = decoder.next(&raw, &mut place) {
                    if event.what == What::Dropped {
                        self.dropped.insert(event.session);
                    }
                }
            }
        }
        if !blocks.is_whole {
            self.unfinished.push(path.to_owned());
        }
        Ok(())
    }

    /// All events of all sessions that are in the capture, in the order of time.
    ///
    /// # Errors
    /// When a file can't be opened any more.
    pub fn events(&self) -> Result<Events, Fault> {
        let mut sources = Vec::new();
        let mut waiting = BinaryHeap::new();
        for path in &self.files {
            let mut source = FileEvents::open(path)?;
            if let Some(event) = source.next_event()? {
                waiting.push(Reverse((event.at_ns, sources.len())));
                sources.push((source, Some(event)));
            }
        }
        Ok(Events {
            sources,
            waiting,
            dropped: self.dropped.clone(),
        })
    }
}

/// Events of several files in the order of time.
pub struct Events {
    sources: Vec<(FileEvents, Option<Event>)>,
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    dropped: HashSet<u32>,
}

impl Events {
    fn step(&mut self) -> Result<Option<Event>, Fault> {
        while let Some(Reverse((_, number))) = self.waiting.pop() {
            let (source, slot) = &mut self.sources[number];
            let event = slot.take();
            *slot = source.next_event()?;
            if let Some(next) = slot {
                self.waiting.push(Reverse((next.at_ns, number)));
            }
            match event {
                Some(event) if !self.dropped.contains(&event.session) => return Ok(Some(event)),
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Iterator for Events {
    type Item = Result<Event, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Events of one file, dropped sessions' as well.
pub struct FileEvents {
    blocks: Blocks,
    decoder: Decoder,
    raw: Vec<u8>,
    place: Place,
}

impl FileEvents {
    /// Opens a file.
    ///
    /// # Errors
    /// When it is no capture, or of another version.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        Ok(Self {
            blocks: Blocks::open(path)?,
            decoder: Decoder::default(),
            raw: Vec::new(),
            place: Place { at: 0, at_ns: 0 },
        })
    }

    /// The next event; none at the end, or where the file was cut off.
    ///
    /// # Errors
    /// When the file can't be read, or holds what no writer wrote.
    pub fn next_event(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            match self.decoder.next(&self.raw, &mut self.place) {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(_) => return Err(self.blocks.fault("a record can't be understood")),
            }
            let Some((header, raw)) = self.blocks.next_block(true)? else {
                return Ok(None);
            };
            self.raw = raw;
            self.place = Place {
                at: 0,
                at_ns: header.first_ns,
            };
        }
    }
}

/// Whether any block of the file says that a session was dropped.
fn has_dropped(path: &Path) -> Result<bool, Fault> {
    let mut blocks = Blocks::open(path)?;
    while let Some((header, _)) = blocks.next_block(false)? {
        if header.dropped > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Blocks {
    path: PathBuf,
    file: BufReader<File>,
    header: FileHeader,
    is_whole: bool,
    is_cut: bool,
}

impl Blocks {
    fn open(path: &Path) -> Result<Self, Fault> {
        let named = |reason: String| Fault(format!("{} can't be read: {reason}", path.display()));
        let mut file = BufReader::with_capacity(
            256 << 10,
            File::open(path).map_err(|error| named(error.to_string()))?,
        );
        let bytes = up_to(&mut file, HEADER_BYTES).map_err(|error| named(error.to_string()))?;
        let header = block::read_file_header(&bytes).map_err(|fault| named(fault.0))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            is_whole: false,
            is_cut: false,
        })
    }

    fn fault(&self, reason: &str) -> Fault {
        Fault(format!("{} can't be read: {reason}", self.path.display()))
    }

    /// The next block, its records only where they are wanted; none at the file's end or where it was cut.
    fn next_block(&mut self, wants_records: bool) -> Result<Option<(BlockHeader, Vec<u8>)>, Fault> {
        if self.is_whole || self.is_cut {
            return Ok(None);
        }
        let failed =
            |path: &Path, error: io::Error| Fault(format!("{} can't be read: {error}", path.display()));
        let mut head = up_to(&mut self.file, TRAILER_BYTES).map_err(|error| failed(&self.path, error))?;
        if head.len() == TRAILER_BYTES && !head.starts_with(b"DONE") {
            head.extend(
                up_to(&mut self.file, BLOCK_HEADER_BYTES - TRAILER_BYTES)
                    .map_err(|error| failed(&self.path, error))?,
            );
        }
        let (header, sum) = match block::read_next(&head) {
            Next::Block(header, sum) => (header, sum),
            Next::End(..) => {
                self.is_whole = true;
                return Ok(None);
            }
            Next::Cut => {
                self.is_cut = true;
                return Ok(None);
            }
        };
        let payload =
            up_to(&mut self.file, header.stored_bytes as usize).map_err(|error| failed(&self.path, error))?;
        let found = match wants_records {
            true => block::unpack(&header, sum, &payload),
            false => block::is_whole(&header, sum, &payload).then(Vec::new),
        };
        self.is_cut = found.is_none();
        Ok(found.map(|raw| (header, raw)))
    }
}

/// So many bytes, or what there is before the end.
fn up_to(file: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    // The memory follows the bytes that come, not the number that is claimed.
    let mut bytes = Vec::new();
    file.by_ref().take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
