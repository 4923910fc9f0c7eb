//! The player: one thread and its connections.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use pgassay_load::clock::{RunQueue, monotonic_ns, thread_cpu_ns};
use pgassay_load::worker::timer::Timer;
use pgassay_protocol::Failure;

use crate::plan::Plan;

mod answers;
mod copying;
mod made;
pub mod opening;
mod played;
mod queues;
mod stepping;
pub mod tally;
mod watching;

use made::Made;
use opening::{Opener, Opening};
use played::{Phase, Played};
use queues::Queues;
use tally::Tally;

const TIMER: Token = Token(usize::MAX - 1);
const WAKE: Token = Token(usize::MAX);
const EVENTS_PER_WAIT: usize = 1024;
const READ_BYTES: usize = 64 << 10;
/// How often waiting sessions are looked through.
const LOOK_NS: u64 = 5_000_000;
const SILENT_NS: u64 = 60_000_000_000;
const PROGRESS_NS: u64 = 1_000_000_000;

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the start.
    pub elapsed_ns: u64,
    /// Executions.
    pub replayed: u64,
    /// Sessions that are open.
    pub open: u64,
    /// How far behind the latest step went out, nanoseconds; 0 without a pace.
    pub behind_ns: u64,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// All counts.
    pub tally: Tally,
    /// When the first session was due, by the monotonic clock.
    pub start_ns: u64,
    /// From the first session to the last answer.
    pub elapsed_ns: u64,
    /// CPU time of the player's thread.
    pub cpu_ns: u64,
    /// How long it was ready and had no processor.
    pub without_processor_ns: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

/// A replay that runs.
pub struct Player<O: Opener> {
    plan: Arc<Plan>,
    /// None: as fast as the order between sessions allows.
    speed: Option<f64>,
    poll: Poll,
    timer: Timer,
    opening: Opening<O::Transport>,
    played: Vec<Played<O::Transport>>,
    queues: Queues,
    made: Made,
    tally: Tally,
    /// Sessions whose next doing is due at an instant.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    woken: Vec<usize>,
    /// Reads that were sent: when, the session, the step.
    plain: VecDeque<(u64, usize, usize)>,
    start_ns: u64,
    told_ns: u64,
    behind_ns: u64,
    running: usize,
    buffer: Vec<u8>,
    /// When no server says anything for so long, and ten times the capture's longest statement besides, it will not.
    pub silent_ns: u64,
}

impl<O: Opener> Player<O> {
    /// Makes ready to play.
    ///
    /// # Errors
    /// When the system gives no thread or timer.
    pub fn new(plan: Arc<Plan>, speed: Option<f64>, opener: O) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(&poll, TIMER)?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let opening = Opening::start(Arc::new(opener), &plan, waker)?;
        Ok(Self {
            queues: Queues::new(&plan),
            tally: Tally::new(plan.families.len()),
            played: plan.sessions.iter().map(|_| Played::new()).collect(),
            running: plan.sessions.len(),
            plan,
            speed,
            poll,
            timer,
            opening,
            made: Made::default(),
            due: BinaryHeap::new(),
            woken: Vec::new(),
            plain: VecDeque::new(),
            start_ns: 0,
            told_ns: 0,
            behind_ns: 0,
            buffer: vec![0; READ_BYTES],
            silent_ns: SILENT_NS,
        })
    }

    /// Plays all of it, or until `stop` is set.
    ///
    /// # Errors
    /// When the system refuses to wait for connections.
    pub fn play(mut self, stop: &AtomicBool, mut progress: impl FnMut(Progress)) -> Result<Outcome, Failure> {
        let run_queue = RunQueue::of_this_thread();
        let (cpu_ns, waited_ns) = (thread_cpu_ns(), run_queue.waited_ns());
        self.start_ns = monotonic_ns();
        self.told_ns = self.start_ns;
        for session in 0..self.played.len() {
            let at_ns = self.instant(self.plan.sessions[session].begin_ns);
            self.due.push(Reverse((at_ns, session)));
        }
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        let (mut looked_ns, mut said_ns) = (self.start_ns, self.start_ns);
        let mut heard_ns = self.start_ns;
        while self.running > 0 && !stop.load(Ordering::Relaxed) {
            self.wait(&mut events).map_err(|error| epoll_failure(&error))?;
            self.told_ns = monotonic_ns();
            for event in &events {
                if event.token() < TIMER {
                    heard_ns = self.told_ns;
                    self.serve(event.token().0, event.is_read_closed());
                }
            }
            if self.take_opened() {
                heard_ns = self.told_ns;
            }
            self.go_on();
            if self.told_ns - looked_ns >= LOOK_NS {
                looked_ns = self.told_ns;
                self.look(looked_ns, heard_ns);
                self.go_on();
            }
            if self.told_ns - said_ns >= PROGRESS_NS {
                said_ns = self.told_ns;
                progress(self.progress());
            }
        }
        let is_stopped = self.running > 0;
        for session in 0..self.played.len() {
            self.end(session, None);
        }
        Ok(Outcome {
            start_ns: self.start_ns,
            elapsed_ns: monotonic_ns() - self.start_ns,
            cpu_ns: thread_cpu_ns() - cpu_ns,
            without_processor_ns: run_queue.waited_ns() - waited_ns,
            is_stopped,
            tally: self.tally,
        })
    }

    fn progress(&self) -> Progress {
        let open = self
            .played
            .iter()
            .filter(|played| played.phase == Phase::Open)
            .count();
        Progress {
            elapsed_ns: self.told_ns - self.start_ns,
            replayed: self.tally.replayed,
            open: open as u64,
            behind_ns: self.behind_ns,
        }
    }

    /// The instant of the clock that a time of the capture is played at; at once without a pace.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn instant(&self, at_ns: u64) -> u64 {
        let since_ns = at_ns.saturating_sub(self.plan.from_ns);
        match self.speed {
            Some(speed) => self.start_ns + (since_ns as f64 / speed) as u64,
            None => self.start_ns,
        }
    }

    /// Waits for an event or the next instant, at most until the next look.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let now_ns = monotonic_ns();
        let due_ns = self.due.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        if due_ns <= now_ns || !self.woken.is_empty() {
            return poll(&mut self.poll, events, Some(Duration::ZERO));
        }
        let until_ns = due_ns.min(now_ns + LOOK_NS);
        let lead_ns = self.timer.lead_ns(now_ns);
        if until_ns - now_ns > lead_ns {
            self.timer.arm(until_ns - lead_ns)?;
            poll(&mut self.poll, events, None)?;
            if events.iter().any(|event| event.token() != TIMER) || until_ns < due_ns {
                return Ok(());
            }
        }
        // For the last bit the clock is looked at: a timer's wake-up is late by as much.
        while monotonic_ns() < until_ns {
            poll(&mut self.poll, events, Some(Duration::ZERO))?;
            if events.iter().any(|event| event.token() != TIMER) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

fn poll(poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        outcome => outcome,
    }
}

fn epoll_failure(error: &io::Error) -> Failure {
    Failure::client(format!(
        "the system refused to wait for connections (epoll): {error}"
    ))
}
