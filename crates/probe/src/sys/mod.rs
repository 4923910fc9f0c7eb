//! The system calls that have no safe form, and the code that is compiled for more than the least processor. This is
//! the only place where the compiler has to take our word; each time the reason is given. What leaves it is safe.
#![allow(unsafe_code)]

pub mod files;
pub mod memory;
pub mod ring;
pub mod signals;
pub(crate) mod simd;
