//! Measures one cell: starts the threads together, lets them read, collects what they counted.

pub mod burn;
pub mod consumer;
pub mod look_ahead;
pub mod meter;
pub mod pattern;
pub mod record;
pub mod stream;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use crate::cell::burn::Burn;
use crate::cell::consumer::{Consumer, buffers_needed};
use crate::cell::meter::Meter;
use crate::cell::pattern::Requests;
use crate::cell::record::{CpuTime, Record, Times};
use crate::device_reads::DeviceReads;
use crate::engine::Engine;
use crate::engines;
use crate::failure::{Code, Failure};
use crate::files::open_target;
use crate::page::layout::PAGE_BYTES;
use crate::reading::Target;
use crate::spec::CellSpec;
use crate::sys::files::resident_bytes;
use crate::sys::memory::{self, Buffer, Pages};
use crate::threads::gate::Gate;
use crate::time::clock::{process_cpu_ns, thread_cpu_ns};
use crate::time::stopwatch::{Stopwatch, TimeSplit};

const COMPETITION_SLICE_NS: u64 = 200_000;

/// What one consumer's thread brings back.
struct Consumed {
    meter: Meter,
    split: TimeSplit,
    start_ns: u64,
    end_ns: u64,
    /// CPU time of the thread to its very end, with what came after the measurement.
    thread_cpu_ns: u64,
}

/// What all threads of a cell share.
struct Shared<'a> {
    spec: &'a CellSpec,
    engine: &'a dyn Engine,
    gate: Gate,
    stop: AtomicBool,
    is_over: AtomicBool,
    blocks: u64,
    /// How many blocks a parallel scan has handed out.
    allocated: Arc<AtomicU64>,
    burn: Burn,
}

/// Measures a cell.
///
/// # Errors
/// `usage` for a cell that makes no sense, and what the system answers: see [`Code`].
pub fn run(spec: &CellSpec) -> Result<Record, Failure> {
    spec.check()?;
    let target = open_target(spec)?;
    let blocks = blocks_of(spec, &target)?;
    let file = target.file.clone();
    let engine = engines::make(spec, target)?;
    let pages = if spec.direct { Pages::Huge } else { Pages::Small };
    let count = spec.consumers * buffers_needed(spec);
    let buffers = memory::buffers(count, spec.request_bytes, pages)
        .map_err(|error| Failure::of(&error, "mapping the buffers"))?;
    let resident_bytes_before =
        resident_bytes(&file).map_err(|error| Failure::of(&error, "asking what is in the page cache"))?;
    let shared = Shared {
        spec,
        engine: &*engine,
        gate: Gate::default(),
        stop: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        blocks,
        allocated: Arc::default(),
        burn: Burn::calibrated(),
    };
    let counter = DeviceReads::of_this_process();
    let delivered_before = counter.read_bytes();
    let mut measured = scope(|scope| measure(scope, &shared, buffers))?;
    let delivered = counter.read_bytes().saturating_sub(delivered_before);
    let report = engine.report();
    if !spec.direct && engine.waits_for_kernel_workers() && report.asynchronous_requests > 0 {
        attribute_waits(&mut measured, delivered);
    }
    let elapsed_s = measured.elapsed_ns.max(1) as f64 / 1e9;
    let meter = &measured.meter;
    Ok(Record {
        bytes: meter.bytes,
        operations: meter.operations,
        elapsed_s,
        mb_s: meter.bytes as f64 / 1e6 / elapsed_s,
        iops: meter.operations as f64 / elapsed_s,
        latency_us: meter.latency_us(),
        cpu_s: measured.cpu,
        cpu_s_per_gb: measured.cpu.total() / (meter.bytes.max(1) as f64 / 1e9),
        time_s: measured.times,
        windows: meter.windows(measured.end_ns),
        verify_failures: meter.verify_failures,
        broken_blocks: meter.broken_blocks.iter().copied().take(10).collect(),
        resident_bytes_before,
        device_read_bytes: delivered,
        engine: report,
        page_sum: meter.page_sum,
    })
}

fn blocks_of(spec: &CellSpec, target: &Target) -> Result<u64, Failure> {
    let metadata = target.file.metadata();
    let metadata = metadata.map_err(|error| Failure::of(&error, &format!("looking at {}", spec.file)))?;
    let there = metadata.len() / PAGE_BYTES as u64;
    let wanted = spec
        .blocks
        .unwrap_or_else(|| there.saturating_sub(spec.first_block));
    if wanted == 0 || spec.first_block + wanted > there {
        let message = format!(
            "{}: the file has {there} pages, so {wanted} pages from page {} on can't be read",
            spec.file, spec.first_block
        );
        return Err(Failure::new(Code::Usage, message));
    }
    Ok(wanted)
}

struct Measured {
    end_ns: u64,
    elapsed_ns: u64,
    meter: Meter,
    cpu: CpuTime,
    times: Times,
}

fn measure<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    buffers: Vec<Buffer>,
) -> Result<Measured, Failure> {
    let mut threads = Threads::default();
    if let Err(failure) = threads.start(scope, shared, buffers) {
        shared.gate.call_off();
        shared.engine.retire();
        return Err(failure);
    }
    let start_ns = shared.gate.open_for(threads.count());
    let (cpu_from_ns, own_cpu_from_ns) = (process_cpu_ns(), thread_cpu_ns());
    let outcomes: Vec<_> = threads.consumers.into_iter().map(joined).collect();
    let mut others_ns = thread_cpu_ns() - own_cpu_from_ns;
    shared.engine.retire();
    shared.is_over.store(true, Ordering::Relaxed);
    let mut workers = TimeSplit::default();
    for split in threads.workers.into_iter().filter_map(joined) {
        workers.add(&split);
    }
    others_ns += threads.competitors.into_iter().map(joined).sum::<u64>();
    let process_ns = process_cpu_ns() - cpu_from_ns;
    let outcomes: Vec<Consumed> = outcomes.into_iter().collect::<Result<_, _>>()?;

    let mut meter = Meter::new(start_ns, duration_ns(shared.spec));
    let mut consumers = TimeSplit::default();
    for outcome in &outcomes {
        meter.merge(&outcome.meter);
        consumers.add(&outcome.split);
        others_ns += outcome.thread_cpu_ns;
    }
    // The first may need a moment to wake up; the harness's start isn't the measurement's.
    let began_ns = outcomes.iter().map(|outcome| outcome.start_ns).min();
    let end_ns = outcomes.iter().map(|outcome| outcome.end_ns).max();
    let (began_ns, end_ns) = (began_ns.unwrap_or(start_ns), end_ns.unwrap_or(start_ns));
    let mut cpu = CpuTime {
        consumers: consumers.cpu_s,
        ..CpuTime::default()
    };
    if shared.engine.threads_help_consumers() {
        cpu.helpers = workers.cpu_s;
    } else {
        cpu.workers = workers.cpu_s;
    }
    if shared.engine.waits_for_kernel_workers() {
        // The kernel's workers are threads of this process that only its total tells of.
        let known_s = others_ns as f64 / 1e9 + workers.cpu_s;
        cpu.kernel_workers = (process_ns as f64 / 1e9 - known_s).max(0.0);
    }
    Ok(Measured {
        end_ns,
        elapsed_ns: end_ns.saturating_sub(began_ns),
        meter,
        cpu,
        times: Times { consumers, workers },
    })
}

#[derive(Default)]
struct Threads<'scope> {
    consumers: Vec<ScopedJoinHandle<'scope, Result<Consumed, Failure>>>,
    workers: Vec<ScopedJoinHandle<'scope, Option<TimeSplit>>>,
    competitors: Vec<ScopedJoinHandle<'scope, u64>>,
}

impl<'scope> Threads<'scope> {
    fn count(&self) -> usize {
        self.consumers.len() + self.workers.len() + self.competitors.len()
    }

    fn start(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        shared: &'scope Shared<'_>,
        mut buffers: Vec<Buffer>,
    ) -> Result<(), Failure> {
        for index in 0..shared.engine.threads() {
            self.workers
                .push(spawn(scope, "worker", move || serve(shared, index))?);
        }
        for _ in 0..shared.spec.competing_cpus {
            self.competitors
                .push(spawn(scope, "competitor", move || compete(shared))?);
        }
        for index in 0..shared.spec.consumers {
            let own = buffers.split_off(buffers.len() - buffers_needed(shared.spec));
            let body = move || consume(shared, index, own.into());
            self.consumers.push(spawn(scope, "consumer", body)?);
        }
        Ok(())
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    let spawned = Builder::new().name(name.to_owned()).spawn_scoped(scope, body);
    spawned.map_err(|error| Failure::of(&error, &format!("starting a thread of the {name}s")))
}

/// A panic ends the process, so there is always something to bring back.
fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn duration_ns(spec: &CellSpec) -> u64 {
    (spec.duration_s * 1e9) as u64
}

fn consume(shared: &Shared<'_>, index: usize, buffers: VecDeque<Buffer>) -> Result<Consumed, Failure> {
    let spec = shared.spec;
    let lane = shared.engine.lane(index);
    let Some(start_ns) = shared.gate.pass() else {
        return Err(Failure::new(Code::Resources, "the measurement was called off"));
    };
    let thread_from_ns = thread_cpu_ns();
    let mut lane = lane.inspect_err(|_| shared.stop.store(true, Ordering::Relaxed))?;
    let mut consumer = Consumer {
        spec,
        requests: Requests::new(spec, shared.blocks, index, Arc::clone(&shared.allocated)),
        buffers,
        stop: &shared.stop,
        deadline_ns: start_ns + duration_ns(spec),
        bytes_left: bytes_of_one(spec),
        burn: shared.burn,
        owed_pages: 0,
        meter: Meter::new(start_ns, duration_ns(spec)),
    };
    let mut watch = Stopwatch::start();
    let outcome = consumer.run(&mut *lane, &mut watch);
    let split = watch.stop();
    if outcome.is_err() {
        shared.stop.store(true, Ordering::Relaxed);
    }
    lane.finish();
    drop(lane);
    outcome.map(|()| Consumed {
        meter: consumer.meter,
        split,
        start_ns: watch.start_ns(),
        end_ns: watch.last_ns(),
        thread_cpu_ns: thread_cpu_ns() - thread_from_ns,
    })
}

fn bytes_of_one(spec: &CellSpec) -> u64 {
    let page = PAGE_BYTES as u64;
    match spec.bytes_max {
        Some(bytes) => (bytes / spec.consumers as u64 / page).max(1) * page,
        None => u64::MAX,
    }
}

fn serve(shared: &Shared<'_>, index: usize) -> Option<TimeSplit> {
    shared.gate.pass()?;
    let mut watch = Stopwatch::start();
    shared.engine.serve(index, &mut watch);
    Some(watch.stop())
}

fn compete(shared: &Shared<'_>) -> u64 {
    if shared.gate.pass().is_none() {
        return 0;
    }
    let from_ns = thread_cpu_ns();
    while !shared.is_over.load(Ordering::Relaxed) {
        shared.burn.spend(COMPETITION_SLICE_NS);
    }
    thread_cpu_ns() - from_ns
}

/// A consumer of a ring that is blocked waits for the device, or for a worker thread of the kernel that copies from
/// the page cache: the counters tell which.
fn attribute_waits(measured: &mut Measured, delivered: u64) {
    let blocked = measured.times.consumers.device_wait;
    let is_cached = delivered < measured.meter.bytes / 100;
    let for_workers = if is_cached {
        blocked
    } else {
        blocked.min(measured.cpu.kernel_workers)
    };
    measured.times.consumers.device_wait -= for_workers;
    measured.times.consumers.worker_wait += for_workers;
}
