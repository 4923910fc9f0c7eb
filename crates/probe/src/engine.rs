//! The contract between the harness and a way of reading.
//!
//! An [`Engine`] is what the threads of a server share; a [`Lane`] is what one consumer has of it. The harness calls
//! the hooks in this order:
//!
//! 1. `Engine::threads`, once, before anything starts;
//! 2. `Engine::serve` on each of these threads, which returns after `Engine::retire`;
//! 3. `Engine::lane` on each consumer's thread;
//! 4. again and again on a lane: `start` for each request of the look-ahead, `submit` when the look-ahead is full
//!    or at a batch's limit, then `wait` for the request whose turn it is, and `ready` for what came with it;
//! 5. `Lane::finish`, when the consumer wants no more: what is on its way is waited for and thrown away;
//! 6. `Engine::retire`, once all lanes have finished.

use serde::Serialize;

use crate::failure::Failure;
use crate::reading::{Completed, Read};
use crate::time::stopwatch::Stopwatch;

/// The version of this contract: raised when a hook changes its meaning.
pub const VERSION: u32 = 1;

/// Which request a consumer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The one with this number: a scan needs its pages in order.
    Number(u64),
    /// Whichever comes first.
    Any,
}

/// What an engine has to tell when a cell is over.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EngineReport {
    /// Requests that a consumer had to do itself because the queue was full or its lock taken.
    pub synchronous_fallbacks: u64,
    /// Requests that the kernel was told to give to a worker thread of its own.
    pub asynchronous_requests: u64,
    /// Decisions over time, of an engine that takes any.
    #[serde(rename = "path", skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
}

/// A decision of the engine `hybrid`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The consumer that took it.
    pub consumer: usize,
    /// Since the start of its lane.
    pub at_s: f64,
    /// Who reads from now on: `own` (the consumer, when a request's turn comes), `ring`, `shared` with helpers, or
    /// `given` to them.
    #[serde(rename = "way")]
    pub mode: &'static str,
    /// Helpers from now on.
    pub helpers: usize,
    /// The share of the time in which the consumer had used a core, or waited for one, before.
    pub cpu_share: f64,
    /// Its rate before, 10⁶ bytes a second.
    pub mb_s: f64,
}

/// A way of reading, shared by all threads of a server.
pub trait Engine: Sync {
    /// How many threads of its own it needs.
    fn threads(&self) -> usize {
        0
    }

    /// Whether its threads are helpers, which share the work of the consumers, and not workers, which do all of the
    /// reading: the record accounts for their CPU time by this.
    fn threads_help_consumers(&self) -> bool {
        false
    }

    /// Whether the kernel may read for it on worker threads of its own, of io_uring: then the record tells their CPU
    /// time, and which waits were for them.
    fn waits_for_kernel_workers(&self) -> bool {
        false
    }

    /// The body of thread number `index`; returns soon after `retire`. The stopwatch is the thread's own.
    fn serve(&self, _index: usize, _watch: &mut Stopwatch) {}

    /// The lane of consumer number `consumer`, made on its thread.
    ///
    /// # Errors
    /// When the system refuses what the lane needs.
    fn lane(&self, consumer: usize) -> Result<Box<dyn Lane + '_>, Failure>;

    /// All lanes have finished: `serve` must return.
    fn retire(&self) {}

    /// What it has to tell; called after all threads have ended.
    fn report(&self) -> EngineReport {
        EngineReport::default()
    }
}

/// One consumer's part of an engine. Each hook gives the time it takes to tasks of the stopwatch.
pub trait Lane {
    /// Takes a request of the look-ahead. It may begin at once or wait for `submit`.
    ///
    /// # Errors
    /// When the system refuses it.
    fn start(&mut self, read: Read, watch: &mut Stopwatch) -> Result<(), Failure>;

    /// Everything that was started must be on its way on return. Called after at most
    /// [`SUBMIT_BATCH_MAX`](crate::spec::SUBMIT_BATCH_MAX) `start`s.
    ///
    /// # Errors
    /// When the system refuses it.
    fn submit(&mut self, _watch: &mut Stopwatch) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits for a request. Its pages have been verified on return, if they are to be.
    ///
    /// # Errors
    /// When a read failed, whichever.
    fn wait(&mut self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure>;

    /// Whether a request has ended, so that waiting for it would take no time; a lane whose requests are read when
    /// their turn comes says no.
    fn is_here(&mut self, _number: u64) -> bool {
        false
    }

    /// Another request that is complete already; asked for by consumers that take any.
    fn ready(&mut self, _watch: &mut Stopwatch) -> Option<Completed> {
        None
    }

    /// Waits until nothing is on its way any more.
    fn finish(&mut self) {}
}
