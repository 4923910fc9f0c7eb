//! Statements of a transaction, sent one after the other on one connection and timed singly.
//!
//! A statement may keep its row in variables, as `\gset` of psql does, for the text of those that follow it.

use std::collections::HashMap;

use pgassay_protocol::{Answer, Captured, Failure};
use serde::Deserialize;

use crate::connect::Connection;
use crate::query::run_query;

/// The SQLSTATE of a text that is no SQL.
const SYNTAX_ERROR: &str = "42601";

/// A statement of a transaction: `BEGIN`, what it does, `COMMIT`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What failures call it.
    pub name: String,
    /// Its text.
    pub sql: String,
    /// The prefix of the variables that keep the columns of its one row.
    #[serde(default)]
    pub gset: Option<String>,
    /// Its text, divided where it has variables.
    #[serde(default)]
    pub pieces: Vec<Piece>,
}

/// A part of a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Piece {
    /// As it is.
    Text {
        /// The text.
        text: String,
    },
    /// What a variable holds.
    Variable {
        /// Its name.
        variable: String,
        /// How the text has it.
        quote: Quote,
    },
}

/// How a variable's value stands in a text.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Quote {
    /// As it is.
    Plain,
    /// As a literal.
    Literal,
    /// As a name.
    Identifier,
    /// Whether it has one.
    Test,
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
    let mut variables = HashMap::new();
    for part in parts {
        answer.rows = 0;
        match run_part(connection, part, &mut variables, answer) {
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

fn run_part(
    connection: &mut Connection,
    part: &Part,
    variables: &mut HashMap<String, String>,
    answer: &mut Answer,
) -> Result<(u64, u64), Failure> {
    let made;
    let sql = if part.pieces.is_empty() {
        &part.sql
    } else {
        made = bound(&part.pieces, variables);
        &made
    };
    let keeps = part.gset.is_some();
    connection.input.keep_rows(keeps);
    answer.captured = keeps.then(Captured::default);
    let timed = run_query(connection, &part.name, sql, answer);
    connection.input.keep_rows(false);
    let captured = answer.captured.take();
    let timed = timed.map_err(|failure| with_unset(failure, &part.pieces, variables))?;
    if let Some(prefix) = &part.gset {
        keep(prefix, captured.unwrap_or_default(), variables)?;
    }
    Ok(timed)
}

/// The failure; of a text that is no SQL with the variables in it that nothing has set.
fn with_unset(mut failure: Failure, pieces: &[Piece], variables: &HashMap<String, String>) -> Failure {
    let mut unset = pieces.iter().filter_map(|piece| match piece {
        Piece::Variable { variable, quote } if *quote != Quote::Test && !variables.contains_key(variable) => {
            Some(written(variable, *quote))
        }
        _ => None,
    });
    if let (Some(SYNTAX_ERROR), Some(first)) = (failure.sqlstate.as_deref(), unset.next()) {
        failure.message += &format!(" (no \\gset has set {first}, or to null)");
    }
    failure
}

/// Keeps the row of the last query; a null unsets its variable, as in psql.
fn keep(prefix: &str, captured: Captured, variables: &mut HashMap<String, String>) -> Result<(), Failure> {
    let query = captured.queries.into_iter().next_back().unwrap_or_default();
    if query.rows != 1 {
        return Err(unusable(format!("\\gset wants one row, and {} came", query.rows)));
    }
    for (column, value) in query.columns.into_iter().zip(query.last) {
        let name = format!("{prefix}{column}");
        match value {
            Some(value) => variables.insert(name, value),
            None => variables.remove(&name),
        };
    }
    Ok(())
}

/// The text; a variable that has no value stays in it as it is written, as in psql.
fn bound(pieces: &[Piece], variables: &HashMap<String, String>) -> String {
    let in_text = |piece: &Piece| match piece {
        Piece::Text { text } => text.clone(),
        Piece::Variable { variable, quote } => match (variables.get(variable), quote) {
            (value, Quote::Test) => if value.is_some() { "TRUE" } else { "FALSE" }.to_owned(),
            (Some(value), quote) => quoted(value, *quote),
            (None, quote) => written(variable, *quote),
        },
    };
    pieces.iter().map(in_text).collect()
}

fn written(variable: &str, quote: Quote) -> String {
    match quote {
        Quote::Plain => format!(":{variable}"),
        Quote::Literal => format!(":'{variable}'"),
        Quote::Identifier => format!(":\"{variable}\""),
        Quote::Test => format!(":{{?{variable}}}"),
    }
}

/// A value as a text has it; a literal holds whatever standard_conforming_strings says.
fn quoted(value: &str, quote: Quote) -> String {
    match quote {
        Quote::Plain | Quote::Test => value.to_owned(),
        Quote::Literal if value.contains('\\') => {
            let escaped = value.replace('\\', "\\\\").replace('\'', "''");
            format!(" E'{escaped}'")
        }
        Quote::Literal => format!("'{}'", value.replace('\'', "''")),
        Quote::Identifier => format!("\"{}\"", value.replace('"', "\"\"")),
    }
}

/// A failure of the file, after which the connection is as good as before.
fn unusable(message: String) -> Failure {
    let mut failure = Failure::client(message);
    failure.fatal = false;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_as_it_is_as_a_literal_or_as_a_name() {
        assert_eq!(quoted("7", Quote::Plain), "7");
        assert_eq!(quoted("O'Neill", Quote::Literal), "'O''Neill'");
        assert_eq!(quoted(r"a\'b", Quote::Literal), r" E'a\\''b'");
        assert_eq!(quoted("a\"b", Quote::Identifier), "\"a\"\"b\"");
    }

    #[test]
    fn what_nothing_has_set_stays_as_it_is_written() {
        let quotes = [Quote::Plain, Quote::Literal, Quote::Identifier, Quote::Test];
        let pieces = quotes.map(|quote| Piece::Variable {
            variable: "id".to_owned(),
            quote,
        });
        let mut variables = HashMap::new();
        assert_eq!(bound(&pieces, &variables), ":id:'id':\"id\"FALSE");
        variables.insert("id".to_owned(), "3".to_owned());
        assert_eq!(bound(&pieces, &variables), "3'3'\"3\"TRUE");
    }
}
