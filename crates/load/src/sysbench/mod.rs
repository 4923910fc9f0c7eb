//! sysbench's OLTP scripts: what they send, how their values are drawn, and a run by sysbench's rules
//! (sysbench 1.0.20, src/lua and src/sysbench.c).
//!
//! A [`plan`] draws the transactions of a script; any load can run it. [`run`] is sysbench's own command: so many
//! events or so long, an event that another one spoilt begun again, and the counts that its report is made of.

pub mod books;
pub mod client_thread;
pub mod digits;
pub mod distribution;
pub mod micro;
pub mod options;
pub mod plan;
pub mod read_only;
pub mod record;
pub mod rows;
pub mod run;
pub mod scripts;
pub mod spec;
pub mod unique;

pub use options::{SysbenchOptions, SysbenchScript};
pub use plan::{Place, Plan};
pub use read_only::ReadOnlyOptions;
pub use run::{Event, run};
pub use spec::SysbenchSpec;
