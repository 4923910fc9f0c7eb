//! What can go wrong with a connection, in the form that the native binary reports.

use std::fmt;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use serde::Serialize;

/// A failure, from the server (then `sqlstate` is set) or from the conversation with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// The server's five-character code; none where the client found the failure.
    pub sqlstate: Option<String>,
    /// The server's DETAIL.
    pub detail: Option<String>,
    /// The server's HINT.
    pub hint: Option<String>,
    /// Whether the connection can't be used any more.
    #[serde(skip)]
    pub fatal: bool,
    /// The rest of what libpq shows of an error of the server's.
    #[serde(skip)]
    pub shown: Box<Shown>,
}

/// What an error response says beside the fields that everybody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// "ERROR", in the server's language; empty where the client found the failure.
    pub severity: String,
    /// CONTEXT.
    pub context: Option<String>,
    /// The character of the query, from 1, at which it was found.
    pub position: Option<usize>,
    /// A query that the server made itself, as a function's, and the character of it, from 1.
    pub internal_query: Option<String>,
    /// See `internal_query`.
    pub internal_position: Option<usize>,
}

impl Failure {
    /// A failure found by the client, after which the connection is of no use.
    pub fn client(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            sqlstate: None,
            detail: None,
            hint: None,
            fatal: true,
            shown: Box::default(),
        }
    }

    /// The same failure, with the words that say where it happened put before its message.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Whether the transaction may succeed when tried again: serialization failure (40001) or deadlock (40P01).
    pub fn is_retryable(&self) -> bool {
        !self.fatal && matches!(self.sqlstate.as_deref(), Some("40001" | "40P01"))
    }

    /// The lines that libpq makes of a server's error in its default verbosity; `query` is what was sent, none
    /// where a statement was executed that had been prepared before.
    pub fn libpq_text(&self, query: Option<&str>) -> String {
        self.text_of_libpq(query, true)
    }

    /// The lines that libpq makes of a notice, which says nothing of where it comes from.
    pub(crate) fn notice_text(&self) -> String {
        self.text_of_libpq(None, false)
    }

    fn text_of_libpq(&self, query: Option<&str>, has_context: bool) -> String {
        let mut text = if self.shown.severity.is_empty() {
            self.message.clone()
        } else {
            format!("{}:  {}", self.shown.severity, self.message)
        };
        let shown = &self.shown;
        match (shown.position, query) {
            (Some(position), Some(query)) => text.push_str(&marked(query, position)),
            (Some(position), None) => text.push_str(&format!(" at character {position}")),
            (None, _) => {
                if let (Some(query), Some(position)) = (&shown.internal_query, shown.internal_position) {
                    text.push_str(&marked(query, position));
                }
            }
        }
        let context = shown.context.clone().filter(|_| has_context);
        for (name, value) in [
            ("DETAIL", &self.detail),
            ("HINT", &self.hint),
            ("QUERY", &shown.internal_query),
            ("CONTEXT", &context),
        ] {
            if let Some(value) = value {
                text.push_str(&format!("\n{name}:  {value}"));
            }
        }
        text
    }

    pub(crate) fn from_response(body: &ErrorResponseBody) -> Self {
        let mut failure = Self::client("");
        failure.fatal = false;
        let mut fields = body.fields();
        // A malformed field ends the list; what came before it is still worth reporting.
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // 'V' is the severity in English; 'S' may be translated by lc_messages.
                b'V' => failure.fatal = matches!(value.as_str(), "FATAL" | "PANIC"),
                b'C' => failure.sqlstate = Some(value),
                b'M' => failure.message = value,
                b'D' => failure.detail = Some(value),
                b'H' => failure.hint = Some(value),
                b'S' => failure.shown.severity = value,
                b'W' => failure.shown.context = Some(value),
                b'P' => failure.shown.position = value.parse().ok(),
                b'q' => failure.shown.internal_query = Some(value),
                b'p' => failure.shown.internal_position = value.parse().ok(),
                _ => {}
            }
        }
        if failure.message.is_empty() {
            failure.message = "the server sent an error without a message".to_owned();
        }
        failure
    }
}

/// The most characters of a query's line that are shown, and how many at least behind the mark (fe-protocol3.c).
const LINE_CHARACTERS_MAX: usize = 60;
const BEHIND_MARK_MIN: usize = 10;

/// The line of a query with a mark below a character of it, counted from 1; nothing where it has no such character.
fn marked(query: &str, position: usize) -> String {
    let characters: Vec<char> = query.chars().collect();
    let Some(place) = position.checked_sub(1).filter(|&place| place <= characters.len()) else {
        return String::new();
    };
    let is_break = |character: &char| matches!(character, '\n' | '\r');
    let before = &characters[..place];
    let line = before.iter().filter(|&&character| character == '\n').count() + 1;
    let mut from = before.iter().rposition(is_break).map_or(0, |at| at + 1);
    let mut to = characters[place..]
        .iter()
        .position(is_break)
        .map_or(characters.len(), |length| place + length);
    let (whole_from, whole_to) = (from, to);
    if to - from > LINE_CHARACTERS_MAX {
        if from + LINE_CHARACTERS_MAX >= place + BEHIND_MARK_MIN {
            to = from + LINE_CHARACTERS_MAX;
        } else {
            to = to.min(place + BEHIND_MARK_MIN);
            from = from.max(to.saturating_sub(LINE_CHARACTERS_MAX));
        }
    }
    let (cut_before, cut_behind) = (
        if from > whole_from { "..." } else { "" },
        if to < whole_to { "..." } else { "" },
    );
    let head = format!("LINE {line}: {cut_before}");
    // A tab is one blank, so that the mark stands where it belongs.
    let shown: String = characters[from..to]
        .iter()
        .map(|&character| if character == '\t' { ' ' } else { character })
        .collect();
    let blanks = " ".repeat(head.chars().count() + place - from);
    format!("\n{head}{shown}{cut_behind}\n{blanks}^")
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_marked_where_the_server_found_the_error() {
        assert_eq!(
            marked("SELECT 1 ; SELECT foo;", 19),
            "\nLINE 1: SELECT 1 ; SELECT foo;\n                          ^"
        );
        assert_eq!(marked("SELECT\n\tfoo", 9), "\nLINE 2:  foo\n         ^");
        let long = format!("SELECT {}, foo FROM t", "1, ".repeat(40));
        let shown = marked(&long, long.find("foo").unwrap() + 1);
        assert!(
            shown.starts_with("\nLINE 1: ...1") && shown.contains("foo FROM t\n"),
            "{shown}"
        );
        assert_eq!(marked("", 9), "");
        assert_eq!(marked("x", 0), "");
    }

    #[test]
    fn a_failure_is_shown_as_libpq_shows_it() {
        let mut failure = Failure::client("no such thing");
        assert_eq!(failure.libpq_text(Some("x")), "no such thing");
        failure.shown.severity = "ERROR".to_owned();
        failure.hint = Some("make one".to_owned());
        failure.detail = Some("it is gone".to_owned());
        assert_eq!(
            failure.libpq_text(Some("x")),
            "ERROR:  no such thing\nDETAIL:  it is gone\nHINT:  make one"
        );
        (failure.detail, failure.hint) = (None, None);
        failure.shown.context = Some("a function".to_owned());
        failure.shown.position = Some(7);
        assert_eq!(
            failure.libpq_text(None),
            "ERROR:  no such thing at character 7\nCONTEXT:  a function"
        );
        failure.shown.position = None;
        failure.shown.internal_query = Some("SELECT foo".to_owned());
        failure.shown.internal_position = Some(8);
        assert_eq!(
            failure.notice_text(),
            "ERROR:  no such thing\nLINE 1: SELECT foo\n               ^\nQUERY:  SELECT foo"
        );
    }
}
