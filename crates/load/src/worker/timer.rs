//! Waking a thread at an instant: by a timer, and for the last bit by looking at the clock while a core is free.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::clock::RunQueue;

/// About what a wake-up of a sleeping thread takes on a virtual machine.
const SPIN_NS: u64 = 50_000;
/// How often it is asked whether a core is free.
const LOOK_NS: u64 = 50_000_000;
/// A thread that waited for a processor for more than one part in so many has no core for itself.
const BUSY_PART: u64 = 50;
const SECOND_NS: u64 = 1_000_000_000;

/// The timer of one thread.
pub struct Timer {
    descriptor: OwnedFd,
    armed_ns: u64,
    waits: RunQueue,
    spins: bool,
    looked_ns: u64,
    waited_ns: u64,
}

impl Timer {
    /// A timer whose events come with this token.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let descriptor = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        poll.registry()
            .register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            descriptor,
            armed_ns: 0,
            waits: RunQueue::of_this_thread(),
            spins: processors > 1,
            looked_ns: 0,
            waited_ns: 0,
        })
    }

    /// How long before an instant the thread has to be awake, so that it looks at the clock from then on.
    pub fn lead_ns(&mut self, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.looked_ns) > LOOK_NS {
            self.look(now_ns);
        }
        if self.spins { SPIN_NS } else { 0 }
    }

    #[cold]
    fn look(&mut self, now_ns: u64) {
        let waited_ns = self.waits.waited_ns();
        if self.looked_ns > 0 {
            let since_ns = now_ns - self.looked_ns;
            let is_alone = (waited_ns - self.waited_ns) * BUSY_PART <= since_ns;
            self.spins = is_alone && std::thread::available_parallelism().is_ok_and(|found| found.get() > 1);
        }
        (self.looked_ns, self.waited_ns) = (now_ns, waited_ns);
    }

    /// Makes an event come at this instant of the monotonic clock.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn arm(&mut self, at_ns: u64) -> io::Result<()> {
        if at_ns == self.armed_ns {
            return Ok(());
        }
        self.armed_ns = at_ns;
        #[allow(clippy::cast_possible_wrap)] // The clock counts from the start of the machine.
        let it_value = Timespec {
            tv_sec: (at_ns / SECOND_NS) as i64,
            tv_nsec: (at_ns % SECOND_NS) as i64,
        };
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use mio::Events;
    use std::time::Duration;

    #[test]
    fn an_event_comes_at_the_instant_and_again_at_the_next() {
        let mut poll = Poll::new().unwrap();
        let mut timer = Timer::new(&poll, Token(7)).unwrap();
        let mut events = Events::with_capacity(8);
        for _ in 0..3 {
            let at_ns = monotonic_ns() + 2_000_000;
            timer.arm(at_ns).unwrap();
            poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
            assert_eq!(
                events.iter().map(|event| event.token()).collect::<Vec<_>>(),
                [Token(7)]
            );
            assert!(monotonic_ns() >= at_ns);
        }
        // One that has passed already comes at once.
        timer.arm(1).unwrap();
        poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty());
    }
}
