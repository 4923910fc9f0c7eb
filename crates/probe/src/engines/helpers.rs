//! Threads that help the consumers of the engine `hybrid`: they copy what is in the page cache, and verify.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Wanted;
use crate::failure::Failure;
use crate::latch::Latch;
use crate::mailbox::Mailbox;
use crate::reading::{Completed, Read, Target};
use crate::stopwatch::{Stopwatch, Task};

/// What a helper can be given.
pub enum Work {
    /// To be read, most likely from the page cache, and verified.
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
    is_retired: bool,
}

/// The helpers, their queue, and the consumers' mailboxes.
pub struct Helpers {
    queue: Mutex<Queue>,
    latches: Vec<Latch>,
    mailboxes: Vec<Mailbox>,
    /// Of each consumer: whether something that a helper should read wasn't in the page cache.
    missed: Vec<AtomicBool>,
}

impl Helpers {
    /// So many, at most 64.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new(helpers: usize, consumers: usize) -> Result<Self, Failure> {
        Ok(Self {
            queue: Mutex::new(Queue {
                work: VecDeque::new(),
                idle: 0,
                is_retired: false,
            }),
            latches: (0..helpers).map(|_| Latch::new()).collect::<Result<_, _>>()?,
            mailboxes: (0..consumers).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
            missed: (0..consumers).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Whether a helper missed the page cache for this consumer since it was asked last.
    pub fn has_missed(&self, consumer: usize) -> bool {
        let missed = &self.missed[consumer];
        missed.load(Ordering::Relaxed) && missed.swap(false, Ordering::Relaxed)
    }

    /// How many there are.
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
            drop(queue);
            watch.lap(Task::HandOver);
            let outcome = self.perform(consumer, work, target, watch);
            self.mailboxes[consumer].deliver(outcome);
            watch.lap(Task::HandOver);
        }
    }

    fn perform(
        &self,
        consumer: usize,
        work: Work,
        target: &Target,
        watch: &mut Stopwatch,
    ) -> Result<Completed, Failure> {
        let unverified = match work {
            Work::Verify(unverified) => unverified,
            Work::Read(mut read) => {
                read.started_ns = watch.last_ns();
                let ended_ns = if target.read_if_cached(&mut read) {
                    watch.lap(Task::Read)
                } else {
                    self.missed[consumer].store(true, Ordering::Relaxed);
                    target.read(&mut read, watch)?
                };
                let latency_ns = ended_ns.saturating_sub(read.started_ns);
                Unverified { read, latency_ns }
            }
        };
        Ok(unverified.verified(target, watch))
    }

    /// Gives them work; wakes as many of the first `helpers` as there is work for, where they are idle.
    pub fn give(&self, consumer: usize, work: &mut Vec<Work>, helpers: usize) {
        let mut to_wake = 0;
        let mut queue = self.lock();
        let mut wakes = work.len();
        queue.work.extend(work.drain(..).map(|work| (consumer, work)));
        for index in 0..helpers.min(self.count()) {
            if wakes > 0 && queue.idle & 1 << index != 0 {
                queue.idle &= !(1 << index);
                to_wake |= 1_u64 << index;
                wakes -= 1;
            }
        }
        drop(queue);
        for (index, latch) in self.latches.iter().enumerate() {
            if to_wake & 1 << index != 0 {
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
