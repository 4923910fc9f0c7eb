//! How threads wait for each other: together at the start, for one wake-up, for what another has read.

pub mod gate;
pub mod latch;
pub mod mailbox;
