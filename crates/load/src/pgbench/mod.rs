//! A run by pgbench's rules: so many transactions or so long, retries, failures, a connection for each transaction,
//! the statistics and log files of pgbench (threadRun, advanceConnectionState and processXactStats in pgbench.c).
//!
//! Clients, scripts and waiting are those of every load; here is what counts, and when it ends.

pub mod abort;
pub mod books;
pub mod client_thread;
pub mod log;
pub mod record;
pub mod run;
pub mod spec;
pub mod stats;
mod telling;

pub use client_thread::Said;
pub use run::{Event, run};
pub use spec::PgbenchSpec;
