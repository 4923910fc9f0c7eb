//! Commands about a server's own traffic.

pub mod capture;
pub mod redact;
pub mod replay;
pub mod replay_plan;
pub mod write;
