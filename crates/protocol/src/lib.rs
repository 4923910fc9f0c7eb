//! PostgreSQL's frontend/backend protocol (version 3.0) without I/O: the caller moves bytes, this crate tells
//! what they mean and which bytes to send next. Messages and authentication come from `postgres-protocol`;
//! this crate adds the state of a connection, and an input buffer that costs no allocation per message.
//!
//! Nothing here trusts the peer: whatever bytes arrive, the outcome is an event or a [`Failure`].

pub mod answer;
pub mod captured;
pub mod failure;
pub mod input;
mod message;
pub mod notice;
pub mod parameters;
pub mod requests;
pub mod startup;

pub use answer::{Answer, AnswerState, TransactionStatus};
pub use captured::{Captured, CapturedQuery};
pub use failure::Failure;
pub use input::{Frame, InputBuffer};
pub use notice::{Notice, NoticeStore};
pub use parameters::{BindingMode, Parameters, SslMode, SslNegotiation};
pub use startup::{Channel, Session, Startup};
