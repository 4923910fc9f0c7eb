//! The clocks of a thread, and what it spent their time on.

pub mod clock;
pub mod stopwatch;
