//! What a client does beside its statements: it takes their time, and lets transactions lie idle.

use pgassay_protocol::{Failure, TransactionStatus};

use super::{Client, Outcome, Source, State};
use crate::clock::monotonic_ns;
use crate::transport::Transport;

/// Statements beyond these are not timed, so that a long script costs no memory.
const STATEMENTS_TIMED_MAX: usize = 100;

impl<T: Transport> Client<T> {
    /// What the statements of the last transaction took, in nanoseconds.
    pub fn took(&self) -> &[(usize, u64)] {
        &self.took
    }

    /// A statement's answer has come.
    #[inline]
    pub(super) fn note_statement(&mut self) {
        if self.state != State::Running {
            return;
        }
        if let Source::Builtin(script) = &self.work.source {
            let kind = script.kinds[self.transaction.step(self.step).0];
            self.note(kind, monotonic_ns());
        }
    }

    #[inline]
    pub(super) fn note(&mut self, statement: usize, now_ns: u64) {
        if statement < STATEMENTS_TIMED_MAX {
            self.took.push((statement, now_ns.saturating_sub(self.asked_ns)));
        }
        self.asked_ns = now_ns;
    }

    /// The pause before the last statement of a transaction, which ends it.
    #[inline]
    pub(super) fn pause_before_end(&mut self, status: TransactionStatus) -> Option<Outcome> {
        let is_last = self.step + 1 == self.transaction.len();
        if self.pauses.is_none() || !is_last || status == TransactionStatus::Idle {
            return None;
        }
        Some(self.pause(monotonic_ns()))
    }

    pub(super) fn pause(&mut self, now_ns: u64) -> Outcome {
        let pause_ns = self.pauses.as_mut().map_or(0, |pauses| pauses.next_ns());
        self.timing.paused_ns += pause_ns;
        self.state = State::Sleeping;
        Outcome::Sleeping(now_ns.saturating_add(pause_ns))
    }

    /// Goes on with a transaction of pgassay's own after a pause.
    pub(super) fn go_on_at_end(&mut self, now_ns: u64) -> Result<Outcome, Failure> {
        if self.state != State::Sleeping {
            return Ok(Outcome::Waiting);
        }
        self.state = State::Running;
        self.asked_ns = now_ns;
        self.send_statement()?;
        Ok(Outcome::Waiting)
    }
}
