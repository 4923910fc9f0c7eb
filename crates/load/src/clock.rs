//! The clocks of a measurement, and its instants, in nanoseconds.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC: comparable with the readings of other processes on this boot.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time, user and system, that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

#[inline]
#[allow(clippy::cast_sign_loss)] // Neither clock is ever negative.
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long a thread was ready to run and had no processor (/proc/PID/task/TID/schedstat, the second number).
pub struct RunQueue {
    file: Option<File>,
}

impl RunQueue {
    /// Of the calling thread.
    pub fn of_this_thread() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// Nanoseconds so far; 0 where the system does not say.
    pub fn waited_ns(&self) -> u64 {
        let mut text = [0; 96];
        let Some(count) = self
            .file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
        else {
            return 0;
        };
        let text = std::str::from_utf8(&text[..count]).unwrap_or_default();
        text.split_ascii_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    }
}

/// The instants of a load, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// All clients begin.
    pub start_ns: u64,
    /// The warm-up ends and the measured interval begins.
    pub measured_from_ns: u64,
    /// The measured interval ends: a transaction that ends here or later isn't in it.
    pub measured_to_ns: u64,
}

impl Schedule {
    /// Whether an instant lies in the measured interval.
    #[inline]
    pub fn is_measured(&self, at_ns: u64) -> bool {
        (self.measured_from_ns..self.measured_to_ns).contains(&at_ns)
    }
}
