//! The shape of a value's text: what stands in each place, and what may stand there instead.

use super::permute::Digit;

/// A place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It stays.
    Kept(char),
    /// One of so many characters that follow each other; the first of them.
    Character(char, u32),
    /// A digit of 16.
    Hexadecimal,
    /// Two digits of a date or time; the least.
    Pair(u32),
    /// A byte that is no character.
    Byte,
}

/// The places of a text, each with its digit.
pub fn of(value: &[u8]) -> Vec<(Place, Digit)> {
    hexadecimal(value).or_else(|| moment(value)).unwrap_or_else(|| {
        let mut places: Vec<(Place, Digit)> = Vec::with_capacity(value.len());
        for chunk in value.utf8_chunks() {
            places.extend(chunk.valid().chars().map(of_character));
            places.extend(
                chunk
                    .invalid()
                    .iter()
                    .map(|byte| (Place::Byte, (u32::from(*byte) - 0x80, 0x80))),
            );
        }
        keep_number(value, &mut places);
        places
    })
}

/// Writes a place with its digit.
pub fn write(place: Place, digit: u32, output: &mut Vec<u8>) {
    let found = match place {
        Place::Kept(found) => found,
        Place::Character(first, _) => {
            let code = u32::from(first) + digit;
            // Surrogates are no characters: what lies behind them was counted without them.
            let code = if first == THREE_BYTES.0 && code >= 0xD800 {
                code + 0x800
            } else {
                code
            };
            char::from_u32(code).unwrap_or('?')
        }
        Place::Hexadecimal => char::from_digit(digit, 16).unwrap_or('0'),
        Place::Pair(least) => {
            output.extend_from_slice(format!("{:02}", least + digit).as_bytes());
            return;
        }
        Place::Byte => {
            output.push(u8::try_from(0x80 + digit).unwrap_or(0x80));
            return;
        }
    };
    output.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
}

/// By length in UTF-8: the first character, and how many there are.
const TWO_BYTES: (char, u32) = ('\u{80}', 0x780);
const THREE_BYTES: (char, u32) = ('\u{800}', 0x1_0000 - 0x800 - 0x800);
const FOUR_BYTES: (char, u32) = ('\u{10000}', 0x10_0000);

fn of_character(found: char) -> (Place, Digit) {
    let code = u32::from(found);
    let (first, kinds) = match found {
        '0'..='9' => ('0', 10),
        'a'..='z' => ('a', 26),
        'A'..='Z' => ('A', 26),
        '\0'..='\x7f' => return (Place::Kept(found), (0, 1)),
        '\u{80}'..='\u{7ff}' => TWO_BYTES,
        '\u{800}'..='\u{ffff}' => THREE_BYTES,
        _ => FOUR_BYTES,
    };
    let code = if first == THREE_BYTES.0 && code >= 0xE000 {
        code - 0x800
    } else {
        code
    };
    (Place::Character(first, kinds), (code - u32::from(first), kinds))
}

/// A number stays one: it keeps its exponent's sign, and its first digit does not become 0.
fn keep_number(value: &[u8], places: &mut [(Place, Digit)]) {
    if !value
        .iter()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
    {
        return;
    }
    for ((place, digit), byte) in places.iter_mut().zip(value) {
        if byte.is_ascii_alphabetic() {
            (*place, *digit) = (Place::Kept(char::from(*byte)), (0, 1));
        }
    }
    let first = places
        .iter_mut()
        .find(|(place, _)| !matches!(place, Place::Kept(_)));
    if let Some((place, (digit, kinds))) = first
        && *digit > 0
    {
        *place = Place::Character('1', 9);
        (*digit, *kinds) = (*digit - 1, 9);
    }
}

/// So many digits of 16 in a row, and nothing else, are a hash or a number without its hyphens.
const HEXADECIMAL_MIN: usize = 16;

/// A UUID, whose version and variant stay, bytes as `\x…`, or digits of 16 alone.
fn hexadecimal(value: &[u8]) -> Option<Vec<(Place, Digit)>> {
    let is_uuid = value.len() == 36;
    let is_alone = !is_uuid && !value.starts_with(b"\\x");
    if is_alone && value.len() < HEXADECIMAL_MIN {
        return None;
    }
    let place = |(at, byte): (usize, &u8)| {
        let found = char::from(*byte);
        let is_between = match (is_uuid, is_alone) {
            (true, _) => [8, 13, 18, 23].contains(&at),
            (_, alone) => !alone && at < 2,
        };
        match (is_between, found.to_digit(16)) {
            (true, _) if is_uuid && found != '-' => None,
            (true, _) => Some((Place::Kept(found), (0, 1))),
            (false, Some(_)) if is_uuid && (at == 14 || at == 19) => Some((Place::Kept(found), (0, 1))),
            (false, Some(digit)) if !byte.is_ascii_uppercase() => Some((Place::Hexadecimal, (digit, 16))),
            (false, _) => None,
        }
    };
    let found: Option<Vec<_>> = value.iter().enumerate().map(place).collect();
    found.filter(|_| !is_alone || value.iter().any(u8::is_ascii_alphabetic))
}

/// A date, a time, or both; the century, fractions' length and the zone's signs stay.
fn moment(value: &[u8]) -> Option<Vec<(Place, Digit)>> {
    let mut places = Vec::with_capacity(value.len());
    let mut rest = value;
    let is_dated = value.len() >= 10 && value[4] == b'-' && value[7] == b'-';
    if is_dated {
        for byte in &value[..2] {
            byte.is_ascii_digit().then_some(())?;
            places.push((Place::Kept(char::from(*byte)), (0, 1)));
        }
        places.push(pair(&value[2..], 0, 100)?);
        places.push((Place::Kept('-'), (0, 1)));
        places.push(pair(&value[5..], 1, 12)?);
        places.push((Place::Kept('-'), (0, 1)));
        // The 29th to the 31st are not in every month.
        let day = number(&value[8..])?.checked_sub(1).filter(|day| *day < 31)?;
        places.push((Place::Pair(1), (day % 28, 28)));
        rest = &value[10..];
        if let Some((between @ (b' ' | b'T'), time)) = rest.split_first() {
            places.push((Place::Kept(char::from(*between)), (0, 1)));
            rest = time;
        } else if !rest.is_empty() {
            return None;
        } else {
            return Some(places);
        }
    }
    if rest.len() < 5 || rest[2] != b':' {
        return None;
    }
    places.push(pair(rest, 0, 24)?);
    rest = &rest[2..];
    for _ in 0..2 {
        if rest.first() == Some(&b':') {
            places.push((Place::Kept(':'), (0, 1)));
            places.push(pair(&rest[1..], 0, 60)?);
            rest = &rest[3..];
        }
    }
    places.extend(zone_and_fraction(rest)?);
    Some(places)
}

/// `.123456+02:30`, `Z`: digits of the fraction change, the zone stays.
fn zone_and_fraction(rest: &[u8]) -> Option<Vec<(Place, Digit)>> {
    let mut in_zone = false;
    let place = |byte: &u8| {
        let found = char::from(*byte);
        in_zone |= b"+-Z ".contains(byte);
        match found {
            '0'..='9' if !in_zone => Some(of_character(found)),
            '0'..='9' | '.' | '+' | '-' | ':' | 'Z' | ' ' => Some((Place::Kept(found), (0, 1))),
            _ => None,
        }
    };
    rest.iter().map(place).collect()
}

fn pair(bytes: &[u8], least: u32, kinds: u32) -> Option<(Place, Digit)> {
    let digit = number(bytes)?.checked_sub(least).filter(|digit| *digit < kinds)?;
    Some((Place::Pair(least), (digit, kinds)))
}

fn number(bytes: &[u8]) -> Option<u32> {
    let tens = char::from(*bytes.first()?).to_digit(10)?;
    Some(10 * tens + char::from(*bytes.get(1)?).to_digit(10)?)
}
