//! What an expression is, once it is read.

use super::functions::Function;
use crate::value::Value;

/// Why an expression is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// pgbench's message.
    pub message: String,
    /// What it is about, as a function's name; empty without.
    pub about: String,
    /// Where in the text, in bytes from 0.
    pub offset: usize,
    /// Where what was read ends, in bytes from 0: before it pgbench puts its mark.
    pub end: usize,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Constant(Value),
    /// A variable, by its place.
    Variable(usize),
    /// A function or operator with its arguments.
    Call(Function, Vec<Expression>),
}
