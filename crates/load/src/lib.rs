//! A load on PostgreSQL: each client runs one transaction after the other (a closed loop), or takes the next that is
//! due (an open one: [`pacing`]).
//!
//! The coordinator ([`run`]) starts the threads and speaks to the caller; a [`worker`] is one thread with its own
//! epoll loop over its share of the clients; a [`client`] is one connection; a [`meter`] counts and times.
//! Everything is generic over the transport, so that an encrypted one can be added beside Unix and TCP sockets.

pub mod client;
pub mod clock;
pub mod connections;
pub mod errors;
pub mod interpreter;
pub mod meter;
pub mod pacing;
pub mod pgbench;
pub mod programs;
pub mod record;
pub mod run;
pub mod script;
pub mod seconds;
pub mod spec;
pub mod statements;
pub mod sysbench;
pub mod tally;
pub mod timed;
pub mod transaction;
pub mod transport;
pub mod worker;

pub use programs::{Programs, ScriptSpec};
pub use record::{Partial, Progress, Record, Told};
pub use run::run;
pub use script::{BuiltinScript, Script};
pub use spec::{LoadSpec, QueryProtocol};
pub use sysbench::{ReadOnlyOptions, SysbenchOptions};
pub use transport::{Connector, Transport};
