//! A look at a statement's text: its words, its values, and a number that is the same for texts that differ in values alone.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use pgassay_capture::lexer::{self, Kind, Token};

/// What is longer (data loaded as INSERT) is looked at only so far.
const LOOKED_AT_BYTES_MAX: usize = 1 << 20;

/// A statement's text, looked through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The same for texts that differ in values, comments and spaces alone.
    pub key: u64,
    /// Words and quoted identifiers, words in small letters, each once.
    pub words: Vec<String>,
    /// Where numbers and strings stand; strings without their quotes.
    pub values: Vec<Range<usize>>,
    /// Whether it may write, as far as its own words say.
    pub writes: bool,
    /// Whether a server may be another afterwards: it writes, runs code that may, makes a table by SELECT INTO, takes a
    /// sequence's value or locks rows, none of which a read-only transaction may do; or it ends that transactions are
    /// read-only.
    pub changes: bool,
    /// Whether it asks for row locks or calls for what may wait for others.
    pub locks: bool,
    /// The table that the first INTO names, without its schema.
    pub target: Option<String>,
    into: Into,
}

/// Where the table behind INTO is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Into {
    #[default]
    Before,
    NameComes,
    NameCame,
    Behind,
}

const WRITING: [&str; 16] = [
    "insert", "update", "delete", "merge", "truncate", "copy", "create", "alter", "drop", "refresh",
    "vacuum", "analyze", "cluster", "reindex", "grant", "call",
];
const CHANGING: [&str; 4] = ["do", "into", "nextval", "setval"];
const LOCKING: [&str; 3] = ["share", "update", "lock"];
/// Settings without which a session of a replay could write through a function.
const READ_ONLY: [&str; 2] = ["default_transaction_read_only", "transaction_read_only"];

/// Looks through a text.
pub fn look(text: &[u8]) -> Look {
    let text = &text[..text.len().min(LOOKED_AT_BYTES_MAX)];
    let mut found = Look::default();
    let mut hasher = DefaultHasher::new();
    let mut at = 0;
    while at < text.len() {
        at = token(text, at, &mut found, &mut hasher);
    }
    found.key = hasher.finish();
    found.words.sort_unstable();
    found.words.dedup();
    let has = |word: &&str| {
        found
            .words
            .binary_search_by(|known| known.as_str().cmp(word))
            .is_ok()
    };
    found.writes = WRITING.iter().any(has) && !is_copy_out(&found.words);
    let locks_rows = has(&"for") && has(&"share");
    let is_writable = may_lift_read_only(text, &found);
    found.changes = found.writes || locks_rows || is_writable || CHANGING.iter().any(has);
    let asks = |word: &String| word.starts_with("pg_advisory");
    found.locks = found.writes || LOCKING.iter().any(has) || found.words.iter().any(asks);
    found
}

/// Whether it makes its transaction or the session's next ones READ WRITE: drivers send that behind read-only work.
fn may_lift_read_only(text: &[u8], found: &Look) -> bool {
    let has = |word: &str| found.words.iter().any(|known| known == word);
    let is_value = |value: &str| {
        let is_it = |at: &Range<usize>| text[at.clone()].eq_ignore_ascii_case(value.as_bytes());
        found.values.iter().any(is_it)
    };
    let by_mode = has("read") && has("write") && (has("begin") || has("transaction"));
    let is_set = |name: &&str| has("set") && has(name) && !has("on") && !has("true");
    let is_called = |name: &&str| has("set_config") && is_value(name) && !is_value("on") && !is_value("true");
    by_mode || READ_ONLY.iter().any(|name| is_set(name) || is_called(name))
}

/// COPY … TO: the only one of the words that reads.
fn is_copy_out(words: &[String]) -> bool {
    let has = |word: &str| words.iter().any(|known| known == word);
    has("copy") && has("stdout") && !WRITING.iter().any(|word| *word != "copy" && has(word))
}

fn token(text: &[u8], at: usize, found: &mut Look, hasher: &mut DefaultHasher) -> usize {
    let byte = text[at];
    let next = text.get(at + 1).copied().unwrap_or(0);
    match byte {
        b'$' if next.is_ascii_digit() => {
            let end = run(text, at + 1, |byte| byte.is_ascii_digit());
            (1_u8, &text[at..end]).hash(hasher);
            return end;
        }
        b'0'..=b'9' => return number(text, at, found, hasher),
        b'.' if next.is_ascii_digit() => return number(text, at, found, hasher),
        _ => {}
    }
    let escapes = matches!(byte, b'e' | b'E') && next == b'\'';
    let from = at + usize::from(escapes);
    let Token { kind, length } = lexer::token(&text[from..], escapes);
    let end = from + length;
    let inside = |opening, closing| (from + opening)..(end - closing);
    match kind {
        Kind::Space => {}
        Kind::Text { opening, closing } => value(inside(opening, closing), found, hasher),
        Kind::Name { opening, closing } => {
            let name = String::from_utf8_lossy(&text[inside(opening, closing)]).replace("\"\"", "\"");
            word(name, found, hasher);
        }
        Kind::Word => {
            let name = String::from_utf8_lossy(&text[from..end]).to_lowercase();
            word(name, found, hasher);
        }
        Kind::Other => {
            (2_u8, byte).hash(hasher);
            found.into = match (found.into, byte) {
                (Into::Before, _) => Into::Before,
                // What came was a schema.
                (Into::NameCame, b'.') => Into::NameComes,
                _ => Into::Behind,
            };
        }
    }
    end
}

fn run(text: &[u8], from: usize, is_in: impl Fn(u8) -> bool) -> usize {
    text[from.min(text.len())..]
        .iter()
        .position(|byte| !is_in(*byte))
        .map_or(text.len(), |length| from + length)
}

fn word(word: String, found: &mut Look, hasher: &mut DefaultHasher) {
    (3_u8, &word).hash(hasher);
    found.into = match found.into {
        Into::Before if word == "into" => Into::NameComes,
        Into::NameComes => {
            found.target = Some(word.clone());
            Into::NameCame
        }
        Into::NameCame => Into::Behind,
        other => other,
    };
    found.words.push(word);
}

fn value(range: Range<usize>, found: &mut Look, hasher: &mut DefaultHasher) {
    4_u8.hash(hasher);
    found.values.push(range);
}

fn number(text: &[u8], at: usize, found: &mut Look, hasher: &mut DefaultHasher) -> usize {
    let end = run(text, at, |byte| {
        byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'
    });
    value(at..end, found, hasher);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<&str> {
        let found = look(text.as_bytes());
        found.values.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn texts_that_differ_in_values_comments_and_spaces_have_one_key() {
        let one = look(b"SELECT a FROM t WHERE id = 17 AND n = 'x''y' -- here\n");
        let two = look(b"select A\n from t where id=9 and /* a /* nested */ one */ n = E'it\\'s'");
        assert_eq!(one.key, two.key);
        assert_ne!(one.key, look(b"SELECT a FROM u WHERE id = 17 AND n = 'x'").key);
        assert_ne!(look(b"SELECT $1").key, look(b"SELECT $2").key);
    }

    #[test]
    fn values_are_found_where_they_stand() {
        assert_eq!(
            values("INSERT INTO \"Odd\"\"one\" VALUES (1, 2.5e3, 'a''b', $q$it's$q$, $1, t1, -7)"),
            ["1", "2.5e3", "a''b", "it's", "7"]
        );
        assert_eq!(values("SELECT 'never ended"), ["never ended"]);
    }

    #[test]
    fn words_say_what_may_write_and_what_may_wait() {
        assert!(look(b"WITH gone AS (DELETE FROM t RETURNING id) SELECT * FROM gone").writes);
        let locking = look(b"SELECT * FROM t FOR UPDATE");
        assert!(locking.locks);
        let plain = look(b"SELECT updated, 'delete' FROM t");
        assert!(!plain.writes && !plain.locks);
        for text in [
            "DO $$ BEGIN DELETE FROM t; END $$",
            "SELECT * INTO copied FROM t",
            "SELECT nextval('s')",
            "SELECT * FROM t FOR SHARE",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            "BEGIN READ WRITE",
            "SET default_transaction_read_only = off",
            "SELECT set_config('transaction_read_only', 'off', true)",
        ] {
            let found = look(text.as_bytes());
            assert!(found.changes && !found.writes, "{text}");
        }
        for text in [
            "SELECT share FROM t",
            "SELECT read, write FROM disk",
            "BEGIN READ ONLY",
            "SET transaction_read_only = on",
            "SHOW transaction_read_only",
            "SELECT set_config('work_mem', '1MB', false)",
        ] {
            assert!(!look(text.as_bytes()).changes, "{text}");
        }
        assert!(!plain.changes);
        assert!(look(b"COPY t FROM STDIN").writes);
        assert!(!look(b"COPY t TO STDOUT").writes);
        assert!(
            look(br#"SELECT * FROM "Orders""#)
                .words
                .contains(&"Orders".to_owned())
        );
    }

    #[test]
    fn the_table_behind_into_is_the_target() {
        let target = |text: &str| look(text.as_bytes()).target;
        assert_eq!(target("insert into t values (1)").as_deref(), Some("t"));
        assert_eq!(
            target("WITH a AS (SELECT 1) INSERT INTO s . \"T\" (a) SELECT b FROM u").as_deref(),
            Some("T")
        );
        assert_eq!(target("INSERT INTO t AS u VALUES (1)").as_deref(), Some("t"));
        assert_eq!(target("SELECT 'into t'"), None);
    }

    #[test]
    fn no_bytes_are_too_odd() {
        for seed in 0..20_000_u32 {
            let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
            let text: Vec<u8> = (0..seed % 24)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"'\"$$eE\\-/*a1. \n\xff"[(state >> 16) as usize % 16]
                })
                .collect();
            let found = look(&text);
            assert!(
                found
                    .values
                    .iter()
                    .all(|range| range.end <= text.len() && range.start <= range.end)
            );
        }
    }
}
