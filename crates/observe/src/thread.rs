//! One thread: its files of /proc, kept open, and what they said.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use pgassay_load::clock::monotonic_ns;

use crate::document::ThreadRow;
use crate::kind::Kind;
use crate::proc_text::{Scheduled, Stat, parse_io, parse_schedstat, parse_stat};

/// Longer than any `stat`, `schedstat` or `io` of one thread.
const TEXT_BYTES: usize = 1024;

/// One thread, its open files and what was read of them last.
pub(crate) struct Thread {
    pub(crate) id: i32,
    pub(crate) kind: Kind,
    stat_file: File,
    pub(crate) schedstat_file: Option<File>,
    pub(crate) io_file: Option<File>,
    pub(crate) stat: Stat,
    scheduled: Scheduled,
    io_bytes: (u64, u64),
    seen_ns: u64,
    pub(crate) is_gone: bool,
    /// It slept when last seen, and is of those that sleep for long.
    pub(crate) is_resting: bool,
    /// The scheduler's counters when all the others were read last; none before that.
    counted: Option<Scheduled>,
}

impl Thread {
    /// The files of a process's first thread are the process's own: its CPU ticks and bytes are of all its threads.
    pub(crate) fn open(pid: i32, id: i32, kind: Kind) -> io::Result<Self> {
        let is_leader = pid == id;
        let folder = if is_leader {
            format!("/proc/{pid}")
        } else {
            format!("/proc/{pid}/task/{id}")
        };
        let mut thread = Self {
            id,
            kind,
            stat_file: File::open(format!("{folder}/stat"))?,
            schedstat_file: File::open(format!("{folder}/schedstat")).ok(),
            io_file: is_leader
                .then(|| File::open(format!("{folder}/io")).ok())
                .flatten(),
            stat: Stat::default(),
            scheduled: Scheduled::default(),
            io_bytes: (0, 0),
            seen_ns: 0,
            is_gone: false,
            is_resting: false,
            counted: None,
        };
        thread.read_state();
        if thread.is_gone && thread.seen_ns == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Opening the file needs no right, reading it does.
        if thread
            .io_file
            .as_ref()
            .is_some_and(|file| read(file, parse_io).is_none())
        {
            thread.io_file = None;
        }
        Ok(thread)
    }

    /// Reads the state and the scheduler's counters. Of a thread that rested and was on no processor since, only
    /// the counters are read, which is the cheaper half: most connections of a server do nothing most of the time.
    pub(crate) fn read_state(&mut self) {
        let before = self.scheduled;
        self.read_schedstat();
        if self.is_resting && self.scheduled == before && !self.is_gone {
            self.seen_ns = monotonic_ns();
        } else {
            self.read_stat();
        }
    }

    /// Reads all counters; of a quiet thread that was on no processor since all were read, no other has changed.
    /// Readings of its state between don't count: they leave its bytes out.
    pub(crate) fn read_counters(&mut self, is_quiet: bool) {
        self.read_schedstat();
        if is_quiet && self.counted == Some(self.scheduled) && !self.is_gone {
            self.seen_ns = monotonic_ns();
        } else {
            self.counted = Some(self.scheduled);
            self.read_stat();
            self.read_io();
        }
    }

    fn read_stat(&mut self) {
        match read(&self.stat_file, parse_stat) {
            Some(stat) => {
                // A process that ended is a zombie until its parent asks; its counters are final then.
                self.is_gone = matches!(stat.state, 'Z' | 'X');
                self.stat = stat;
                self.seen_ns = monotonic_ns();
            }
            None => self.is_gone = true,
        }
    }

    fn read_schedstat(&mut self) {
        let Some(file) = &self.schedstat_file else {
            return;
        };
        match read(file, parse_schedstat) {
            Some(scheduled) => self.scheduled = scheduled,
            None => self.is_gone = true,
        }
    }

    fn read_io(&mut self) {
        if let Some(bytes) = self.io_file.as_ref().and_then(|file| read(file, parse_io)) {
            self.io_bytes = bytes;
        }
    }

    pub(crate) fn row(&self, pid: i32, tick_ns: u64, suspended_ns: u64) -> ThreadRow {
        let stat = &self.stat;
        ThreadRow(
            pid,
            self.id,
            self.kind,
            (stat.start_ticks * tick_ns).saturating_sub(suspended_ns),
            self.seen_ns,
            !self.is_gone,
            self.scheduled.run_ns,
            self.scheduled.delay_ns,
            self.scheduled.slices,
            (stat.user_ticks + stat.system_ticks) * tick_ns,
            stat.children_ticks * tick_ns,
            self.io_bytes.0,
            self.io_bytes.1,
            stat.block_delay_ticks * tick_ns,
        )
    }
}

fn read<T>(file: &File, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut text = [0; TEXT_BYTES];
    let length = file.read_at(&mut text, 0).ok()?;
    parse(&text[..length])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_a_thread_did_before_it_was_quiet_is_counted_though_its_state_was_read_since() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut thread = Thread::open(pid, pid, Kind::Backend).unwrap();
        thread.read_counters(false);
        let before = thread.scheduled;
        child.stdin.as_mut().unwrap().write_all(b"work\n").unwrap();
        while thread.scheduled == before {
            thread.read_state();
        }
        thread.read_counters(true);
        assert_ne!(thread.counted, Some(before));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
