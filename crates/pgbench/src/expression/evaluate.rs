//! What an expression gives (evalStandardFunc and evalLazyFunc in pgbench.c).

use rand_xoshiro::Xoroshiro128StarStar;

use super::functions::Function;
use super::tree::Expression;
use crate::random;
use crate::value::Value;
use crate::variables::{Names, Variables};

/// pgbench's MAX_FARGS.
const ARGUMENTS_MAX: usize = 16;

/// What an expression is evaluated with.
pub struct Evaluation<'a> {
    /// The client's variables.
    pub variables: &'a Variables,
    /// Their names.
    pub names: &'a Names,
    /// The client's random stream.
    pub random: &'a mut Xoroshiro128StarStar,
    /// Gets what `debug()` prints.
    pub debug: &'a mut dyn FnMut(Value),
}

impl Evaluation<'_> {
    /// The value of an expression.
    ///
    /// # Errors
    /// pgbench's message.
    pub fn value(&mut self, expression: &Expression) -> Result<Value, String> {
        match expression {
            Expression::Constant(value) => Ok(*value),
            Expression::Variable(place) => self.variables.value(*place, self.names),
            Expression::Call(Function::And, arguments) => self.lazy(arguments, false),
            Expression::Call(Function::Or, arguments) => self.lazy(arguments, true),
            Expression::Call(Function::Case, arguments) => self.case(arguments),
            Expression::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// AND and OR: the second operand is evaluated only where the first does not decide.
    fn lazy(&mut self, arguments: &[Expression], decides: bool) -> Result<Value, String> {
        let first = self.value(&arguments[0])?;
        if first == Value::Null {
            return Ok(Value::Null);
        }
        if first.boolean()? == decides {
            return Ok(Value::Boolean(decides));
        }
        match self.value(&arguments[1])? {
            Value::Null => Ok(Value::Null),
            second => second.boolean().map(Value::Boolean),
        }
    }

    fn case(&mut self, arguments: &[Expression]) -> Result<Value, String> {
        let mut pairs = arguments.chunks_exact(2);
        for pair in pairs.by_ref() {
            if self.value(&pair[0])?.is_true() {
                return self.value(&pair[1]);
            }
        }
        pairs
            .remainder()
            .first()
            .map_or(Ok(Value::Null), |last| self.value(last))
    }

    fn call(&mut self, function: Function, arguments: &[Expression]) -> Result<Value, String> {
        if arguments.len() > ARGUMENTS_MAX {
            return Err(format!("too many function arguments, maximum is {ARGUMENTS_MAX}"));
        }
        let mut values = [Value::Null; ARGUMENTS_MAX];
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = self.value(argument)?;
        }
        let values = &values[..arguments.len()];
        let is_any_null = values.contains(&Value::Null);
        match function {
            Function::Is => return Ok(Value::Boolean(values[0] == values[1])),
            Function::Debug => {
                (self.debug)(values[0]);
                return Ok(values[0]);
            }
            _ if is_any_null => return Ok(Value::Null),
            _ => {}
        }
        match function {
            Function::Random
            | Function::RandomGaussian
            | Function::RandomExponential
            | Function::RandomZipfian => self.draw(function, values),
            _ => pure(function, values),
        }
    }

    fn draw(&mut self, function: Function, values: &[Value]) -> Result<Value, String> {
        let (min, max) = (values[0].integer()?, values[1].integer()?);
        if min > max {
            return Err("empty range given to random".to_owned());
        }
        if max
            .checked_sub(min)
            .and_then(|span| span.checked_add(1))
            .is_none()
        {
            return Err("random range is too large".to_owned());
        }
        let random = &mut *self.random;
        if function == Function::Random {
            return Ok(Value::Integer(random::uniform(random, min, max)));
        }
        let parameter = values[2].double()?;
        let drawn = match function {
            Function::RandomGaussian if parameter < random::GAUSSIAN_MIN || parameter.is_nan() => {
                let least = random::GAUSSIAN_MIN;
                return Err(format!(
                    "gaussian parameter must be at least {least:.6} (not {parameter:.6})"
                ));
            }
            Function::RandomZipfian if !random::ZIPFIAN_RANGE.contains(&parameter) => {
                let (least, most) = (random::ZIPFIAN_RANGE.start(), random::ZIPFIAN_RANGE.end());
                return Err(format!(
                    "zipfian parameter must be in range [{least:.3}, {most:.0}] (not {parameter:.6})"
                ));
            }
            Function::RandomExponential if parameter <= 0.0 || parameter.is_nan() => {
                return Err(format!(
                    "exponential parameter must be greater than zero (not {parameter:.6})"
                ));
            }
            Function::RandomGaussian => random::gaussian(random, min, max, parameter),
            Function::RandomZipfian => random::zipfian(random, min, max, parameter),
            _ => random::exponential(random, min, max, parameter),
        };
        Ok(Value::Integer(drawn))
    }
}

/// Functions whose value follows from their arguments, none of which is null.
fn pure(function: Function, values: &[Value]) -> Result<Value, String> {
    let double = |value: f64| Ok(Value::Double(value));
    match function {
        Function::Add
        | Function::Subtract
        | Function::Multiply
        | Function::Divide
        | Function::Equal
        | Function::NotEqual
        | Function::LessOrEqual
        | Function::Less
            if values.iter().any(|value| matches!(value, Value::Double(_))) =>
        {
            of_doubles(function, values[0].double()?, values[1].double()?)
        }
        Function::Not => Ok(Value::Boolean(!values[0].boolean()?)),
        Function::Abs => match values[0] {
            Value::Double(value) => double(value.abs()),
            // As in C, the least integer stays what it is.
            value => Ok(Value::Integer(value.integer()?.wrapping_abs())),
        },
        Function::Integer => values[0].integer().map(Value::Integer),
        Function::Double => values[0].double().map(Value::Double),
        Function::Pi => double(std::f64::consts::PI),
        Function::SquareRoot => double(values[0].double()?.sqrt()),
        Function::Logarithm => double(values[0].double()?.ln()),
        Function::Exponential => double(values[0].double()?.exp()),
        Function::Power => double(values[0].double()?.powf(values[1].double()?)),
        Function::Least | Function::Greatest => extreme(function == Function::Least, values),
        Function::HashFnv1a => {
            let hash = random::hash_fnv1a(values[0].integer()?, values[1].integer()?);
            Ok(Value::Integer(hash))
        }
        Function::HashMurmur2 => {
            let hash = random::hash_murmur2(values[0].integer()?, values[1].integer()?);
            Ok(Value::Integer(hash))
        }
        Function::Permute => {
            let (value, size) = (values[0].integer()?, values[1].integer()?);
            let seed = values[2].integer()?;
            if size <= 0 {
                return Err("permute size parameter must be greater than zero".to_owned());
            }
            Ok(Value::Integer(random::permuted(value, size, seed)))
        }
        _ => of_integers(function, values[0].integer()?, values[1].integer()?),
    }
}

#[allow(clippy::float_cmp)] // The operator's own meaning.
fn of_doubles(function: Function, left: f64, right: f64) -> Result<Value, String> {
    Ok(match function {
        Function::Add => Value::Double(left + right),
        Function::Subtract => Value::Double(left - right),
        Function::Multiply => Value::Double(left * right),
        Function::Divide => Value::Double(left / right),
        Function::Equal => Value::Boolean(left == right),
        Function::NotEqual => Value::Boolean(left != right),
        Function::LessOrEqual => Value::Boolean(left <= right),
        _ => Value::Boolean(left < right),
    })
}

fn of_integers(function: Function, left: i64, right: i64) -> Result<Value, String> {
    let within = |value: Option<i64>, name: &str| {
        value
            .map(Value::Integer)
            .ok_or_else(|| format!("bigint {name} out of range"))
    };
    // A count of bits beyond the width is taken by its lowest six bits, as x86 does with C's shifts.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bits = right as u32;
    match function {
        Function::Add => within(left.checked_add(right), "add"),
        Function::Subtract => within(left.checked_sub(right), "sub"),
        Function::Multiply => within(left.checked_mul(right), "mul"),
        Function::Divide | Function::Modulo if right == 0 => Err("division by zero".to_owned()),
        Function::Divide => within(left.checked_div(right), "div"),
        Function::Modulo => Ok(Value::Integer(left.wrapping_rem(right))),
        Function::Equal => Ok(Value::Boolean(left == right)),
        Function::NotEqual => Ok(Value::Boolean(left != right)),
        Function::LessOrEqual => Ok(Value::Boolean(left <= right)),
        Function::Less => Ok(Value::Boolean(left < right)),
        Function::BitAnd => Ok(Value::Integer(left & right)),
        Function::BitOr => Ok(Value::Integer(left | right)),
        Function::BitXor => Ok(Value::Integer(left ^ right)),
        Function::ShiftLeft => Ok(Value::Integer(left.wrapping_shl(bits))),
        _ => Ok(Value::Integer(left.wrapping_shr(bits))),
    }
}

fn extreme(is_least: bool, values: &[Value]) -> Result<Value, String> {
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut found = values[0].double()?;
        for value in &values[1..] {
            let other = value.double()?;
            if if is_least { other < found } else { other > found } {
                found = other;
            }
        }
        return Ok(Value::Double(found));
    }
    let mut found = values[0].integer()?;
    for value in &values[1..] {
        let other = value.integer()?;
        found = if is_least {
            found.min(other)
        } else {
            found.max(other)
        };
    }
    Ok(Value::Integer(found))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn value(text: &str) -> Result<Value, String> {
        let mut names = Names::default();
        names.place("default_seed");
        let expression = parse(text, &mut names).map_err(|error| error.message)?;
        let mut variables = Variables::new(names.len());
        variables.set(0, Value::Integer(5432));
        Evaluation {
            variables: &variables,
            names: &names,
            random: &mut random::seeded(5432),
            debug: &mut |_| {},
        }
        .value(&expression)
    }

    #[test]
    fn operators_bind_as_in_the_grammar() {
        use Value::{Boolean, Double, Integer, Null};
        for (text, expected) in [
            ("1 + 2 * 3", Integer(7)),
            ("-2 - 3", Integer(-5)),
            ("~0 & 6", Integer(6)),
            ("1 << 2 + 1", Integer(8)),
            ("17 % 5 - -3", Integer(5)),
            ("1 + 2.5", Double(3.5)),
            ("not false and false", Boolean(false)),
            ("not null is null", Boolean(false)),
            ("null + 1", Null),
            ("1 = 1 and 2 <> 3", Boolean(true)),
            ("3 is not null", Boolean(true)),
            ("case when false then 1 when true then 2 else 3 end", Integer(2)),
            ("case when 0 then 1 end", Null),
            ("false and 1 / 0 = 1", Boolean(false)),
            ("-9223372036854775808", Integer(i64::MIN)),
            ("greatest(1, 2.5, -1)", Double(2.5)),
            ("least(4, 3, 5)", Integer(3)),
            ("int(2.5) + int(3.5)", Integer(6)),
            ("pow(2, 10)", Double(1024.0)),
            ("-9223372036854775807 / -1", Integer(i64::MAX)),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_are_pgbenchs() {
        for (text, message) in [
            ("1 / 0", "division by zero"),
            ("9223372036854775807 + 1", "bigint add out of range"),
            ("-9223372036854775808 / -1", "bigint div out of range"),
            ("true + 1", "cannot coerce boolean to int"),
            ("1 and true", "cannot coerce int to boolean"),
            ("random(5, 4)", "empty range given to random"),
            (
                "random(-9223372036854775808, 9223372036854775807)",
                "random range is too large",
            ),
            (
                "random_gaussian(1, 2, 1.5)",
                "gaussian parameter must be at least 2.000000 (not 1.500000)",
            ),
            (
                "random_zipfian(1, 2, 1.0)",
                "zipfian parameter must be in range [1.001, 1000] (not 1.000000)",
            ),
            (
                "random_exponential(1, 2, 0)",
                "exponential parameter must be greater than zero (not 0.000000)",
            ),
            (
                "permute(1, 0)",
                "permute size parameter must be greater than zero",
            ),
            (":nobody", "undefined variable \"nobody\""),
        ] {
            assert_eq!(value(text), Err(message.to_owned()), "{text}");
        }
    }
}
