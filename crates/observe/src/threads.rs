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
use crate::proc_text::{Scheduled, Stat, parse_io, parse_schedstat, parse_stat};
use crate::tally::Tally;

const SECOND_NS: u64 = 1_000_000_000;
/// Longer than any `stat`, `schedstat` or `io` of one thread.
const TEXT_BYTES: usize = 1024;
/// The kernel's names of the threads that work for an io_uring (io_uring/io-wq.c, io_uring/sqpoll.c).
const IO_URING_NAMES: [&str; 2] = ["iou-wrk-", "iou-sqp-"];

/// What a process is known by until pg_stat_activity speaks of it.
pub type Activities = BTreeMap<i32, Activity>;

struct Thread {
    id: i32,
    kind: Kind,
    stat_file: File,
    schedstat_file: Option<File>,
    io_file: Option<File>,
    stat: Stat,
    scheduled: Scheduled,
    io_bytes: (u64, u64),
    seen_ns: u64,
    is_gone: bool,
    /// It slept when last seen, and is of those that sleep for long.
    is_resting: bool,
}

struct Process {
    leader: Thread,
    /// Its other threads: those of the kernel's io_uring.
    helpers: Vec<Thread>,
    /// What `stat` said when they were last listed.
    listed_threads: u64,
}

/// All threads of one server: the postmaster, its children, and their threads.
pub struct Threads {
    postmaster_pid: i32,
    own_pid: i32,
    children_file: Option<File>,
    processes: BTreeMap<i32, Process>,
    tick_ns: u64,
    /// CLOCK_BOOTTIME, which `stat` counts in, less CLOCK_MONOTONIC: the time that the machine was suspended.
    suspended_ns: u64,
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
    /// counters are put out.
    pub fn read_states(&mut self) {
        self.discover();
        for process in self.processes.values_mut() {
            process.leader.read_state();
            process.list_helpers();
            process.helpers.iter_mut().for_each(Thread::read_state);
        }
    }

    /// Counts the states read last; `activities` are of the same moment, none where they could not be had.
    pub fn count(&mut self, activities: Option<&Activities>, tally: &mut Tally) {
        for (pid, process) in &mut self.processes {
            let activity = activities.and_then(|known| known.get(pid));
            if let Some(activity) = activity {
                process.leader.kind = activity.kind;
                process.leader.is_resting = process.leader.stat.state == 'S'
                    && (activity.state == "idle" || activity.wait_event_type == "Activity");
            }
            for thread in process.threads().filter(|thread| !thread.is_gone) {
                let own = activity.filter(|_| thread.id == *pid);
                tally.see((*pid, thread.id), thread.kind, thread.stat.state, own);
            }
        }
        for activity in activities.into_iter().flat_map(BTreeMap::values) {
            if !self.processes.contains_key(&activity.pid) {
                tally.see((activity.pid, activity.pid), activity.kind, '-', Some(activity));
            }
        }
    }

    /// Reads all counters; a thread that has gone is in the rows once more, with the last ones that were read.
    pub fn read_counters(&mut self) -> Vec<ThreadRow> {
        let mut rows = Vec::new();
        for (pid, process) in &mut self.processes {
            for thread in process.threads_mut() {
                if !thread.is_gone {
                    thread.read_stat();
                    thread.read_schedstat();
                    thread.read_io();
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

impl Process {
    fn of(leader: Thread) -> Self {
        Self {
            leader,
            helpers: Vec::new(),
            listed_threads: 1,
        }
    }

    fn threads(&self) -> impl Iterator<Item = &Thread> {
        std::iter::once(&self.leader).chain(&self.helpers)
    }

    fn threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        std::iter::once(&mut self.leader).chain(&mut self.helpers)
    }

    /// Lists the threads anew when their number has changed.
    fn list_helpers(&mut self) {
        if self.leader.stat.thread_count == self.listed_threads || self.leader.is_gone {
            return;
        }
        self.listed_threads = self.leader.stat.thread_count;
        let pid = self.leader.id;
        for id in numbers_in(&format!("/proc/{pid}/task")) {
            if id != pid && self.helpers.iter().all(|thread| thread.id != id) {
                let kind = match fs::read_to_string(format!("/proc/{pid}/task/{id}/comm")) {
                    Ok(name) if IO_URING_NAMES.iter().any(|it| name.starts_with(it)) => Kind::IoUringWorker,
                    _ => self.leader.kind,
                };
                self.helpers.extend(Thread::open(pid, id, kind));
            }
        }
    }
}

impl Thread {
    /// The files of a process's first thread are the process's own: its CPU ticks and bytes are of all its threads.
    fn open(pid: i32, id: i32, kind: Kind) -> io::Result<Self> {
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
    fn read_state(&mut self) {
        let before = self.scheduled;
        self.read_schedstat();
        if self.is_resting && self.scheduled == before && !self.is_gone {
            self.seen_ns = monotonic_ns();
        } else {
            self.read_stat();
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

    fn row(&self, pid: i32, tick_ns: u64, suspended_ns: u64) -> ThreadRow {
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

/// The title of a process: what it wrote over its arguments.
fn title(pid: i32) -> String {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).trim_end().to_owned()
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
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
