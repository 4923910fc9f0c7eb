//! Stand-ins for values in their binary form, by their type.

use super::permute::{Digit, Permuter};
use super::stand_in::{number, text};

/// Arrays of arrays don't exist in a message; what nests deeper than this is made up.
const DEPTH_MAX: u32 = 2;
const HEAD_BYTES: usize = 12;

/// Numbers of types (pg_type.dat).
mod oid {
    pub const BOOL: u32 = 16;
    pub const INTEGERS: [u32; 4] = [20, 21, 23, 26];
    pub const TEXTS: [u32; 8] = [18, 19, 25, 114, 142, 1042, 1043, 705];
    pub const FLOATS: [u32; 2] = [700, 701];
    pub const MOMENTS: [u32; 4] = [1082, 1083, 1114, 1184];
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
    /// Whose values are arrays: of booleans, bytes, numbers, texts, moments, documents.
    pub const ARRAYS: [u32; 19] = [
        1000, 1001, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1115, 1182, 1185, 1231, 199,
        2951, 3807,
    ];
}

/// The stand-in of a value of this type; 0 where nobody said which.
pub fn binary(permuter: &Permuter, value: &[u8], type_oid: u32) -> Vec<u8> {
    of_type(permuter, value, type_oid, DEPTH_MAX)
}

fn of_type(permuter: &Permuter, value: &[u8], type_oid: u32, depth: u32) -> Vec<u8> {
    match type_oid {
        // What is longer is no boolean, whatever its type says, and does not stay.
        oid::BOOL if value.len() == 1 => value.to_vec(),
        _ if oid::INTEGERS.contains(&type_oid) => integer(permuter, value),
        _ if oid::TEXTS.contains(&type_oid) => text(permuter, value),
        _ if oid::FLOATS.contains(&type_oid) => float(permuter, value),
        _ if oid::MOMENTS.contains(&type_oid) => moment(permuter, value),
        oid::NUMERIC => numeric(permuter, value),
        oid::UUID => uuid(permuter, value),
        oid::JSONB if !value.is_empty() => [&value[..1], &text(permuter, &value[1..])].concat(),
        _ if oid::ARRAYS.contains(&type_oid) && depth > 0 => {
            array(permuter, value, depth).unwrap_or_else(|| permuter.bytes(value))
        }
        0 => unknown(permuter, value),
        _ => permuter.bytes(value),
    }
}

fn unknown(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    match value.len() {
        2 | 4 | 8 => integer(permuter, value),
        _ if std::str::from_utf8(value).is_ok() => text(permuter, value),
        _ => permuter.bytes(value),
    }
}

fn integer(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let Some(found) = read(value) else {
        return permuter.bytes(value);
    };
    written(number(permuter, found), value.len())
}

/// A whole number of 2, 4 or 8 bytes.
fn read(value: &[u8]) -> Option<i64> {
    Some(match value.len() {
        2 => i64::from(i16::from_be_bytes(value.try_into().ok()?)),
        4 => i64::from(i32::from_be_bytes(value.try_into().ok()?)),
        8 => i64::from_be_bytes(value.try_into().ok()?),
        _ => return None,
    })
}

/// The same bits.
fn signed(number: u64) -> i64 {
    i64::from_be_bytes(number.to_be_bytes())
}

fn written(number: i64, length: usize) -> Vec<u8> {
    number.to_be_bytes()[8 - length..].to_vec()
}

/// Sign and exponent stay, the rest is another.
fn float(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let (bits, fraction) = match (value.len(), read(value)) {
        (4, Some(found)) => (found, 23),
        (8, Some(found)) => (found, 52),
        _ => return permuter.bytes(value),
    };
    let mask = (1_i64 << fraction) - 1;
    let exponent = bits >> fraction;
    // Zero and infinity have no fraction, and would be another kind of number with one.
    if bits & mask == 0 && (exponent & 0x7FF == 0 || value == f64::INFINITY.to_be_bytes()) {
        return value.to_vec();
    }
    let drawn = signed(permuter.drawn(("float", exponent))) & mask;
    written(exponent << fraction | ((bits & mask) ^ drawn), value.len())
}

/// Dates and times: others not far from them; infinity stays.
fn moment(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    // About 27 years of days, half a day of microseconds more than a day has, 36 years of microseconds.
    let Some(found) = read(value) else {
        return permuter.bytes(value);
    };
    let span: i64 = if value.len() == 4 { 10_000 } else { 1 << 50 };
    let least = found.div_euclid(span) * span;
    let is_endless = [i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX)].contains(&found);
    if is_endless || least.checked_add(span).is_none() {
        return value.to_vec();
    }
    let other = permuter.number((found - least).unsigned_abs(), span.unsigned_abs());
    written(least + signed(other), value.len())
}

/// Digits of 10,000 behind four numbers that say how many there are and where the point is.
fn numeric(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    let Some((head, digits)) = value.split_at_checked(8) else {
        return permuter.bytes(value);
    };
    let mut row: Vec<Digit> = digits
        .chunks_exact(2)
        .enumerate()
        .map(|(place, pair)| {
            let digit = u32::from(u16::from_be_bytes([pair[0], pair[1]])).min(9999);
            if place == 0 && digit > 0 {
                (digit - 1, 9999)
            } else {
                (digit, 10_000)
            }
        })
        .collect();
    permuter.digits(&mut row);
    let mut output = head.to_vec();
    for (digit, kinds) in row {
        let digit = if kinds == 9999 { digit + 1 } else { digit };
        output.extend_from_slice(&u16::try_from(digit).unwrap_or(0).to_be_bytes());
    }
    output.resize(value.len(), 0);
    output
}

/// As the text's: the same value has the same stand-in in either form.
fn uuid(permuter: &Permuter, value: &[u8]) -> Vec<u8> {
    if value.len() != 16 {
        return permuter.bytes(value);
    }
    let shown: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    let other = text(permuter, shown.as_bytes());
    let digits: Vec<u32> = other
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16))
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(16 * pair[0] + pair[1]).unwrap_or(0))
        .collect()
}

fn array(permuter: &Permuter, value: &[u8], depth: u32) -> Option<Vec<u8>> {
    let number = |at: usize| Some(u32::from_be_bytes(value.get(at..at + 4)?.try_into().ok()?));
    let (dimensions, of) = (number(0)? as usize, number(8)?);
    let mut at = HEAD_BYTES + 8 * dimensions.min(6);
    let mut output = value.get(..at)?.to_vec();
    while at < value.len() {
        let length = number(at)?;
        output.extend_from_slice(&length.to_be_bytes());
        at += 4;
        if let Ok(length) = usize::try_from(i32::from_be_bytes(length.to_be_bytes())) {
            let element = of_type(permuter, value.get(at..at + length)?, of, depth - 1);
            (element.len() == length).then_some(())?;
            output.extend_from_slice(&element);
            at += length;
        }
    }
    Some(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(value: &[u8], type_oid: u32) -> Vec<u8> {
        binary(&Permuter::default(), value, type_oid)
    }

    #[test]
    fn a_value_has_the_same_stand_in_as_text_and_as_bytes() {
        let permuter = Permuter::default();
        let found = binary(&permuter, &4711_i64.to_be_bytes(), 20);
        let shown = i64::from_be_bytes(found.try_into().unwrap()).to_string();
        assert_eq!(shown.into_bytes(), text(&permuter, b"4711"));
        let four = binary(&permuter, &4711_i32.to_be_bytes(), 0);
        assert_eq!(
            i64::from(i32::from_be_bytes(four.try_into().unwrap())),
            number(&permuter, 4711)
        );
        let bytes: Vec<u8> = (16..32).collect();
        let other = binary(&permuter, &bytes, 2950);
        assert!(other.len() == 16 && other != bytes);
    }

    #[test]
    fn each_type_keeps_its_form() {
        let half = made(&0.5_f64.to_be_bytes(), 701);
        let half = f64::from_be_bytes(half.try_into().unwrap());
        assert!((0.5..1.0).contains(&half));
        assert_eq!(made(&0.0_f64.to_be_bytes(), 701), 0.0_f64.to_be_bytes());
        assert_eq!(made(&[1], 16), [1]);
        assert_ne!(made(b"Geheimrat4711", 16), b"Geheimrat4711");
        let day = i32::from_be_bytes(made(&7_305_i32.to_be_bytes(), 1082).try_into().unwrap());
        assert!((0..10_000).contains(&day));
        assert_eq!(made(&i64::MAX.to_be_bytes(), 1184), i64::MAX.to_be_bytes());
        // 4711.5: two digits before the point's, one behind.
        let amount = [0, 2, 0, 0, 0, 0, 0, 1, 0x12, 0x67, 0x13, 0x88];
        let other = made(&amount, 1700);
        assert!(other[..8] == amount[..8] && other[8..] != amount[8..] && other.len() == amount.len());
        assert!(made(b"Muster", 25) != b"Muster" && made(b"Muster", 25).len() == 6);
    }

    #[test]
    fn elements_of_arrays_are_values_themselves() {
        let permuter = Permuter::default();
        let mut list = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        list.extend([0, 0, 0, 4, 0, 0, 0x12, 0x67, 0xff, 0xff, 0xff, 0xff]);
        let found = binary(&permuter, &list, 1007);
        assert_eq!(found[..24], list[..24]);
        assert_eq!(found[24..28], binary(&permuter, &4711_i32.to_be_bytes(), 23));
        assert_eq!(found[28..], [0xff; 4]);
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let permuter = Permuter::default();
        for type_oid in [
            0, 16, 20, 21, 23, 25, 700, 701, 1007, 1082, 1184, 1700, 2950, 3802, 9999,
        ] {
            for length in 0..40_usize {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    assert_eq!(binary(&permuter, &vec![byte; length], type_oid).len(), length);
                }
            }
        }
    }
}
