//! The storage probe: PostgreSQL's ways of reading a file, measured without PostgreSQL.
//!
//! A [`cell`] is one measurement: consumers that want pages in some pattern, and an [`engine`] that reads them as
//! PostgreSQL does by one of its methods. Beside it: [`files`] makes what is read, [`durable_writes`] measures writes,
//! [`verify`] judges the pages of a relation, [`checksum_speed`] measures the checksum itself.

pub mod cell;
pub mod checksum_speed;
pub mod device_reads;
pub mod durable_writes;
pub mod engine;
pub mod engines;
pub mod failure;
pub mod files;
pub mod page;
pub mod reading;
pub mod spec;
pub mod sys;
pub mod threads;
pub mod time;
pub mod verify;
