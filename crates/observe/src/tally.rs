//! Counts of what was seen between two outputs.

use std::collections::BTreeMap;

use crate::activity::Activity;
use crate::document::WaitRow;
use crate::kind::Kind;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pid: i32,
    thread: i32,
    kind: Kind,
    activity: String,
    wait_event_type: String,
    wait_event: String,
    scheduler_state: char,
}

/// How often each thread was seen waiting for what, in which state of the scheduler.
#[derive(Default)]
pub struct Tally {
    counts: BTreeMap<Key, u32>,
    samples: u32,
}

impl Tally {
    /// Counts one reading of everything; each further `count` belongs to it.
    pub fn begin_sample(&mut self) {
        self.samples += 1;
    }

    /// Counts a thread: its state of the scheduler ('-' where /proc can't be read), and what PostgreSQL says of its
    /// process, where it says something.
    pub fn count(
        &mut self,
        (pid, thread): (i32, i32),
        kind: Kind,
        scheduler_state: char,
        activity: Option<&Activity>,
    ) {
        let key = Key {
            pid,
            thread,
            kind,
            activity: activity.map(|found| found.state.clone()).unwrap_or_default(),
            wait_event_type: activity
                .map(|found| found.wait_event_type.clone())
                .unwrap_or_default(),
            wait_event: activity.map(|found| found.wait_event.clone()).unwrap_or_default(),
            scheduler_state,
        };
        *self.counts.entry(key).or_default() += 1;
    }

    /// The counts so far, which begin anew: how many readings, and the rows.
    pub fn take(&mut self) -> (u32, Vec<WaitRow>) {
        let rows = std::mem::take(&mut self.counts)
            .into_iter()
            .map(|(key, count)| {
                WaitRow(
                    key.pid,
                    key.thread,
                    key.kind,
                    key.activity,
                    key.wait_event_type,
                    key.wait_event,
                    key.scheduler_state,
                    count,
                )
            })
            .collect();
        (std::mem::take(&mut self.samples), rows)
    }
}
