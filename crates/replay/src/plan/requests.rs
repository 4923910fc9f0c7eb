//! What a session has asked for: requests on their way, portals, and answers that hang on timing.

use std::sync::Arc;

use super::parts::Kind;
use super::sequences::Names;
use super::texts::Text;

/// A request whose answer has not come.
pub struct Request {
    pub text: Arc<Text>,
    pub is_query: bool,
    pub step: u32,
    /// It is over with this many ReadyForQuery.
    pub cycle: u32,
    pub sent_ns: u64,
    pub is_lacking: bool,
    pub portal: Option<Portal>,
}

/// A portal: its statement, with what Bind said of it.
#[derive(Clone)]
pub struct Portal {
    pub text: Arc<Text>,
    pub formats: Arc<[u16]>,
    /// The names of the sequences that it asks.
    pub names: Names,
}

/// How many Syncs count once data of COPY come: one that was sent behind the COPY itself, as libpq does, is read as a part
/// of the data and ignored. `last` is the latest request without an answer.
pub fn syncs_in_copy(last: Option<&Request>, syncs: u32) -> u32 {
    match last {
        Some(request) if !request.is_query => syncs.min(request.cycle - 1),
        _ => syncs,
    }
}

/// Deadlocks, serialization failures, locks that were not there in time, statements that were cancelled.
pub fn hangs_on_timing(kind: &Kind) -> bool {
    matches!(kind, Kind::Error(sqlstate) if [b"40P01", b"40001", b"55P03", b"57014"].contains(&sqlstate))
}
