//! What is asked of a volume.

use serde::{Deserialize, Serialize};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads `length` bytes from `offset` on.
    Read,
    /// Writes them.
    Write,
    /// Makes durable what was written. It passes no limiter; `offset` and `length` say nothing.
    Flush,
}

/// One request, as it reaches the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives. Requests are submitted in this order; one that is earlier than its forerunner is served
    /// behind it, as one that arrived with it.
    pub arrival_ns: u64,
    /// What it does.
    pub kind: Kind,
    /// Its first byte on the volume.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
}
