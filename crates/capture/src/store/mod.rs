//! A capture's folder: its files, written and read.

pub mod reader;
pub mod writer;
