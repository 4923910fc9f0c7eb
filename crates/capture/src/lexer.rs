//! The lexical elements of SQL, as far as strings, comments and words go.

/// What an element is.
pub enum Kind {
    /// White space, one of it, or a comment.
    Space,
    /// A word or number.
    Word,
    /// A string, with the lengths of its quotes; one that never ends has no closing quote.
    Text {
        /// Of the quotes at its beginning.
        opening: usize,
        /// Of those at its end.
        closing: usize,
    },
    /// A name in double quotes, with the lengths of its quotes as of a string.
    Name {
        /// Of the quote at its beginning.
        opening: usize,
        /// Of that at its end.
        closing: usize,
    },
    /// A sign.
    Other,
}

/// A lexical element.
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// How long it is.
    pub length: usize,
}

/// The lexical element at the front of bytes that are not empty; `escapes`: a backslash in a string means something.
pub fn token(rest: &[u8], escapes: bool) -> Token {
    let found = |kind, length| Token { kind, length };
    match rest[0] {
        byte if byte.is_ascii_whitespace() => found(Kind::Space, 1),
        b'-' if rest.starts_with(b"--") => {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            found(Kind::Space, end)
        }
        b'/' if rest.starts_with(b"/*") => found(Kind::Space, comment_length(rest)),
        b'\'' => {
            let (length, is_closed) = string_length(rest, b'\'', escapes);
            let kind = Kind::Text {
                opening: 1,
                closing: usize::from(is_closed),
            };
            found(kind, length)
        }
        b'"' => {
            let (length, is_closed) = string_length(rest, b'"', false);
            let kind = Kind::Name {
                opening: 1,
                closing: usize::from(is_closed),
            };
            found(kind, length)
        }
        b'$' => match dollar_quote(rest) {
            Some((tag, length, is_closed)) => {
                let kind = Kind::Text {
                    opening: tag,
                    closing: if is_closed { tag } else { 0 },
                };
                found(kind, length)
            }
            None => found(Kind::Other, 1),
        },
        byte if is_word(byte) => {
            let end = rest.iter().position(|byte| !is_word(*byte) && *byte != b'$');
            found(Kind::Word, end.unwrap_or(rest.len()))
        }
        _ => found(Kind::Other, 1),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn comment_length(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() && depth > 0 {
        let step = match &rest[at..] {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
    }
    at.min(rest.len())
}

/// A string in quotes, these doubled within, and whether it ends.
fn string_length(rest: &[u8], quote: u8, escapes: bool) -> (usize, bool) {
    let mut at = 1;
    while at < rest.len() {
        if escapes && rest[at] == b'\\' {
            at += 2;
        } else if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return (at + 1, true);
        }
    }
    (rest.len(), false)
}

/// The length of `$tag$`, of the whole string, and whether it ends.
fn dollar_quote(rest: &[u8]) -> Option<(usize, usize, bool)> {
    let end = 1 + rest[1..].iter().position(|byte| !is_word(*byte))?;
    if rest[end] != b'$' || rest[1].is_ascii_digit() {
        return None;
    }
    let tag = &rest[..=end];
    let closing = (tag.len()..rest.len()).find(|at| rest[*at..].starts_with(tag));
    Some(match closing {
        Some(at) => (tag.len(), at + tag.len(), true),
        None => (tag.len(), rest.len(), false),
    })
}

/// Names that stand behind a word, given in small letters: those of statements behind PREPARE and EXECUTE.
pub fn names_behind(text: &[u8], word: &str) -> Vec<Vec<u8>> {
    let (mut at, mut is_behind, mut escapes) = (0, false, false);
    let mut found = Vec::new();
    while at < text.len() {
        let Token { kind, length } = token(&text[at..], escapes);
        let bytes = &text[at..at + length];
        (at, escapes) = (at + length, false);
        match kind {
            Kind::Space => continue,
            Kind::Word if is_behind => found.push(bytes.to_ascii_lowercase()),
            Kind::Name { opening, closing } if is_behind => {
                found.push(replaced(&bytes[opening..bytes.len() - closing], b"\"\"", b"\""));
            }
            Kind::Word => {
                escapes = matches!(bytes, b"e" | b"E");
                is_behind = bytes.eq_ignore_ascii_case(word.as_bytes());
                continue;
            }
            _ => {}
        }
        is_behind = false;
    }
    found
}

/// The text with all of these bytes replaced.
pub fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(from) {
            output.extend_from_slice(to);
            at += from.len();
        } else {
            output.push(text[at]);
            at += 1;
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::names_behind;

    #[test]
    fn names_of_prepared_statements_are_found_where_they_are_no_text() {
        let found = |text: &str| names_behind(text.as_bytes(), "execute").join(&b' ');
        assert_eq!(found("EXECUTE P(1); execute\"A\"\"b\" (2)"), b"p A\"b");
        assert_eq!(found("CREATE TABLE t AS EXECUTE /* it */ q"), b"q");
        assert_eq!(
            found("SELECT 'execute p', E'\\'execute p', $$execute p$$ -- execute p"),
            b""
        );
        assert_eq!(found("execute ('x')"), b"");
    }
}
