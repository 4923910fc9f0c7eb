//! A consumer: a backend. One that gets its pages in order has a read stream (`stream.rs`); here are the others, whose
//! pages depend on each other or come as they please, and what all do with a page.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cell::burn::Burn;
use crate::cell::meter::Meter;
use crate::cell::pattern::Requests;
use crate::engine::{Lane, Wanted};
use crate::failure::Failure;
use crate::page::layout::PAGE_BYTES;
use crate::reading::{Completed, Read};
use crate::spec::{CellSpec, Pattern};
use crate::sys::memory::Buffer;
use crate::time::stopwatch::{Stopwatch, Task};

const BROKEN_BLOCKS_MAX: usize = 10;

/// What a consumer needs beside its lane.
pub struct Consumer<'a> {
    /// What is measured.
    pub spec: &'a CellSpec,
    /// Where its look-ahead gets requests from.
    pub requests: Requests,
    /// Its buffers: used in turn where pages are read in order, as a ring of shared buffers is; else the one that was
    /// given back last, which a processor's caches still hold.
    pub buffers: VecDeque<Buffer>,
    /// Raised when another consumer failed.
    pub stop: &'a AtomicBool,
    /// When it must end, CLOCK_MONOTONIC.
    pub deadline_ns: u64,
    /// How many bytes it may ask for.
    pub bytes_left: u64,
    /// The executor's work.
    pub burn: Burn,
    /// Pages that the executor was given and has not worked on.
    pub owed_pages: u64,
    /// Bytes, requests and latencies of what it has consumed.
    pub meter: Meter,
}

/// The buffers that a consumer uses: the requests on their way and, in order, the one it is working on.
pub fn buffers_needed(spec: &CellSpec) -> usize {
    spec.effective_depth() + usize::from(spec.in_order)
}

/// Where requests in any order stand.
struct Requested {
    /// The most requests on their way.
    depth: usize,
    /// Requests on their way.
    in_flight: usize,
    next_number: u64,
    /// Depends on the pages consumed last.
    known: u64,
}

impl Consumer<'_> {
    /// Reads until the deadline, or until the bytes are used up; what is on its way by then isn't counted.
    ///
    /// # Errors
    /// The first read that failed.
    pub fn run(&mut self, lane: &mut dyn Lane, watch: &mut Stopwatch) -> Result<(), Failure> {
        if self.spec.in_order && self.spec.pattern != Pattern::Dependent {
            return self.run_in_order(lane, watch);
        }
        let depth = self.spec.effective_depth();
        let mut stream = Requested {
            depth,
            in_flight: 0,
            next_number: 0,
            known: 0,
        };
        let mut arrived = Vec::with_capacity(depth);
        self.look_ahead(&mut stream, lane, watch)?;
        let mut before_ns = 0;
        while stream.in_flight > 0 {
            // An engine that costs nothing reads no clock, and the deadline would never come.
            if watch.last_ns() == before_ns {
                watch.lap(Task::Harness);
            }
            before_ns = watch.last_ns();
            if before_ns >= self.deadline_ns || self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.receive(&mut stream, lane, watch, &mut arrived)?;
            // Nothing can be asked for before the page is known; and a benchmark of devices, which is what pages in
            // any order are for, is done with a page before it asks for the next.
            self.consume_all(&mut arrived, &mut stream, watch);
            self.look_ahead(&mut stream, lane, watch)?;
        }
        Ok(())
    }

    #[inline]
    fn receive(
        &mut self,
        stream: &mut Requested,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
        arrived: &mut Vec<Completed>,
    ) -> Result<(), Failure> {
        arrived.push(lane.wait(Wanted::Any, watch)?);
        // As many as are asked for together: the device must not wait for more.
        while arrived.len() < self.spec.submit_batch {
            let Some(completed) = lane.ready(watch) else { break };
            arrived.push(completed);
        }
        stream.in_flight -= arrived.len();
        Ok(())
    }

    #[inline]
    fn look_ahead(
        &mut self,
        stream: &mut Requested,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        let mut staged = 0;
        while stream.in_flight < stream.depth && self.bytes_left > 0 {
            let Some(buffer) = self.buffers.pop_front() else {
                break;
            };
            let run = self.requests.next(stream.known);
            let read = Read {
                number: stream.next_number,
                run,
                buffer,
                started_ns: watch.last_ns(),
            };
            self.bytes_left = self.bytes_left.saturating_sub(read.bytes() as u64);
            stream.next_number += 1;
            stream.in_flight += 1;
            lane.start(read, watch)?;
            staged += 1;
            if staged % self.spec.submit_batch == 0 {
                lane.submit(watch)?;
            }
        }
        if staged % self.spec.submit_batch != 0 {
            lane.submit(watch)?;
        }
        Ok(())
    }

    #[inline]
    fn consume_all(&mut self, arrived: &mut Vec<Completed>, stream: &mut Requested, watch: &mut Stopwatch) {
        for completed in arrived.drain(..) {
            self.owed_pages += completed.read.run.pages;
            stream.known = self.consume(completed, watch);
        }
    }

    /// Does the executor's work on the pages that it was given.
    #[inline]
    pub(super) fn execute(&mut self, watch: &mut Stopwatch) {
        let execute_ns = self.spec.execute_ns_per_page * self.owed_pages;
        self.owed_pages = 0;
        if execute_ns > 0 {
            watch.lap(Task::Harness);
            self.burn.spend(execute_ns);
            watch.lap_expecting(Task::Execute, execute_ns);
        }
    }

    /// Ends the work on a request; tells a number that depends on what was read.
    #[inline]
    pub(super) fn consume(&mut self, completed: Completed, watch: &mut Stopwatch) -> u64 {
        let read = completed.read;
        let bytes = read.bytes();
        let mut known = 0_u64;
        // The least that any executor looks at: each page's header, and a line pointer. A benchmark of devices looks
        // at nothing; the first page alone costs it next to nothing.
        let looked_at = if self.spec.in_order { bytes } else { PAGE_BYTES };
        for page in read.buffer[..looked_at].chunks_exact(PAGE_BYTES) {
            let header = u64::from_ne_bytes([
                page[8], page[9], page[12], page[13], page[24], page[25], page[26], page[27],
            ]);
            known = known.rotate_left(7) ^ header;
            // Whatever pages were read together.
            self.meter.page_sum = self.meter.page_sum.wrapping_add(header);
        }
        if !completed.broken.is_empty() {
            self.meter.verify_failures += completed.broken.len() as u64;
            let room = BROKEN_BLOCKS_MAX.saturating_sub(self.meter.broken_blocks.len());
            self.meter
                .broken_blocks
                .extend(completed.broken.iter().take(room));
        }
        self.execute(watch);
        // A clock is read only where something else than the harness's own work was done.
        self.meter
            .consumed(watch.last_ns(), bytes as u64, completed.latency_ns);
        if self.spec.in_order {
            self.buffers.push_back(read.buffer);
        } else {
            self.buffers.push_front(read.buffer);
        }
        known
    }
}
