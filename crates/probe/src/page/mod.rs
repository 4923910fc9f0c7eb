//! PostgreSQL's data pages: their layout, checksum and validity, and pages as pgbench fills them.

pub mod checksum;
pub mod layout;
pub mod maker;
pub mod validity;
