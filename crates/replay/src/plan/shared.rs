//! What all sessions share while a capture is read.

use super::order::Order;
use super::parts::{Plan, Span};
use super::texts::Texts;
use super::values::Values;

/// What all sessions share while they are read.
pub struct Shared<'a> {
    pub plan: Plan,
    pub texts: Texts<'a>,
    pub order: Order,
    pub values: Values,
}

/// A part of a list.
pub fn span(from: usize, to: usize) -> Span {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    Span {
        from: number(from),
        to: number(to),
    }
}
