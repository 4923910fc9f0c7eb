//! Stand-ins for values in their text form: of the same kind and length, the same for the same value.

use super::permute::{Digit, Permuter};
use super::shapes::{self, Place};

/// Kept as they are: another word in their place would be of no type, and they tell next to nothing.
const KEPT: [&[u8]; 6] = [b"t", b"f", b"true", b"false", b"null", b"NULL"];
/// A UUID is also written without its hyphens, as some drivers do.
const UUID_DIGITS: usize = 32;
const BETWEEN: &[u8] = b"{}[](),: \t\n\r";

/// The stand-in of a value.
pub fn text(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    if KEPT.contains(&value) {
        return value.to_vec();
    }
    if let Some(found) = whole_number(value) {
        return number(permuter, found).to_string().into_bytes();
    }
    match value.first() {
        Some(b'{' | b'[' | b'(') => parts(permuter, value),
        _ if value.len() == UUID_DIGITS && value.iter().all(u8::is_ascii_hexdigit) => {
            let mut found = shaped(permuter, &hyphenated(value));
            found.retain(|byte| *byte != b'-');
            found
        }
        _ => shaped(permuter, value),
    }
}

/// A UUID as the server writes it, of its digits.
pub fn hyphenated(digits: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(digits.len() + 4);
    for (at, digit) in digits.iter().enumerate() {
        if [8, 12, 16, 20].contains(&at) {
            found.push(b'-');
        }
        found.push(digit.to_ascii_lowercase());
    }
    found
}

/// Of what stands between quotes where a backslash means something: no escape says any more what it stood for.
pub fn escaped(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let mut plain = value.to_vec();
    let mut at = 0;
    while at < plain.len() {
        if plain[at] != b'\\' {
            at += 1;
        } else if plain.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) {
            plain[at] = b'x';
            at += 2;
        } else {
            at += 2;
        }
    }
    match plain == value {
        true => text(permuter, value),
        false => shaped(permuter, &plain),
    }
}

/// Of a whole number: one with as many digits, which fits the same types.
pub fn number(permuter: &Permuter, number: i64) -> i64 {
    let (low, high) = range_of(number.unsigned_abs());
    let found = low + permuter.number(number.unsigned_abs() - low, high - low + 1);
    let found = i64::try_from(found).unwrap_or(i64::MAX);
    if number < 0 { -found } else { found }
}

/// The numbers with as many digits that fit the same types.
fn range_of(size: u64) -> (u64, u64) {
    let digits = size.checked_ilog10().unwrap_or(0);
    let low = if size == 0 { 0 } else { 10_u64.pow(digits) };
    let high = if size == 0 { 0 } else { low.saturating_mul(10) - 1 };
    for most in [i16::MAX as u64, i32::MAX as u64, i64::MAX as u64] {
        if low <= most && most < high {
            return if size <= most {
                (low, most)
            } else {
                (most + 1, high)
            };
        }
    }
    (low, high)
}

/// A whole number as the server writes it.
fn whole_number(value: &[u8]) -> Option<i64> {
    let found: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (found != i64::MIN && found.to_string().as_bytes() == value).then_some(found)
}

/// Lists, objects, rows: each word and number in them for itself; what holds them together stays.
fn parts(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(&first) = rest.first() {
        let length = match first {
            b'"' => 1 + inside_length(&rest[1..]),
            _ if BETWEEN.contains(&first) => 0,
            _ => rest
                .iter()
                .position(|byte| BETWEEN.contains(byte) || *byte == b'"')
                .unwrap_or(rest.len()),
        };
        if first == b'"' {
            output.push(b'"');
            output.extend(escaped(permuter, &rest[1..length]));
            output.extend(rest.get(length));
            rest = rest.get(length + 1..).unwrap_or_default();
        } else if length == 0 {
            output.push(first);
            rest = &rest[1..];
        } else {
            output.extend(text(permuter, &rest[..length]));
            rest = &rest[length..];
        }
    }
    output
}

/// How far it is to the quote that ends.
fn inside_length(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

fn shaped(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let (places, mut digits): (Vec<Place>, Vec<Digit>) = shapes::of(value).into_iter().unzip();
    permuter.digits(&mut digits);
    let mut output = Vec::with_capacity(value.len());
    for (place, (digit, _)) in places.into_iter().zip(digits) {
        shapes::write(place, digit, &mut output);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(value: &str) -> String {
        String::from_utf8(text(&Permuter::default(), value.as_bytes())).unwrap()
    }

    fn shape(value: &str) -> String {
        let of = |found: char| match found {
            '0'..='9' => '9',
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            found => found,
        };
        value.chars().map(of).collect()
    }

    #[test]
    fn length_and_kind_stay_and_the_value_goes() {
        for value in [
            "hans.muster@example.org",
            "Geheim-4711-XY",
            "4111111111111111",
            "-98765432109",
            "12345.6789",
            "O'Brien; DROP",
            "Zürich und Genève",
            "東京都渋谷区",
        ] {
            let found = made(value);
            assert_ne!(found, value);
            assert_eq!(found.len(), value.len(), "{value} {found}");
            if value.is_ascii() {
                assert_eq!(shape(&found), shape(value));
            }
        }
    }

    #[test]
    fn numbers_fit_the_types_that_they_fitted() {
        let permuter = Permuter::default();
        for value in [
            0,
            1,
            9,
            10,
            32_767,
            32_768,
            2_147_483_647,
            2_147_483_648,
            i64::MAX,
            -32_767,
        ] {
            let found = number(&permuter, value);
            assert_eq!(found.to_string().len(), value.to_string().len());
            assert_eq!(i16::try_from(found).is_ok(), i16::try_from(value).is_ok());
            assert_eq!(i32::try_from(found).is_ok(), i32::try_from(value).is_ok());
        }
        let twice: std::collections::HashSet<i64> =
            (100..1000).map(|value| number(&permuter, value)).collect();
        assert_eq!(twice.len(), 900);
    }

    #[test]
    fn dates_uuids_lists_and_documents_keep_their_form() {
        for _ in 0..50 {
            let found = made("1987-12-31 23:59:59.123+02");
            assert!(found.starts_with("19") && found.ends_with("+02"), "{found}");
            let (month, day): (u32, u32) = (found[5..7].parse().unwrap(), found[8..10].parse().unwrap());
            assert!((1..=12).contains(&month) && (1..=28).contains(&day));
            assert!(found[11..13].parse::<u32>().unwrap() < 24 && found[17..19].parse::<u32>().unwrap() < 60);
        }
        let uuid = made("3f2504e0-4f89-41d3-9a0c-0305e82c3301");
        assert_eq!((uuid.len(), &uuid[14..15], &uuid[19..20]), (36, "4", "9"));
        assert!(
            uuid.chars()
                .all(|found| found == '-' || found.is_ascii_hexdigit())
        );
        let permuter = Permuter::default();
        let mut plain = text(&permuter, b"3f2504e0-4f89-41d3-9a0c-0305e82c3301");
        plain.retain(|byte| *byte != b'-');
        assert_eq!(plain, text(&permuter, b"3f2504e04f8941d39a0c0305e82c3301"));
        assert!(
            made("d41d8cd98f00b204e9800998")
                .chars()
                .all(|found| found.is_ascii_hexdigit())
        );
        let found = made(r#"{"name": "Muster", "ids": [4711, 4712], "is": true, "none": null}"#);
        assert!(found.contains("true") && found.ends_with(": null}") && !found.contains("Muster"));
        assert_eq!(made("{4711,NULL,815}").len(), "{4711,NULL,815}".len());
    }

    #[test]
    fn the_same_value_has_the_same_stand_in_wherever_it_stands() {
        let permuter = Permuter::default();
        let list = text(&permuter, b"{4711,815}");
        let one = text(&permuter, b"4711");
        assert!(list.windows(one.len()).any(|window| window == one));
        assert_eq!(one, number(&permuter, 4711).to_string().into_bytes());
        assert_eq!(escaped(&permuter, b"Muster"), text(&permuter, b"Muster"));
    }

    #[test]
    fn an_escape_does_not_say_what_it_stood_for() {
        let found = escaped(&Permuter::default(), br"\x4a\u0041 it\'s \\");
        assert!(
            !found
                .windows(2)
                .any(|pair| pair[0] == b'\\' && pair[1].is_ascii_alphanumeric())
        );
        assert!(found.ends_with(b"\\\\") && found.windows(2).any(|pair| pair == b"\\'"));
    }
}
