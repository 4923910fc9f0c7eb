//! Sleeping until there is something to do: a message, a command, or an answer's time.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, read};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

const SECOND_NS: u64 = 1_000_000_000;
const MESSAGE: u64 = 0;
const COMMAND: u64 = 1;
/// The first timer; those after it follow.
const TIME: u64 = 2;
const TIMERS: usize = 2;
/// A timer that rings so much earlier or later than asked for is as good: half of what arming it anew takes, and more.
const NEAR_NS: u64 = 1_000;

/// What to sleep on.
///
/// A timer stays armed while messages come, and is set anew only where the time to wake up changes: arming one
/// for each sleep, as `poll` does, and taking it back when a message comes first are two orders to the
/// processor's timer for each request, which a virtual machine pays dearly.
///
/// One more timer is armed for the time after the next. When the first one rings the kernel sets the processor's
/// timer in any case (`hrtimer_interrupt` of kernel/time/hrtimer.c), then for the other one, and to sleep until that
/// takes no further order: 6.9 µs of a processor in place of 12.3 for each sleep on a virtual machine.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    sources: OwnedFd,
    timers: [Timer; TIMERS],
    bell: BorrowedFd<'a>,
    /// Nothing ever comes here: see `Waiting::complete`.
    mute: Option<OwnedFd>,
}

#[derive(Debug)]
struct Timer {
    clock: OwnedFd,
    /// When it rings, or rang; 0 where it is to be armed anew.
    armed_ns: u64,
}

impl Timer {
    fn new() -> io::Result<Self> {
        Ok(Self {
            clock: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            armed_ns: 0,
        })
    }

    fn is_near(&self, wake_ns: u64) -> bool {
        self.armed_ns.abs_diff(wake_ns) <= NEAR_NS
    }

    /// Setting it anew also silences it.
    fn arm(&mut self, wake_ns: u64) -> io::Result<()> {
        if !self.is_near(wake_ns) {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: timespec(wake_ns),
            };
            timerfd_settime(&self.clock, TimerfdTimerFlags::ABSTIME, &once)?;
            self.armed_ns = wake_ns;
        }
        Ok(())
    }
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time alone.
    ByTime,
    /// A message or a command, or nothing of all.
    Otherwise,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(messages: BorrowedFd<'_>, bell: BorrowedFd<'a>) -> io::Result<Self> {
        let sources = epoll::create(CreateFlags::CLOEXEC)?;
        let timers = [Timer::new()?, Timer::new()?];
        epoll::add(&sources, messages, EventData::new_u64(MESSAGE), EventFlags::IN)?;
        epoll::add(&sources, bell, EventData::new_u64(COMMAND), EventFlags::IN)?;
        for (number, timer) in (TIME..).zip(&timers) {
            epoll::add(&sources, &timer.clock, EventData::new_u64(number), EventFlags::IN)?;
        }
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        Ok(Self {
            sources,
            timers,
            bell,
            mute: socket_with(family, kind, SocketFlags::CLOEXEC, None).ok(),
        })
    }

    /// Has a timer ring at `wake_ns` and the other one at `then_ns`, which is later. Gives the first one's number.
    fn arm(&mut self, wake_ns: u64, then_ns: u64) -> io::Result<usize> {
        let [first, second] = &self.timers;
        let is_second = !first.is_near(wake_ns) && (second.is_near(wake_ns) || first.is_near(then_ns));
        let number = usize::from(is_second);
        self.timers[number].arm(wake_ns)?;
        self.timers[1 - number].arm(then_ns)?;
        Ok(number)
    }

    /// Arms all timers anew: after a move to another processor, as they ring where they were armed.
    pub(crate) fn moved(&mut self) {
        for timer in &mut self.timers {
            timer.armed_ns = 0;
        }
    }

    /// Sleeps until `wake_ns` whatever comes; `then_ns`: what is slept until next, as far as is known.
    pub(crate) fn pause_until(&mut self, wake_ns: u64, then_ns: u64) -> io::Result<()> {
        let number = self.arm(wake_ns, then_ns)?;
        // Whoever is woken earlier sees that it is not yet time.
        let timer = &mut self.timers[number];
        let _ = read(&timer.clock, &mut [0; 8]);
        timer.armed_ns = 0;
        Ok(())
    }

    /// Sleeps until `wake_ns`, or until a message or a command comes. Says what came. `then_ns` as for a pause.
    pub(crate) fn sleep_until(&mut self, wake_ns: u64, then_ns: u64) -> io::Result<Woken> {
        self.arm(wake_ns, then_ns)?;
        let mut found = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(MESSAGE),
        }; 2 + TIMERS];
        let count = match epoll::wait(&self.sources, &mut found[..], None) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(Woken::Otherwise),
            Err(error) => return Err(error.into()),
        };
        let mut woken = Woken::ByTime;
        for event in &found[..count] {
            match event.data.u64() {
                COMMAND => {
                    let _ = read(self.bell, &mut [0; 8]);
                    woken = Woken::Otherwise;
                }
                MESSAGE => woken = Woken::Otherwise,
                time => self.timers[(time - TIME) as usize].armed_ns = 0,
            }
        }
        Ok(woken)
    }

    /// Has the kernel hand on the answers that it was given.
    ///
    /// The loop device ends its requests in a soft interrupt (`blk_mq_complete_request_remote` of
    /// block/blk-mq.c, as it has one hardware queue), which the kernel leaves to a thread of ordinary priority:
    /// where all processors are busy that is milliseconds later. A call that takes a lock against soft
    /// interrupts does what is due at its end (`__local_bh_enable_ip` of kernel/softirq.c), and to look for a
    /// datagram is the cheapest.
    pub(crate) fn complete(&self) {
        if let Some(mute) = &self.mute {
            let _ = recv(mute, &mut [0_u8; 1][..], RecvFlags::DONTWAIT);
        }
    }
}

fn timespec(time_ns: u64) -> Timespec {
    Timespec {
        tv_sec: (time_ns / SECOND_NS) as i64,
        tv_nsec: (time_ns % SECOND_NS) as i64,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::write;

    use super::*;
    use crate::schedule::now_ns;

    const SOON_NS: u64 = 20_000_000;

    fn bell() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).unwrap()
    }

    #[test]
    fn it_wakes_up_at_its_time_whatever_came_before() {
        let (mut sender, mut messages) = UnixStream::pair().unwrap();
        let bell = bell();
        let mut waiting = Waiting::new(messages.as_fd(), bell.as_fd()).unwrap();
        let wake_ns = now_ns() + SOON_NS;
        let then_ns = wake_ns + 1000 * SOON_NS;
        // A message first: the timer that was armed for this time still rings.
        sender.write_all(b"m").unwrap();
        assert_eq!(waiting.sleep_until(wake_ns, then_ns).unwrap(), Woken::Otherwise);
        messages.read_exact(&mut [0]).unwrap();
        write(&bell, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(waiting.sleep_until(wake_ns, then_ns).unwrap(), Woken::Otherwise);
        assert_eq!(armed_ns(&waiting), [wake_ns, then_ns]);
        assert_eq!(waiting.sleep_until(wake_ns, then_ns).unwrap(), Woken::ByTime);
        assert!(now_ns() >= wake_ns);
        // One that has rung is silent until it is set anew, for an earlier time than the last as well.
        let later_ns = now_ns() + 1000 * SOON_NS;
        sender.write_all(b"m").unwrap();
        assert_eq!(
            waiting.sleep_until(later_ns, 2 * later_ns).unwrap(),
            Woken::Otherwise
        );
        messages.read_exact(&mut [0]).unwrap();
        let sooner_ns = now_ns() + SOON_NS;
        assert_eq!(waiting.sleep_until(sooner_ns, later_ns).unwrap(), Woken::ByTime);
        assert!((sooner_ns..later_ns).contains(&now_ns()));
        waiting.complete();
    }

    #[test]
    fn what_is_slept_until_next_is_armed_already() {
        // A machine that wakes it a whole step late has let the next timer ring as well, which proves nothing.
        let attempts = 50;
        assert!((0..attempts).any(|_| slept_in_time()), "{attempts} times late");
    }

    /// Whether each step was over before the next one was due. Fails where a timer is armed that should not be.
    fn slept_in_time() -> bool {
        let (mut sender, messages) = UnixStream::pair().unwrap();
        let bell = bell();
        let mut waiting = Waiting::new(messages.as_fd(), bell.as_fd()).unwrap();
        let began_ns = now_ns();
        let time_ns = |number: u64| began_ns + number * SOON_NS;
        waiting.pause_until(time_ns(1), time_ns(2)).unwrap();
        assert_eq!(armed_ns(&waiting), [0, time_ns(2)]);
        if now_ns() >= time_ns(2) {
            return false;
        }
        // Almost the time that was foreseen: only the one after it is armed.
        let woken = waiting.sleep_until(time_ns(2) + NEAR_NS, time_ns(3)).unwrap();
        assert_eq!(woken, Woken::ByTime);
        if now_ns() >= time_ns(3) - 2 * NEAR_NS {
            return false;
        }
        assert_eq!(armed_ns(&waiting), [time_ns(3), 0]);
        // What came meanwhile is due before that, and what was foreseen comes no more.
        let soon_ns = time_ns(3) - 2 * NEAR_NS;
        waiting.pause_until(soon_ns, time_ns(1000)).unwrap();
        assert!(now_ns() >= soon_ns);
        let later = armed_ns(&waiting).map(|armed| armed == time_ns(1000));
        assert!(later.contains(&true) && later.contains(&false));
        // A pause sees no message; after a move all is armed anew.
        sender.write_all(b"m").unwrap();
        waiting.moved();
        waiting.pause_until(time_ns(5), time_ns(6)).unwrap();
        assert!(now_ns() >= time_ns(5));
        assert_eq!(armed_ns(&waiting), [0, time_ns(6)]);
        true
    }

    fn armed_ns(waiting: &Waiting<'_>) -> [u64; TIMERS] {
        [0, 1].map(|number| waiting.timers[number].armed_ns)
    }
}
