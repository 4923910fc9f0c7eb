//! The asynchronous reads that are under way (pg_aios, from PostgreSQL 18 on).

use crate::activity::{parse_values, text};
use crate::document::AioRow;

/// The name of the prepared statement.
pub const STATEMENT_NAME: &str = "aios";

/// One row for each state and operation of the handles in use.
pub const SQL: &str = "SELECT state, operation, count(*)::int4, coalesce(sum(length), 0)::int8 \
                       FROM pg_catalog.pg_aios GROUP BY 1, 2";

/// The first major version that has the view.
pub const MAJOR_MIN: u32 = 18;

/// Reads the body of a DataRow of `SQL` in text format; none when it is something else.
pub fn parse_row(body: &[u8]) -> Option<AioRow> {
    let [state, operation, handles, bytes] = parse_values(body)?.map(text);
    Some(AioRow(
        state.to_owned(),
        operation.to_owned(),
        handles.parse().ok()?,
        bytes.parse().ok()?,
    ))
}
