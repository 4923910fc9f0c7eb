//! A consumer that gets its pages in order: a scan with its read stream
//! (`src/backend/storage/aio/read_stream.c`). Blocks are merged into reads, and the look-ahead goes on with each block
//! that is given to the executor, before it works on it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::cell::consumer::Consumer;
use crate::cell::look_ahead::{LookAhead, Standing};
use crate::cell::pattern::Block;
use crate::engine::{Lane, Wanted};
use crate::failure::Failure;
use crate::page::layout::{PAGE_BYTES, SEGMENT_PAGES};
use crate::reading::{PageRun, Read};
use crate::spec::CellSpec;
use crate::time::stopwatch::{Stopwatch, Task};

/// What the executor gets next.
enum Entry {
    /// The request with this number.
    Read(u64),
    /// A block that was found in shared buffers.
    Found,
}

/// A scan's stream of blocks.
struct Stream {
    ahead: LookAhead,
    at: Standing,
    /// The first block of the pending read.
    pending_from: u64,
    /// A bit for each block of the pending read: whether it is found, the first the lowest.
    pending_found: u128,
    /// A block that found no room (`read_stream_unget_block`).
    returned: Option<Block>,
    queue: VecDeque<Entry>,
    next_number: u64,
    /// Requests that were started and not submitted.
    staged: usize,
}

impl Stream {
    fn new(spec: &CellSpec) -> Self {
        Self {
            ahead: LookAhead::new(spec),
            at: Standing::default(),
            pending_from: 0,
            pending_found: 0,
            returned: None,
            queue: VecDeque::new(),
            next_number: 0,
            staged: 0,
        }
    }

    fn wants_more(&self) -> bool {
        self.ahead.wants_more(self.at)
    }

    fn is_due(&self) -> bool {
        self.ahead.is_due(self.at)
    }

    /// A read never reaches into the next segment (`smgrmaxcombine`).
    fn continues_with(&self, block: Block) -> bool {
        self.at.pending > 0
            && self.pending_from + self.at.pending == block.number
            && block.number % SEGMENT_PAGES != 0
    }

    fn append(&mut self, block: Block) {
        if self.at.pending == 0 {
            self.pending_from = block.number;
        }
        self.pending_found |= u128::from(block.is_found) << self.at.pending;
        self.at.pending += 1;
    }

    /// Takes what one read of the pending blocks covers (`StartReadBuffers`): those before the first that is found,
    /// or that one alone. Tells whether it was found.
    fn take_first(&mut self) -> (PageRun, bool) {
        let is_found = self.pending_found & 1 == 1;
        let missing = u64::from(self.pending_found.trailing_zeros());
        let pages = if is_found { 1 } else { missing.min(self.at.pending) };
        let run = PageRun {
            block: self.pending_from,
            pages,
        };
        self.pending_found = self.pending_found.checked_shr(pages as u32).unwrap_or(0);
        self.pending_from += pages;
        self.at.pending -= pages;
        self.at.pinned += pages;
        (run, is_found)
    }
}

impl Consumer<'_> {
    /// Reads until the deadline, or until the bytes are used up; what is on its way by then isn't counted.
    ///
    /// # Errors
    /// The first read that failed.
    pub(super) fn run_in_order(&mut self, lane: &mut dyn Lane, watch: &mut Stopwatch) -> Result<(), Failure> {
        let mut stream = Stream::new(self.spec);
        self.look_ahead_in_order(&mut stream, lane, watch)?;
        let mut before_ns = 0;
        while let Some(entry) = stream.queue.pop_front() {
            // An engine that costs nothing reads no clock, and the deadline would never come.
            if watch.last_ns() == before_ns {
                watch.lap(Task::Harness);
            }
            before_ns = watch.last_ns();
            if before_ns >= self.deadline_ns || self.stop.load(Ordering::Relaxed) {
                break;
            }
            match entry {
                Entry::Read(number) => self.give_read(number, &mut stream, lane, watch)?,
                Entry::Found => {
                    self.meter.found(watch.last_ns(), PAGE_BYTES as u64);
                    self.give_page(&mut stream, lane, watch)?;
                }
            }
        }
        self.execute(watch);
        Ok(())
    }

    /// Waits for a read and gives its pages to the executor, one after the other.
    fn give_read(
        &mut self,
        number: u64,
        stream: &mut Stream,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        self.execute(watch);
        let blocked = stream.ahead.minds_waits() && !lane.is_here(number);
        let completed = lane.wait(Wanted::Number(number), watch)?;
        stream.at.reads -= 1;
        stream.ahead.waited(blocked);
        for _ in 0..completed.read.run.pages {
            self.give_page(stream, lane, watch)?;
        }
        self.consume(completed, watch);
        Ok(())
    }

    /// The stream looks ahead before it gives the page away (`read_stream_next_buffer`).
    #[inline]
    fn give_page(
        &mut self,
        stream: &mut Stream,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        stream.at.pinned -= 1;
        self.look_ahead_in_order(stream, lane, watch)?;
        self.owed_pages += 1;
        Ok(())
    }

    #[inline]
    fn look_ahead_in_order(
        &mut self,
        stream: &mut Stream,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        while stream.wants_more() {
            if stream.is_due() {
                self.start_pending(stream, lane, watch)?;
                continue;
            }
            let Some(block) = stream.returned.take().or_else(|| self.next_block()) else {
                stream.ahead.end();
                break;
            };
            if !stream.continues_with(block) {
                while stream.at.pending > 0 {
                    self.start_pending(stream, lane, watch)?;
                    if stream.at.reads == stream.ahead.reads_max() {
                        stream.returned = Some(block);
                        return self.submit_staged(stream, lane, watch);
                    }
                }
            }
            stream.append(block);
        }
        if stream.is_due() {
            self.start_pending(stream, lane, watch)?;
        }
        self.submit_staged(stream, lane, watch)
    }

    /// Starts what one read covers of the pending blocks.
    fn start_pending(
        &mut self,
        stream: &mut Stream,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        let (run, is_found) = stream.take_first();
        if is_found {
            stream.queue.push_back(Entry::Found);
            stream.ahead.found(stream.at.reads);
            return Ok(());
        }
        // The executor did its work before the look-ahead came here.
        self.execute(watch);
        let buffer = self
            .buffers
            .pop_front()
            .expect("a buffer for each read on its way, and the one that is worked on");
        let number = stream.next_number;
        stream.next_number += 1;
        stream.at.reads += 1;
        stream.queue.push_back(Entry::Read(number));
        let started_ns = watch.last_ns();
        lane.start(
            Read {
                number,
                run,
                buffer,
                started_ns,
            },
            watch,
        )?;
        stream.staged += 1;
        if stream.staged == self.spec.submit_batch {
            self.submit_staged(stream, lane, watch)?;
        }
        Ok(())
    }

    #[inline]
    fn submit_staged(
        &mut self,
        stream: &mut Stream,
        lane: &mut dyn Lane,
        watch: &mut Stopwatch,
    ) -> Result<(), Failure> {
        if stream.staged > 0 {
            stream.staged = 0;
            lane.submit(watch)?;
        }
        Ok(())
    }

    /// The next block that the scan wants; none when its bytes are used up.
    #[inline]
    fn next_block(&mut self) -> Option<Block> {
        if self.bytes_left == 0 {
            return None;
        }
        self.bytes_left = self.bytes_left.saturating_sub(PAGE_BYTES as u64);
        Some(self.requests.next_block())
    }
}

#[cfg(test)]
mod tests;
