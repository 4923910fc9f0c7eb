//! A block device's file, served by a file system in user space (FUSE): each answer comes when the volume of a
//! model would give it.
//!
//! The file system has one file, `disk`, whose content lies in locked memory or in a file. A loop device on it
//! is the block device. One thread reads the kernel's requests, asks the model of `pgassay-volume` when each is
//! done, and answers at these absolute times; there is no thread for each request. [`serve`] is that thread.
//!
//! It speaks the kernel's protocol itself (`linux/fuse.h`, version 7.31 and newer): one file needs a dozen of
//! its messages, and so each answer goes from the image to the kernel in one system call, without a copy.

#![warn(missing_docs)]

mod connection;
mod counters;
mod figures;
mod image;
mod instance;
mod mailbox;
mod overhead;
mod placing;
mod protocol;
mod requests;
mod schedule;
mod server;
mod trace;
mod waiting;
mod wakeful;
mod way;

pub use connection::Connection;
pub use figures::{Delay, Second};
pub use image::Image;
pub use instance::Instance;
pub use mailbox::{Command, Event, Facts, Inbox, Mailbox, mailbox};
pub use overhead::{ByLength, Ceiling, Overhead};
pub use protocol::FILE_NAME;
pub use server::{Setup, serve};
pub use trace::Traced;
