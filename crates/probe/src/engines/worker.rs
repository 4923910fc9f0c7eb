//! `worker`: io_method = worker (`src/backend/storage/aio/method_worker.c`). Workers read and verify.
//!
//! One queue of 64 requests for the whole server, under one lock. Who submits puts its requests in, picks one idle
//! worker under the same lock, and wakes it after. A worker that takes a request wakes up to two idle ones while
//! there is more to do. What finds no room in the queue is read by the consumer itself. In PostgreSQL 19 the lock is
//! only tried: a consumer that doesn't get it reads for itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::engine::{Engine, EngineReport, Lane, Wanted};
use crate::failure::Failure;
use crate::files::reopen;
use crate::reading::{Completed, Read, Target};
use crate::spec::CellSpec;
use crate::spec::SUBMIT_BATCH_MAX;
use crate::threads::latch::Latch;
use crate::threads::mailbox::Mailbox;
use crate::time::stopwatch::{Stopwatch, Task};

/// `io_worker_queue_size`.
const QUEUE_SIZE: usize = 64;
/// `IO_WORKER_WAKEUP_FANOUT`.
const WAKE_UPS_MAX: usize = 2;
/// The first version that only tries the lock.
const MAJOR_THAT_TRIES: u32 = 19;

struct Queue {
    requests: VecDeque<(usize, Read)>,
    /// A bit for each idle worker; the lowest is woken first (`pgaio_worker_choose_idle`).
    idle: u64,
    is_retired: bool,
}

impl Queue {
    fn choose_idle(&mut self) -> Option<usize> {
        let worker = self.idle.trailing_zeros();
        self.idle &= !1_u64.checked_shl(worker)?;
        Some(worker as usize)
    }
}

/// The engine with a pool of I/O workers.
pub struct Worker {
    target: Target,
    /// Of each worker.
    targets: Vec<Target>,
    only_tries_lock: bool,
    queue: Mutex<Queue>,
    latches: Vec<Latch>,
    mailboxes: Vec<Mailbox>,
    fallbacks: AtomicU64,
}

struct WorkerLane<'a> {
    engine: &'a Worker,
    target: Target,
    consumer: usize,
    staged: Vec<Read>,
}

impl Worker {
    /// An engine with so many workers.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new(target: Target, workers: usize, consumers: usize, major: u32) -> Result<Self, Failure> {
        Ok(Self {
            targets: (0..workers).map(|_| reopen(&target)).collect::<Result<_, _>>()?,
            target,
            only_tries_lock: major >= MAJOR_THAT_TRIES,
            queue: Mutex::new(Queue {
                requests: VecDeque::with_capacity(QUEUE_SIZE),
                idle: 0,
                is_retired: false,
            }),
            latches: (0..workers).map(|_| Latch::new()).collect::<Result<_, _>>()?,
            mailboxes: (0..consumers).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
            fallbacks: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_submit(&self) -> Option<MutexGuard<'_, Queue>> {
        if !self.only_tries_lock {
            return Some(self.lock());
        }
        match self.queue.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Reads and verifies one request.
fn perform(target: &Target, mut read: Read, watch: &mut Stopwatch) -> Result<Completed, Failure> {
    let ended_ns = target.read(&mut read, watch)?;
    let broken = target.check(&read, watch);
    Ok(Completed {
        latency_ns: ended_ns.saturating_sub(read.started_ns),
        read,
        broken,
    })
}

/// The engine for a cell.
///
/// # Errors
/// When the process may open no more files.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Worker::new(
        target,
        spec.workers,
        spec.consumers,
        spec.major,
    )?))
}

impl Engine for Worker {
    fn threads(&self) -> usize {
        self.latches.len()
    }

    fn serve(&self, index: usize, watch: &mut Stopwatch) {
        loop {
            let mut queue = self.lock();
            let Some((consumer, read)) = queue.requests.pop_front() else {
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
            queue.idle &= !(1 << index);
            let mut woken = [None; WAKE_UPS_MAX];
            for place in woken.iter_mut().take(queue.requests.len()) {
                *place = queue.choose_idle();
            }
            drop(queue);
            for worker in woken.into_iter().flatten() {
                self.latches[worker].set();
            }
            watch.lap(Task::HandOver);
            let outcome = perform(&self.targets[index], read, watch);
            self.mailboxes[consumer].deliver(outcome);
            watch.lap(Task::HandOver);
        }
    }

    fn lane(&self, consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(WorkerLane {
            engine: self,
            target: reopen(&self.target)?,
            consumer,
            staged: Vec::with_capacity(SUBMIT_BATCH_MAX),
        }))
    }

    fn retire(&self) {
        let mut queue = self.lock();
        queue.is_retired = true;
        // Nobody waits for what is left.
        queue.requests.clear();
        drop(queue);
        for latch in &self.latches {
            latch.set();
        }
    }

    fn report(&self) -> EngineReport {
        EngineReport {
            synchronous_fallbacks: self.fallbacks.load(Ordering::Relaxed),
            ..EngineReport::default()
        }
    }
}

impl WorkerLane<'_> {
    /// Puts what finds room into the queue; returns the worker to wake.
    fn enqueue(&mut self) -> Option<usize> {
        let mut queue = self.engine.lock_to_submit()?;
        let room = QUEUE_SIZE - queue.requests.len();
        let count = room.min(self.staged.len());
        let consumer = self.consumer;
        queue
            .requests
            .extend(self.staged.drain(..count).map(|read| (consumer, read)));
        if count > 0 { queue.choose_idle() } else { None }
    }

    fn mailbox(&self) -> &Mailbox {
        &self.engine.mailboxes[self.consumer]
    }
}

impl Lane for WorkerLane<'_> {
    fn start(&mut self, mut read: Read, watch: &mut Stopwatch) -> Result<(), Failure> {
        read.started_ns = watch.last_ns();
        self.staged.push(read);
        Ok(())
    }

    fn submit(&mut self, watch: &mut Stopwatch) -> Result<(), Failure> {
        watch.lap(Task::Harness);
        if let Some(worker) = self.enqueue() {
            self.engine.latches[worker].set();
        }
        watch.lap(Task::HandOver);
        // What found no room, in its order.
        self.staged.reverse();
        while let Some(read) = self.staged.pop() {
            self.engine.fallbacks.fetch_add(1, Ordering::Relaxed);
            let completed = perform(&self.target, read, watch)?;
            self.mailbox().deliver(Ok(completed));
        }
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        watch.lap(Task::Harness);
        self.mailbox().wait(wanted, watch)
    }

    fn is_here(&mut self, number: u64) -> bool {
        self.mailbox().has(number)
    }

    fn ready(&mut self, _watch: &mut Stopwatch) -> Option<Completed> {
        // A failure is met again by the next wait.
        self.mailbox().take(Wanted::Any).ok().flatten()
    }

    fn finish(&mut self) {
        // Workers write to the buffers of what is on its way, which they own: there is nothing to wait for.
        self.staged.clear();
    }
}
