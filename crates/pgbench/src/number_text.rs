//! Numbers as PostgreSQL's own printf writes (src/port/snprintf.c), and strtol and strtod read them: variables are
//! texts in SQL.

/// `%.*g` with this many significant digits.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// The integer that a whole text is: white space, a sign, digits; None for another text or one out of range.
pub fn integer(text: &str) -> Option<i64> {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
        .parse()
        .ok()
}

/// The integer at the beginning of a text, as atoi reads it; 0 where there is none.
pub fn leading_integer(text: &str) -> i64 {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let end = text[sign..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text.len(), |place| sign + place);
    text[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5e300, "-2.5e+300"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-f64::NAN, "NaN"),
        ] {
            assert_eq!(general(value, 15), text);
        }
    }

    #[test]
    fn integers_are_read_as_c_reads_them() {
        assert_eq!(integer(" -12 "), Some(-12));
        assert_eq!(integer("+7"), Some(7));
        assert_eq!(integer("12x"), None);
        assert_eq!(integer("9223372036854775808"), None);
        assert_eq!(leading_integer("12ms"), 12);
        assert_eq!(leading_integer("-3"), -3);
        assert_eq!(leading_integer("x"), 0);
    }
}
