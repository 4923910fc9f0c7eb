//! A value of an expression, and how it becomes another type.

use crate::number_text::general;

/// Significant digits of a double in a text: C's DBL_DIG.
const DOUBLE_DIGITS: usize = 15;

/// A value; `Null` is SQL's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Nothing known.
    Null,
    /// True or false.
    Boolean(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Double(f64),
}

impl Value {
    /// The name of its type in messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) => "int",
            Self::Double(_) => "double",
        }
    }

    /// Whether a condition that has this value holds (valueTruth).
    pub fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(value) => value,
            Self::Integer(value) => value != 0,
            Self::Double(value) => value != 0.0,
        }
    }

    /// As a boolean; only a boolean is one.
    ///
    /// # Errors
    /// pgbench's message.
    pub fn boolean(self) -> Result<bool, String> {
        match self {
            Self::Boolean(value) => Ok(value),
            other => Err(format!("cannot coerce {} to boolean", other.type_name())),
        }
    }

    /// As an integer; a double is rounded to the nearest, halves to the even one.
    ///
    /// # Errors
    /// pgbench's message, for what is no number or does not fit.
    pub fn integer(self) -> Result<i64, String> {
        match self {
            Self::Integer(value) => Ok(value),
            Self::Double(value) => {
                let rounded = value.round_ties_even();
                // 2^63 is a double, and the first that does not fit.
                if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                    #[allow(clippy::cast_possible_truncation)]
                    return Ok(rounded as i64);
                }
                Err(format!("double to int overflow for {value:.6}"))
            }
            other => Err(format!("cannot coerce {} to int", other.type_name())),
        }
    }

    /// As a double.
    ///
    /// # Errors
    /// pgbench's message, for what is no number.
    #[allow(clippy::cast_precision_loss)] // As in C.
    pub fn double(self) -> Result<f64, String> {
        match self {
            Self::Double(value) => Ok(value),
            Self::Integer(value) => Ok(value as f64),
            other => Err(format!("cannot coerce {} to double", other.type_name())),
        }
    }

    /// Appends its text, as it stands in SQL.
    pub fn write(self, text: &mut String) {
        use std::fmt::Write;
        // Writing to a String can't fail.
        let _ = match self {
            Self::Null => write!(text, "NULL"),
            Self::Boolean(value) => write!(text, "{value}"),
            Self::Integer(value) => write!(text, "{value}"),
            Self::Double(value) => write!(text, "{}", general(value, DOUBLE_DIGITS)),
        };
    }

    /// The value that a variable's text means (makeVariableValue); None where it means none.
    pub fn of_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let lower = text.to_ascii_lowercase();
        if lower == "null" {
            return Some(Self::Null);
        }
        // Any beginning of these words, but not "o", which could begin both on and off.
        if "true".starts_with(&lower) || "yes".starts_with(&lower) || lower == "on" {
            return Some(Self::Boolean(true));
        }
        if "false".starts_with(&lower) || "no".starts_with(&lower) || lower == "off" || lower == "of" {
            return Some(Self::Boolean(false));
        }
        if let Some(value) = crate::number_text::integer(text) {
            return Some(Self::Integer(value));
        }
        let number = text.trim();
        let is_number = number.bytes().any(|byte| byte.is_ascii_digit())
            && number
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b".+-eE".contains(&byte));
        // An integer that does not fit is no double instead.
        let is_integer = number
            .strip_prefix(['-', '+'])
            .unwrap_or(number)
            .bytes()
            .all(|byte| byte.is_ascii_digit());
        if !is_number || is_integer {
            return None;
        }
        number
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .map(Self::Double)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_variables_have_types() {
        assert_eq!(Value::of_text("12"), Some(Value::Integer(12)));
        assert_eq!(Value::of_text("1.5e3"), Some(Value::Double(1500.0)));
        assert_eq!(Value::of_text("ye"), Some(Value::Boolean(true)));
        assert_eq!(Value::of_text("OF"), Some(Value::Boolean(false)));
        assert_eq!(Value::of_text("Null"), Some(Value::Null));
        for none in ["", "o", "abc", "12x", "99999999999999999999", "1e999"] {
            assert_eq!(Value::of_text(none), None, "{none}");
        }
    }

    #[test]
    fn doubles_round_to_even_and_must_fit() {
        assert_eq!(Value::Double(2.5).integer(), Ok(2));
        assert_eq!(Value::Double(-3.5).integer(), Ok(-4));
        assert!(Value::Double(9.3e18).integer().is_err());
        assert!(Value::Double(f64::NAN).integer().is_err());
        assert_eq!(
            Value::Boolean(true).integer(),
            Err("cannot coerce boolean to int".to_owned())
        );
    }
}
