//! Where a consumer finds what other threads have read for it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::Wanted;
use crate::failure::Failure;
use crate::reading::Completed;
use crate::threads::latch::Latch;
use crate::time::stopwatch::{Stopwatch, Task};

#[derive(Default)]
struct State {
    arrived: VecDeque<Completed>,
    failure: Option<Failure>,
    /// What the consumer sleeps for.
    awaited: Option<Wanted>,
}

/// The mailbox of one consumer.
pub struct Mailbox {
    state: Mutex<State>,
    latch: Latch,
}

impl Mailbox {
    /// A mailbox with nothing in it.
    ///
    /// # Errors
    /// When the process may open no more files.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self {
            state: Mutex::default(),
            latch: Latch::new()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the end of a read in; wakes the consumer if it sleeps for it.
    pub fn deliver(&self, outcome: Result<Completed, Failure>) {
        let mut state = self.lock();
        let concerns = match (&outcome, state.awaited) {
            (Ok(completed), Some(Wanted::Number(number))) => completed.read.number == number,
            (_, awaited) => awaited.is_some(),
        };
        match outcome {
            Ok(completed) => state.arrived.push_back(completed),
            Err(failure) => state.failure = Some(failure),
        }
        if concerns {
            state.awaited = None;
            drop(state);
            self.latch.set();
        }
    }

    /// Takes a read that has ended, if there is one.
    ///
    /// # Errors
    /// The failure of any read.
    pub fn take(&self, wanted: Wanted) -> Result<Option<Completed>, Failure> {
        find(&mut self.lock(), wanted)
    }

    /// Whether a read has ended.
    pub fn has(&self, number: u64) -> bool {
        let state = self.lock();
        state
            .arrived
            .iter()
            .any(|completed| completed.read.number == number)
    }

    /// Waits for the end of a read.
    ///
    /// # Errors
    /// The failure of any read.
    pub fn wait(&self, wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        loop {
            let mut state = self.lock();
            if let Some(completed) = find(&mut state, wanted)? {
                drop(state);
                watch.lap(Task::HandOver);
                return Ok(completed);
            }
            state.awaited = Some(wanted);
            drop(state);
            watch.lap(Task::HandOver);
            self.latch.wait();
            watch.lap(Task::WaitForThread);
        }
    }
}

fn find(state: &mut State, wanted: Wanted) -> Result<Option<Completed>, Failure> {
    if let Some(failure) = &state.failure {
        return Err(failure.clone());
    }
    Ok(match wanted {
        Wanted::Any => state.arrived.pop_front(),
        Wanted::Number(number) => {
            let place = state
                .arrived
                .iter()
                .position(|completed| completed.read.number == number);
            place.and_then(|place| state.arrived.remove(place))
        }
    })
}
