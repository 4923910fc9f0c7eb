//! How values are written: in texts and parameters of clients, in rows of servers, alone and in arrays.

use std::ops::Range;

use super::parts::{Column, Form};

const TEXT: u32 = 25;
const ARRAY_HEADER_BYTES: usize = 20;

/// How a column of this type and format is written; none where its values are not followed.
pub fn form_of(type_oid: u32, format: u16) -> Option<Form> {
    match (type_oid, format) {
        // Whole numbers, row identifiers, texts, UUIDs, moments, and numerics, which are keys elsewhere.
        (20 | 21 | 23 | 26 | 27 | 28 | 5069 | TEXT | 1042 | 1043 | 1114 | 1184 | 1700 | 2950, 0) => {
            Some(Form::Text)
        }
        (TEXT | 1042 | 1043, 1) => Some(Form::Text),
        (20 | 21 | 23 | 5069 | 1114 | 1184, 1) => Some(Form::Integer),
        (26 | 28, 1) => Some(Form::Unsigned),
        (27, 1) => Some(Form::Place),
        (2950, 1) => Some(Form::Uuid),
        _ => None,
    }
}

/// The type of an array's elements; none where it is no array whose values are followed.
pub fn array_of(type_oid: u32) -> Option<u32> {
    Some(match type_oid {
        1005 => 21,
        1007 => 23,
        1016 => 20,
        1028 => 26,
        1010 => 27,
        1011 => 28,
        271 => 5069,
        1009 => TEXT,
        1014 => 1042,
        1015 => 1043,
        1115 => 1114,
        1185 => 1184,
        1231 => 1700,
        2951 => 2950,
        _ => return None,
    })
}

impl Column {
    /// The elements of a field that is an array of one dimension.
    pub fn elements<'a>(&self, field: Option<&'a [u8]>) -> Vec<&'a [u8]> {
        let found = field.and_then(|bytes| {
            let (ranges, _) = match self.form {
                // Texts are the same in both formats, and arrays of them are not.
                Form::Text => elements(bytes, false).or_else(|| elements(bytes, true)),
                _ => elements(bytes, true),
            }?;
            Some(ranges.into_iter().map(|range| &bytes[range]).collect())
        });
        found.unwrap_or_default()
    }
}

/// How a binary parameter of this length may be written, the likelier first.
pub fn forms_of(length: usize) -> &'static [Form] {
    match length {
        2 | 8 => &[Form::Integer, Form::Text],
        4 => &[Form::Integer, Form::Unsigned, Form::Text],
        6 => &[Form::Place, Form::Text],
        16 => &[Form::Uuid, Form::Text],
        _ => &[Form::Text],
    }
}

/// Type and format of each column of a RowDescription, and what it comes from: a table's OID and the column's number.
pub fn described(body: &[u8]) -> Vec<(u32, u16, (u32, u16))> {
    let mut found = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let Some(numbers) = rest.get(end + 1..end + 19) else {
            break;
        };
        let oid =
            |at: usize| u32::from_be_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]);
        let short = |at: usize| u16::from_be_bytes([numbers[at], numbers[at + 1]]);
        found.push((oid(6), short(16), (oid(0), short(4))));
        rest = &rest[end + 19..];
    }
    found
}

/// A field of a DataRow; none where it is null or not there.
pub fn field(row: &[u8], place: usize) -> Option<&[u8]> {
    let mut rest = row.get(2..)?;
    for at in 0.. {
        let length = i32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
        let length = usize::try_from(length);
        if at == place {
            return rest.get(4..4 + length.ok()?);
        }
        rest = rest.get(4 + length.unwrap_or(0)..)?;
    }
    None
}

/// Where the elements of an array of one dimension stand, and how; none where it is no such array.
pub fn elements(bytes: &[u8], is_binary: bool) -> Option<(Vec<Range<usize>>, Option<Form>)> {
    match is_binary {
        true => binary_elements(bytes),
        false => Some((text_elements(bytes)?, None)),
    }
}

fn binary_elements(bytes: &[u8]) -> Option<(Vec<Range<usize>>, Option<Form>)> {
    let number = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.len() < ARRAY_HEADER_BYTES || number(0)? != 1 || !matches!(number(4)?, 0 | 1) {
        return None;
    }
    let form = form_of(u32::try_from(number(8)?).ok()?, 1)?;
    let count = usize::try_from(number(12)?).ok()?;
    let mut found = Vec::new();
    let mut at = ARRAY_HEADER_BYTES;
    for _ in 0..count {
        let length = number(at)?;
        at += 4;
        if let Ok(length) = usize::try_from(length) {
            bytes.get(at..at + length)?;
            found.push(at..at + length);
            at += length;
        }
    }
    (at == bytes.len()).then_some((found, Some(form)))
}

fn text_elements(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let inside = bytes.strip_prefix(b"{")?.strip_suffix(b"}")?;
    // Escapes stand in texts, and those are no keys.
    if inside.iter().any(|byte| matches!(byte, b'\\' | b'{' | b'}')) {
        return None;
    }
    let mut found = Vec::new();
    let (mut from, mut is_quoted) = (1, false);
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' | b'}' if !is_quoted => {
                let quotes = usize::from(bytes[from] == b'"' && at >= from + 2);
                found.push(from + quotes..at - quotes);
                from = at + 1;
            }
            _ => {}
        }
    }
    Some(found)
}

/// A value as text, whatever it is written in; none where the bytes are no such value.
pub fn canonical(bytes: &[u8], form: Form) -> Option<Vec<u8>> {
    match form {
        Form::Text if is_uuid(bytes) => Some(bytes.to_ascii_lowercase()),
        Form::Text if is_bare_uuid(bytes) => Some(hyphenated(&bytes.to_ascii_lowercase())),
        Form::Text => Some(bytes.to_vec()),
        Form::Unsigned => {
            let number = u32::from_be_bytes(bytes.try_into().ok()?);
            Some(number.to_string().into_bytes())
        }
        Form::Integer => {
            let number = match bytes.len() {
                2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
                4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
                8 => i64::from_be_bytes(bytes.try_into().ok()?),
                _ => return None,
            };
            Some(number.to_string().into_bytes())
        }
        Form::Place => {
            let bytes: [u8; 6] = bytes.try_into().ok()?;
            let block = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let row = u16::from_be_bytes([bytes[4], bytes[5]]);
            Some(format!("({block},{row})").into_bytes())
        }
        Form::Uuid => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            (digits.len() == 32).then(|| hyphenated(digits.as_bytes()))
        }
    }
}

/// 32 digits as a UUID is written.
fn hyphenated(digits: &[u8]) -> Vec<u8> {
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join(&b'-')
}

/// Whether it is a UUID's text without hyphens, as many applications write it.
fn is_bare_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 32 && bytes.iter().all(u8::is_ascii_hexdigit)
}

/// Whether it is a UUID's text.
fn is_uuid(bytes: &[u8]) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(is_right)
}

/// A row's place in its table: block and number.
pub fn is_place(text: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    text.strip_prefix(b"(")
        .and_then(|rest| rest.strip_suffix(b")"))
        .and_then(|rest| {
            let comma = rest.iter().position(|byte| *byte == b',')?;
            Some(is_number(&rest[..comma]) && is_number(&rest[comma + 1..]))
        })
        .unwrap_or(false)
}

/// A value from its text, written as what stood in the place; none where it does not fit there.
pub fn written(value: &[u8], form: Form, then: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(value).ok()?;
    match form {
        Form::Text => Some(as_text(value, then)),
        Form::Unsigned => Some(text.parse::<u32>().ok()?.to_be_bytes().to_vec()),
        Form::Integer => {
            let number: i64 = text.parse().ok()?;
            match then.len() {
                2 => Some(i16::try_from(number).ok()?.to_be_bytes().to_vec()),
                4 => Some(i32::try_from(number).ok()?.to_be_bytes().to_vec()),
                _ => Some(number.to_be_bytes().to_vec()),
            }
        }
        Form::Place => {
            let inside = text.strip_prefix('(')?.strip_suffix(')')?;
            let (block, row) = inside.split_once(',')?;
            let (block, row): (u32, u16) = (block.parse().ok()?, row.parse().ok()?);
            Some([&block.to_be_bytes()[..], &row.to_be_bytes()].concat())
        }
        Form::Uuid => {
            let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
            let pairs = digits.chunks(2).map(|pair| {
                let pair = std::str::from_utf8(pair).ok()?;
                u8::from_str_radix(pair, 16).ok()
            });
            pairs
                .collect::<Option<Vec<u8>>>()
                .filter(|bytes| bytes.len() == 16)
        }
    }
}

/// A client that writes UUIDs in capitals, or without hyphens, goes on doing so.
fn as_text(value: &[u8], then: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    if is_uuid(&value) && (is_uuid(then) || is_bare_uuid(then)) {
        if !is_uuid(then) {
            value.retain(|byte| *byte != b'-');
        }
        if then.iter().any(u8::is_ascii_uppercase) {
            value.make_ascii_uppercase();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_in_each_form() {
        let uuid: Vec<u8> = (0..16).collect();
        let text = canonical(&uuid, Form::Uuid).unwrap();
        assert_eq!(text, b"00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(canonical(&text.to_ascii_uppercase(), Form::Text).unwrap(), text);
        assert_eq!(written(&text, Form::Uuid, &uuid), Some(uuid));
        let bare = b"000102030405060708090A0B0C0D0E0F";
        assert_eq!(canonical(bare, Form::Text).unwrap(), text);
        assert_eq!(written(&text, Form::Text, bare).unwrap(), bare);
        assert_eq!(
            written(&text, Form::Text, &text.to_ascii_uppercase()),
            Some(text.to_ascii_uppercase())
        );
        for bytes in [vec![0xff, 0xfe], vec![0, 0, 1, 0], vec![0; 8]] {
            let text = canonical(&bytes, Form::Integer).unwrap();
            assert_eq!(written(&text, Form::Integer, &bytes), Some(bytes));
        }
        assert_eq!(written(b"70000", Form::Integer, b"\0\x01"), None);
        let transaction = vec![0xff, 0, 0, 1];
        let text = canonical(&transaction, Form::Unsigned).unwrap();
        assert_eq!(text, b"4278190081");
        assert_eq!(written(&text, Form::Unsigned, &transaction), Some(transaction));
        let place = vec![0, 0, 1, 2, 0, 7];
        let text = canonical(&place, Form::Place).unwrap();
        assert_eq!(text, b"(258,7)");
        assert!(is_place(&text) && !is_place(b"(1)") && !is_place(b"(,)"));
        assert_eq!(written(&text, Form::Place, &place), Some(place));
    }

    #[test]
    fn a_field_is_found_behind_a_null() {
        let row = b"\0\x03\xff\xff\xff\xff\0\0\0\x01a\0\0\0\0";
        assert_eq!(field(row, 0), None);
        assert_eq!(field(row, 1), Some(&b"a"[..]));
        assert_eq!(field(row, 2), Some(&b""[..]));
        assert_eq!(field(row, 3), None);
        assert_eq!(field(b"\0\x01\0\0\0\x09a", 0), None);
    }

    #[test]
    fn elements_of_arrays_are_found_in_both_forms() {
        let parts = |bytes: &[u8]| {
            let (found, _) = elements(bytes, false)?;
            Some(
                found
                    .into_iter()
                    .map(|range| bytes[range].to_vec())
                    .collect::<Vec<_>>(),
            )
        };
        let expected = |parts: &[&str]| Some(parts.iter().map(|part| part.as_bytes().to_vec()).collect());
        assert_eq!(parts(b"{1,22,NULL}"), expected(&["1", "22", "NULL"]));
        assert_eq!(parts(b"{\"(0,1)\",\"(0,2)\"}"), expected(&["(0,1)", "(0,2)"]));
        assert_eq!(parts(b"{}"), expected(&[""]));
        for odd in [&b"{"[..], b"}", b"{{1},{2}}", b"{\"a\\\"b\"}", b"1,2", b""] {
            assert_eq!(parts(odd), None, "{odd:?}");
        }
        let array =
            b"\0\0\0\x01\0\0\0\x01\0\0\0\x14\0\0\0\x02\0\0\0\x01\xff\xff\xff\xff\0\0\0\x08\0\0\0\0\0\0\0\x09";
        assert_eq!(
            elements(array, true),
            Some((std::iter::once(28..36).collect(), Some(Form::Integer)))
        );
        for end in 0..array.len() {
            assert_eq!(elements(&array[..end], true), None);
        }
    }
}
