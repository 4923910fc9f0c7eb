//! The system calls that have no safe form, and the code that is compiled for more than the least processor: the
//! only place with `unsafe`, each with its reason. What leaves this module is safe to use.
#![allow(unsafe_code)]

pub mod files;
pub mod memory;
pub mod ring;
pub mod signals;
pub(crate) mod simd;
