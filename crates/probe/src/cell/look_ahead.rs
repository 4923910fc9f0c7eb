//! How far a read stream looks ahead, in blocks (`src/backend/storage/aio/read_stream.c`).
//!
//! 18: one distance, which doubles after each read and loses a block with each that is found in shared buffers.
//! 19: a distance for reading ahead, which doubles only after a read that had to be waited for, and one for combining
//! neighbours; both lose a block only after as many found ones as may be pinned, with nothing on its way.

use crate::page::layout::PAGE_BYTES;
use crate::spec::{CellSpec, Pattern};

/// The first version with two distances.
const MAJOR_THAT_SPLITS: u32 = 19;
/// A stream counts its blocks in this range (`PG_INT16_MAX`).
const BLOCKS_MAX: u64 = 32_767;
/// What the ring of a sequential scan has beside room for the reads in flight (`GetAccessStrategy`,
/// `src/backend/storage/buffer/freelist.c`).
const RING_BLOCKS_MIN: u64 = (256 * 1024 / PAGE_BYTES) as u64;

/// The state of one stream's look-ahead.
pub struct LookAhead {
    is_split: bool,
    /// io_combine_limit, in blocks.
    combine: u64,
    /// The most reads on their way: effective_io_concurrency.
    reads_max: usize,
    pinned_max: u64,
    distance: u64,
    /// Of 19 alone.
    combine_distance: u64,
    /// Of 19 alone: blocks that may still be found before the distances shrink.
    holdoff: u64,
    has_ended: bool,
}

/// Where a stream stands: blocks pinned, blocks of the read that is being put together, reads on their way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Blocks that were started and not yet given to the executor.
    pub pinned: u64,
    /// Blocks of the pending read.
    pub pending: u64,
    /// Reads that were not yet waited for.
    pub reads: usize,
}

impl LookAhead {
    /// The look-ahead of a cell's consumer, at its start: one block.
    pub fn new(spec: &CellSpec) -> Self {
        Self {
            is_split: spec.major >= MAJOR_THAT_SPLITS,
            combine: spec.request_pages(),
            reads_max: spec.effective_depth(),
            pinned_max: pinned_max(spec),
            distance: 1,
            combine_distance: 1,
            holdoff: 0,
            has_ended: false,
        }
    }

    /// The most reads on their way.
    pub fn reads_max(&self) -> usize {
        self.reads_max
    }

    /// Whether it matters if a read had to be waited for.
    pub fn minds_waits(&self) -> bool {
        self.is_split
    }

    /// Whether another block is to be looked at (`read_stream_look_ahead`, `read_stream_should_look_ahead`).
    #[inline]
    pub fn wants_more(&self, at: Standing) -> bool {
        if self.has_ended || at.reads >= self.reads_max {
            return false;
        }
        let is_building = self.is_split && at.pinned == 0 && (1..self.combine_distance).contains(&at.pending);
        is_building || at.pinned + at.pending < self.distance
    }

    /// Whether the pending read is to be started (`read_stream_should_issue_now`; in 18 the end of
    /// `read_stream_look_ahead`).
    #[inline]
    pub fn is_due(&self, at: Standing) -> bool {
        if at.pending == 0 || at.reads >= self.reads_max {
            return false;
        }
        if self.is_split {
            return self.has_ended
                || at.pending >= self.combine_distance
                || (at.pinned == 0 && !self.wants_more(at));
        }
        self.has_ended || at.pending == self.combine || (at.pending >= self.distance && at.pinned == 0)
    }

    /// A read's turn came; `blocked`: it had not ended by then.
    pub fn waited(&mut self, blocked: bool) {
        if !self.is_split || blocked {
            self.distance = (self.distance * 2).min(self.pinned_max);
        }
        self.holdoff = self.pinned_max;
        self.combine_distance = (self.combine_distance * 2).min(self.combine).min(self.pinned_max);
    }

    /// A block was found in shared buffers, with so many reads on their way.
    pub fn found(&mut self, reads: usize) {
        if !self.is_split {
            self.distance = (self.distance - 1).max(1);
        } else if reads == 0 {
            if self.holdoff > 0 {
                self.holdoff -= 1;
            } else {
                self.distance = (self.distance - 1).max(1);
                self.combine_distance = (self.combine_distance - 1).max(1);
            }
        }
    }

    /// There are no more blocks.
    pub fn end(&mut self) {
        self.has_ended = true;
    }
}

/// The most blocks that a stream pins (`read_stream_begin_impl`): one read more than may be on their way, what the
/// ring of a sequential scan holds, and what the backend may pin at all.
fn pinned_max(spec: &CellSpec) -> u64 {
    let (reads, combine) = (spec.effective_depth() as u64, spec.request_pages());
    let pins = spec.pins.unwrap_or(u64::MAX);
    let wanted = ((reads + 1) * combine).min(BLOCKS_MAX - (combine - 1) - 1);
    let ring = match spec.pattern {
        Pattern::Sequential | Pattern::Parallel => {
            (RING_BLOCKS_MIN + combine * reads).min(pins.max(RING_BLOCKS_MIN))
        }
        Pattern::Gaps | Pattern::Random | Pattern::Dependent => u64::MAX,
    };
    wanted.min(ring).min(pins).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_ahead(more: &str) -> LookAhead {
        let spec: CellSpec = serde_json::from_str(&format!(
            r#"{{"file": "f", "engine": "sync", "pattern": "sequential", "duration_s": 1, "depth": 16,
                 "request_bytes": 131072 {more}}}"#
        ))
        .expect("a valid cell");
        LookAhead::new(&spec)
    }

    #[test]
    fn in_18_the_distance_doubles_with_each_read_and_loses_a_block_with_each_hit() {
        let mut ahead = look_ahead("");
        for reads in 0..12_u32 {
            assert_eq!(ahead.distance, 2_u64.pow(reads).min(17 * 16));
            ahead.waited(false);
        }
        for hits in 0..400 {
            assert_eq!(ahead.distance, (17 * 16_u64).saturating_sub(hits).max(1));
            ahead.found(3);
        }
    }

    #[test]
    fn in_19_only_waits_make_it_read_further_ahead_and_hits_shrink_it_late() {
        let mut ahead = look_ahead(r#", "major": 19"#);
        for _ in 0..10 {
            ahead.waited(false);
        }
        assert_eq!((ahead.distance, ahead.combine_distance), (1, 16));
        for _ in 0..10 {
            ahead.waited(true);
        }
        assert_eq!((ahead.distance, ahead.combine_distance), (272, 16));
        for _ in 0..1000 {
            ahead.found(1);
        }
        assert_eq!(ahead.distance, 272, "something is on its way");
        for _ in 0..272 {
            ahead.found(0);
        }
        assert_eq!(ahead.distance, 272, "as many as may be pinned");
        ahead.found(0);
        assert_eq!((ahead.distance, ahead.combine_distance), (271, 15));
    }

    #[test]
    fn in_19_a_read_grows_to_the_combine_distance_with_nothing_pinned() {
        let mut ahead = look_ahead(r#", "major": 19"#);
        for _ in 0..4 {
            ahead.waited(false);
        }
        let at = |pinned, pending| Standing {
            pinned,
            pending,
            reads: 0,
        };
        assert!(ahead.wants_more(at(0, 0)) && ahead.wants_more(at(0, 15)));
        assert!(!ahead.is_due(at(0, 15)) && ahead.is_due(at(0, 16)));
        assert!(!ahead.wants_more(at(1, 5)) && !ahead.is_due(at(1, 5)));
        let mut of_18 = look_ahead("");
        of_18.waited(false);
        assert!(!of_18.wants_more(at(0, 2)) && of_18.is_due(at(0, 2)));
    }

    #[test]
    fn it_pins_one_read_more_than_may_be_on_their_way_or_what_it_may() {
        assert_eq!(look_ahead("").pinned_max, 17 * 16);
        assert_eq!(look_ahead(r#", "pins": 94"#).pinned_max, 94);
        assert_eq!(look_ahead(r#", "pins": 0"#).pinned_max, 1);
        // The ring of 256 kB and 16 reads of 1 MB is smaller than 17 such reads.
        let large = look_ahead("");
        assert_eq!(large.pinned_max, 272);
        let spec = |pattern: &str| -> CellSpec {
            serde_json::from_str(&format!(
                r#"{{"file": "f", "engine": "sync", "pattern": "{pattern}", "duration_s": 1, "depth": 16,
                     "request_bytes": 1048576}}"#
            ))
            .expect("a valid cell")
        };
        assert_eq!(pinned_max(&spec("sequential")), 32 + 16 * 128);
        assert_eq!(pinned_max(&spec("gaps")), 17 * 128);
    }

    #[test]
    fn nothing_is_started_beyond_the_concurrency_and_all_at_the_end() {
        let mut ahead = look_ahead("");
        let full = Standing {
            pinned: 0,
            pending: 16,
            reads: 16,
        };
        assert!(!ahead.wants_more(full) && !ahead.is_due(full));
        ahead.end();
        let rest = Standing {
            pinned: 9,
            pending: 3,
            reads: 1,
        };
        assert!(!ahead.wants_more(rest) && ahead.is_due(rest));
    }
}
