//! How one thread of a server wakes another: a latch, as PostgreSQL's processes have one each
//! (`src/backend/storage/ipc/latch.c`, `waiteventset.c`).
//!
//! PostgreSQL's waker sets a flag, and sends a signal if the owner may be asleep; the owner sleeps in epoll_wait and
//! reads the signal away from a signalfd. Here an eventfd takes the place of the signal: one system call to wake,
//! two on being woken, none where the owner is awake.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{read, write};

use crate::failure::Failure;

/// One thread's latch.
pub struct Latch {
    is_set: AtomicBool,
    may_sleep: AtomicBool,
    event: OwnedFd,
}

impl Latch {
    /// A latch that isn't set.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new() -> Result<Self, Failure> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Failure::of(&error.into(), "making a latch of a thread (an eventfd)"))?;
        Ok(Self {
            is_set: AtomicBool::new(false),
            may_sleep: AtomicBool::new(false),
            event,
        })
    }

    /// Wakes the owner, now or when it next waits.
    pub fn set(&self) {
        if self.is_set.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.may_sleep.load(Ordering::SeqCst) {
            // It can only fail when the counter is full, and then the owner wakes anyway.
            let _ = write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until it is set, and resets it. By its owner alone.
    pub fn wait(&self) {
        while !self.is_set.swap(false, Ordering::SeqCst) {
            self.may_sleep.store(true, Ordering::SeqCst);
            if !self.is_set.load(Ordering::SeqCst) {
                let mut events = [PollFd::new(&self.event, PollFlags::IN)];
                // An interruption only means to look again.
                let _ = poll(&mut events, None);
                let mut count = [0; 8];
                let _ = read(&self.event, &mut count);
            }
            self.may_sleep.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread::scope;

    use super::*;

    #[test]
    fn no_wake_up_is_lost() {
        let (ping, pong) = (Latch::new().expect("a file"), Latch::new().expect("a file"));
        let turns = AtomicU64::new(0);
        scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    ping.wait();
                    turns.fetch_add(1, Ordering::SeqCst);
                    pong.set();
                }
            });
            for turn in 1..=2_000 {
                ping.set();
                pong.wait();
                assert_eq!(turns.load(Ordering::SeqCst), turn);
            }
        });
    }
}
