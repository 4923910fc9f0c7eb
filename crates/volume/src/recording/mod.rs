//! Requests as they were recorded on a block device: when each was issued and when it was done.
//!
//! [`Encoder`] makes the chunks of a trace's file, [`decode`] reads such a file. No I/O is done here.

mod checksum;
mod format;

pub use format::{Encoder, Recorded, Recording, decode, header, trailer};
