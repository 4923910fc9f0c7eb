//! Expressions: what a text says, and what it gives.

mod evaluate;
mod functions;
mod lexer;
mod parse;
mod tree;

pub use evaluate::Evaluation;
pub use functions::Function;
pub use parse::parse;
pub use tree::{Expression, SyntaxError};
