//! The connection with the kernel: made by mounting, over when it is unmounted or aborted.

use std::ffi::CString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, writev};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::protocol::{Answer, TRANSFER_MAX};

/// What stands before the process's number in the list of mounts, so that who serves can be found from there.
const SOURCE: &str = "pgassay-volume:";

/// A mounted file system; dropping it unmounts.
#[derive(Debug)]
pub struct Connection {
    device: OwnedFd,
    folder: PathBuf,
    is_left: bool,
}

/// What came from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message of so many bytes.
    Message(usize),
    /// Nothing is waiting.
    Nothing,
    /// It was unmounted or aborted.
    Over,
}

impl Connection {
    /// Mounts the file system in a folder.
    ///
    /// # Errors
    /// What the kernel refuses; the message says which step.
    pub fn mount(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device =
            open("/dev/fuse", flags, Mode::empty()).map_err(|error| told("can't open /dev/fuse", error))?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,max_read={TRANSFER_MAX}",
            device.as_raw_fd()
        );
        let text = CString::new(options).map_err(io::Error::other)?;
        let source = format!("{SOURCE}{}", process::id());
        let kept = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
        mount(source.as_str(), folder, "fuse.pgassay", kept, text.as_c_str()).map_err(|error| {
            let place = String::from_utf8_lossy(folder.as_os_str().as_bytes()).into_owned();
            told(&format!("can't mount at {place}"), error)
        })?;
        Ok(Self {
            device,
            folder: folder.to_owned(),
            is_left: false,
        })
    }

    /// Leaves the mount behind when it is dropped; what is asked of it then fails.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// The next message, if one is waiting.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        match read(&self.device, buffer) {
            Ok(length) => Ok(Received::Message(length)),
            // ENOENT: the one that asked was interrupted before its message was read.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => Ok(Received::Nothing),
            Err(Errno::NODEV) => Ok(Received::Over),
            Err(error) => Err(told("can't read from the kernel", error)),
        }
    }

    /// Answers a request; one that nobody waits for any more is no error.
    pub(crate) fn answer(&self, unique: u64, error: i32, data: &[u8]) -> io::Result<()> {
        let header = Answer::header(unique, error, data.len());
        match writev(&self.device, &[IoSlice::new(&header), IoSlice::new(data)]) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => Err(told("can't answer the kernel", error)),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Gone from sight at once; whoever still has the file open gets errors once the device is closed.
        if self.is_left {
            return;
        }
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
    }
}

fn told(what: &str, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
