//! A volume that was restored from a snapshot: the first request to each chunk of it waits until it is fetched.

use std::collections::HashMap;

use crate::latency::{Draws, Normal};
use crate::model::FirstTouch;

/// A stream of its own, so that the latencies of requests are the same with and without a snapshot.
const STREAM: u64 = 0x5eed_000f_c4a9_b10c;

/// When each chunk that was asked for is there.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    chunk_bytes: u64,
    wait: Draws,
    normal: Normal,
    there_ns: HashMap<u64, u64>,
}

impl Chunks {
    pub(crate) fn new(first_touch: &FirstTouch, seed: u64) -> Self {
        Self {
            chunk_bytes: u64::from(first_touch.chunk_bytes),
            wait: Draws::new(&first_touch.latency),
            normal: Normal::new(seed ^ STREAM),
            there_ns: HashMap::new(),
        }
    }

    /// How long a request that arrives now waits for its chunks, which are fetched side by side. Who comes while
    /// one is on its way waits for the rest of that.
    pub(crate) fn wait_ns(&mut self, now_ns: u64, offset: u64, length: u32) -> u64 {
        let first = offset / self.chunk_bytes;
        let last = offset.saturating_add(u64::from(length.max(1)) - 1) / self.chunk_bytes;
        let mut ready_ns = now_ns;
        for chunk in first..=last {
            let (wait, normal) = (&self.wait, &mut self.normal);
            let there_ns = self
                .there_ns
                .entry(chunk)
                .or_insert_with(|| now_ns.saturating_add(wait.draw(normal, 0)));
            ready_ns = ready_ns.max(*there_ns);
        }
        ready_ns - now_ns
    }
}
