//! What can go wrong with a measurement, in the form that the native binary reports.

use std::io;

use serde::Serialize;

/// A failure: a sentence, a code that programs can rely on, and the system's number where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// The kind of failure.
    pub code: Code,
    /// The system's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request itself makes no sense.
    Usage,
    /// The file system is full, or a quota is.
    NoSpace,
    /// The path can't be written or read by this account, or the file system is read-only.
    Refused,
    /// There is no such file, or there is one where one should be made.
    Path,
    /// The file system or the device refuses O_DIRECT.
    DirectRefused,
    /// The kernel refuses io_uring; the message names the gate.
    IoUringRefused,
    /// The device failed.
    Eio,
    /// The file ended before the range that was to be read: it shrank.
    ShortRead,
    /// RLIMIT_NOFILE, or the system's table of files, is too small.
    TooManyFiles,
    /// Memory or threads could not be had.
    Resources,
    /// Any other error of the system.
    System,
}

impl Failure {
    /// A failure found here.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code,
            errno: None,
        }
    }

    /// A failure of the system while doing what `doing` says ("reading /a/b at 8192").
    pub fn of(error: &io::Error, doing: &str) -> Self {
        let errno = error.raw_os_error();
        let code = match errno {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Code::NoSpace,
            Some(libc::EROFS | libc::EACCES | libc::EPERM) => Code::Refused,
            Some(libc::ENOENT | libc::EEXIST | libc::ENOTDIR | libc::EISDIR) => Code::Path,
            Some(libc::EIO) => Code::Eio,
            Some(libc::EMFILE | libc::ENFILE) => Code::TooManyFiles,
            Some(libc::ENOMEM | libc::EAGAIN) => Code::Resources,
            _ => Code::System,
        };
        let remedy = match errno {
            Some(libc::EMFILE) => ": raise RLIMIT_NOFILE (ulimit -n)",
            _ => "",
        };
        Self {
            message: format!("{doing}: {error}{remedy}"),
            code,
            errno,
        }
    }
}
