//! pgbench's script language, without I/O: what a script says, what its expressions give, and which random numbers
//! they draw.
//!
//! The rules are those of PostgreSQL 18 (src/bin/pgbench: pgbench.c, exprparse.y, exprscan.l). With the same seed,
//! clients and threads every value that is drawn here is the one that pgbench draws.

pub mod command;
pub mod conditional;
pub mod expression;
pub mod number_text;
pub mod query;
pub mod random;
pub mod reader;
pub mod script;
pub mod sql_scanner;
pub mod value;
pub mod variables;
