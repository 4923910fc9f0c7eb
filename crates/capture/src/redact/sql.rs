//! Statements with other values: what a literal or a comment says goes, words and names stay.

use super::permute::Permuter;
use super::stand_in::{escaped, text};
use crate::lexer::{Kind, replaced, token};

/// What stands for the rest of a statement that may be read in two ways.
const STAND_IN: &[u8] = b"'***'";
/// A whole number of so many digits in GROUP BY and ORDER BY is a column's place.
const PLACE_DIGITS_MAX: usize = 2;

/// How many values were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Literals.
    pub literals: u64,
    /// Comments.
    pub comments: u64,
}

/// The statement, or statements, with stand-ins.
pub fn statement(permuter: &Permuter, sql: &[u8], counts: &mut Counts) -> Vec<u8> {
    let mut output = Vec::with_capacity(sql.len());
    let mut at = 0;
    let mut before = Before::default();
    while at < sql.len() {
        let rest = &sql[at..];
        if rest[0].is_ascii_digit() && !before.is_parameter {
            let length = number_length(rest);
            if before.is_place(&rest[..length]) {
                output.extend_from_slice(&rest[..length]);
            } else {
                output.extend(number(permuter, &rest[..length]));
                counts.literals += 1;
            }
            before = before.then(b"0");
            at += length;
            continue;
        }
        let found = token(rest, before.quote == Quote::Escapes);
        let bytes = &rest[..found.length];
        match found.kind {
            Kind::Space if bytes[0].is_ascii_whitespace() => output.extend_from_slice(bytes),
            Kind::Space => {
                counts.comments += 1;
                output.extend(comment(bytes));
            }
            Kind::Word | Kind::Name { .. } | Kind::Other => {
                output.extend_from_slice(bytes);
                before = before.then(bytes);
                if matches!(found.kind, Kind::Word) {
                    before.see_prefix(bytes, &rest[found.length..]);
                }
            }
            Kind::Text { opening, closing } => {
                let content = &bytes[opening..bytes.len() - closing];
                if opening == 1
                    && before.quote != Quote::Escapes
                    && bytes[1..].windows(2).any(|pair| pair == b"\\'")
                {
                    // Whether the string ends there is for a setting to say (standard_conforming_strings).
                    output.extend_from_slice(STAND_IN);
                    counts.literals += 1;
                    return output;
                }
                output.extend_from_slice(&bytes[..opening]);
                output.extend(string(permuter, content, opening == 1, before.quote));
                output.extend_from_slice(&bytes[bytes.len() - closing..]);
                counts.literals += 1;
                before = before.then(b"''");
            }
        }
        at += found.length;
    }
    output
}

/// What the tokens before say of the next one.
#[derive(Clone, Copy, Default)]
struct Before {
    /// A `$`, behind which a parameter's number stands.
    is_parameter: bool,
    quote: Quote,
    /// Within the list of GROUP BY or ORDER BY.
    is_listed: bool,
    /// At the beginning of an element of it.
    begins_element: bool,
}

/// How a string is written.
#[derive(Clone, Copy, Default, PartialEq)]
enum Quote {
    #[default]
    Plain,
    /// `E'…'`, `U&'…'`.
    Escapes,
    /// `B'…'`, `X'…'`: of how many digits.
    Digits(u32),
}

/// Behind them no list of columns goes on.
const ENDS_LIST: [&[u8]; 10] = [
    b"limit",
    b"offset",
    b"fetch",
    b"for",
    b"having",
    b"window",
    b"union",
    b"except",
    b"intersect",
    b"rows",
];

impl Before {
    fn then(self, bytes: &[u8]) -> Self {
        let is = |word: &[u8]| bytes.eq_ignore_ascii_case(word);
        let begins_list = is(b"by");
        let is_over = matches!(bytes, b")" | b";" | b"(") || ENDS_LIST.iter().any(|word| is(word));
        let is_listed = begins_list || (self.is_listed && !is_over);
        Self {
            is_parameter: bytes == b"$",
            // `U&'…'` has a sign between its letter and its quote.
            quote: if bytes == b"&" { self.quote } else { Quote::Plain },
            is_listed,
            begins_element: is_listed && (begins_list || bytes == b","),
        }
    }

    fn see_prefix(&mut self, word: &[u8], after: &[u8]) {
        self.quote = match (word.to_ascii_lowercase().as_slice(), after) {
            (b"e", [b'\'', ..]) | (b"u", [b'&', b'\'', ..]) => Quote::Escapes,
            (b"b", [b'\'', ..]) => Quote::Digits(2),
            (b"x", [b'\'', ..]) => Quote::Digits(16),
            _ => Quote::Plain,
        };
    }

    fn is_place(&self, number: &[u8]) -> bool {
        self.begins_element && number.len() <= PLACE_DIGITS_MAX && number.iter().all(u8::is_ascii_digit)
    }
}

/// Digits, a point, an exponent, and whatever else begins with a digit.
fn number_length(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !b"._".contains(byte))
        .unwrap_or(rest.len())
}

/// The stand-in of a number in a statement: `0x1F` becomes one of digits alone.
fn number(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let plain: Vec<u8> = value
        .iter()
        .map(|byte| {
            if byte.is_ascii_alphabetic() && !b"eE".contains(byte) {
                b'1'
            } else {
                *byte
            }
        })
        .collect();
    text(permuter, &plain)
}

fn comment(bytes: &[u8]) -> Vec<u8> {
    let closing = if bytes.starts_with(b"/*") && bytes.len() >= 4 && bytes.ends_with(b"*/") {
        2
    } else {
        0
    };
    let inside = 2..bytes.len() - closing;
    let hidden = |(at, byte): (usize, &u8)| match inside.contains(&at) && !byte.is_ascii_whitespace() {
        true => b'x',
        false => *byte,
    };
    bytes.iter().enumerate().map(hidden).collect()
}

/// What stands in a string.
fn string(permuter: &Permuter, content: &[u8], is_quoted: bool, quote: Quote) -> Vec<u8> {
    if let (true, Quote::Digits(kinds)) = (is_quoted, quote) {
        return digits(permuter, content, kinds);
    }
    if !is_quoted {
        return text(permuter, content);
    }
    let single = replaced(content, b"''", b"'");
    let found = match quote {
        Quote::Escapes => escaped(permuter, &single),
        _ => text(permuter, &single),
    };
    replaced(&found, b"'", b"''")
}

fn digits(permuter: &Permuter, content: &[u8], kinds: u32) -> Vec<u8> {
    let mut row: Vec<(u32, u32)> = content
        .iter()
        .map(|byte| (char::from(*byte).to_digit(kinds).unwrap_or(0), kinds))
        .collect();
    permuter.digits(&mut row);
    let shown = |(digit, _): (u32, u32)| char::from_digit(digit, kinds).map_or(b'0', |found| found as u8);
    row.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sql: &str) -> String {
        let found = statement(&Permuter::default(), sql.as_bytes(), &mut Counts::default());
        String::from_utf8(found).unwrap()
    }

    #[test]
    fn literals_and_comments_go_wherever_they_stand() {
        for sql in [
            "SELECT * FROM t WHERE name = 'Geheimrat4711'",
            "SELECT 'it''s Geheimrat4711'",
            "SELECT E'Geheimrat4711\\n', U&'Geheimrat4711'",
            "SELECT $$Geheimrat4711$$, $q$Geheimrat4711$q$",
            "SELECT 1 -- Geheimrat4711",
            "SELECT /* Geheimrat4711 /* Geheimrat4711 */ */ 1",
            "SELECT /* Geheimrat4711",
            "SELECT 'Geheimrat4711",
            "SELECT 'x\\' OR name = 'Geheimrat4711'",
            "DO $$BEGIN PERFORM 'Geheimrat4711'; END$$",
            "SET app.who = 'Geheimrat4711'",
            "SELECT '{\"who\": \"Geheimrat4711\"}'::jsonb",
            "COPY t FROM '/tmp/Geheimrat4711'",
            "INSERT INTO t VALUES (1, N'Geheimrat4711')",
        ] {
            let found = made(sql);
            assert!(
                !found.contains("Geheimrat") && !found.contains("4711"),
                "{sql}: {found}"
            );
        }
        for sql in [
            "SELECT 47114711",
            "SELECT 4711.4711",
            "SELECT X'47114711', 0x47114711",
            "SELECT id FROM t LIMIT 47114711",
        ] {
            assert!(!made(sql).contains("4711"), "{sql}");
        }
    }

    #[test]
    fn words_names_parameters_and_places_stay() {
        for sql in [
            "SELECT a1, \"Odd 7\" FROM t2 WHERE id = $1 AND x IS NOT NULL AND y = true",
            "SELECT a, b, count(*) FROM t GROUP BY 1, 2 ORDER BY 3 DESC, 1",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
        ] {
            assert_eq!(made(sql), sql);
        }
        let found = made("SELECT a FROM t ORDER BY 1, a = 4711 LIMIT 50");
        assert!(found.starts_with("SELECT a FROM t ORDER BY 1, a = ") && !found.contains("4711"));
        assert!(!found.ends_with("LIMIT 50") || made("SELECT 1 LIMIT 815").len() == 18);
    }

    #[test]
    fn equal_values_stay_equal_and_quotes_doubled() {
        let permuter = Permuter::default();
        let mut counts = Counts::default();
        let one = statement(&permuter, b"SELECT 'O''Brien', 4711, '4711'", &mut counts);
        let two = statement(&permuter, b"SELECT $$O'Brien$$", &mut counts);
        let one = String::from_utf8(one).unwrap();
        let name = one
            .split(", ")
            .next()
            .unwrap()
            .trim_start_matches("SELECT '")
            .trim_end_matches('\'');
        assert_eq!(
            String::from_utf8(two).unwrap(),
            format!("SELECT $${}$$", name.replace("''", "'"))
        );
        let numbers: Vec<&str> = one
            .split(", ")
            .skip(1)
            .map(|part| part.trim_matches('\''))
            .collect();
        assert_eq!(numbers[0], numbers[1]);
        assert_eq!(
            counts,
            Counts {
                literals: 4,
                comments: 0
            }
        );
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let permuter = Permuter::default();
        for seed in 0..20_000_u32 {
            let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
            let text: Vec<u8> = (0..seed % 24)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"'\"$$eEuU&xXb\\-/*a1. ,(\n\xff"[(state >> 16) as usize % 23]
                })
                .collect();
            statement(&permuter, &text, &mut Counts::default());
        }
    }
}
