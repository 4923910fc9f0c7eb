//! A client that runs a script of the user's: how it goes on, and what an answer means to it.

use pgassay_protocol::{Captured, Failure, TransactionStatus};

use super::{Client, Outcome, State};
use crate::clock::monotonic_ns;
use crate::interpreter::sessions::Answered;
use crate::interpreter::{Interpreter, Step};
use crate::transport::Transport;

impl<T: Transport> Client<T> {
    /// Goes on with a script after a sleep, or after an answer.
    ///
    /// # Errors
    /// When the connection is lost, or a command fails for good.
    pub fn go_on(&mut self, now_ns: u64) -> Result<Outcome, Failure> {
        let Some(interpreter) = &mut self.interpreter else {
            return self.go_on_at_end(now_ns);
        };
        self.state = State::Running;
        self.asked_ns = now_ns;
        match interpreter.advance(&mut self.output, self.status) {
            Ok(Step::Wait(answers)) => {
                self.awaited = answers.saturating_sub(std::mem::take(&mut self.early)).max(1);
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
            Ok(Step::Idle) => Ok(self.pause(now_ns)),
            Ok(Step::End) => Ok(self.finish(Outcome::Committed)),
            Err(failure) => Err(self.with_context(failure)),
        }
    }

    /// An answer to a command of a script: the last of those that are awaited lets it go on.
    pub(super) fn answered_script(&mut self, status: TransactionStatus) -> Result<Outcome, Failure> {
        if !self.answer.notices.is_empty() {
            self.tell_notices();
        }
        if let Some(failure) = self.answer.error.take() {
            if self.failure.is_none() {
                self.failed_at = Some(self.failed_at());
                self.failure = Some(failure);
            }
        }
        self.status = status;
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited > 0 || self.state == State::Sleeping {
            // Of a pipeline that sleeps an answer may come before anybody waits for it.
            self.early += usize::from(self.state == State::Sleeping);
            let queries = std::mem::take(&mut self.answer.queries);
            self.answered.end(queries);
            return Ok(Outcome::Waiting);
        }
        let Some(interpreter) = &mut self.interpreter else {
            return Ok(Outcome::Waiting);
        };
        interpreter.answered(self.failed_at);
        let command = interpreter.command();
        self.answer.error = self.failure.take();
        if self.answer.error.is_some() {
            return self.answered_error(status);
        }
        if let Some(captured) = self.answer.captured.take() {
            let kept = interpreter.keep(captured);
            kept.map_err(|failure| self.with_context(failure))?;
        }
        self.forget_answers();
        let now_ns = monotonic_ns();
        if self.work.times_statements {
            self.note(command, now_ns);
        }
        self.go_on(now_ns)
    }

    /// Begins a transaction of this script.
    ///
    /// # Errors
    /// When the connection is lost, or the script fails.
    pub fn begin_script(&mut self, script: usize, now_ns: u64) -> Result<Outcome, Failure> {
        self.forget_answers();
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.begin(script);
        }
        self.go_on(now_ns)
    }

    /// Begins the transaction that was given up once more, with the same random numbers.
    ///
    /// # Errors
    /// When the connection is lost, or the script fails.
    pub fn begin_again(&mut self, now_ns: u64) -> Result<Outcome, Failure> {
        self.forget_answers();
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.begin_again();
        }
        self.go_on(now_ns)
    }

    /// What is sent next has had no answer yet.
    fn forget_answers(&mut self) {
        (self.answer.queries, self.answer.prepared) = (0, 0);
        (self.answered, self.failed_at, self.early) = (Answered::default(), None, 0);
    }

    /// Its number among all clients.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its place in a script of the user's.
    pub fn interpreter(&mut self) -> Option<&mut Interpreter> {
        self.interpreter.as_deref_mut()
    }

    /// Why its last transaction was given up.
    pub fn given_up(&self) -> Option<&Failure> {
        self.given_up.as_ref()
    }

    /// Whether it is taking back a transaction that was given up.
    pub fn is_rolling_back(&self) -> bool {
        self.state == State::RollingBack
    }
}
