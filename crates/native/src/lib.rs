//! The parts of the binary `pgassay-native`, one file per command, and what they share.
//!
//! Each command reads JSON on standard input and writes JSON lines on standard output; passwords only ever travel
//! there. When standard input closes, the process ends. Times are nanoseconds of CLOCK_MONOTONIC.

pub mod connect;
pub mod lines;
pub mod link;
pub mod load_command;
pub mod mix_command;
pub mod null_answers;
pub mod null_server;
pub mod observe_command;
pub mod probe_command;
mod query;
pub mod scripts_command;
mod server_queries;
pub mod simulate_command;
pub mod sql_command;
pub mod sysbench_tables;
pub mod tls;
pub mod traffic;
mod transaction;
pub mod volume_command;
