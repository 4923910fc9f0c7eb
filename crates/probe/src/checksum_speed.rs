//! How fast this processor verifies checksums, and how fast it reads memory: the limits of one core.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::page::checksum::{Implementation, best, page_checksum_by};
use crate::page::layout::PAGE_BYTES;
use crate::page::maker::PageMaker;
use crate::sys::memory::{Buffer, Pages, buffers};
use crate::time::clock::monotonic_ns;

/// Pages that stay in the second-level cache.
const CACHED_PAGES: usize = 32;
const BYTES_MIN: usize = 16 * 1024 * 1024;
const BYTES_MAX: usize = 1024 * 1024 * 1024;
const TRIALS: usize = 5;

/// How much memory to use.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedSpec {
    /// Best several times what the last-level cache holds; from 16 MB to 1 GB.
    #[serde(default = "enough")]
    pub bytes: usize,
}

fn enough() -> usize {
    256 * 1024 * 1024
}

/// Rates of one core, 10⁹ bytes a second: the fastest of several trials.
#[derive(Clone, Debug, Serialize)]
pub struct Speeds {
    /// The definition, word by word, on pages in the processor's cache.
    pub scalar_gb_s: f64,
    /// The implementation that is used, on pages in the processor's cache.
    pub simd_gb_s: f64,
    /// The name of that implementation.
    pub simd: String,
    /// The implementation that is used, on pages in memory.
    pub simd_memory_gb_s: f64,
    /// Reading memory and adding it up.
    pub memory_read_gb_s: f64,
}

/// Measures all rates, one after the other, on one thread.
///
/// # Errors
/// When there isn't so much memory.
pub fn measure(spec: SpeedSpec) -> Result<Speeds, Failure> {
    let bytes = spec.bytes.clamp(BYTES_MIN, BYTES_MAX);
    let count = bytes / PAGE_BYTES;
    let mut pages = buffers(count, PAGE_BYTES, Pages::Small)
        .map_err(|error| Failure::of(&error, "mapping memory to measure"))?;
    let maker = PageMaker::new(1);
    for (block, page) in pages.iter_mut().enumerate() {
        maker.make(block as u32, page);
    }
    let cached = &pages[..CACHED_PAGES];
    let rounds = count / CACHED_PAGES;
    // The definition is slow: an eighth of the work tells its rate as well.
    Ok(Speeds {
        scalar_gb_s: rate(cached, rounds / 8, &|page| checksum(Implementation::Scalar, page)),
        simd_gb_s: rate(cached, rounds, &|page| checksum(best(), page)),
        simd: best().to_string(),
        simd_memory_gb_s: rate(&pages, 1, &|page| checksum(best(), page)),
        memory_read_gb_s: rate(&pages, 1, &sum),
    })
}

fn checksum(implementation: Implementation, page: &[u8]) -> u64 {
    u64::from(page_checksum_by(implementation, page, 1))
}

fn sum(page: &[u8]) -> u64 {
    let words = page.chunks_exact(8);
    words
        .map(|word| {
            u64::from_ne_bytes([
                word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
            ])
        })
        .fold(0, u64::wrapping_add)
}

fn rate(pages: &[Buffer], rounds: usize, work: &dyn Fn(&[u8]) -> u64) -> f64 {
    let trial = || {
        let start_ns = monotonic_ns();
        for _ in 0..rounds {
            for page in pages {
                black_box(work(page));
            }
        }
        (monotonic_ns() - start_ns).max(1)
    };
    let shortest_ns = (0..TRIALS).map(|_| trial()).min().unwrap_or(1);
    (pages.len() * PAGE_BYTES * rounds) as f64 / shortest_ns as f64
}
