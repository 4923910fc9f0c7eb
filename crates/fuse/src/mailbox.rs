//! What the server is told from other threads, and what it tells.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pgassay_volume::Model;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;
use serde::Serialize;

use crate::figures::Second;
use crate::instance::Instance;
use crate::overhead::{Ceiling, Overhead};
use crate::trace::Traced;

/// What the server is told to do.
#[derive(Debug)]
pub enum Command {
    /// Answers as the model says, from its credits at time 0, whatever was before; with the limits of an
    /// instance that other volumes may share.
    Impose(Box<Model>, u64, Option<Arc<Instance>>),
    /// Records the requests under the next model in a new file.
    Trace(PathBuf),
    /// What became of the file; the thread that writes it says so.
    Traced(Traced),
    /// Answers at once.
    Release,
    /// Measures what the way to this block device takes; requests of others wait a little meanwhile.
    MeasureOverhead(PathBuf),
    /// What the measurement of this block device found; the thread that makes it says so.
    Measured(PathBuf, io::Result<Overhead>),
    /// Measures what is answered at most, through this block device.
    MeasureCeiling(PathBuf),
    /// What that measurement found.
    MeasuredCeiling(io::Result<Ceiling>),
    /// Ends, and unmounts or leaves a dead mount behind. What lies on the volume is then found by the mount.
    End {
        /// Whether it unmounts.
        unmounts: bool,
    },
}

/// What the server tells.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The model holds from now on.
    Imposed(Facts),
    /// The figures of a second under a model.
    Second(Second),
    /// No model holds any more; the figures since the last whole second.
    Released(Second),
    /// The file of a trace is closed, after the model of its requests was released.
    Traced(Traced),
    /// The overhead that is taken from latencies from now on.
    Overhead(Overhead),
    /// The most that is answered here.
    Ceiling(Ceiling),
    /// What can't be done, in words; the server goes on.
    Refused(String),
}

/// What a model begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Time 0 of the model, CLOCK_MONOTONIC.
    pub clock_ns: u64,
    /// What is taken from every latency.
    pub overhead_ns: u64,
    /// Whether the kernel keeps idle processors awake meanwhile.
    pub wakeful: bool,
}

/// The server's end of the commands.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) commands: Receiver<Command>,
    pub(crate) bell: Arc<OwnedFd>,
}

/// The other end; there may be several.
#[derive(Clone, Debug)]
pub struct Mailbox {
    commands: Sender<Command>,
    bell: Arc<OwnedFd>,
}

impl Mailbox {
    /// Hands over a command; one for a server that has ended is lost.
    pub fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        let _ = write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

/// Both ends of the commands.
///
/// # Errors
/// When the system gives no file descriptor.
pub fn mailbox() -> io::Result<(Mailbox, Inbox)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    let mailbox = Mailbox {
        commands: sender,
        bell: Arc::clone(&bell),
    };
    let inbox = Inbox {
        commands: receiver,
        bell,
    };
    Ok((mailbox, inbox))
}
