//! A client that runs a script of the user's: how it goes on, and what an answer means to it.

use pgassay_protocol::{Captured, Failure, TransactionStatus};

use super::{Client, Outcome, State};
use crate::clock::monotonic_ns;
use crate::interpreter::Step;
use crate::transport::Transport;

impl<T: Transport> Client<T> {
    /// Goes on with a script after a sleep, or after an answer.
    ///
    /// # Errors
    /// When the connection is lost, or a command fails for good.
    pub fn go_on(&mut self, now_ns: u64) -> Result<Outcome, Failure> {
        let Some(interpreter) = &mut self.interpreter else {
            return Ok(Outcome::Waiting);
        };
        self.state = State::Running;
        match interpreter.advance(&mut self.output, self.status) {
            Ok(Step::Wait(answers)) => {
                self.awaited = answers;
                self.answer.captured = interpreter.wants_rows().then(Captured::default);
                self.send()?;
                Ok(Outcome::Waiting)
            }
            Ok(Step::Sleep(nanoseconds)) => {
                self.state = State::Sleeping;
                // What a pipeline has queued may go meanwhile.
                self.send()?;
                Ok(Outcome::Sleeping(now_ns.saturating_add(nanoseconds)))
            }
            Ok(Step::End) => Ok(self.finish(Outcome::Committed)),
            Err(failure) => Err(self.with_context(failure)),
        }
    }

    /// An answer to a command of a script: the last of those that are awaited lets it go on.
    pub(super) fn answered_script(&mut self, status: TransactionStatus) -> Result<Outcome, Failure> {
        if let Some(failure) = self.answer.error.take() {
            self.failure.get_or_insert(failure);
        }
        self.status = status;
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited > 0 || self.state == State::Sleeping {
            return Ok(Outcome::Waiting);
        }
        let Some(interpreter) = &mut self.interpreter else {
            return Ok(Outcome::Waiting);
        };
        interpreter.answered(self.failure.is_none());
        self.answer.error = self.failure.take();
        if self.answer.error.is_some() {
            return self.answered_error(status);
        }
        if let Some(captured) = self.answer.captured.take() {
            let kept = interpreter.keep(captured);
            kept.map_err(|failure| self.with_context(failure))?;
        }
        self.go_on(monotonic_ns())
    }
}
