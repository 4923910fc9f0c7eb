//! How many transactions are due and were not begun, for a live view.

use crate::pacing::Pacer;

/// Follows a pacer: what it will give is drawn a second time, ahead of it.
#[derive(Clone, Debug)]
pub struct Queue {
    ahead: Pacer,
    due: u64,
    taken: u64,
}

impl Queue {
    /// Of a pacer of which nothing was taken yet.
    pub fn of(pacer: &Pacer) -> Self {
        Self {
            ahead: pacer.clone(),
            due: 0,
            taken: 0,
        }
    }

    /// One was taken from the pacer, before it was due or after.
    #[inline]
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// How many are due by an instant and were not taken; instants must not fall.
    pub fn length(&mut self, at_ns: u64) -> u64 {
        while self.ahead.due_ns() <= at_ns {
            self.ahead.take();
            self.due += 1;
        }
        self.due.saturating_sub(self.taken)
    }
}
