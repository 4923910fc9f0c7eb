//! The words of an expression (src/bin/pgbench/exprscan.l).

use super::tree::SyntaxError;
use crate::variables::{is_first, is_further};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Symbol(&'static str),
    Keyword(&'static str),
    Integer(i64),
    /// 9223372036854775808, which is an integer once a minus stands before it.
    IntegerMaxPlusOne,
    Double(f64),
    Variable(String),
    Name(String),
}

/// The longest first where one begins another.
const SYMBOLS: &[&str] = &[
    "<<", ">>", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "=", "<", ">", "|", "&", "#", "~", "(", ")",
    ",",
];
const KEYWORDS: &[&str] = &[
    "and", "or", "not", "case", "when", "then", "else", "end", "is", "isnull", "notnull", "null", "true",
    "false",
];

/// A word with where it begins and where it ends, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    pub offset: usize,
    pub end: usize,
    pub token: Token,
}

/// The tokens of a text.
pub fn tokens(text: &str) -> Result<Vec<Placed>, SyntaxError> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if b" \t\r\n\x0b\x0c".contains(&bytes[at]) {
            at += 1;
            continue;
        }
        // A line that goes on.
        if bytes[at] == b'\\' && matches!(&bytes[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            at += 1;
            continue;
        }
        let (token, length) = next(text, at)?;
        let end = at + length;
        found.push(Placed {
            offset: at,
            end,
            token,
        });
        at = end;
    }
    Ok(found)
}

fn next(text: &str, at: usize) -> Result<(Token, usize), SyntaxError> {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
    if bytes[0].is_ascii_digit() || (bytes[0] == b'.' && bytes.get(1).is_some_and(u8::is_ascii_digit)) {
        return number(rest, at);
    }
    if bytes[0] == b':' {
        let length = word_length(&bytes[1..]);
        if length > 0 {
            return Ok((Token::Variable(rest[1..=length].to_owned()), length + 1));
        }
    }
    if is_first(bytes[0]) {
        let length = word_length(bytes);
        let word = &rest[..length];
        let keyword = KEYWORDS.iter().find(|known| known.eq_ignore_ascii_case(word));
        let token = keyword.map_or_else(|| Token::Name(word.to_owned()), |known| Token::Keyword(known));
        return Ok((token, length));
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((Token::Symbol(symbol), symbol.len()));
    }
    let character = rest.chars().next().unwrap_or('?');
    Err(error("unexpected character", &character.to_string(), at))
}

fn word_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| is_further(byte)).count()
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), SyntaxError> {
    let bytes = rest.as_bytes();
    let mut length = digits(bytes);
    let mut is_double = false;
    if bytes.get(length) == Some(&b'.') {
        is_double = true;
        length += 1 + digits(&bytes[length + 1..]);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(bytes.get(length + 1 + sign..).unwrap_or_default());
        if exponent > 0 {
            is_double = true;
            length += 1 + sign + exponent;
        }
    }
    let text = &rest[..length];
    if is_double {
        let value = text.parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| error("double constant overflow", text, at))?;
        return Ok((Token::Double(value), length));
    }
    if text == "9223372036854775808" {
        return Ok((Token::IntegerMaxPlusOne, length));
    }
    let value = text
        .parse()
        .map_err(|_| error("bigint constant overflow", text, at))?;
    Ok((Token::Integer(value), length))
}

/// A fault of what begins at an offset; it ends with what it is about.
pub fn error(message: &str, about: &str, offset: usize) -> SyntaxError {
    SyntaxError {
        message: message.to_owned(),
        about: about.to_owned(),
        offset,
        end: offset + about.len().max(1),
    }
}
