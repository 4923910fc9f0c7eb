//! What happened in a captured server, as a reader gives it.

use std::sync::Arc;

/// One record of a capture. Those of a session, and all of one file, stand in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The session, from 1; unique in the capture.
    pub session: u32,
    /// When the proxy had it, nanoseconds from time 0 of the capture.
    pub at_ns: u64,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The client's startup message came.
    Begin(Begin),
    /// The server has let the client in and is ready.
    Ready,
    /// Messages of the client, which came together.
    Messages(Vec<Message>),
    /// Messages of the server, which came together.
    Answers(Vec<Answer>),
    /// A request to cancel what this session runs (it comes on a connection of its own).
    Cancel,
    /// The session is over.
    End(End),
    /// The session is not in the capture: what was read of it is to be ignored.
    Dropped,
}

/// How a session began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// The protocol's version as sent: 196608 is 3.0, 196610 is 3.2; 0 where a log doesn't say.
    pub protocol: u32,
    /// Whether the client spoke TLS.
    pub is_encrypted: bool,
    /// The startup parameters, as sent: user, database, options, application_name, …
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Begin {
    /// A startup parameter as text.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let found = self
            .parameters
            .iter()
            .find(|(known, _)| known == name.as_bytes())?;
        Some(String::from_utf8_lossy(&found.1).into_owned())
    }

    /// The role.
    pub fn user(&self) -> String {
        self.parameter("user").unwrap_or_default()
    }

    /// The database; without one it has the role's name.
    pub fn database(&self) -> String {
        self.parameter("database").unwrap_or_else(|| self.user())
    }
}

/// A message of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type as in the protocol: Q, P, B, D, E, S, H, C, d, c, f, F, X.
    pub tag: u8,
    /// What follows the length, as the server had it (secrets in statements are replaced).
    pub body: Vec<u8>,
    /// The statement of Query and Parse, shared by all that have the same.
    pub text: Option<Arc<[u8]>>,
    /// How many bytes the body had where its content was not kept; then it is empty. CopyData may be so, and a Query
    /// or Parse without the form that it must have.
    pub left_out_bytes: Option<u64>,
}

impl Message {
    /// Appends the message as it goes to a server.
    pub fn write(&self, output: &mut Vec<u8>) {
        output.push(self.tag);
        // A message of the protocol has less than 2 GiB.
        let length = u32::try_from(self.body.len() + 4).unwrap_or(u32::MAX);
        output.extend_from_slice(&length.to_be_bytes());
        output.extend_from_slice(&self.body);
    }
}

/// Rows, or messages of COPY data, that came before the end of a statement's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// How many.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Sum, modulo 2³², of the CRC-32 of each body: the same rows in another order have the same.
    pub sum: u32,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A message of which nothing but its type is kept: 1, 2, 3, n, G, H, W, I, A.
    Plain(u8),
    /// ParameterDescription (t) or RowDescription (T): the body.
    Description(u8, Arc<[u8]>),
    /// A row that was kept: the body of its DataRow.
    Row(Vec<u8>),
    /// CommandComplete.
    Complete {
        /// The tag without the number at its end, e.g. "INSERT 0"; empty where a log doesn't say.
        tag: Arc<[u8]>,
        /// The number at the tag's end.
        affected: Option<u64>,
        /// What was sent before it.
        rows: Rows,
    },
    /// PortalSuspended.
    Suspended(Rows),
    /// ErrorResponse.
    Error {
        /// Its SQLSTATE.
        sqlstate: [u8; 5],
        /// What was sent before it.
        rows: Rows,
    },
    /// FunctionCallResponse.
    FunctionResult(Rows),
    /// ReadyForQuery: I, T or E.
    Ready(u8),
    /// The statement ended, and the log doesn't say how many rows it had.
    Unknown,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The server's last error before it was ready, where it refused the client.
    pub sqlstate: Option<[u8; 5]>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The client sent Terminate.
    Terminated,
    /// The client went without a word.
    ClientLost,
    /// The server closed the connection.
    ServerClosed,
    /// The session was there when the capture ended.
    CaptureEnded,
    /// The server did not let the client in, or could not be reached.
    Refused,
    /// One side sent what is no message.
    BadMessage,
}

impl EndReason {
    /// Its number in the file.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// From its number.
    pub fn from_code(code: u8) -> Option<Self> {
        [
            Self::Terminated,
            Self::ClientLost,
            Self::ServerClosed,
            Self::CaptureEnded,
            Self::Refused,
            Self::BadMessage,
        ]
        .get(usize::from(code))
        .copied()
    }
}
