//! What a session has asked for: requests on their way, portals, descriptions, and answers that hang on timing.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use pgassay_capture::format::bind::name;

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
    /// Executions of one number have no Sync and no Flush between them; 0 for one that is alone.
    pub batch: u32,
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

/// Descriptions of the rows of statements, and those that were asked for and have not come. Many drivers ask once, when
/// they prepare, and then only execute.
#[derive(Default)]
pub struct Descriptions<Of> {
    /// With how many ReadyForQuery the request is over, and what it is of, where that is known.
    asked: VecDeque<(u32, Option<Of>)>,
    known: HashMap<Of, Arc<[u8]>>,
}

impl<Of: Eq + Hash> Descriptions<Of> {
    /// A Describe was sent.
    pub fn ask(&mut self, cycle: u32, of: Option<Of>) {
        self.asked.push_back((cycle, of));
    }

    /// A description came, without a body of what has no rows: the one that was asked for, else that of the query which is
    /// answered.
    pub fn came(&mut self, cycle: u32, query: Option<Of>, body: Option<&Arc<[u8]>>) {
        let is_asked = self.asked.front().is_some_and(|(over, _)| *over <= cycle);
        let of = match is_asked {
            true => self.asked.pop_front().and_then(|(_, of)| of),
            false => query,
        };
        if let (Some(of), Some(body)) = (of, body) {
            self.known.insert(of, Arc::clone(body));
        }
    }

    /// What was asked for until this ReadyForQuery, and skipped behind an error, does not come any more.
    pub fn skip(&mut self, cycle: u32) {
        while self.asked.front().is_some_and(|(over, _)| *over <= cycle) {
            self.asked.pop_front();
        }
    }

    /// What it was of is something else from now on.
    pub fn forget(&mut self, of: &Of) {
        self.known.remove(of);
    }

    /// The description, where it came.
    pub fn get(&self, of: &Of) -> Option<&Arc<[u8]>> {
        self.known.get(of)
    }
}

/// The family of the statement or portal that a Describe asks for.
pub fn described(
    body: &[u8],
    statements: &HashMap<Vec<u8>, Arc<Text>>,
    portals: &HashMap<Vec<u8>, Portal>,
) -> Option<u32> {
    let (kind, rest) = body.split_first()?;
    let text = match kind {
        b'S' => statements.get(name(rest))?,
        _ => &portals.get(name(rest))?.text,
    };
    Some(text.family)
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
