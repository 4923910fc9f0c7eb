//! Takes secrets out of statements before they are stored: passwords of roles and user mappings, connection strings.
//!
//! Whatever stands behind the words PASSWORD or CONNECTION as a string, every option of a user mapping, and the
//! password in a connection string or URL anywhere. Strings that hold statements (bodies of functions, DO) are looked
//! through as well. Values of parameters are not: the protocol doesn't say what they are for.

use std::borrow::Cow;

use crate::lexer::{Kind, replaced, token};

/// What stands in a secret's place.
const STAND_IN: &[u8] = b"'***'";
const MASK: &[u8] = b"***";
/// As long, and never put there.
const OTHER_MASK: &[u8] = b"###";
/// A string behind one of these is a secret; also where it is the quoted name of an option.
const SECRET_WORDS: [&[u8]; 2] = [b"password", b"connection"];
const SECRET_NAMES: [&[u8]; 2] = [b"\"password\"", b"\"connection\""];
/// Strings within strings are followed so deep; beyond that the string goes.
const DEPTH_MAX: u32 = 8;

/// The statement, or statements, without secrets; borrowed where there are none.
pub fn without_secrets(text: &[u8]) -> Cow<'_, [u8]> {
    if !may_hold_secret(text) {
        return Cow::Borrowed(text);
    }
    let mut output = Vec::with_capacity(text.len());
    rewrite(text, &mut output, DEPTH_MAX, false);
    if contains(text, b"\\'") {
        // Whether a backslash ends a string depends on a setting of the session (standard_conforming_strings): what
        // is no secret either way is kept, and nothing beyond.
        let mut other = Vec::with_capacity(text.len());
        rewrite(text, &mut other, DEPTH_MAX, true);
        if other != output {
            let same = output
                .iter()
                .zip(&other)
                .take_while(|(one, two)| one == two)
                .count();
            output.truncate(same);
            output.extend_from_slice(STAND_IN);
        }
    }
    match output == text {
        true => Cow::Borrowed(text),
        false => Cow::Owned(output),
    }
}

/// Whether a secret was taken out of a stored text: a stand-in is where one is put. Elsewhere it is a value of the
/// application's own.
pub fn lacks_secret(text: &[u8]) -> bool {
    if !text.windows(MASK.len()).any(|part| part == MASK) {
        return false;
    }
    // What cut the rest off can't be found again.
    if text.ends_with(STAND_IN) && contains(text, b"\\'") {
        return true;
    }
    // With another word in its place it would be taken out again. Comments have stars of their own.
    let (mut at, mut escapes) = (0, false);
    let mut other = Vec::with_capacity(text.len());
    while at < text.len() {
        let found = token(&text[at..], escapes);
        let bytes = &text[at..at + found.length];
        at += found.length;
        escapes = matches!(found.kind, Kind::Word) && bytes.eq_ignore_ascii_case(b"e");
        match found.kind {
            Kind::Space => other.push(b' '),
            _ => other.extend(replaced(bytes, MASK, OTHER_MASK)),
        }
    }
    matches!(without_secrets(&other), Cow::Owned(_))
}

/// Whether a word is there without which nothing is taken out.
fn may_hold_secret(text: &[u8]) -> bool {
    ["password", "connection", "mapping", "://", "pass"]
        .iter()
        .any(|word| contains(text, word.as_bytes()))
}

/// Whether the bytes hold this word, in capitals or not.
pub fn contains(text: &[u8], lower: &[u8]) -> bool {
    let Some((&first, rest)) = lower.split_first() else {
        return true;
    };
    let mut from = 0;
    while let Some(found) = text[from..]
        .iter()
        .position(|byte| byte.eq_ignore_ascii_case(&first))
    {
        let after = &text[from + found + 1..];
        if after.len() < rest.len() {
            return false;
        }
        if after[..rest.len()].eq_ignore_ascii_case(rest) {
            return true;
        }
        from += found + 1;
    }
    false
}

/// Whether a string is part of a statement or a connection string and ends where a secret would follow, or has a place
/// for it: what is composed by `||` or by `format('ALTER ROLE … PASSWORD %L', …)`. A label, as 'password', is none.
fn ends_before_secret(content: &[u8]) -> bool {
    let begins = content.first().is_some_and(u8::is_ascii_whitespace);
    let first_word = content.trim_ascii_start();
    let is_statement = ["alter", "create"].iter().any(|word| {
        first_word
            .get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    });
    (0..content.len()).any(|at| {
        SECRET_WORDS.iter().any(|word| {
            let found = content[at..].get(..word.len());
            if !found.is_some_and(|found| found.eq_ignore_ascii_case(word)) {
                return false;
            }
            let after = &content[at + word.len()..];
            let filler = after
                .iter()
                .position(|byte| !(byte.is_ascii_whitespace() || b"'=".contains(byte)));
            let is_open = filler.is_none_or(|end| after[end] == b'%');
            let is_key = after[..filler.unwrap_or(after.len())].contains(&b'=');
            let is_between = begins && after.first().is_some_and(u8::is_ascii_whitespace);
            is_open && (is_statement || is_key || is_between)
        })
    })
}

/// What the last words mean for the next string.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Plain,
    Secret,
}

fn rewrite(text: &[u8], output: &mut Vec<u8>, depth: u32, escapes: bool) {
    let mut at = 0;
    let mut next = Next::Plain;
    let mut is_mapping = false;
    let mut is_composed = false;
    let mut is_escape_string = false;
    let mut last_word: &[u8] = b"";
    while at < text.len() {
        let rest = &text[at..];
        let token = token(rest, escapes || is_escape_string);
        is_escape_string = false;
        let bytes = &rest[..token.length];
        at += token.length;
        match token.kind {
            Kind::Space => output.extend_from_slice(bytes),
            Kind::Word => {
                is_mapping |=
                    last_word.eq_ignore_ascii_case(b"user") && bytes.eq_ignore_ascii_case(b"mapping");
                last_word = bytes;
                // The prefix of a string, as in E'…' or U&'…', says nothing of its own.
                let after = &rest[token.length..];
                let is_prefix = bytes.len() == 1 && (after.starts_with(b"'") || after.starts_with(b"&'"));
                is_escape_string = is_prefix && bytes.eq_ignore_ascii_case(b"e");
                if !is_prefix {
                    let is_secret = SECRET_WORDS.iter().any(|word| bytes.eq_ignore_ascii_case(word));
                    next = if is_secret { Next::Secret } else { Next::Plain };
                }
                output.extend_from_slice(bytes);
            }
            Kind::Text { opening, closing } => {
                if next == Next::Secret || is_mapping || is_composed {
                    output.extend_from_slice(STAND_IN);
                } else {
                    is_composed = ends_before_secret(&bytes[opening..bytes.len() - closing]);
                    inside(bytes, (opening, closing), output, depth, escapes);
                }
            }
            Kind::Name { .. } | Kind::Other => {
                // The next statement begins.
                if bytes == b";" {
                    is_mapping = false;
                    is_composed = false;
                }
                if bytes != b"&" {
                    next = match SECRET_NAMES.iter().any(|name| bytes.eq_ignore_ascii_case(name)) {
                        true => Next::Secret,
                        false => Next::Plain,
                    };
                }
                output.extend_from_slice(bytes);
            }
        }
    }
}

/// Writes a string, its content looked through.
fn inside(bytes: &[u8], (opening, closing): (usize, usize), output: &mut Vec<u8>, depth: u32, escapes: bool) {
    let content = &bytes[opening..bytes.len() - closing];
    if !may_hold_secret(content) {
        output.extend_from_slice(bytes);
        return;
    }
    if depth == 0 {
        output.extend_from_slice(STAND_IN);
        return;
    }
    output.extend_from_slice(&bytes[..opening]);
    let masked = connection_string(content);
    let is_quoted = opening == 1;
    if is_quoted && contains(&masked, b"''") {
        // A string within the string has its quotes twice.
        let single = replaced(&masked, b"''", b"'");
        let mut inner = Vec::new();
        rewrite(&single, &mut inner, depth - 1, escapes);
        match inner == single {
            true => output.extend_from_slice(&masked),
            false => output.extend(replaced(&inner, b"'", b"''")),
        }
    } else {
        rewrite(&masked, output, depth - 1, escapes);
    }
    output.extend_from_slice(&bytes[bytes.len() - closing..]);
}

/// `password=…` of a connection string, and the password of a URL, replaced.
fn connection_string(content: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(content.len());
    let mut at = 0;
    while at < content.len() {
        let rest = &content[at..];
        if let Some(length) = password_key(rest) {
            output.extend_from_slice(&rest[..length]);
            at += length;
            at += value_length(&content[at..]);
            output.extend_from_slice(MASK);
        } else if let Some((start, end)) = url_password(rest) {
            output.extend_from_slice(&rest[..start]);
            output.extend_from_slice(MASK);
            at += end;
        } else {
            output.push(content[at]);
            at += 1;
        }
    }
    output
}

/// The length of `password = ` (or `sslpassword=`, of which it is the end) at the front.
fn password_key(rest: &[u8]) -> Option<usize> {
    const KEY: &[u8] = b"password";
    if rest.len() <= KEY.len() || !rest[..KEY.len()].eq_ignore_ascii_case(KEY) {
        return None;
    }
    let spaces = |from: usize| rest[from..].iter().take_while(|byte| **byte == b' ').count();
    let equals = KEY.len() + spaces(KEY.len());
    (rest.get(equals) == Some(&b'=')).then(|| equals + 1 + spaces(equals + 1))
}

/// How long a connection string's value is, with its quotes; a backslash takes what follows for the value
/// (fe-connect.c, `conninfo_parse`).
fn value_length(rest: &[u8]) -> usize {
    let quotes = rest.iter().take_while(|byte| **byte == b'\'').count().min(2);
    let quote = &rest[..quotes];
    let mut at = quotes;
    while at < rest.len() {
        let left = &rest[at..];
        if left[0] == b'\\' {
            // Within a string of SQL a quote that is escaped stands there twice.
            at += match quotes > 1 && left[1..].starts_with(quote) {
                true => 1 + quotes,
                false => 2,
            };
        } else if quotes == 0 && (left[0].is_ascii_whitespace() || b"&'".contains(&left[0])) {
            return at;
        } else if quotes > 0 && left.starts_with(quote) {
            return at + quotes;
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Where the password of `://user:password@` begins and ends.
fn url_password(rest: &[u8]) -> Option<(usize, usize)> {
    let authority = rest.strip_prefix(b"://")?;
    let end = authority
        .iter()
        .position(|byte| *byte == b'/' || byte.is_ascii_whitespace())
        .unwrap_or(authority.len());
    let at = authority[..end].iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..at].iter().position(|byte| *byte == b':')?;
    Some((3 + colon + 1, 3 + at))
}

#[cfg(test)]
mod tests;
