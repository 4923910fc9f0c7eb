//! What a session has asked for and not yet got, as far as it decides which rows are kept.

use std::collections::{HashSet, VecDeque};

use crate::lexer::names_behind;
use crate::secrets::contains;

/// Words of statements with values that the server makes and others use.
const MAKING: [&str; 8] = [
    "returning",
    "nextval",
    "currval",
    "lastval",
    "setval",
    "uuid",
    "ctid",
    "xmin",
];
/// Of what is longer, a load of data as INSERT, only the end is looked through, where RETURNING stands.
const LOOKED_THROUGH_BYTES_MAX: usize = 64 << 10;
const END_BYTES: usize = 4 << 10;
const NAMES_MAX: usize = 10_000;
/// Of a client that asks so much ahead no rows are kept any more.
const AHEAD_MAX: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Query(bool),
    Execute(bool),
    Function,
    Sync,
}

/// A session's requests on their way, and its statements and portals whose rows are kept.
#[derive(Default)]
pub struct Flow {
    requests: VecDeque<Request>,
    is_lost: bool,
    statements: HashSet<Vec<u8>>,
    portals: HashSet<Vec<u8>>,
    /// Those that PREPARE made, and EXECUTE runs.
    in_sql: HashSet<Vec<u8>>,
}

impl Flow {
    /// Takes a message of the client; says whether it is one that runs something.
    pub fn sent(&mut self, tag: u8, body: &[u8]) -> bool {
        match tag {
            b'Q' => {
                let keeps = self.keeps_rows_of(body);
                self.push(Request::Query(keeps));
            }
            b'P' => {
                if let Some((name, text)) = two_names(body) {
                    let keeps = self.keeps_rows_of(text);
                    set(&mut self.statements, name, keeps);
                }
            }
            b'B' => {
                if let Some((portal, statement)) = two_names(body) {
                    let keeps = self.statements.contains(statement);
                    set(&mut self.portals, portal, keeps);
                }
            }
            b'E' => {
                let end = body.iter().position(|byte| *byte == 0).unwrap_or(0);
                let keeps = self.portals.contains(&body[..end]);
                self.push(Request::Execute(keeps));
            }
            b'F' => self.push(Request::Function),
            b'S' => self.push(Request::Sync),
            b'd' | b'c' | b'f' => self.in_copy(),
            b'C' if body.len() > 1 => {
                let names = if body[0] == b'S' {
                    &mut self.statements
                } else {
                    &mut self.portals
                };
                names.remove(&body[1..body.len() - 1]);
            }
            _ => {}
        }
        matches!(tag, b'Q' | b'E' | b'F')
    }

    /// Whether the statement makes values, itself or by one that was prepared.
    fn keeps_rows_of(&mut self, text: &[u8]) -> bool {
        let makes = makes_values(text);
        if makes && contains(text, b"prepare") {
            for name in names_behind(text, "prepare") {
                set(&mut self.in_sql, &name, true);
            }
        }
        let is_in = |name: &Vec<u8>| self.in_sql.contains(name);
        makes
            || (!self.in_sql.is_empty()
                && contains(text, b"execute")
                && names_behind(text, "execute").iter().any(is_in))
    }

    fn push(&mut self, request: Request) {
        if self.requests.len() >= AHEAD_MAX {
            self.is_lost = true;
            self.requests.clear();
        }
        // Which answer is whose can't be told any more: no row of this session is kept from here on.
        if !self.is_lost {
            self.requests.push_back(request);
        }
    }

    /// A Sync that was sent behind the COPY itself, as libpq does, is read as a part of its data and ignored.
    fn in_copy(&mut self) {
        let mut latest = self.requests.iter().rev();
        if latest.next() == Some(&Request::Sync) && matches!(latest.next(), Some(Request::Execute(_))) {
            self.requests.pop_back();
        }
    }

    /// Whether rows that come now are kept.
    pub fn keeps_rows(&self) -> bool {
        matches!(
            self.requests.front(),
            Some(Request::Query(true) | Request::Execute(true))
        )
    }

    /// An execution ended; a query may have more statements.
    pub fn completed(&mut self) {
        if matches!(self.requests.front(), Some(Request::Execute(_))) {
            self.requests.pop_front();
        }
    }

    /// The server skips to the next Sync, or ends the query.
    pub fn failed(&mut self) {
        while matches!(self.requests.front(), Some(Request::Execute(_))) {
            self.requests.pop_front();
        }
    }

    /// The server is ready for what comes after a Sync, a query or a function call.
    pub fn ready(&mut self) {
        while let Some(request) = self.requests.pop_front() {
            if !matches!(request, Request::Execute(_)) {
                break;
            }
        }
    }
}

/// The two names, zero-ended, that a message begins with.
fn two_names(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = body.iter().position(|byte| *byte == 0)?;
    let rest = &body[first + 1..];
    let second = rest.iter().position(|byte| *byte == 0)?;
    Some((&body[..first], &rest[..second]))
}

fn set(names: &mut HashSet<Vec<u8>>, name: &[u8], is_in: bool) {
    if !is_in {
        names.remove(name);
    } else if names.len() < NAMES_MAX && !names.contains(name) {
        names.insert(name.to_vec());
    }
}

fn makes_values(text: &[u8]) -> bool {
    let looked_through = match text.len() > LOOKED_THROUGH_BYTES_MAX {
        true => &text[text.len() - END_BYTES..],
        false => text,
    };
    MAKING
        .iter()
        .any(|word| contains(looked_through, word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_of_the_execution_that_makes_values_and_of_no_other() {
        let mut flow = Flow::default();
        flow.sent(b'P', b"a\0INSERT INTO t VALUES (1) RETURNING id\0\0\0");
        flow.sent(b'P', b"b\0SELECT 1\0\0\0");
        flow.sent(b'B', b"\0b\0\0\0\0\0\0\0");
        assert!(flow.sent(b'E', b"\0\0\0\0\0"));
        flow.sent(b'B', b"\0a\0\0\0\0\0\0\0");
        assert!(flow.sent(b'E', b"\0\0\0\0\0"));
        flow.sent(b'S', b"");
        assert!(!flow.keeps_rows());
        flow.completed();
        assert!(flow.keeps_rows());
        flow.completed();
        flow.ready();
        assert!(!flow.keeps_rows() && flow.requests.is_empty());
    }

    #[test]
    fn rows_are_kept_of_what_executes_a_statement_that_makes_values() {
        let mut flow = Flow::default();
        let mut keeps = |text: &[u8]| {
            flow.sent(b'Q', text);
            let keeps = flow.keeps_rows();
            flow.ready();
            keeps
        };
        assert!(!keeps(b"EXECUTE p(1)\0"));
        keeps(b"PREPARE P AS INSERT INTO t VALUES ($1) RETURNING id\0");
        keeps(b"PREPARE q AS SELECT 1\0");
        assert!(keeps(b"execute p(1)\0"));
        assert!(!keeps(b"EXECUTE q\0") && !keeps(b"SELECT 'EXECUTE p'\0"));
    }

    #[test]
    fn of_a_long_load_the_end_says_whether_rows_are_kept() {
        let rows = "(1, 'some text'), ".repeat(10_000);
        assert!(makes_values(
            format!("INSERT INTO t VALUES {rows}(2, 'b') RETURNING id").as_bytes()
        ));
        assert!(!makes_values(
            format!("INSERT INTO t VALUES {rows}(2, 'b')").as_bytes()
        ));
    }

    #[test]
    fn a_sync_that_the_server_ignores_within_copy_answers_nothing() {
        let mut flow = Flow::default();
        flow.sent(b'E', b"\0\0\0\0\0");
        flow.sent(b'S', b"");
        flow.sent(b'd', b"1\n");
        flow.sent(b'c', b"");
        flow.sent(b'S', b"");
        flow.completed();
        flow.ready();
        assert!(flow.requests.is_empty());
        flow.sent(b'Q', b"SELECT nextval('s')\0");
        assert!(flow.keeps_rows());
    }

    #[test]
    fn after_an_error_the_rest_of_the_pipeline_is_skipped() {
        let mut flow = Flow::default();
        flow.sent(b'E', b"\0\0\0\0\0");
        flow.sent(b'E', b"\0\0\0\0\0");
        flow.sent(b'S', b"");
        flow.sent(b'Q', b"SELECT nextval('s')\0");
        flow.failed();
        assert!(!flow.keeps_rows());
        flow.ready();
        assert!(flow.keeps_rows());
        flow.completed();
        assert!(flow.keeps_rows(), "a query may have more statements");
        flow.ready();
        assert!(flow.requests.is_empty());
    }
}
