//! Which pages a consumer asks for: the look-ahead's source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::page::layout::SEGMENT_PAGES;
use crate::reading::PageRun;
use crate::spec::{CellSpec, Pattern};

/// Into how many chunks a parallel scan divides a table, the largest of them, and how many of half the size end it
/// (`src/backend/access/table/tableam.c`, `table_block_parallelscan_startblock_init` and `_nextpage`).
const CHUNKS: u64 = 2048;
const CHUNK_BLOCKS_MAX: u64 = 8192;
/// Draws apart from those of the pattern.
const FOUND_SEED: u64 = 0x666f_756e_6400_0000;

/// A block of the table, and whether shared buffers have it.
#[derive(Clone, Copy)]
pub struct Block {
    /// Its number in the file.
    pub number: u64,
    /// Whether nothing has to be read.
    pub is_found: bool,
}

/// The requests of one consumer, without an end.
pub struct Requests {
    pattern: Pattern,
    first: u64,
    end: u64,
    next: u64,
    request_pages: u64,
    /// A page is wanted when a random number is less than this.
    wanted_below: u64,
    random: Xoshiro256PlusPlus,
    /// What is left of the last request.
    rest: PageRun,
    /// A page is found in shared buffers when a random number is less than this.
    found_below: u64,
    found: Xoshiro256PlusPlus,
    chunk_blocks: u64,
    allocated: Arc<AtomicU64>,
}

impl Requests {
    /// The requests of consumer number `consumer` within `blocks` pages of the file.
    ///
    /// Consumers that read in order have a part of the pages each; random ones and those of a parallel scan share
    /// all. `allocated`: the pages that the latter have taken, together.
    pub fn new(spec: &CellSpec, blocks: u64, consumer: usize, allocated: Arc<AtomicU64>) -> Self {
        let (first, end) = match spec.pattern {
            Pattern::Random | Pattern::Dependent | Pattern::Parallel => (0, blocks),
            Pattern::Sequential | Pattern::Gaps => part_of(blocks, consumer, spec.consumers),
        };
        let mut seed = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        for _ in 0..consumer {
            seed.jump();
        }
        Self {
            pattern: spec.pattern,
            first: spec.first_block + first,
            end: spec.first_block + end,
            next: spec.first_block + first,
            request_pages: spec.request_pages(),
            wanted_below: (spec.gap * u64::MAX as f64) as u64,
            random: seed,
            rest: PageRun { block: 0, pages: 0 },
            found_below: (spec.found * u64::MAX as f64) as u64,
            found: Xoshiro256PlusPlus::seed_from_u64(spec.seed ^ FOUND_SEED ^ consumer as u64),
            chunk_blocks: chunk_blocks(spec.table_blocks.unwrap_or(blocks)),
            allocated,
        }
    }

    /// The next block of a scan, in order.
    #[inline]
    pub fn next_block(&mut self) -> Block {
        if self.rest.pages == 0 {
            self.rest = self.next(0);
        }
        let number = self.rest.block;
        self.rest.block += 1;
        self.rest.pages -= 1;
        Block {
            number,
            is_found: self.found_below > 0 && self.found.next_u64() < self.found_below,
        }
    }

    /// The next request. `known` is a number that depends on the page read before; the pattern `dependent` alone
    /// makes use of it.
    #[inline]
    pub fn next(&mut self, known: u64) -> PageRun {
        match self.pattern {
            Pattern::Sequential => self.following(),
            Pattern::Random => self.any(0),
            Pattern::Dependent => self.any(known),
            Pattern::Gaps => self.wanted(),
            Pattern::Parallel => self.chunk(),
        }
    }

    /// The next chunk that no other process of the scan has, or the start of the table again after its end.
    fn chunk(&mut self) -> PageRun {
        let blocks = self.end - self.first;
        let chunk = self.chunk_blocks.min(blocks);
        let taken = self.allocated.fetch_add(chunk, Ordering::Relaxed) % blocks.next_multiple_of(chunk);
        PageRun {
            block: self.first + taken,
            pages: chunk.min(blocks - taken),
        }
    }

    fn following(&mut self) -> PageRun {
        if self.next >= self.end {
            self.next = self.first;
        }
        let pages = self
            .request_pages
            .min(self.end - self.next)
            .min(to_segment_end(self.next));
        let block = self.next;
        self.next += pages;
        PageRun { block, pages }
    }

    fn any(&mut self, known: u64) -> PageRun {
        let pages = self.request_pages.min(self.end - self.first);
        let places = (self.end - self.first) / pages;
        let draw = self.random.next_u64() ^ known;
        // The high part of the product: as good as uniform for so few places (Lemire 2019).
        let place = (u128::from(draw) * u128::from(places)) >> 64;
        let block = self.first + place as u64 * pages;
        PageRun {
            block,
            pages: pages.min(to_segment_end(block)),
        }
    }

    fn wanted(&mut self) -> PageRun {
        // A round without a wanted page would never end.
        for _ in self.first..self.end {
            if self.next >= self.end {
                self.next = self.first;
            }
            if self.random.next_u64() < self.wanted_below {
                break;
            }
            self.next += 1;
        }
        if self.next >= self.end {
            self.next = self.first;
        }
        let block = self.next;
        let most = self
            .request_pages
            .min(self.end - block)
            .min(to_segment_end(block));
        let mut pages = 1;
        while pages < most && self.random.next_u64() < self.wanted_below {
            pages += 1;
        }
        // The page after the run was either refused by chance or by the limit.
        self.next = block + pages + u64::from(pages < most);
        PageRun { block, pages }
    }
}

/// The blocks of a chunk, for a table of so many. The last chunks of a scan, which PostgreSQL makes smaller, are left
/// out: a cell has no end.
fn chunk_blocks(table_blocks: u64) -> u64 {
    (table_blocks / CHUNKS)
        .max(1)
        .next_power_of_two()
        .min(CHUNK_BLOCKS_MAX)
}

/// The part of `blocks` that is consumer `index`'s own: at least a page, all when there are fewer pages than
/// consumers.
fn part_of(blocks: u64, index: usize, count: usize) -> (u64, u64) {
    let (index, count) = (index as u64, count as u64);
    if blocks < count {
        return (0, blocks);
    }
    (blocks * index / count, blocks * (index + 1) / count)
}

fn to_segment_end(block: u64) -> u64 {
    SEGMENT_PAGES - block % SEGMENT_PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(pattern: &str, more: &str) -> CellSpec {
        serde_json::from_str(&format!(
            r#"{{"file": "f", "engine": "sync", "pattern": "{pattern}", "duration_s": 1 {more}}}"#
        ))
        .expect("a valid cell")
    }

    #[test]
    fn in_sequence_every_page_of_the_own_part_comes_once_and_then_again() {
        let spec = spec("sequential", r#", "request_bytes": 65536, "consumers": 2"#);
        let mut requests = Requests::new(&spec, 50, 1, Arc::default());
        let runs: Vec<_> = (0..5).map(|_| requests.next(0)).collect();
        let expected = [(25, 8), (33, 8), (41, 8), (49, 1), (25, 8)];
        assert_eq!(runs, expected.map(|(block, pages)| PageRun { block, pages }));
    }

    #[test]
    fn no_request_crosses_into_the_next_segment() {
        let spec = spec(
            "sequential",
            r#", "request_bytes": 131072, "first_block": 131070"#,
        );
        let mut requests = Requests::new(&spec, 20, 0, Arc::default());
        assert_eq!(requests.next(0).pages, 2);
        assert_eq!(
            requests.next(0),
            PageRun {
                block: 131_072,
                pages: 16
            }
        );
    }

    #[test]
    fn with_gaps_the_wanted_share_is_read_in_ascending_order() {
        let spec = spec("gaps", r#", "request_bytes": 131072, "gap": 0.3"#);
        let blocks = 100_000;
        let mut requests = Requests::new(&spec, blocks, 0, Arc::default());
        let (mut pages, mut before) = (0, 0);
        loop {
            let run = requests.next(0);
            if run.block < before {
                break;
            }
            assert!(run.block >= before && run.pages <= 16 && run.block + run.pages <= blocks);
            before = run.block + run.pages;
            pages += run.pages;
        }
        let share = pages as f64 / blocks as f64;
        assert!((share - 0.3).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_parallel_scan_hands_each_chunk_to_one_process() {
        // 1 GB: 131072 / 2048 blocks; less than 2048 blocks: one; the most is 8192.
        assert_eq!(
            [131_072, 1000, 200_000, 1 << 40].map(chunk_blocks),
            [64, 1, 128, 8192]
        );
        let spec = spec("parallel", r#", "consumers": 3, "table_blocks": 131072"#);
        let allocated = Arc::default();
        let mut processes: Vec<_> = (0..3)
            .map(|index| Requests::new(&spec, 200, index, Arc::clone(&allocated)))
            .collect();
        let runs: Vec<_> = [0, 2, 1, 0, 1]
            .into_iter()
            .map(|index: usize| processes[index].next(0))
            .map(|run| (run.block, run.pages))
            .collect();
        assert_eq!(runs, [(0, 64), (64, 64), (128, 64), (192, 8), (0, 64)]);
    }

    #[test]
    fn the_share_of_blocks_that_are_found_is_the_one_asked_for() {
        let of_share = |share: &str| {
            let spec = spec("sequential", &format!(r#", "found": {share}"#));
            let mut requests = Requests::new(&spec, 1000, 0, Arc::default());
            (0..10_000).filter(|_| requests.next_block().is_found).count()
        };
        assert_eq!(of_share("0.0"), 0);
        assert!((2800..=3200).contains(&of_share("0.3")));
        assert_eq!(of_share("1.0"), 10_000);
    }

    #[test]
    fn random_requests_reach_the_whole_range_and_nothing_else() {
        let spec = spec("random", r#", "first_block": 7"#);
        let mut requests = Requests::new(&spec, 16, 0, Arc::default());
        let mut seen = [0; 16];
        for _ in 0..1600 {
            let run = requests.next(0);
            seen[(run.block - 7) as usize] += run.pages;
        }
        assert!(seen.iter().all(|count| (40..=180).contains(count)), "{seen:?}");
    }
}
