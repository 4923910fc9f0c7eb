//! What was replaced and what was left out.

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redacted {
    /// Sessions that were written.
    pub sessions: u64,
    /// Literals of statements that were replaced.
    pub literals: u64,
    /// Values of parameters that were replaced.
    pub parameters: u64,
    /// Comments that were blotted out.
    pub comments: u64,
    /// Rows that were left out.
    pub rows: u64,
    /// Messages whose content was left out: COPY data and arguments of function calls.
    pub left_out: u64,
    /// Startup parameters that were left out.
    pub startup: u64,
    /// Bytes that were written.
    pub bytes: u64,
}
