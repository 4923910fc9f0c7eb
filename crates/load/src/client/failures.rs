//! What is said of a client that failed.

use pgassay_protocol::Failure;

use super::{Client, State};
use crate::interpreter::sessions::FailedAt;
use crate::spec::QueryProtocol;
use crate::transport::Transport;

impl<T: Transport> Client<T> {
    /// Where a script's command failed, or would now.
    pub fn failed_at(&self) -> FailedAt {
        self.failed_at.unwrap_or_else(|| {
            let queries = self.answer.queries;
            let is_simple = self.work.protocol == QueryProtocol::Simple;
            FailedAt {
                sent: usize::try_from(self.answered.queries + queries).unwrap_or(usize::MAX),
                prepared: self.answer.prepared,
                query: match queries {
                    0 => self.answered.syncs,
                    _ if is_simple => queries,
                    _ => 0,
                },
            }
        })
    }

    /// Tells what the server said beside its answer, as libpq does.
    #[cold]
    pub(super) fn tell_notices(&mut self) {
        let dropped = self.answer.notices.dropped();
        for text in self.answer.notices.take_texts() {
            eprintln!("{text}");
        }
        if dropped > 0 {
            eprintln!("pgbench: {dropped} more notices came with this answer");
        }
    }

    #[cold]
    pub(super) fn connection_lost(&self, reason: &str) -> Failure {
        self.with_context(Failure::client(format!(
            "the connection to the server was lost: {reason}"
        )))
    }

    /// Adds to a failure which client met it, and what it was doing.
    #[cold]
    pub(super) fn with_context(&self, failure: Failure) -> Failure {
        if !self.work.tells_place {
            return failure;
        }
        let place = match self.state {
            State::Idle => "while idle".to_owned(),
            State::Preparing => "while preparing the statements".to_owned(),
            State::RollingBack => "in the statement \"ROLLBACK\"".to_owned(),
            State::Running | State::Sleeping => match (self.statement(), &self.interpreter) {
                (Some(statement), _) => format!("in the statement \"{}\"", statement.text),
                (None, Some(interpreter)) => interpreter.place(),
                (None, None) => String::new(),
            },
        };
        failure.within(&format!("client {} failed {place}", self.number))
    }
}
