//! Where a thread's time goes.
//!
//! Each stretch of a thread's time is given to a [`Task`] by the clock. What the clock alone can't tell comes from
//! two counters of the kernel, read at the beginning and the end: the thread's CPU time, and how long it was able to
//! run and had no core. Blocked time is then elapsed − CPU − run delay, exactly, whatever system call it hides in.

use serde::Serialize;

use crate::time::clock::{RunDelay, monotonic_ns, thread_cpu_ns};

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Choosing requests, counting, keeping its own lists.
    Harness,
    /// In the system call that reads or submits, or that waits for a completion.
    Read,
    /// Waiting for another thread of the server to finish a read.
    WaitForThread,
    /// A worker without work.
    Idle,
    /// Verifying pages.
    Checksum,
    /// Locks, queues and waking others.
    HandOver,
    /// The executor's work on the page.
    Execute,
}

const TASKS: usize = 7;
/// The tasks in which a thread may be blocked.
const WAITS: [usize; 3] = [
    Task::Read as usize,
    Task::WaitForThread as usize,
    Task::Idle as usize,
];
/// A wait for a core that is worth counting makes a lap at least so long.
const WAIT_NS: u64 = 50_000;
/// No stretch of the thread's own computing takes so long, unless it was taken off its core.
const PREEMPTED_NS: u64 = 300_000;

/// Gives a thread's time to tasks.
pub struct Stopwatch {
    laps_ns: [u64; TASKS],
    /// Time beyond `PREEMPTED_NS` in tasks that only compute: the thread was waiting for a core.
    preempted_ns: [u64; TASKS],
    /// Laps long enough to hold a wait for a core.
    waits: [u64; TASKS],
    last_ns: u64,
    start_ns: u64,
    start_cpu_ns: u64,
    start_delay_ns: u64,
    run_delay: RunDelay,
}

impl Stopwatch {
    /// Starts now, for the calling thread, which must be the one that stops it.
    pub fn start() -> Self {
        let run_delay = RunDelay::of_this_thread();
        let start_delay_ns = run_delay.read_ns();
        let start_cpu_ns = thread_cpu_ns();
        let now = monotonic_ns();
        Self {
            laps_ns: [0; TASKS],
            preempted_ns: [0; TASKS],
            waits: [0; TASKS],
            last_ns: now,
            start_ns: now,
            start_cpu_ns,
            start_delay_ns,
            run_delay,
        }
    }

    /// Gives the time since the last lap to `task`, and tells the time.
    #[inline]
    pub fn lap(&mut self, task: Task) -> u64 {
        self.lap_expecting(task, 0)
    }

    /// The same, for a stretch that is known to compute for `expected_ns`.
    #[inline]
    pub fn lap_expecting(&mut self, task: Task, expected_ns: u64) -> u64 {
        let now = monotonic_ns();
        let took = now.saturating_sub(self.last_ns);
        let index = task as usize;
        self.laps_ns[index] += took;
        self.waits[index] += u64::from(took > WAIT_NS);
        if took > PREEMPTED_NS + expected_ns {
            self.preempted_ns[index] += took - expected_ns;
        }
        self.last_ns = now;
        now
    }

    /// When the last lap ended.
    #[inline]
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// When it was started.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The thread's clocks now.
    pub fn usage(&self) -> Usage {
        let delay_ns = self.run_delay.read_ns();
        Usage {
            at_ns: monotonic_ns(),
            busy_ns: thread_cpu_ns() + delay_ns,
            delay_ns,
        }
    }

    /// Ends the measurement.
    pub fn stop(&mut self) -> TimeSplit {
        let end_ns = self.lap(Task::Harness);
        let cpu_ns = thread_cpu_ns() - self.start_cpu_ns;
        let delay_ns = self.run_delay.read_ns().saturating_sub(self.start_delay_ns);
        self.split(end_ns - self.start_ns, cpu_ns, delay_ns)
    }

    fn split(&self, elapsed_ns: u64, cpu_ns: u64, delay_ns: u64) -> TimeSplit {
        let seconds = |nanoseconds: f64| nanoseconds.max(0.0) / 1e9;
        let (elapsed, cpu, delay) = (elapsed_ns as f64, cpu_ns as f64, delay_ns as f64);
        let lap = |task: Task| self.laps_ns[task as usize] as f64;
        let taken = self.place_delay(delay);
        let own = |task: Task| lap(task) - taken[task as usize];

        let blocked = (elapsed - cpu - delay).max(0.0);
        let for_work = own(Task::Idle).min(blocked);
        let for_thread = own(Task::WaitForThread).min(blocked - for_work);
        let in_read = own(Task::Read).min(blocked - for_work - for_thread);
        // What the other waits took of the CPU is the price of sleeping and waking.
        let to_sleep = own(Task::WaitForThread) + own(Task::Idle) - for_thread - for_work;
        TimeSplit {
            elapsed_s: seconds(elapsed),
            cpu_s: seconds(cpu),
            device_wait: seconds(in_read),
            worker_wait: seconds(for_thread),
            idle: seconds(for_work),
            kernel: seconds(own(Task::Read) - in_read),
            checksum: seconds(own(Task::Checksum)),
            hand_over: seconds(own(Task::HandOver) + to_sleep),
            runnable: seconds(delay),
            execute: seconds(own(Task::Execute)),
            harness: seconds(own(Task::Harness)),
        }
    }

    /// In which tasks the thread waited for a core. The sum is exact, its places are not: long stretches of pure
    /// computing tell of one part, the rest is laid to the waits by their number, then to anything.
    fn place_delay(&self, delay: f64) -> [f64; TASKS] {
        let laps = self.laps_ns.map(|nanoseconds| nanoseconds as f64);
        let is_wait = |task: usize| WAITS.contains(&task);
        let mut taken = [0.0; TASKS];
        let preempted: [f64; TASKS] = std::array::from_fn(|task| match is_wait(task) {
            true => 0.0,
            false => self.preempted_ns[task] as f64,
        });
        let known = preempted.iter().sum::<f64>().min(delay);
        let rest = delay - known + take(known, preempted, laps, &mut taken);
        let waits = std::array::from_fn(|task| {
            if is_wait(task) {
                self.waits[task] as f64
            } else {
                0.0
            }
        });
        let rest = take(rest, waits, laps, &mut taken);
        let left = std::array::from_fn(|task| laps[task] - taken[task]);
        take(rest, left, laps, &mut taken);
        taken
    }
}

/// Takes up to `amount` from what is left of `laps`, in proportion to `weights`; returns what found no room.
fn take(amount: f64, weights: [f64; TASKS], laps: [f64; TASKS], taken: &mut [f64; TASKS]) -> f64 {
    let all: f64 = weights.iter().sum();
    let mut rest = amount;
    if all > 0.0 {
        for task in 0..TASKS {
            let part = (amount * weights[task] / all)
                .min(laps[task] - taken[task])
                .max(0.0);
            taken[task] += part;
            rest -= part;
        }
    }
    rest.max(0.0)
}

/// A thread's clocks at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread's CPU time, and the time that it was able to run and had no core.
    pub busy_ns: u64,
    /// The latter alone.
    pub delay_ns: u64,
}

impl Usage {
    /// The share of the time since `before` in which the thread used a core or waited for one.
    pub fn share_since(&self, before: Self) -> f64 {
        (self.busy_ns - before.busy_ns) as f64 / (self.at_ns - before.at_ns).max(1) as f64
    }

    /// The share of the time since `before` in which the thread waited for a core.
    pub fn delay_since(&self, before: Self) -> f64 {
        (self.delay_ns - before.delay_ns) as f64 / (self.at_ns - before.at_ns).max(1) as f64
    }
}

/// A thread's time by what it went to, in seconds; of several threads, the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeSplit {
    /// From the start of the measurement to its end.
    #[serde(skip)]
    pub elapsed_s: f64,
    /// CPU time.
    #[serde(skip)]
    pub cpu_s: f64,
    /// Blocked in a system call that reads, or that waits for a read to complete.
    pub device_wait: f64,
    /// Blocked until a worker, a helper or a worker thread of the kernel had done its part.
    pub worker_wait: f64,
    /// Without work.
    pub idle: f64,
    /// Computing in the system calls that read: the call itself and the copy.
    pub kernel: f64,
    /// Verifying pages.
    pub checksum: f64,
    /// Locks, queues, waking others, falling asleep for them.
    pub hand_over: f64,
    /// Able to run, without a core.
    pub runnable: f64,
    /// The executor's work.
    pub execute: f64,
    /// The probe's own.
    pub harness: f64,
}

impl TimeSplit {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.elapsed_s += other.elapsed_s;
        self.cpu_s += other.cpu_s;
        self.device_wait += other.device_wait;
        self.worker_wait += other.worker_wait;
        self.idle += other.idle;
        self.kernel += other.kernel;
        self.checksum += other.checksum;
        self.hand_over += other.hand_over;
        self.runnable += other.runnable;
        self.execute += other.execute;
        self.harness += other.harness;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(laps: &[(Task, u64)], preempted: &[(Task, u64)]) -> Stopwatch {
        let mut watch = Stopwatch::start();
        for (task, took) in laps {
            watch.laps_ns[*task as usize] += took;
            watch.waits[*task as usize] += 1;
        }
        for (task, took) in preempted {
            watch.preempted_ns[*task as usize] += took;
        }
        watch
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
    }

    #[test]
    fn a_blocking_call_is_split_by_the_cpu_time() {
        let laps = [
            (Task::Read, 800_000_000),
            (Task::Checksum, 150_000_000),
            (Task::Harness, 50_000_000),
        ];
        let split = watch(&laps, &[]).split(1_000_000_000, 300_000_000, 0);
        near(split.device_wait, 0.7);
        near(split.kernel, 0.1);
        near(split.checksum, 0.15);
        near(split.harness, 0.05);
    }

    #[test]
    fn a_core_that_was_taken_away_is_no_computing() {
        let laps = [
            (Task::Read, 500_000_000),
            (Task::Checksum, 400_000_000),
            (Task::Harness, 100_000_000),
        ];
        let split =
            watch(&laps, &[(Task::Checksum, 250_000_000)]).split(1_000_000_000, 600_000_000, 250_000_000);
        near(split.runnable, 0.25);
        near(split.checksum, 0.15);
        near(split.device_wait, 0.15);
        near(split.kernel, 0.35);
    }

    #[test]
    fn the_parts_add_up_to_the_elapsed_time() {
        let laps = [
            (Task::Read, 300_000_000),
            (Task::Idle, 400_000_000),
            (Task::Checksum, 200_000_000),
            (Task::HandOver, 100_000_000),
        ];
        let split = watch(&laps, &[]).split(1_000_000_000, 450_000_000, 50_000_000);
        let sum = split.device_wait + split.worker_wait + split.idle + split.kernel;
        near(
            sum + split.checksum + split.hand_over + split.runnable + split.execute + split.harness,
            1.0,
        );
    }
}
