//! Durable writes: appends to the log as each commit makes them, and pages as a checkpoint writes them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;

use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::cell::meter::{Latency, latency_us, new_histogram};
use crate::failure::{Code, Failure};
use crate::files::{create, discard};
use crate::page::layout::PAGE_BYTES;
use crate::page::maker::PageMaker;
use crate::sys::files::start_writeback;
use crate::sys::memory::{Pages, buffers};
use crate::time::clock::monotonic_ns;

/// A segment of the write-ahead log.
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// The file in which pages are written.
const PAGES_BYTES: u64 = 64 * 1024 * 1024;
/// `checkpointer_flush_after`: 32 pages.
const FLUSH_AFTER: u64 = 32;
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Appends to a preallocated segment, each durable before the next.
    Wal,
    /// Random pages, with the kernel told to begin writing every 32, and one fsync at the end.
    Pages,
}

/// How an append is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A system call after the write.
    #[default]
    Fdatasync,
    /// The write itself waits (O_DSYNC).
    OpenDatasync,
}

/// One measurement of durable writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteSpec {
    /// Where a file is made, and removed after.
    pub folder: String,
    /// What is written.
    pub kind: Kind,
    /// How much at a time.
    #[serde(default = "one_page")]
    pub request_bytes: usize,
    /// For how long.
    pub duration_s: f64,
    /// How an append is made durable.
    #[serde(default)]
    pub method: Method,
}

fn one_page() -> usize {
    PAGE_BYTES
}

/// What was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Written {
    /// Writes.
    pub operations: u64,
    /// Writes a second.
    pub per_s: f64,
    /// 10⁶ bytes a second.
    pub mb_s: f64,
    /// Of a write that is durable; of pages, of a write that isn't yet.
    pub latency_us: Latency,
    /// With the final fsync of pages.
    pub elapsed_s: f64,
    /// The final fsync of pages.
    pub final_fsync_s: f64,
}

/// Measures in a file of its own, which is gone afterwards.
///
/// # Errors
/// `usage`, `no-space`, `refused` and what else the system answers.
pub fn measure(spec: &WriteSpec) -> Result<Written, Failure> {
    let is_whole = spec.request_bytes % PAGE_BYTES == 0;
    if !is_whole || spec.request_bytes == 0 || spec.request_bytes > REQUEST_BYTES_MAX {
        let message = format!("request_bytes must be a multiple of {PAGE_BYTES} up to {REQUEST_BYTES_MAX}");
        return Err(Failure::new(Code::Usage, message));
    }
    if !(spec.duration_s > 0.0 && spec.duration_s <= 3600.0) {
        let message = "duration_s must be more than 0 and at most 3600";
        return Err(Failure::new(Code::Usage, message));
    }
    let path = file_in(&spec.folder);
    let flags = match (spec.kind, spec.method) {
        (Kind::Wal, Method::OpenDatasync) => libc::O_DSYNC,
        _ => 0,
    };
    let file = create(&path, flags)?;
    let measured = prepare(&file, spec).and_then(|()| write(&file, spec));
    discard(&path);
    measured.map_err(|error| Failure::of(&error, &format!("writing in {}", spec.folder)))
}

fn file_in(folder: &str) -> PathBuf {
    let name = format!("pgassay-write-{}-{}", process::id(), monotonic_ns());
    Path::new(folder).join(name)
}

/// Every block is there before the measurement, as in a segment that is used again: appends change no metadata.
fn prepare(file: &File, spec: &WriteSpec) -> io::Result<()> {
    let bytes = match spec.kind {
        Kind::Wal => SEGMENT_BYTES,
        Kind::Pages => PAGES_BYTES,
    };
    let chunk = vec![0; 1024 * 1024];
    for at in (0..bytes).step_by(chunk.len()) {
        file.write_all_at(&chunk, at)?;
    }
    file.sync_all()
}

fn write(file: &File, spec: &WriteSpec) -> io::Result<Written> {
    let mut writer = Writer::new(file, spec)?;
    let start_ns = monotonic_ns();
    let end_ns = start_ns + (spec.duration_s * 1e9) as u64;
    let mut histogram = new_histogram();
    let mut now_ns = start_ns;
    while now_ns < end_ns {
        match spec.kind {
            Kind::Wal => writer.append(spec.method)?,
            Kind::Pages => writer.write_page()?,
        }
        let ended_ns = monotonic_ns();
        histogram.saturating_record(ended_ns - now_ns);
        now_ns = ended_ns;
    }
    if spec.kind == Kind::Pages {
        file.sync_all()?;
    }
    let synced_ns = monotonic_ns();
    Ok(written(
        spec,
        &histogram,
        synced_ns - start_ns,
        synced_ns - now_ns,
    ))
}

fn written(spec: &WriteSpec, histogram: &Histogram<u64>, elapsed_ns: u64, final_fsync_ns: u64) -> Written {
    let elapsed_s = elapsed_ns as f64 / 1e9;
    let operations = histogram.len();
    Written {
        operations,
        per_s: operations as f64 / elapsed_s,
        mb_s: operations as f64 * spec.request_bytes as f64 / 1e6 / elapsed_s,
        latency_us: latency_us(histogram),
        elapsed_s,
        final_fsync_s: match spec.kind {
            Kind::Wal => 0.0,
            Kind::Pages => final_fsync_ns as f64 / 1e9,
        },
    }
}

struct Writer<'a> {
    file: &'a File,
    data: Vec<u8>,
    at: u64,
    count: u64,
    random: Xoshiro256PlusPlus,
    /// Writes since the kernel was last told to begin, as (first byte, byte after the last).
    unflushed: Vec<(u64, u64)>,
}

impl<'a> Writer<'a> {
    fn new(file: &'a File, spec: &WriteSpec) -> io::Result<Self> {
        let mut data = buffers(1, spec.request_bytes, Pages::Small)?;
        let maker = PageMaker::new(1);
        for (block, page) in (0..).zip(data[0].chunks_exact_mut(PAGE_BYTES)) {
            maker.make(block, page);
        }
        Ok(Self {
            file,
            data: data[0].to_vec(),
            at: 0,
            count: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            unflushed: Vec::with_capacity(FLUSH_AFTER as usize),
        })
    }

    fn append(&mut self, method: Method) -> io::Result<()> {
        let bytes = self.data.len() as u64;
        if self.at + bytes > SEGMENT_BYTES {
            self.at = 0;
        }
        self.mark();
        self.file.write_all_at(&self.data, self.at)?;
        self.at += bytes;
        match method {
            Method::Fdatasync => self.file.sync_data(),
            Method::OpenDatasync => Ok(()),
        }
    }

    fn write_page(&mut self) -> io::Result<()> {
        let bytes = self.data.len() as u64;
        let at = self.random.next_u64() % (PAGES_BYTES / bytes) * bytes;
        self.mark();
        self.file.write_all_at(&self.data, at)?;
        self.unflushed.push((at, at + bytes));
        if self.unflushed.len() as u64 >= FLUSH_AFTER {
            self.flush()?;
        }
        Ok(())
    }

    /// No two writes are the same: a device that compares would have nothing to write.
    fn mark(&mut self) {
        self.count += 1;
        self.data[..8].copy_from_slice(&self.count.to_ne_bytes());
    }

    /// Sorted and joined, as `IssuePendingWritebacks` does (`src/backend/storage/buffer/bufmgr.c`).
    fn flush(&mut self) -> io::Result<()> {
        self.unflushed.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.unflushed.len());
        for (from, to) in self.unflushed.drain(..) {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        for (from, to) in joined {
            match start_writeback(self.file, from, to - from) {
                // A file system without the call writes when it likes.
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }
}
