//! Statements of a transaction, sent one after the other on one connection and timed singly.

use pgassay_protocol::{Answer, Failure};
use serde::Deserialize;

use crate::connect::Connection;
use crate::query::run_query;

/// A statement of a transaction: `BEGIN`, what it does, `COMMIT`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What failures call it.
    pub name: String,
    /// Its text.
    pub sql: String,
}

/// A transaction that came to its end.
#[derive(Clone, Debug)]
pub struct Done {
    /// When its first statement was sent, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// When its last one was answered.
    pub end_ns: u64,
    /// What each statement took, in their order.
    pub parts_ns: Vec<u64>,
    /// How many rows the server sent or changed.
    pub rows: u64,
}

/// Runs them in their order; the answer keeps the notices of all.
///
/// # Errors
/// The first failure, which says in which statement it was. What was begun is rolled back by then, and the
/// connection can be used unless the failure is `fatal`.
pub fn run_transaction(
    connection: &mut Connection,
    name: &str,
    parts: &[Part],
    answer: &mut Answer,
) -> Result<Done, Failure> {
    let mut done = Done {
        start_ns: 0,
        end_ns: 0,
        parts_ns: Vec::with_capacity(parts.len()),
        rows: 0,
    };
    for part in parts {
        answer.rows = 0;
        match run_query(connection, &part.name, &part.sql, answer) {
            Ok((start_ns, end_ns)) => {
                if done.parts_ns.is_empty() {
                    done.start_ns = start_ns;
                }
                done.end_ns = end_ns;
                done.parts_ns.push(end_ns - start_ns);
                done.rows += answer.rows;
            }
            Err(failure) => {
                if !failure.fatal {
                    // Outside a transaction, as after a COMMIT that failed, it is a warning and nothing else.
                    run_query(connection, name, "ROLLBACK", &mut Answer::default())?;
                }
                return Err(failure.within(&format!("its statement \"{}\"", part.name)));
            }
        }
    }
    answer.rows = done.rows;
    Ok(done)
}
