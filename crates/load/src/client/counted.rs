//! A client that runs a script of sysbench's: what its queries did, and what is left to send at its end.

use pgassay_protocol::Failure;

use super::{Client, Outcome, Source, State};
use crate::transaction::{Counter, Queries};
use crate::transport::Transport;

/// A row with this key is there already.
const UNIQUE_VIOLATION: &str = "23505";

impl<T: Transport> Client<T> {
    /// Counts the query that has just been answered.
    pub(super) fn count_query(&mut self) {
        if self.state != State::Running {
            return;
        }
        let Some(statement) = self.statement() else {
            return;
        };
        let changed = self.answer.changed.unwrap_or(0);
        match statement.counter {
            Counter::Read => self.counted.read += 1,
            Counter::Write if changed > 0 => self.counted.write += 1,
            Counter::Write | Counter::Other => self.counted.other += 1,
        }
    }

    /// Takes the counts since the last time.
    pub fn take_queries(&mut self) -> Queries {
        std::mem::take(&mut self.counted)
    }

    pub(super) fn is_tolerated_duplicate(&self, failure: &Failure) -> bool {
        let Source::Builtin(script) = &self.work.source else {
            return false;
        };
        script.tolerates_duplicates() && failure.sqlstate.as_deref() == Some(UNIQUE_VIOLATION)
    }

    pub(super) fn loses_what_was_counted(&self) -> bool {
        matches!(&self.work.source, Source::Builtin(script) if script.loses_what_was_counted())
    }

    /// Sends what is left of the rows that it gathered; `Committed` at once where there is nothing.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn send_rest(&mut self) -> Result<Outcome, Failure> {
        if let Source::Builtin(script) = &self.work.source {
            script.finish(&mut self.place, &mut self.transaction);
        }
        if self.transaction.is_empty() || !matches!(self.work.source, Source::Builtin(_)) {
            return Ok(Outcome::Committed);
        }
        self.step = 0;
        self.state = State::Running;
        self.send_statement()?;
        Ok(Outcome::Waiting)
    }
}
