//! The file that is read: made, described, evicted from the page cache and brought back into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statfs};
use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};
use crate::page::layout::PAGE_BYTES;
use crate::page::maker::PageMaker;
use crate::reading::Target;
use crate::spec::CellSpec;
use crate::sys::files::{direct_alignment, resident_bytes};
use crate::sys::memory::{self, Pages};
use crate::time::clock::monotonic_ns;

const CHUNK_BYTES: usize = 1024 * 1024;
const PROGRESS_BYTES: u64 = 64 * 1024 * 1024;

/// What to make.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakeSpec {
    /// Where; nothing may be there.
    pub file: String,
    /// How much, in whole pages.
    pub bytes: u64,
    /// Decides the content.
    #[serde(default)]
    pub seed: u32,
}

/// What was made.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Made {
    /// The size of the file.
    pub bytes: u64,
    /// How long it took, the final fsync included.
    pub elapsed_s: f64,
    /// 10⁶ bytes a second.
    pub mb_s: f64,
}

/// What is known of a file, or of the folder where one is to be made.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Its size; 0 of a folder.
    pub bytes: u64,
    /// The file system's number, as `statfs` tells it.
    pub fs_magic: i64,
    /// Its name, where it is a common one.
    pub file_system: &'static str,
    /// Bytes that an account without privileges can still write.
    pub available_bytes: u64,
    /// Whether it can be read past the page cache; none of a folder.
    pub direct_io: Option<bool>,
    /// What offsets and lengths must be multiples of then, where the kernel tells.
    pub o_direct_alignment: Option<u32>,
    /// Its part of the page cache.
    pub resident_bytes: u64,
}

/// Files that this process has made.
struct MadeFiles {
    unfinished: Vec<PathBuf>,
    finished: Vec<PathBuf>,
}

static MADE: Mutex<MadeFiles> = Mutex::new(MadeFiles {
    unfinished: Vec::new(),
    finished: Vec::new(),
});

fn made_files() -> MutexGuard<'static, MadeFiles> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that are being made, and with `all` also those that were made. For the end of the process.
pub fn remove_made(all: bool) {
    let mut made = made_files();
    let mut paths = std::mem::take(&mut made.unfinished);
    if all {
        paths.append(&mut made.finished);
    }
    for path in paths {
        // Somebody else may have removed it, which is as good.
        let _ = fs::remove_file(path);
    }
}

/// Makes a file exclusively, which is removed when the process ends before `keep` was called for it.
///
/// # Errors
/// What the system answers; when there is such a file already.
pub fn create(path: &Path, direct_flags: i32) -> Result<File, Failure> {
    let mut made = made_files();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(direct_flags)
        .open(path)
        .map_err(|error| Failure::of(&error, &format!("making {}", path.display())))?;
    made.unfinished.push(path.to_owned());
    Ok(file)
}

/// The file stays until a signal ends the process, or for good.
pub fn keep(path: &Path) {
    let mut made = made_files();
    made.unfinished.retain(|other| other != path);
    made.finished.push(path.to_owned());
}

/// Removes a file that this process made.
pub fn discard(path: &Path) {
    let mut made = made_files();
    made.unfinished.retain(|other| other != path);
    made.finished.retain(|other| other != path);
    let _ = fs::remove_file(path);
}

/// Writes a file of valid pages and syncs it. When that fails nothing is left behind.
///
/// # Errors
/// `no-space`, `refused`, `path` and what else the system answers.
pub fn make(spec: &MakeSpec, mut progress: impl FnMut(u64)) -> Result<Made, Failure> {
    if spec.bytes == 0 || spec.bytes % PAGE_BYTES as u64 != 0 {
        let message = format!("bytes must be a positive multiple of {PAGE_BYTES}");
        return Err(Failure::new(Code::Usage, message));
    }
    let path = Path::new(&spec.file);
    let start_ns = monotonic_ns();
    let file = create(path, 0)?;
    if let Err(error) = fill(&file, spec, &mut progress) {
        discard(path);
        return Err(Failure::of(
            &error,
            &format!("writing {} bytes to {}", spec.bytes, spec.file),
        ));
    }
    keep(path);
    let elapsed_s = (monotonic_ns() - start_ns) as f64 / 1e9;
    Ok(Made {
        bytes: spec.bytes,
        elapsed_s,
        mb_s: spec.bytes as f64 / 1e6 / elapsed_s,
    })
}

fn fill(mut file: &File, spec: &MakeSpec, progress: &mut impl FnMut(u64)) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, spec.bytes) {
        // A file system without the call takes the pages as they come.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let maker = PageMaker::new(spec.seed);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut written = 0;
    let mut block = 0;
    while written < spec.bytes {
        let bytes = (spec.bytes - written).min(CHUNK_BYTES as u64);
        let chunk = &mut chunk[..bytes as usize];
        for page in chunk.chunks_exact_mut(PAGE_BYTES) {
            maker.make(block, page);
            block += 1;
        }
        file.write_all(chunk)?;
        written += bytes;
        if written % PROGRESS_BYTES == 0 {
            progress(written);
        }
    }
    file.sync_all()
}

/// Opens what a cell reads.
///
/// # Errors
/// `direct-refused` when the file system has no O_DIRECT, and what else the system answers.
pub fn open_target(spec: &CellSpec) -> Result<Target, Failure> {
    let file = open(&spec.file, spec.direct)?;
    Ok(Target {
        file: Arc::new(file),
        path: spec.file.clone(),
        direct: spec.direct,
        verify: spec.verify,
        first_block: spec.file_first_block,
    })
}

/// Opens the file of a target once more. Each process of a server has a file of its own, and with it a read-ahead of
/// its own: the kernel tells a sequence from leaps by what was read through the same open file.
///
/// # Errors
/// As `open_target`.
pub fn reopen(target: &Target) -> Result<Target, Failure> {
    Ok(Target {
        file: Arc::new(open(&target.path, target.direct)?),
        path: target.path.clone(),
        ..*target
    })
}

fn open(path: &str, direct: bool) -> Result<File, Failure> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| {
        let mut failure = Failure::of(&error, &format!("opening {path}"));
        if direct && error.raw_os_error() == Some(libc::EINVAL) {
            failure.code = Code::DirectRefused;
            failure.message =
                format!("{path}: its file system does not allow reading past the page cache (O_DIRECT)");
        }
        failure
    })
}

/// Describes a file or a folder.
///
/// # Errors
/// What the system answers.
pub fn facts(path: &str) -> Result<Facts, Failure> {
    let failed = |error: io::Error| Failure::of(&error, &format!("looking at {path}"));
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let system = statfs(path).map_err(|error| failed(error.into()))?;
    let is_file = metadata.is_file();
    Ok(Facts {
        bytes: if is_file { metadata.len() } else { 0 },
        fs_magic: system.f_type as i64,
        file_system: file_system_name(system.f_type as i64),
        available_bytes: system.f_bavail as u64 * system.f_bsize as u64,
        direct_io: is_file.then(|| reads_direct(path)),
        o_direct_alignment: if is_file { direct_alignment(&file) } else { None },
        resident_bytes: if is_file {
            resident_bytes(&file).map_err(failed)?
        } else {
            0
        },
    })
}

/// The numbers are in `include/uapi/linux/magic.h`, ZFS's in its own sources.
fn file_system_name(magic: i64) -> &'static str {
    match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlay",
        0x6969 => "nfs",
        0xFF53_4D42 | 0xFE53_4D42 => "smb",
        0x6573_5546 => "fuse",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x0102_1997 => "9p",
        _ => "other",
    }
}

/// Some file systems take the flag and refuse the read.
fn reads_direct(path: &str) -> bool {
    let Ok(file) = open(path, true) else { return false };
    let Ok(mut buffers) = memory::buffers(1, PAGE_BYTES, Pages::Small) else {
        return false;
    };
    file.read_at(&mut buffers[0], 0).is_ok()
}

/// Writes what is dirty and drops the file from the page cache; what is left there tells whether it worked.
///
/// # Errors
/// What the system answers.
pub fn evict(path: &str) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::of(&error, &format!("evicting {path} from the page cache"));
    let file = File::open(path).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    resident_bytes(&file).map_err(failed)
}

/// Reads the first `bytes` bytes into the page cache, all when there are fewer; returns how much of it is there.
///
/// # Errors
/// What the system answers.
pub fn warm(path: &str, bytes: u64) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::of(&error, &format!("reading {path} into the page cache"));
    let file = File::open(path).map_err(failed)?;
    // Advice: one that can't be followed is no error.
    let _ = fadvise(&file, 0, NonZeroU64::new(bytes), Advice::Sequential);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < bytes {
        let most = (bytes - at).min(CHUNK_BYTES as u64) as usize;
        match file.read_at(&mut chunk[..most], at).map_err(failed)? {
            0 => break,
            count => at += count as u64,
        }
    }
    resident_bytes(&file).map_err(failed)
}
