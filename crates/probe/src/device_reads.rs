//! What the device has delivered, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The counter `read_bytes` of `/proc/self/io`: bytes that storage delivered to this process, the kernel's workers for
/// it included.
pub struct DeviceReads {
    file: Option<File>,
}

impl DeviceReads {
    /// The counter of this process; one that always says 0 where the kernel keeps no such statistics.
    pub fn of_this_process() -> Self {
        Self {
            file: File::open("/proc/self/io").ok(),
        }
    }

    /// The sum since the process began.
    pub fn read_bytes(&self) -> u64 {
        let mut text = [0; 256];
        let count = self
            .file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        let text = String::from_utf8_lossy(&text[..count.unwrap_or(0)]);
        let field = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
        field.and_then(|field| field.trim().parse().ok()).unwrap_or(0)
    }
}
