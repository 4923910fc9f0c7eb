//! The server's answer to a request, up to ReadyForQuery.

use crate::captured::Captured;
use crate::failure::Failure;
use crate::input::InputBuffer;
use crate::message::{error_response, unexpected};
use crate::notice::NoticeStore;

/// Where the session stands after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Outside a transaction.
    Idle,
    /// In a transaction.
    Open,
    /// In a transaction that can only be rolled back.
    Failed,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerState {
    /// Read more bytes.
    Incomplete,
    /// The server waits for COPY data: send it, or refuse.
    CopyIn,
    /// The answer is complete.
    Ready(TransactionStatus),
}

/// One answer: rows are counted and dropped, the first error is kept, notices as far as there is room.
#[derive(Debug, Default)]
pub struct Answer {
    /// Rows received, of all statements of the request.
    pub rows: u64,
    /// Queries that ended well, of all requests since somebody set it to 0.
    pub queries: u64,
    /// Rows that the last query changed or returned, as its completion says; None unless `counts_changes`.
    pub changed: Option<u64>,
    /// Whether `changed` is read at all.
    pub counts_changes: bool,
    /// Statements that were prepared, of all requests since somebody set it to 0.
    pub prepared: u64,
    /// Whether COPY to the client is a failure, and not data to be dropped.
    pub refuses_copy: bool,
    /// The first error.
    pub error: Option<Failure>,
    /// Where notices are kept; nowhere by default, so that a load pays nothing for them.
    pub notices: NoticeStore,
    /// Where the last row of each query is kept; nowhere by default. The buffer must keep rows as well.
    pub captured: Option<Captured>,
}

impl Answer {
    /// Takes what has arrived.
    ///
    /// # Errors
    /// When the bytes aren't an answer, or the server ended the session (a FATAL error).
    #[inline]
    pub fn read(&mut self, input: &mut InputBuffer) -> Result<AnswerState, Failure> {
        while let Some(frame) = input.next_frame()? {
            match frame.tag {
                b'D' => {
                    self.rows += 1;
                    if let Some(captured) = &mut self.captured {
                        captured.row(frame.body)?;
                    }
                }
                b'T' | b'C' | b'I' if self.captured.is_some() => {
                    self.queries += u64::from(frame.tag != b'T');
                    if let Some(captured) = &mut self.captured {
                        match frame.tag {
                            b'T' => captured.describe(frame.body)?,
                            _ => captured.complete(),
                        }
                    }
                }
                // CommandComplete, empty query. BindComplete, RowDescription, ParseComplete, NoData, CloseComplete,
                // ParameterDescription, PortalSuspended; parameter, notification; COPY out.
                b'C' if self.counts_changes => {
                    self.queries += 1;
                    self.changed = Some(rows_of(frame.body));
                }
                b'C' | b'I' => self.queries += 1,
                b'1' => self.prepared += 1,
                b'H' if self.refuses_copy => return Err(Failure::client("the server sends COPY data")),
                b'2' | b'T' | b'n' | b'3' | b't' | b's' => {}
                b'S' | b'A' | b'H' | b'd' | b'c' => {}
                b'N' => self.notices.keep(frame.body),
                b'G' => return Ok(AnswerState::CopyIn),
                b'Z' => return transaction_status(frame.body).map(AnswerState::Ready),
                b'E' => {
                    let failure = error_response(frame.body)?;
                    if failure.fatal {
                        return Err(failure);
                    }
                    self.error.get_or_insert(failure);
                }
                tag => return Err(unexpected(tag, "in an answer to a query")),
            }
        }
        Ok(AnswerState::Incomplete)
    }
}

/// The number at the end of a completion, as `UPDATE 1` or `INSERT 0 1`; 0 of one without any.
fn rows_of(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&tag[tag.len() - digits..])
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[inline]
fn transaction_status(body: &[u8]) -> Result<TransactionStatus, Failure> {
    match body {
        b"I" => Ok(TransactionStatus::Idle),
        b"T" => Ok(TransactionStatus::Open),
        b"E" => Ok(TransactionStatus::Failed),
        _ => Err(Failure::client(
            "the server sent a ReadyForQuery message that can't be read",
        )),
    }
}
