//! What a block device has done: its own counters (Documentation/block/stat.rst of Linux).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads and writes that a block device has done, and the sum of what each took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub requests: u64,
    pub ns: u64,
}

/// The counters of a block device.
#[derive(Debug)]
pub(crate) struct Counters {
    file: File,
}

impl Counters {
    /// Those of `/dev/NAME`.
    pub(crate) fn of(device: &Path) -> io::Result<Self> {
        let name = device.file_name().ok_or(io::ErrorKind::NotFound)?;
        let file = File::open(Path::new("/sys/class/block").join(name).join("stat"))?;
        Ok(Self { file })
    }

    pub(crate) fn read(&self) -> io::Result<Done> {
        let mut bytes = [0; 512];
        let length = self.file.read_at(&mut bytes, 0)?;
        parse(&bytes[..length]).ok_or_else(|| io::Error::other("the device has other counters"))
    }
}

/// The first, fourth, fifth and eighth number: reads, milliseconds of reads, and the same of writes.
fn parse(bytes: &[u8]) -> Option<Done> {
    let text = std::str::from_utf8(bytes).ok()?;
    let numbers: Vec<u64> = text
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let (reads, writes) = (numbers.get(..4)?, numbers.get(4..8)?);
    Some(Done {
        requests: reads[0].checked_add(writes[0])?,
        ns: reads[3].checked_add(writes[3])?.checked_mul(1_000_000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_device_are_read() {
        let text = b"     100  0  800   7    20  5  160  3   0   9   10  0 0 0 0  4 1\n";
        let expected = Done {
            requests: 120,
            ns: 10_000_000,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(b"1 2 3 4 5 6 7"), None);
        assert_eq!(parse(b"1 2 3 4 5 x 7 8"), None);
        assert_eq!(parse(&[0xff; 20]), None);
        assert_eq!(parse(b"18446744073709551615 0 0 0 1 0 0 0"), None);
        assert!(Counters::of(Path::new("/dev/there-is-no-such-device")).is_err());
    }
}
