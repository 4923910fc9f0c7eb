//! What can go wrong with a connection, in the form that the native binary reports.

use std::fmt;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use serde::Serialize;

/// A failure, from the server (then `sqlstate` is set) or from the conversation with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// The server's five-character code; none where the client found the failure.
    pub sqlstate: Option<String>,
    /// The server's DETAIL.
    pub detail: Option<String>,
    /// The server's HINT.
    pub hint: Option<String>,
    /// Whether the connection can't be used any more.
    #[serde(skip)]
    pub fatal: bool,
}

impl Failure {
    /// A failure found by the client, after which the connection is of no use.
    pub fn client(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            sqlstate: None,
            detail: None,
            hint: None,
            fatal: true,
        }
    }

    /// The same failure, with the words that say where it happened put before its message.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Whether the transaction may succeed when tried again: serialization failure (40001) or deadlock (40P01).
    pub fn is_retryable(&self) -> bool {
        !self.fatal && matches!(self.sqlstate.as_deref(), Some("40001" | "40P01"))
    }

    pub(crate) fn from_response(body: &ErrorResponseBody) -> Self {
        let mut failure = Self::client("");
        failure.fatal = false;
        let mut fields = body.fields();
        // A malformed field ends the list; what came before it is still worth reporting.
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // 'V' is the severity in English; 'S' may be translated by lc_messages.
                b'V' => failure.fatal = matches!(value.as_str(), "FATAL" | "PANIC"),
                b'C' => failure.sqlstate = Some(value),
                b'M' => failure.message = value,
                b'D' => failure.detail = Some(value),
                b'H' => failure.hint = Some(value),
                _ => {}
            }
        }
        if failure.message.is_empty() {
            failure.message = "the server sent an error without a message".to_owned();
        }
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
