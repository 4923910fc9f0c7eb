//! What the coordinator of a load does at each second, and at both ends of the measured interval.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::record::Progress;
use crate::spec::Schedule;
use crate::worker::Shared;
use crate::worker::live::Shown;

const SECOND_NS: u64 = 1_000_000_000;
/// Threads are asked what they saw so long before a second ends, so that they have said it by then.
const ASKS_BEFORE_NS: u64 = 20_000_000;

/// When the coordinator has something to do: at each second since the start, and at both ends of the interval.
pub(super) struct Ticker {
    schedule: Schedule,
    second: u64,
    before: (u64, u64),
    edges_ns: Vec<u64>,
    /// Whether the threads have been asked for what they saw in this second.
    has_asked: bool,
    /// Whether the threads are to be woken.
    pub wakes: bool,
}

impl Ticker {
    pub fn new(schedule: Schedule) -> Self {
        let edges_ns = vec![schedule.measured_to_ns, schedule.measured_from_ns];
        Self {
            schedule,
            second: 1,
            before: (0, 0),
            edges_ns,
            has_asked: false,
            wakes: false,
        }
    }

    fn second_end_ns(&self) -> u64 {
        self.schedule.start_ns + self.second * SECOND_NS
    }

    pub fn wait(&self) -> Duration {
        let asks_ns = match self.has_asked {
            true => u64::MAX,
            false => self.second_end_ns() - ASKS_BEFORE_NS,
        };
        let next_ns = self
            .edges_ns
            .last()
            .map_or(u64::MAX, |&edge| edge)
            .min(self.second_end_ns())
            .min(asks_ns);
        Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()))
    }

    pub fn tick<'a>(
        &mut self,
        now_ns: u64,
        threads: impl Iterator<Item = &'a Shared> + Clone,
        report: impl FnOnce(Progress),
    ) {
        self.wakes = false;
        while self.edges_ns.last().is_some_and(|&edge| now_ns >= edge) {
            self.edges_ns.pop();
            self.wakes = true;
        }
        if now_ns < self.second_end_ns() {
            if !self.has_asked && now_ns + ASKS_BEFORE_NS >= self.second_end_ns() {
                threads.for_each(|thread| thread.live.ask());
                (self.has_asked, self.wakes) = (true, true);
            }
            return;
        }
        let (ended, failed) = counts(threads.clone());
        if self.second_end_ns() <= self.schedule.measured_to_ns {
            let mut shown = Shown::default();
            threads.for_each(|thread| thread.live.take(&mut shown));
            report(Progress {
                second: self.second,
                warmup: self.second_end_ns() <= self.schedule.measured_from_ns,
                transactions: ended - self.before.0,
                errors: failed - self.before.1,
                p50_ms: quantile_ms(&shown, 0.5),
                p99_ms: quantile_ms(&shown, 0.99),
                queue: shown.queue,
            });
        }
        self.before = (ended, failed);
        self.second = (now_ns - self.schedule.start_ns) / SECOND_NS + 1;
        self.has_asked = false;
    }
}

/// A percentile in milliseconds; None where nothing ended.
#[allow(clippy::cast_precision_loss)]
fn quantile_ms(shown: &Shown, fraction: f64) -> Option<f64> {
    let latencies = &shown.latencies;
    (!latencies.is_empty()).then(|| latencies.value_at_quantile(fraction) as f64 / 1e3)
}

/// Transactions that ended so far, and those of them that the server gave up.
fn counts<'a>(threads: impl Iterator<Item = &'a Shared>) -> (u64, u64) {
    threads.fold((0, 0), |(ended, failed), each| {
        (
            ended + each.ended.load(Ordering::Relaxed),
            failed + each.failed.load(Ordering::Relaxed),
        )
    })
}
