//! Processors that wake up at once, for as long as a model holds.
//!
//! A processor that has nothing to do goes to sleep, and an answer's time comes while it does: waking it takes
//! some 50 µs on a virtual machine, for each answer and for whoever waits for it. The kernel lets a process ask
//! for processors that don't sleep (Documentation/power/pm_qos_interface.rst of Linux, `/dev/cpu_dma_latency`);
//! it forgets the request when the file is closed, so nothing is left of a killed process.

use std::fs::{File, OpenOptions};
use std::io::Write;

const FILE: &str = "/dev/cpu_dma_latency";
/// The longest time that waking up may take, in microseconds.
const LATENCY_MAX_US: i32 = 0;

/// The request, withdrawn when it is dropped.
#[derive(Debug)]
pub(crate) struct Wakeful {
    _open: File,
}

impl Wakeful {
    /// Asks the kernel; `None` where it offers no such thing.
    pub(crate) fn ask() -> Option<Self> {
        let mut file = OpenOptions::new().write(true).open(FILE).ok()?;
        file.write_all(&LATENCY_MAX_US.to_ne_bytes()).ok()?;
        Some(Self { _open: file })
    }
}
