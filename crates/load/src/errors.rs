//! Errors by SQLSTATE, with the first message of each.

use std::collections::BTreeMap;

use pgassay_protocol::Failure;
use serde::Serialize;

/// What a client says of a connection that it could not open, and of one that it lost (PostgreSQL's own codes,
/// which drivers use for what no server can tell them).
pub const NOT_CONNECTED: &str = "08001";
/// See `NOT_CONNECTED`.
pub const CONNECTION_LOST: &str = "08006";
const LOST: &str = "the connection to the server was lost";

/// What a server that can only be read answers to a change: the connection goes to what was a primary.
const READ_ONLY: &str = "25006";
/// Classes of what stays wrong however often a connection is tried: the name or the password, the database.
const LASTING: [&str; 2] = ["28", "3D"];

/// Whether a connection is of no use any more, and another one may be: it was lost, or the server ended it.
pub fn is_outage(failure: &Failure) -> bool {
    match failure.sqlstate.as_deref() {
        Some(state) => failure.fatal || state == READ_ONLY,
        None => failure.message.contains(LOST),
    }
}

/// Whether opening a connection will fail again in the same way.
pub fn is_lasting(refused: &Failure) -> bool {
    let state = refused.sqlstate.as_deref().unwrap_or_default();
    LASTING.iter().any(|class| state.starts_with(class))
}

/// Errors of one SQLSTATE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfState {
    /// How many.
    pub count: u64,
    /// The first one's message.
    pub example: String,
}

/// Errors by SQLSTATE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Errors(BTreeMap<String, OfState>);

impl Errors {
    /// Counts an error of a statement, or a connection that was lost; what a script itself did wrong is neither.
    #[cold]
    pub fn count(&mut self, failure: &Failure) {
        let is_lost = failure.message.contains(LOST);
        if let Some(state) = failure.sqlstate.as_deref().or(is_lost.then_some(CONNECTION_LOST)) {
            self.add(state, 1, &failure.message);
        }
    }

    /// Counts a connection that could not be opened.
    #[cold]
    pub fn count_refused(&mut self, failure: &Failure) {
        let state = failure.sqlstate.as_deref().unwrap_or(NOT_CONNECTED);
        self.add(state, 1, &failure.message);
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        for (state, found) in &other.0 {
            self.add(state, found.count, &found.example);
        }
    }

    fn add(&mut self, state: &str, count: u64, example: &str) {
        let found = self.0.entry(state.to_owned()).or_default();
        if found.count == 0 {
            example.clone_into(&mut found.example);
        }
        found.count += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: &str, message: &str) -> Failure {
        Failure {
            sqlstate: Some(state.to_owned()),
            ..Failure::client(message)
        }
    }

    #[test]
    fn a_connection_that_the_server_ended_is_tried_again_and_a_wrong_password_is_not() {
        let ended = Failure {
            fatal: true,
            ..server("57P01", "terminating connection due to administrator command")
        };
        let statement = Failure {
            fatal: false,
            ..server("42P01", "no table")
        };
        assert!(is_outage(&ended) && is_outage(&Failure::client(format!("{LOST}: it is gone"))));
        assert!(!is_outage(&statement) && !is_outage(&Failure::client("division by zero")));
        assert!(is_lasting(&server("28P01", "wrong")) && !is_lasting(&server("57P03", "starting up")));
    }

    #[test]
    fn errors_are_counted_by_their_state_with_the_first_message() {
        let (mut first, mut second) = (Errors::default(), Errors::default());
        first.count(&server("40P01", "deadlock detected"));
        first.count(&Failure::client(format!("{LOST}: the server closed it")));
        first.count(&Failure::client("division by zero"));
        second.count(&server("40P01", "Verklemmung entdeckt"));
        second.count_refused(&Failure::client("no such file"));
        second.count_refused(&server("53300", "sorry, too many clients already"));
        first.merge(&second);
        let found: Vec<_> = first
            .0
            .iter()
            .map(|(state, of)| (state.as_str(), of.count))
            .collect();
        assert_eq!(found, [("08001", 1), ("08006", 1), ("40P01", 2), ("53300", 1)]);
        assert_eq!(first.0["40P01"].example, "deadlock detected");
    }
}
