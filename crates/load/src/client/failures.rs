//! What is said of a client that failed.

use pgassay_protocol::Failure;

use super::{Client, State};
use crate::transport::Transport;

impl<T: Transport> Client<T> {
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
