//! One process of a server and its threads, and whether it is quiet, so that it need not be read.

use std::fs;

use crate::activity::Activity;
use crate::kind::Kind;
use crate::thread::Thread;

/// The kernel's names of the threads that work for an io_uring (io_uring/io-wq.c, io_uring/sqpoll.c).
const IO_URING_NAMES: [&str; 2] = ["iou-wrk-", "iou-sqp-"];

/// A process of a server, and what of it is read.
pub(crate) struct Process {
    pub(crate) leader: Thread,
    /// Its other threads: those of the kernel's io_uring.
    pub(crate) helpers: Vec<Thread>,
    /// What `stat` said when they were last listed.
    listed_threads: u64,
    /// When it became idle, in microseconds of the server's clock; none while it is not.
    idle_since_us: Option<i64>,
    /// It has been idle, without a statement between, since the reading before.
    pub(crate) is_quiet: bool,
}

impl Process {
    /// A process by its first thread.
    pub(crate) fn of(leader: Thread) -> Self {
        Self {
            leader,
            helpers: Vec::new(),
            listed_threads: 1,
            idle_since_us: None,
            is_quiet: false,
        }
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = &Thread> {
        std::iter::once(&self.leader).chain(&self.helpers)
    }

    pub(crate) fn threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        std::iter::once(&mut self.leader).chain(&mut self.helpers)
    }

    pub(crate) fn read_states(&mut self) {
        self.leader.read_state();
        self.list_helpers();
        self.helpers.iter_mut().for_each(Thread::read_state);
    }

    /// Takes notice of whether the process is quiet; one that no longer is, and was left alone, is read now.
    pub(crate) fn update_activity(&mut self, activity: Option<&Activity>) {
        let was_left_alone = self.is_quiet;
        let idle = activity.filter(|activity| activity.state == "idle");
        let idle_since_us = idle.and_then(|activity| activity.state_change_us);
        self.is_quiet =
            idle_since_us.is_some() && self.idle_since_us == idle_since_us && self.leader.stat.state == 'S';
        self.idle_since_us = idle_since_us;
        if was_left_alone && !self.is_quiet {
            self.read_states();
        }
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

/// The entries of a folder that are numbers.
pub(crate) fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A process of which pg_stat_activity would say this; it does nothing.
    fn sleeping(state: &str, state_change_us: i64) -> Activity {
        Activity {
            pid: 0,
            kind: Kind::Backend,
            state: state.to_owned(),
            wait_event_type: "Client".to_owned(),
            wait_event: "ClientRead".to_owned(),
            state_change_us: Some(state_change_us),
        }
    }

    #[test]
    fn a_connection_is_quiet_while_it_stays_idle_and_read_when_it_is_not() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(sleeper.id()).unwrap();
        let mut process = Process::of(Thread::open(pid, pid, Kind::Backend).unwrap());
        while process.leader.stat.state != 'S' {
            process.read_states();
        }
        let mut quiet = Vec::new();
        for (state, change) in [("idle", 1), ("idle", 1), ("idle", 2), ("idle", 2), ("active", 3)] {
            process.update_activity(Some(&sleeping(state, change)));
            quiet.push(process.is_quiet);
        }
        assert_eq!(quiet, [false, true, false, true, false]);
        process.update_activity(Some(&sleeping("idle", 4)));
        process.update_activity(Some(&sleeping("idle", 4)));
        assert!(process.is_quiet);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // Left alone by then; that the server knows it no more has it looked at.
        process.update_activity(None);
        assert!(process.leader.is_gone);
    }
}
