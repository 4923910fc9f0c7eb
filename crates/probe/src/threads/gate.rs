//! Lets all threads of a cell begin together.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::time::clock::monotonic_ns;

#[derive(Default)]
struct State {
    arrived: usize,
    /// When it opened; 0 when nothing is to be measured.
    opened: Option<u64>,
}

/// Threads arrive, and go on once it is opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it opens; the time at which it did, None when the measurement was called off.
    pub fn pass(&self) -> Option<u64> {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        while state.opened.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.opened.filter(|time| *time > 0)
    }

    /// Opens once `threads` threads have arrived; tells the time.
    pub fn open_for(&self, threads: usize) -> u64 {
        let mut state = self.lock();
        while state.arrived < threads {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let now = monotonic_ns();
        state.opened = Some(now);
        self.changed.notify_all();
        now
    }

    /// Calls the measurement off: whoever waits, or comes later, measures nothing.
    pub fn call_off(&self) {
        let mut state = self.lock();
        if state.opened.is_none() {
            state.opened = Some(0);
        }
        self.changed.notify_all();
    }
}
