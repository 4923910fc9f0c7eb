//! Which pages a consumer asks for: the look-ahead's source.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::page::layout::SEGMENT_PAGES;
use crate::reading::PageRun;
use crate::spec::{CellSpec, Pattern};

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
}

impl Requests {
    /// The requests of consumer number `consumer` within `blocks` pages of the file.
    ///
    /// Consumers that read in order have a part of the pages each; random ones share all.
    pub fn new(spec: &CellSpec, blocks: u64, consumer: usize) -> Self {
        let (first, end) = match spec.pattern {
            Pattern::Random | Pattern::Dependent => (0, blocks),
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
        let mut requests = Requests::new(&spec, 50, 1);
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
        let mut requests = Requests::new(&spec, 20, 0);
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
        let mut requests = Requests::new(&spec, blocks, 0);
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
    fn random_requests_reach_the_whole_range_and_nothing_else() {
        let spec = spec("random", r#", "first_block": 7"#);
        let mut requests = Requests::new(&spec, 16, 0);
        let mut seen = [0; 16];
        for _ in 0..1600 {
            let run = requests.next(0);
            seen[(run.block - 7) as usize] += run.pages;
        }
        assert!(seen.iter().all(|count| (40..=180).contains(count)), "{seen:?}");
    }
}
