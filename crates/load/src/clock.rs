//! The clocks of a measurement, and its instants, in nanoseconds.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CLOCK_MONOTONIC: comparable with the readings of other processes on this boot.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Sleeps until an instant of that clock.
pub fn sleep_until(at_ns: u64) {
    sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
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

/// What threads took of the processors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// CPU time of all together.
    pub cpu_ns: u64,
    /// Of the one that used most.
    pub cpu_most_ns: u64,
    /// How long one was ready to run and had no processor, of the one that waited most.
    pub waited_most_ns: u64,
}

impl ThreadTimes {
    /// Of the calling thread, while it does something.
    pub fn during<T>(body: impl FnOnce() -> T) -> (Self, T) {
        let cpu_from_ns = thread_cpu_ns();
        let queue = RunQueue::of_this_thread();
        let waited_from_ns = queue.waited_ns();
        let outcome = body();
        let cpu_ns = thread_cpu_ns() - cpu_from_ns;
        let times = Self {
            cpu_ns,
            cpu_most_ns: cpu_ns,
            waited_most_ns: queue.waited_ns().saturating_sub(waited_from_ns),
        };
        (times, outcome)
    }

    /// Adds other threads'.
    pub fn merge(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.cpu_most_ns = self.cpu_most_ns.max(other.cpu_most_ns);
        self.waited_most_ns = self.waited_most_ns.max(other.waited_most_ns);
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
