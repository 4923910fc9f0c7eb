//! Threads that help the consumers of the engine `hybrid`: they read through the page cache, and verify.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mode::Mode;
use crate::engine::Wanted;
use crate::failure::Failure;
use crate::reading::{Completed, Read, Target};
use crate::threads::latch::Latch;
use crate::threads::mailbox::Mailbox;
use crate::time::stopwatch::{Stopwatch, Task};

/// `IO_WORKER_WAKEUP_FANOUT`: where the consumer leaves all to them, helpers wake each other as PostgreSQL's I/O workers
/// do.
const FAN_OUT: usize = 2;

/// What a helper can be given.
pub enum Work {
    /// To be read through the page cache, and verified.
    Read(Read),
    /// To be verified.
    Verify(Unverified),
}

impl Work {
    /// The number of its request.
    pub fn number(&self) -> u64 {
        match self {
            Self::Read(read) => read.number,
            Self::Verify(unverified) => unverified.read.number,
        }
    }
}

/// A read that the kernel has done, and how long that took.
pub struct Unverified {
    /// The request with its data.
    pub read: Read,
    /// From its begin to the arrival of its data.
    pub latency_ns: u64,
}

impl Unverified {
    /// Verifies it on the calling thread.
    pub fn verified(self, target: &Target, watch: &mut Stopwatch) -> Completed {
        let broken = target.check(&self.read, watch);
        Completed {
            read: self.read,
            latency_ns: self.latency_ns,
            broken,
        }
    }
}

struct Queue {
    work: VecDeque<(usize, Work)>,
    /// A bit for each idle helper.
    idle: u64,
    /// So many of the first may be woken.
    wanted: usize,
    /// How many others a helper wakes that takes work while there is more.
    fan_out: usize,
    is_retired: bool,
}

impl Queue {
    /// Takes up to `most` of the idle helpers that are wanted, at most one for each piece of work that is left.
    fn choose_idle(&mut self, most: usize) -> u64 {
        let mut chosen = 0_u64;
        for index in 0..self.wanted {
            let bit = 1_u64 << index;
            if self.idle & bit != 0 && (chosen.count_ones() as usize) < most.min(self.work.len()) {
                chosen |= bit;
            }
        }
        self.idle &= !chosen;
        chosen
    }
}

/// The helpers, their queue, and the consumers' mailboxes.
pub struct Helpers {
    queue: Mutex<Queue>,
    latches: Vec<Latch>,
    mailboxes: Vec<Mailbox>,
}

impl Helpers {
    /// So many helpers, at most 64, for so many consumers; their threads call `serve`.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new(helpers: usize, consumers: usize) -> Result<Self, Failure> {
        Ok(Self {
            queue: Mutex::new(Queue {
                work: VecDeque::new(),
                idle: 0,
                wanted: 0,
                fan_out: 0,
                is_retired: false,
            }),
            latches: (0..helpers).map(|_| Latch::new()).collect::<Result<_, _>>()?,
            mailboxes: (0..consumers).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
        })
    }

    /// The number of helpers.
    pub fn count(&self) -> usize {
        self.latches.len()
    }

    /// Where a consumer finds what was verified for it.
    pub fn mailbox(&self, consumer: usize) -> &Mailbox {
        &self.mailboxes[consumer]
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of helper number `index`.
    pub fn serve(&self, index: usize, target: &Target, watch: &mut Stopwatch) {
        loop {
            let mut queue = self.lock();
            let Some((consumer, work)) = queue.work.pop_front() else {
                if queue.is_retired {
                    return;
                }
                queue.idle |= 1 << index;
                drop(queue);
                watch.lap(Task::HandOver);
                self.latches[index].wait();
                watch.lap(Task::Idle);
                continue;
            };
            let fan_out = queue.fan_out;
            let to_wake = queue.choose_idle(fan_out);
            drop(queue);
            self.wake(to_wake);
            watch.lap(Task::HandOver);
            let outcome = perform(work, target, watch);
            self.mailboxes[consumer].deliver(outcome);
            watch.lap(Task::HandOver);
        }
    }

    /// Gives them work; wakes as many of those that the mode has as there is work for, where they are idle, or one,
    /// which wakes others, where all is left to them.
    pub fn give(&self, consumer: usize, work: &mut Vec<Work>, mode: Mode) {
        let mut queue = self.lock();
        queue.wanted = mode.helpers().min(self.count());
        let count = match mode {
            Mode::Given(_) => 1,
            _ => work.len(),
        };
        queue.fan_out = if matches!(mode, Mode::Given(_)) {
            FAN_OUT
        } else {
            0
        };
        queue.work.extend(work.drain(..).map(|work| (consumer, work)));
        let to_wake = queue.choose_idle(count);
        drop(queue);
        self.wake(to_wake);
    }

    fn wake(&self, chosen: u64) {
        for (index, latch) in self.latches.iter().enumerate() {
            if chosen & 1 << index != 0 {
                latch.set();
            }
        }
    }

    /// Takes work back that no helper has begun.
    pub fn take_back(&self, consumer: usize, wanted: Wanted) -> Option<Work> {
        let mut queue = self.lock();
        let is_it = |(owner, work): &(usize, Work)| {
            let is_wanted = match wanted {
                Wanted::Any => true,
                Wanted::Number(number) => work.number() == number,
            };
            *owner == consumer && is_wanted
        };
        let place = queue.work.iter().position(is_it)?;
        queue.work.remove(place).map(|(_, work)| work)
    }

    /// They end once they have nothing left to do.
    pub fn retire(&self) {
        let mut queue = self.lock();
        queue.is_retired = true;
        // Nobody waits for what is left.
        queue.work.clear();
        drop(queue);
        for latch in &self.latches {
            latch.set();
        }
    }
}

fn perform(work: Work, target: &Target, watch: &mut Stopwatch) -> Result<Completed, Failure> {
    let unverified = match work {
        Work::Verify(unverified) => unverified,
        Work::Read(mut read) => {
            let ended_ns = target.read(&mut read, watch)?;
            let latency_ns = ended_ns.saturating_sub(read.started_ns);
            Unverified { read, latency_ns }
        }
    };
    Ok(unverified.verified(target, watch))
}
