//! The threads of a server on this host, by the files of /proc, which are kept open: an open one stays with its
//! thread, whoever gets its number later.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use pgassay_load::clock::monotonic_ns;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::activity::Activity;
use crate::document::ThreadRow;
use crate::kind::Kind;
use crate::proc_text::parse_stat;
use crate::process::{Process, numbers_in};
use crate::tally::Tally;
use crate::thread::Thread;

const SECOND_NS: u64 = 1_000_000_000;
/// How often new processes are looked for that pg_stat_activity does not tell of.
const DISCOVERY_READINGS: u32 = 16;

/// What a process is known by until pg_stat_activity speaks of it.
pub type Activities = BTreeMap<i32, Activity>;

/// All threads of one server: the postmaster, its children, and their threads.
pub struct Threads {
    postmaster_pid: i32,
    own_pid: i32,
    children_file: Option<File>,
    processes: BTreeMap<i32, Process>,
    tick_ns: u64,
    /// CLOCK_BOOTTIME, which `stat` counts in, less CLOCK_MONOTONIC: the time that the machine was suspended.
    suspended_ns: u64,
    /// Readings until new processes are looked for that pg_stat_activity does not tell of.
    until_discovery: u32,
}

impl Threads {
    /// The threads of the server whose first process is this.
    ///
    /// # Errors
    /// When there is no such process, or the kernel keeps no scheduler statistics.
    pub fn of_server(postmaster_pid: i32) -> io::Result<Self> {
        let boot = clock_gettime(ClockId::Boottime);
        let boot_ns = u64::try_from(boot.tv_sec).unwrap_or_default() * SECOND_NS
            + u64::try_from(boot.tv_nsec).unwrap_or_default();
        let mut threads = Self {
            postmaster_pid,
            own_pid: 0,
            children_file: None,
            processes: BTreeMap::new(),
            tick_ns: SECOND_NS / clock_ticks_per_second().max(1),
            suspended_ns: boot_ns.saturating_sub(monotonic_ns()),
            until_discovery: 0,
        };
        let leader = Thread::open(postmaster_pid, postmaster_pid, Kind::Postmaster)?;
        if leader.schedstat_file.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the kernel keeps no /proc/PID/schedstat (CONFIG_SCHED_INFO)",
            ));
        }
        threads.processes.insert(postmaster_pid, Process::of(leader));
        let children = format!("/proc/{postmaster_pid}/task/{postmaster_pid}/children");
        threads.children_file = File::open(children).ok();
        threads.discover();
        Ok(threads)
    }

    /// Names the backend that is asked for pg_stat_activity: it has no row there, and is no part of the server's work.
    pub fn own_backend(&mut self, pid: i32) {
        self.own_pid = pid;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.leader.kind = Kind::Own;
        }
    }

    /// Whether the bytes of every thread can be read.
    pub fn has_io(&self) -> bool {
        self.processes
            .values()
            .all(|process| process.leader.io_file.is_some())
    }

    /// Reads the state and the scheduler's counters of every thread, new ones included: it may be gone when all
    /// counters are put out. A connection that was quiet is left alone: whether it still is, its activity tells,
    /// and a server may have many of them.
    pub fn read_states(&mut self) {
        if self.until_discovery == 0 {
            self.discover();
        }
        self.until_discovery = self.until_discovery.saturating_sub(1);
        for process in self.processes.values_mut().filter(|process| !process.is_quiet) {
            process.read_states();
        }
    }

    /// Counts the states read last; `activities` are of the same moment, none where they could not be had.
    pub fn count(&mut self, activities: Option<&Activities>, tally: &mut Tally) {
        match activities {
            None => self.until_discovery = 0,
            Some(known) if known.keys().any(|pid| !self.processes.contains_key(pid)) => self.discover(),
            Some(_) => {}
        }
        for (pid, process) in &mut self.processes {
            let activity = activities.and_then(|known| known.get(pid));
            process.update_activity(activity);
            if let Some(activity) = activity {
                process.leader.kind = activity.kind;
                process.leader.is_resting = process.leader.stat.state == 'S'
                    && (activity.state == "idle" || activity.wait_event_type == "Activity");
            }
            for thread in process.threads().filter(|thread| !thread.is_gone) {
                let own = activity.filter(|_| thread.id == *pid);
                tally.count((*pid, thread.id), thread.kind, thread.stat.state, own);
            }
        }
        for activity in activities.into_iter().flat_map(BTreeMap::values) {
            if !self.processes.contains_key(&activity.pid) {
                tally.count((activity.pid, activity.pid), activity.kind, '-', Some(activity));
            }
        }
    }

    /// Reads all counters; a thread that has gone is in the rows once more, with the last ones that were read.
    pub fn read_counters(&mut self) -> Vec<ThreadRow> {
        let mut rows = Vec::new();
        for (pid, process) in &mut self.processes {
            let is_quiet = process.is_quiet;
            for thread in process.threads_mut() {
                if !thread.is_gone {
                    thread.read_counters(is_quiet);
                }
                rows.push(thread.row(*pid, self.tick_ns, self.suspended_ns));
            }
            process.helpers.retain(|thread| !thread.is_gone);
        }
        self.processes.retain(|_, process| !process.leader.is_gone);
        rows
    }

    /// Takes notice of new processes.
    fn discover(&mut self) {
        self.until_discovery = DISCOVERY_READINGS;
        let Some(children) = self.children() else { return };
        for pid in children {
            if self.processes.contains_key(&pid) {
                continue;
            }
            let kind = if pid == self.own_pid {
                Kind::Own
            } else {
                Kind::of_title(&title(pid))
            };
            // One that has gone meanwhile is as if it had never been seen.
            if let Ok(leader) = Thread::open(pid, pid, kind) {
                self.processes.insert(pid, Process::of(leader));
            }
        }
    }

    fn children(&self) -> Option<Vec<i32>> {
        let Some(file) = &self.children_file else {
            return Some(children_by_parent(self.postmaster_pid));
        };
        let mut text = vec![0; 64 << 10];
        let mut length = 0;
        loop {
            match file.read_at(&mut text[length..], length as u64).ok()? {
                0 => break,
                count => length += count,
            }
            if length == text.len() {
                text.resize(length * 2, 0);
            }
        }
        let text = std::str::from_utf8(&text[..length]).ok()?;
        Some(
            text.split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect(),
        )
    }
}

/// The title of a process: what it wrote over its arguments.
fn title(pid: i32) -> String {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).trim_end().to_owned()
}

/// Where the kernel has no list of children (CONFIG_PROC_CHILDREN).
fn children_by_parent(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let text = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        parse_stat(&text).is_some_and(|stat| stat.parent == parent)
    };
    numbers_in("/proc").into_iter().filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A parent with one child that works, as the postmaster of a server.
    #[test]
    fn a_child_that_works_is_seen_running_and_then_gone() {
        let mut shell = Command::new("sh")
            .args([
                "-c",
                "(i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done) & wait; read line",
            ])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut threads = Threads::of_server(i32::try_from(shell.id()).unwrap()).unwrap();
        let (mut tally, mut rows) = (Tally::default(), Vec::new());
        for _ in 0..3000 {
            threads.read_states();
            tally.begin_sample();
            threads.count(None, &mut tally);
            rows.extend(threads.read_counters());
            if rows.iter().any(|row| !row.5) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let last = rows.iter().rfind(|row| !row.5).expect("the child was seen going");
        assert!(last.6 > 0, "its CPU time is kept: {last:?}");
        let (_, waits) = tally.take();
        assert!(
            waits.iter().any(|wait| wait.0 == last.0 && wait.6 == 'R'),
            "{waits:?}"
        );
    }

    #[test]
    fn there_is_no_server_of_a_process_that_is_none() {
        assert!(Threads::of_server(i32::MAX).is_err());
    }
}
