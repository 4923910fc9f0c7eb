//! The clocks of a measurement, in nanoseconds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time, user and system, of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of the whole process, threads that have ended and the kernel's io_uring workers included.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

#[inline]
#[allow(clippy::cast_sign_loss)] // None of these clocks is ever negative.
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long the calling thread was able to run and had to wait for a core: the second field of schedstat.
pub struct RunDelay {
    file: Option<File>,
}

impl RunDelay {
    /// Of the calling thread; one that always says 0 where the kernel keeps no such statistics.
    pub fn of_this_thread() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The sum since the thread began, in nanoseconds.
    pub fn read_ns(&self) -> u64 {
        let mut text = [0; 96];
        let read = match &self.file {
            Some(file) => file.read_at(&mut text, 0),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let Ok(count) = read else { return 0 };
        String::from_utf8_lossy(&text[..count])
            .split_whitespace()
            .nth(1)
            .and_then(|field| field.parse().ok())
            .unwrap_or(0)
    }
}
