//! Plays a capture against a server.
//!
//! [`plan`] reads the capture once and works out what is sent when, what each step has to wait for, and what came back
//! then. [`play`] does it, over as many connections as there were, in one thread, and counts what came out otherwise.

pub mod lexer;
pub mod plan;
pub mod play;

pub use plan::{Plan, Wanted};
pub use play::{Outcome, Player};
