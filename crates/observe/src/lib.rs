//! What the threads of a server do and wait for, sampled on one clock.
//!
//! Two sources: files of /proc for what the scheduler and the block layer know of each thread ([`threads`]), and
//! rows of pg_stat_activity for what PostgreSQL says each process waits for ([`activity`]). Counters are read as
//! they are, cumulative; of states and wait events only counts are kept ([`tally`]). The caller owns the connection
//! and the clock's ticks.

pub mod activity;
pub mod aios;
pub mod document;
pub mod kind;
pub mod proc_text;
mod process;
pub mod tally;
mod thread;
pub mod threads;
