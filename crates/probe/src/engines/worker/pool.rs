//! The server's I/O workers: the queue that they share, who is woken, and by 19's rules how their number grows.

use std::collections::VecDeque;

use crate::reading::Read;
use crate::spec::CellSpec;

/// The first version that only tries the lock, and whose pool grows.
pub(super) const MAJOR_THAT_TRIES: u32 = 19;
/// `PGAIO_WORKER_WAKEUP_RATIO_SATURATE`.
const HISTORY_MAX: u32 = 4;

/// What the workers share, under one lock.
pub(super) struct Queue {
    pub(super) requests: VecDeque<(usize, Read)>,
    /// A bit for each idle worker; the lowest is woken first (`pgaio_worker_choose_idle`).
    pub(super) idle: u64,
    pub(super) is_retired: bool,
    /// Workers that were started, and when the last of them was, CLOCK_MONOTONIC.
    pub(super) launched: usize,
    pub(super) launched_ns: u64,
}

impl Queue {
    /// The idle worker with the lowest number from `first` on; it isn't idle any more.
    pub(super) fn choose_idle(&mut self, first: usize) -> Option<usize> {
        let worker = (self.idle & u64::MAX.checked_shl(first as u32)?).trailing_zeros();
        self.idle &= !1_u64.checked_shl(worker)?;
        Some(worker as usize)
    }
}

/// How many workers there may be, and how soon after each other they are started.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    pub(super) least: usize,
    most: usize,
    interval_ns: u64,
}

impl Pool {
    /// The pool of a cell: before 19 it neither grows nor shrinks.
    pub(super) fn of(spec: &CellSpec) -> Self {
        let grows = spec.major >= MAJOR_THAT_TRIES;
        Self {
            least: spec.workers_min.filter(|_| grows).unwrap_or(spec.workers),
            most: spec.workers,
            interval_ns: spec.launch_interval_ms * 1_000_000,
        }
    }

    /// The worker to start, where more requests wait than there are workers.
    pub(super) fn grow(self, queue: &mut Queue, now_ns: u64) -> Option<usize> {
        let is_soon = now_ns < queue.launched_ns.saturating_add(self.interval_ns);
        if queue.requests.len() <= queue.launched || queue.launched >= self.most || is_soon {
            return None;
        }
        queue.launched_ns = now_ns;
        queue.launched += 1;
        Some(queue.launched - 1)
    }
}

/// How often a worker of 19 was woken, and how many requests it did (`IoWorkerMain`).
#[derive(Default)]
pub(super) struct History {
    wakeups: u32,
    requests: u32,
}

impl History {
    pub(super) fn woken(&mut self) {
        self.wakeups += 1;
        self.fade(self.wakeups);
    }

    pub(super) fn did_one(&mut self) {
        self.requests += 1;
        self.fade(self.requests);
    }

    fn fade(&mut self, count: u32) {
        if count == HISTORY_MAX {
            self.wakeups /= 2;
            self.requests /= 2;
        }
    }

    /// Whether it has work for each time that it is woken, so that another might have as well.
    pub(super) fn may_wake_others(&self) -> bool {
        self.wakeups <= self.requests
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::page::layout::PAGE_BYTES;
    use crate::reading::PageRun;
    use crate::sys::memory::{self, Pages};

    fn queue(launched: usize, idle: u64) -> Queue {
        Queue {
            requests: VecDeque::new(),
            idle,
            is_retired: false,
            launched,
            launched_ns: 0,
        }
    }

    pub(in crate::engines::worker) fn spec(more: &str) -> CellSpec {
        serde_json::from_str(&format!(
            r#"{{"file": "f", "engine": "worker", "pattern": "sequential", "duration_s": 1 {more}}}"#
        ))
        .expect("a valid cell")
    }

    pub(in crate::engines::worker) fn read(number: u64) -> Read {
        let mut buffers = memory::buffers(1, PAGE_BYTES, Pages::Small).expect("memory");
        Read {
            number,
            run: PageRun { block: 0, pages: 1 },
            buffer: buffers.pop().expect("one"),
            started_ns: 0,
        }
    }

    #[test]
    fn the_lowest_idle_worker_is_woken_and_in_19_one_above_the_waker() {
        let mut queue = queue(4, 0b1011);
        assert_eq!(queue.choose_idle(0), Some(0));
        assert_eq!(queue.choose_idle(2), Some(3));
        assert_eq!(queue.choose_idle(2), None);
        assert_eq!(queue.choose_idle(64), None);
        assert_eq!((queue.choose_idle(0), queue.idle), (Some(1), 0));
    }

    #[test]
    fn the_pool_of_19_grows_while_more_requests_wait_than_there_are_workers() {
        let pool = Pool::of(&spec(r#", "major": 19, "workers": 4, "workers_min": 2"#));
        assert_eq!((pool.least, pool.most), (2, 4));
        let mut queue = queue(pool.least, 0);
        let second = 1_000_000_000;
        queue.requests.extend([(0, read(0)), (0, read(1))]);
        assert_eq!(pool.grow(&mut queue, second), None, "as many as workers");
        queue.requests.extend((2..8).map(|number| (0, read(number))));
        assert_eq!(pool.grow(&mut queue, second), Some(2));
        assert_eq!(pool.grow(&mut queue, second + 99_000_000), None, "too soon");
        assert_eq!(pool.grow(&mut queue, second + 100_000_000), Some(3));
        assert_eq!(pool.grow(&mut queue, 9 * second), None, "io_max_workers");
        let of_18 = Pool::of(&spec(r#", "workers": 4, "workers_min": 2"#));
        assert_eq!((of_18.least, of_18.most), (4, 4));
    }

    #[test]
    fn who_is_woken_in_vain_wakes_nobody() {
        let mut history = History::default();
        assert!(history.may_wake_others());
        history.woken();
        assert!(!history.may_wake_others());
        history.did_one();
        assert!(history.may_wake_others());
        for _ in 0..10 {
            history.woken();
        }
        assert!(!history.may_wake_others());
        for _ in 0..HISTORY_MAX {
            history.did_one();
        }
        assert!(history.may_wake_others(), "its memory is short");
    }
}
