//! Which sequences a statement asks (nextval, currval, setval), and in which column of its answer the value comes.

use pgassay_capture::lexer::{Kind, token};

const ASKING: [&str; 3] = ["nextval", "currval", "setval"];
/// Behind these the list of columns is over.
const ENDING: [&str; 9] = [
    "from",
    "where",
    "union",
    "intersect",
    "except",
    "group",
    "order",
    "limit",
    "into",
];

/// A part of a sequence's name: as text, or the number of the parameter that it is, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Parameter(usize),
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    /// The column of the answer that it stands in; none inside of a subquery or WITH.
    column: Option<usize>,
    name: Vec<Part>,
    is_next: bool,
}

/// All calls of a statement, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(Vec<Call>);

/// The names of the sequences that are called, in the order of the calls.
pub type Names = Vec<Box<[u8]>>;

impl Calls {
    /// Looks through a text that may have some.
    pub fn new(text: &[u8]) -> Self {
        let mut reader = Reader::default();
        let (mut at, mut escapes) = (0, false);
        while at < text.len() {
            let digits = text[at + 1..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if text[at] == b'$' && digits > 0 {
                let number = std::str::from_utf8(&text[at + 1..=at + digits]);
                let number: Option<usize> = number.ok().and_then(|number| number.parse().ok());
                reader.part(
                    number
                        .and_then(|number| number.checked_sub(1))
                        .map(Part::Parameter),
                );
                at += 1 + digits;
                continue;
            }
            let found = token(&text[at..], escapes);
            let end = at + found.length;
            escapes = false;
            match found.kind {
                Kind::Space => {}
                Kind::Text { opening, closing } => {
                    reader.part(Some(Part::Text(short_name(&text[at + opening..end - closing]))));
                }
                Kind::Word if found.length == 1 && matches!(text[at], b'e' | b'E') => escapes = true,
                Kind::Word => reader.word(&String::from_utf8_lossy(&text[at..end]).to_lowercase()),
                Kind::Name { .. } => reader.word(""),
                Kind::Other => reader.sign(text[at]),
            }
            at = end;
        }
        Self(reader.calls)
    }

    /// The names, where these are the parameters.
    pub fn names<'a>(&self, parameter: impl Fn(usize) -> Option<&'a [u8]>) -> Names {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Parameter(index) => parameter(*index).map(short_name).unwrap_or_default(),
        };
        let name = |call: &Call| {
            let parts: Vec<_> = call.name.iter().map(part).collect();
            parts.join(&b'\0').into_boxed_slice()
        };
        self.0.iter().map(name).collect()
    }

    /// The same calls with these parameters in their places, as EXECUTE gives them.
    pub fn bound<'a>(&self, parameter: impl Fn(usize) -> Option<&'a [u8]>) -> Self {
        let mut found = self.clone();
        for part in found.0.iter_mut().flat_map(|call| &mut call.name) {
            if let Part::Parameter(index) = part {
                *part = Part::Text(parameter(*index).map(short_name).unwrap_or_default());
            }
        }
        found
    }

    /// What a column's values come from: a sequence's name, or of several together all of them and the column.
    pub fn of_column(&self, names: &Names, column: usize) -> Option<Box<[u8]>> {
        let in_columns = self.0.iter().any(|call| call.column.is_some());
        let mut calls = self.0.iter().zip(names);
        if let Some((_, name)) = calls.find(|(call, _)| call.column == Some(column)) {
            return Some(name.clone());
        }
        match names.as_slice() {
            [] => None,
            [name] if !in_columns => Some(name.clone()),
            _ => Some(
                [&names.join(&b'\0')[..], format!("\0{column}").as_bytes()]
                    .concat()
                    .into(),
            ),
        }
    }

    /// The sequence that lastval() tells of afterwards.
    pub fn last(&self, names: &Names) -> Option<Box<[u8]>> {
        let mut calls = self.0.iter().zip(names).rev();
        calls.find(|(call, _)| call.is_next).map(|(_, name)| name.clone())
    }
}

/// The words of a name, of which each may stand for tables.
pub fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| *byte == 0)
}

/// The name of a sequence, without its schema and quotes.
fn short_name(name: &[u8]) -> Box<[u8]> {
    let last = name.rsplit(|byte| *byte == b'.').next().unwrap_or(name);
    last.iter().copied().filter(|byte| *byte != b'"').collect()
}

#[derive(Default)]
struct Reader {
    calls: Vec<Call>,
    depth: usize,
    /// The column of the list that is read; none outside of it, and behind a star.
    column: Option<usize>,
    /// The word before, where it is the name of a function of sequences.
    named: Option<bool>,
    /// How deep the arguments are of the call whose first argument is read.
    inside: Option<usize>,
    /// Nothing of the column has come.
    is_fresh: bool,
}

impl Reader {
    fn word(&mut self, word: &str) {
        self.named = ASKING.contains(&word).then_some(word == "nextval");
        if self.depth == 0 && word == "select" {
            (self.column, self.is_fresh) = (Some(0), true);
            return;
        }
        if self.depth == 0 && ENDING.contains(&word) {
            self.column = None;
        }
        self.is_fresh = false;
    }

    fn part(&mut self, part: Option<Part>) {
        if let (Some(_), Some(call), Some(part)) = (self.inside, self.calls.last_mut(), part) {
            call.name.push(part);
        }
        (self.named, self.is_fresh) = (None, false);
    }

    fn sign(&mut self, sign: u8) {
        let named = self.named.take();
        match sign {
            b'(' => {
                self.depth += 1;
                if let Some(is_next) = named {
                    self.inside = Some(self.depth);
                    self.calls.push(Call {
                        column: self.column,
                        name: Vec::new(),
                        is_next,
                    });
                }
            }
            b')' => {
                if self.inside == Some(self.depth) {
                    self.inside = None;
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.inside == Some(self.depth) => self.inside = None,
            b',' if self.depth == 0 => {
                self.column = self.column.map(|column| column + 1);
                self.is_fresh = true;
                return;
            }
            // So many columns as there are.
            b'*' if self.depth == 0 && self.is_fresh => self.column = None,
            // As in t.*
            b'.' if self.depth == 0 => return self.is_fresh = true,
            _ => {}
        }
        self.is_fresh = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str, parameters: &[&[u8]], count: usize) -> Vec<String> {
        let calls = Calls::new(text.as_bytes());
        let names = calls.names(|index| parameters.get(index).copied());
        (0..count)
            .map(|column| calls.of_column(&names, column).unwrap_or_default())
            .map(|name| String::from_utf8_lossy(&name).replace('\0', "|"))
            .collect()
    }

    #[test]
    fn each_column_has_the_sequence_that_it_asks() {
        let text = r#"SELECT 42, currval('public."A"'), 'x, y', coalesce(nextval('b'::regclass), 1) FROM t"#;
        assert_eq!(columns(text, &[], 4), ["A|b|0", "A", "A|b|2", "b"]);
        assert_eq!(
            columns("select nextval($2), currval($1)", &[b"s.a", b"b"], 2),
            ["b", "a"]
        );
        let text = "SELECT currval(pg_get_serial_sequence('s.t', 'id')), setval('u', 7)";
        assert_eq!(columns(text, &[], 2), ["t|id", "u"]);
    }

    #[test]
    fn what_is_not_in_a_column_of_its_own_is_told_from_others() {
        let text = "WITH n AS (SELECT nextval('a') AS id) SELECT 'x', id FROM n";
        assert_eq!(columns(text, &[], 2), ["a", "a"]);
        assert_eq!(columns("SELECT t.*, nextval('a') FROM t", &[], 2), ["a", "a"]);
        assert_eq!(columns("SELECT (SELECT 1), nextval('a')", &[], 2), ["a|0", "a"]);
        assert_eq!(columns("SELECT 1", &[], 1), [""]);
        assert_eq!(
            columns("SELECT nextval(E'a\\'b'), currval(", &[], 2),
            ["a\\'b", ""]
        );
    }

    #[test]
    fn the_last_nextval_is_the_one_that_lastval_tells_of() {
        let last = |text: &str| {
            let calls = Calls::new(text.as_bytes());
            calls.last(&calls.names(|_| None)).map(|name| name.to_vec())
        };
        assert_eq!(
            last("SELECT nextval('a'), nextval('b'), currval('c')"),
            Some(b"b".to_vec())
        );
        assert_eq!(last("SELECT setval('a', 5)"), None);
    }
}
