//! A disk that answers late: every read takes at least so long, however many are on their way.
//!
//! Limits of a control group bound how many reads a device answers in a second, which is a ceiling; what a volume
//! in a network has is latency, far below its ceilings. Here a file system of one file, `disk`, passes everything
//! on to a file of the same size, and keeps the answers of reads back. A loop device on it is a disk.
//!
//! `pgassay-late-disk FILE FOLDER MICROSECONDS`; ends when FOLDER is unmounted.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

const NAME: &str = "disk";
const DISK: INodeNo = INodeNo(2);
/// Reads on their way at a time: each keeps a thread.
const READS_MAX: u16 = 32;
/// Nothing of it changes behind the kernel's back.
const KNOWN_FOR: Duration = Duration::from_secs(3600);
const SECTOR_BYTES: u64 = 512;

struct LateDisk {
    file: File,
    bytes: u64,
    latency: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [file, folder, microseconds] = words.as_slice() else {
        return Err("type pgassay-late-disk FILE FOLDER MICROSECONDS".into());
    };
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let disk = LateDisk {
        bytes: file.metadata()?.len(),
        file,
        latency: Duration::from_micros(microseconds.parse()?),
    };
    let mut options = Config::default();
    options.mount_options = vec![
        MountOption::FSName("pgassay-late-disk".into()),
        MountOption::NoAtime,
    ];
    options.n_threads = Some(usize::from(READS_MAX));
    Ok(fuser::mount(disk, folder, &options)?)
}

impl LateDisk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, perm, size) = match inode {
            DISK => (FileType::RegularFile, 0o600, self.bytes),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR_BYTES,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }

    fn read_at(&self, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; u64::from(size).min(self.bytes.saturating_sub(offset)) as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

impl Filesystem for LateDisk {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without them asks for one at a time.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| {
            io::Error::other("the kernel has no asynchronous direct I/O on such file systems")
        })?;
        // All of them may be asked for before the first has its answer.
        let refused = |_| io::Error::other("the kernel allows fewer requests at a time");
        config.set_max_background(READS_MAX).map_err(refused)?;
        config.set_congestion_threshold(READS_MAX).map_err(refused)?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&KNOWN_FOR, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KNOWN_FOR, &self.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let due = Instant::now() + self.latency;
        let answer = self.read_at(offset, size);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        match answer {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let done = if datasync {
            self.file.sync_data()
        } else {
            self.file.sync_all()
        };
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}
