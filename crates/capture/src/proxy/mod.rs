//! The proxy: it stands between clients and a server, passes every byte on, and records what the clients sent and how
//! the server answered.
//!
//! One thread moves the bytes and another writes the capture. Between them is a queue of bounded size: where the disk
//! doesn't follow, whole sessions leave the capture, and no byte of the traffic waits.

mod back;
mod collector;
mod cut;
mod flow;
mod front;
mod loops;
mod pair;
mod queue;
mod recording;
mod scram;
mod settings;
mod startup;
mod stream;

pub use back::{complete, sqlstate};
pub use collector::{BODY_BYTES_MAX, Collector, Edge, ROW_BYTES_MAX};
pub use cut::{BadMessage, Cutter, Piece, Sender};
pub use loops::{Proxy, Stopper};
pub use queue::Totals;
pub use settings::{Selection, Settings, Target};
