//! A server's own traffic, captured: the file that it is kept in (`crates/capture/FORMAT.md`), its writer and its reader.
//!
//! What is read may be damaged, and what is recorded comes from strangers: whatever the bytes are, the outcome is an
//! event, a [`Fault`], or a session that is left out of the capture and counted.

mod fault;
pub mod format;
pub mod lexer;
pub mod proxy;
pub mod redact;
pub mod secrets;
pub mod store;

pub use fault::Fault;
