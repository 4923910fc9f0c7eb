//! Sleeping until there is something to do: a message, a command, or an answer's time.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, read};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

const SECOND_NS: u64 = 1_000_000_000;
const MESSAGE: u64 = 0;
const COMMAND: u64 = 1;
const TIME: u64 = 2;

/// What to sleep on.
///
/// The timer stays armed while messages come, and is set anew only where the time to wake up changes: arming one
/// for each sleep, as `poll` does, and taking it back when a message comes first are two orders to the
/// processor's timer for each request, which a virtual machine pays dearly.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    sources: OwnedFd,
    timer: OwnedFd,
    bell: BorrowedFd<'a>,
    /// When the timer rings; it may have done so.
    armed_ns: u64,
    /// Nothing ever comes here: see `Waiting::complete`.
    mute: Option<OwnedFd>,
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
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&sources, messages, EventData::new_u64(MESSAGE), EventFlags::IN)?;
        epoll::add(&sources, bell, EventData::new_u64(COMMAND), EventFlags::IN)?;
        epoll::add(&sources, &timer, EventData::new_u64(TIME), EventFlags::IN)?;
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        Ok(Self {
            sources,
            timer,
            bell,
            armed_ns: 0,
            mute: socket_with(family, kind, SocketFlags::CLOEXEC, None).ok(),
        })
    }

    /// Sleeps until `wake_ns`, or until a message or a command comes. Says what came.
    pub(crate) fn sleep_until(&mut self, wake_ns: u64) -> io::Result<Woken> {
        if wake_ns != self.armed_ns {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: timespec(wake_ns),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
            self.armed_ns = wake_ns;
        }
        let mut found = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(MESSAGE),
        }; 3];
        let count = match epoll::wait(&self.sources, &mut found[..], None) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(Woken::Otherwise),
            Err(error) => return Err(error.into()),
        };
        let mut woken = Woken::ByTime;
        for event in &found[..count] {
            match event.data.u64() {
                TIME => {
                    // Setting it anew also silences it.
                    self.armed_ns = 0;
                }
                COMMAND => {
                    let _ = read(self.bell, &mut [0; 8]);
                    woken = Woken::Otherwise;
                }
                _ => woken = Woken::Otherwise,
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

/// Sleeps until `wake_ns` whatever comes.
pub(crate) fn pause_until(wake_ns: u64) {
    // Whoever is woken earlier sees that it is not yet time.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(wake_ns));
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

    #[test]
    fn it_wakes_up_at_its_time_whatever_came_before() {
        let (mut sender, mut messages) = UnixStream::pair().unwrap();
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut waiting = Waiting::new(messages.as_fd(), bell.as_fd()).unwrap();
        let wake_ns = now_ns() + SOON_NS;
        // A message first: the timer that was armed for this time still rings.
        sender.write_all(b"m").unwrap();
        assert_eq!(waiting.sleep_until(wake_ns).unwrap(), Woken::Otherwise);
        messages.read_exact(&mut [0]).unwrap();
        write(&bell, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(waiting.sleep_until(wake_ns).unwrap(), Woken::Otherwise);
        assert_eq!(waiting.armed_ns, wake_ns);
        assert_eq!(waiting.sleep_until(wake_ns).unwrap(), Woken::ByTime);
        assert!(now_ns() >= wake_ns);
        // One that has rung is silent until it is set anew, for an earlier time than the last as well.
        let later_ns = now_ns() + 1000 * SOON_NS;
        sender.write_all(b"m").unwrap();
        assert_eq!(waiting.sleep_until(later_ns).unwrap(), Woken::Otherwise);
        messages.read_exact(&mut [0]).unwrap();
        let sooner_ns = now_ns() + SOON_NS;
        assert_eq!(waiting.sleep_until(sooner_ns).unwrap(), Woken::ByTime);
        assert!((sooner_ns..later_ns).contains(&now_ns()));
        waiting.complete();
    }
}
