//! The storage probe: PostgreSQL's ways of reading a file, measured without PostgreSQL.
//!
//! A [`cell`] is one measurement: consumers that want pages in some pattern, and an [`engine`] that reads them as
//! PostgreSQL does by one of its methods. Beside it: [`files`] makes what is read, [`durable`] measures writes,
//! [`verify`] judges the pages of a relation, [`speed`] measures the checksum itself.

pub mod burn;
pub mod cell;
pub mod checksum;
pub mod clock;
pub mod consumer;
pub mod delivered;
pub mod durable;
pub mod engine;
pub mod engines;
pub mod failure;
pub mod files;
pub mod gate;
pub mod latch;
pub mod mailbox;
pub mod meter;
pub mod page;
pub mod pattern;
pub mod reading;
pub mod record;
pub mod spec;
pub mod speed;
pub mod stopwatch;
pub mod sys;
pub mod verify;
