//! The grammar of expressions (src/bin/pgbench/exprparse.y), by precedence climbing.

use super::functions::{Arguments, Function, named};
use super::lexer::{Placed, Token, error, tokens};
use super::tree::{Expression, SyntaxError};
use crate::value::Value;
use crate::variables::Names;

/// Deeper expressions are refused: each level takes room on the stack. pgbench's own grammar ends at 10,000 symbols.
const DEPTH_MAX: usize = 5000;
/// Longer ones too: of `1 + 1 + …` each operator is a level when it is evaluated.
const TOKENS_MAX: usize = 40_000;

// How strongly operators bind, the weakest first.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARISON: u8 = 5;
const BITS: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const UNARY: u8 = 9;

/// The expression that a text is; variables get their places in `names`.
///
/// # Errors
/// pgbench's message with the place.
pub fn parse(text: &str, names: &mut Names) -> Result<Expression, SyntaxError> {
    let tokens = tokens(text)?;
    if let Some(first_too_many) = tokens.get(TOKENS_MAX) {
        return Err(error("expression too long", "", first_too_many.offset));
    }
    let mut parser = Parser {
        tokens,
        at: 0,
        end: text.len(),
        names,
        depth: 0,
    };
    let found = parser.expression(OR)?;
    if parser.at < parser.tokens.len() {
        return Err(parser.unexpected());
    }
    Ok(found)
}

struct Parser<'a> {
    tokens: Vec<Placed>,
    at: usize,
    end: usize,
    names: &'a mut Names,
    depth: usize,
}

/// A binary operator: how strongly it binds, what it is, and whether its operands change places.
fn binary(token: &Token) -> Option<(u8, Function, bool)> {
    Some(match token {
        Token::Keyword("or") => (OR, Function::Or, false),
        Token::Keyword("and") => (AND, Function::And, false),
        Token::Symbol("<") => (COMPARISON, Function::Less, false),
        Token::Symbol(">") => (COMPARISON, Function::Less, true),
        Token::Symbol("<=") => (COMPARISON, Function::LessOrEqual, false),
        Token::Symbol(">=") => (COMPARISON, Function::LessOrEqual, true),
        Token::Symbol("=") => (COMPARISON, Function::Equal, false),
        Token::Symbol("<>" | "!=") => (COMPARISON, Function::NotEqual, false),
        Token::Symbol("|") => (BITS, Function::BitOr, false),
        Token::Symbol("#") => (BITS, Function::BitXor, false),
        Token::Symbol("&") => (BITS, Function::BitAnd, false),
        Token::Symbol("<<") => (BITS, Function::ShiftLeft, false),
        Token::Symbol(">>") => (BITS, Function::ShiftRight, false),
        Token::Symbol("+") => (SUM, Function::Add, false),
        Token::Symbol("-") => (SUM, Function::Subtract, false),
        Token::Symbol("*") => (PRODUCT, Function::Multiply, false),
        Token::Symbol("/") => (PRODUCT, Function::Divide, false),
        Token::Symbol("%") => (PRODUCT, Function::Modulo, false),
        _ => return None,
    })
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |placed| placed.offset)
    }

    fn unexpected(&self) -> SyntaxError {
        let fault = error("syntax error", "", self.offset());
        match self.tokens.get(self.at) {
            Some(placed) => SyntaxError {
                end: placed.end,
                ..fault
            },
            None => fault,
        }
    }

    /// A fault of a whole call, found at its end.
    fn wrong_call(&self, message: &str, name: &str, offset: usize) -> SyntaxError {
        SyntaxError {
            end: self.tokens[self.at - 1].end,
            ..error(message, name, offset)
        }
    }

    fn take_if(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &Token) -> Result<(), SyntaxError> {
        if self.take_if(token) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn expression(&mut self, least: u8) -> Result<Expression, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(error("expression nested too deeply", "", self.offset()));
        }
        let mut left = self.operand()?;
        // IS and comparisons don't associate: a second one is an error, as in the grammar.
        let mut last = u8::MAX;
        while let Some(token) = self.peek() {
            if let Some((strength, function, is_swapped)) = binary(token) {
                if strength < least {
                    break;
                }
                if strength == COMPARISON && last == COMPARISON {
                    return Err(self.unexpected());
                }
                self.at += 1;
                let right = self.expression(strength + 1)?;
                let operands = if is_swapped {
                    vec![right, left]
                } else {
                    vec![left, right]
                };
                left = Expression::Call(function, operands);
                last = strength;
            } else if IS >= least && matches!(token, Token::Keyword("is" | "isnull" | "notnull")) {
                if last == IS {
                    return Err(self.unexpected());
                }
                left = self.is_test(left)?;
                last = IS;
            } else {
                break;
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn is_test(&mut self, left: Expression) -> Result<Expression, SyntaxError> {
        let is_not;
        let other;
        if self.take_if(&Token::Keyword("isnull")) {
            (is_not, other) = (false, Value::Null);
        } else if self.take_if(&Token::Keyword("notnull")) {
            (is_not, other) = (true, Value::Null);
        } else {
            self.expect(&Token::Keyword("is"))?;
            is_not = self.take_if(&Token::Keyword("not"));
            other = match self.peek() {
                Some(Token::Keyword("null")) => Value::Null,
                Some(Token::Keyword("true")) => Value::Boolean(true),
                Some(Token::Keyword("false")) => Value::Boolean(false),
                _ => return Err(self.unexpected()),
            };
            self.at += 1;
        }
        let test = Expression::Call(Function::Is, vec![left, Expression::Constant(other)]);
        Ok(if is_not {
            Expression::Call(Function::Not, vec![test])
        } else {
            test
        })
    }

    fn operand(&mut self) -> Result<Expression, SyntaxError> {
        let Some(Placed { offset, token, .. }) = self.tokens.get(self.at).cloned() else {
            return Err(self.unexpected());
        };
        self.at += 1;
        let constant = |value| Ok(Expression::Constant(value));
        match token {
            Token::Integer(value) => constant(Value::Integer(value)),
            Token::Double(value) => constant(Value::Double(value)),
            Token::Keyword("null") => constant(Value::Null),
            Token::Keyword("true") => constant(Value::Boolean(true)),
            Token::Keyword("false") => constant(Value::Boolean(false)),
            Token::Variable(name) => Ok(Expression::Variable(self.names.place(&name))),
            Token::Name(name) => self.call(&name, offset),
            Token::Keyword("case") => self.case(),
            Token::Keyword("not") => {
                let operand = self.expression(NOT)?;
                Ok(Expression::Call(Function::Not, vec![operand]))
            }
            Token::Symbol("(") => {
                let inner = self.expression(OR)?;
                self.expect(&Token::Symbol(")"))?;
                Ok(inner)
            }
            Token::Symbol("+") => self.expression(UNARY),
            Token::Symbol("-") => {
                if self.take_if(&Token::IntegerMaxPlusOne) {
                    return constant(Value::Integer(i64::MIN));
                }
                let operand = self.expression(UNARY)?;
                let zero = Expression::Constant(Value::Integer(0));
                Ok(Expression::Call(Function::Subtract, vec![zero, operand]))
            }
            Token::Symbol("~") => {
                // Of the strength of the other operators on bits.
                let operand = self.expression(BITS + 1)?;
                let ones = Expression::Constant(Value::Integer(-1));
                Ok(Expression::Call(Function::BitXor, vec![ones, operand]))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn call(&mut self, name: &str, offset: usize) -> Result<Expression, SyntaxError> {
        let Some((function, takes)) = named(name) else {
            return Err(error("unexpected function name", name, offset));
        };
        self.expect(&Token::Symbol("("))?;
        let mut arguments = Vec::new();
        if !self.take_if(&Token::Symbol(")")) {
            loop {
                arguments.push(self.expression(OR)?);
                if self.take_if(&Token::Symbol(")")) {
                    break;
                }
                self.expect(&Token::Symbol(","))?;
            }
        }
        let count = arguments.len();
        match takes {
            Arguments::Exactly(wanted) if count != wanted => {
                return Err(self.wrong_call("unexpected number of arguments", name, offset));
            }
            Arguments::AtLeastOne if count == 0 => {
                return Err(self.wrong_call("at least one argument expected", name, offset));
            }
            Arguments::WithSeed(most) if count != most && count + 1 != most => {
                return Err(self.wrong_call("unexpected number of arguments", name, offset));
            }
            Arguments::WithSeed(most) if count + 1 == most => {
                arguments.push(Expression::Variable(self.names.place("default_seed")));
            }
            _ => {}
        }
        Ok(Expression::Call(function, arguments))
    }

    /// Conditions and values in turn, and what holds otherwise last.
    fn case(&mut self) -> Result<Expression, SyntaxError> {
        let mut arguments = Vec::new();
        while self.take_if(&Token::Keyword("when")) {
            arguments.push(self.expression(OR)?);
            self.expect(&Token::Keyword("then"))?;
            arguments.push(self.expression(OR)?);
        }
        if arguments.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.take_if(&Token::Keyword("else")) {
            self.expression(OR)?
        } else {
            Expression::Constant(Value::Null)
        };
        self.expect(&Token::Keyword("end"))?;
        arguments.push(otherwise);
        Ok(Expression::Call(Function::Case, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> SyntaxError {
        parse(text, &mut Names::default()).unwrap_err()
    }

    #[test]
    fn what_is_none_is_refused_with_its_place() {
        assert_eq!(refused("1 +"), error("syntax error", "", 3));
        assert_eq!(refused("foo(1)"), error("unexpected function name", "foo", 0));
        let whole_call = |message: &str, name: &str, offset: usize| SyntaxError {
            end: offset + name.len() + 2,
            ..error(message, name, offset)
        };
        assert_eq!(
            refused("1 + abs()"),
            whole_call("unexpected number of arguments", "abs", 4)
        );
        assert_eq!(
            refused("least()"),
            whole_call("at least one argument expected", "least", 0)
        );
        assert_eq!(refused("1 zwei").end, 6);
        assert_eq!(
            refused("9223372036854775809"),
            error("bigint constant overflow", "9223372036854775809", 0)
        );
        assert_eq!(refused("9223372036854775808").message, "syntax error");
        assert_eq!(refused("1 $ 2"), error("unexpected character", "$", 2));
        assert_eq!(refused("1 < 2 < 3"), error("syntax error", "", 6));
        assert_eq!(refused("").message, "syntax error");
    }

    #[test]
    fn nesting_has_a_limit_that_the_stack_bears() {
        // Frames of a debug build take several times the room of a release's.
        let room = std::thread::Builder::new().stack_size(64 << 20);
        let deep = room.spawn(|| {
            let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
            assert!(parse(&nested(DEPTH_MAX - 1), &mut Names::default()).is_ok());
            assert_eq!(refused(&nested(15_000)).message, "expression nested too deeply");
            assert_eq!(refused(&nested(100_000)).message, "expression too long");
            assert!(parse(&format!("1{}", " + 1".repeat(19_000)), &mut Names::default()).is_ok());
        });
        deep.unwrap().join().unwrap();
    }

    #[test]
    fn a_seed_that_is_left_out_is_a_variable() {
        let mut names = Names::default();
        let found = parse("hash(1)", &mut names).unwrap();
        let seed = Expression::Variable(names.known("default_seed").unwrap());
        let one = Expression::Constant(Value::Integer(1));
        assert_eq!(found, Expression::Call(Function::HashMurmur2, vec![one, seed]));
    }
}
