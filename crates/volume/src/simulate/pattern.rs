//! A closed loop: each of a number of clients sends its next request when the last is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use super::figures::Figures;
use crate::model::SECOND_NS;
use crate::request::{Kind, Request};
use crate::volume::Volume;

const DEPTH_MAX: u32 = 65_536;
const REQUEST_MAX: u32 = 1 << 30;
const SECONDS_MAX: f64 = 1e7;

/// Where a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Anywhere in the span, at a multiple of the request's size.
    Random,
    /// Behind the one before it, from the beginning again at the end of the span.
    Sequential,
}

/// A closed loop of equal requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// How many requests are on their way.
    pub depth: u32,
    /// Bytes of each.
    pub request_bytes: u32,
    /// Where they begin.
    pub order: Order,
    /// Bytes of the volume that they lie in.
    #[serde(default = "one_tebibyte")]
    pub span_bytes: u64,
    /// The share of them that are writes, from 0 to 1.
    #[serde(default)]
    pub write_share: f64,
    /// After how many of its writes a client flushes before it goes on; 0 for never.
    #[serde(default)]
    pub flush_after: u32,
    /// How long it is: requests that are done by then count.
    pub duration_s: f64,
}

fn one_tebibyte() -> u64 {
    1 << 40
}

impl Pattern {
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = if !(1..=DEPTH_MAX).contains(&self.depth) {
            format!("depth is {}, but must be from 1 to {DEPTH_MAX}", self.depth)
        } else if !(1..=REQUEST_MAX).contains(&self.request_bytes) {
            format!(
                "request_bytes is {}, but must be from 1 to {REQUEST_MAX}",
                self.request_bytes
            )
        } else if self.span_bytes < u64::from(self.request_bytes) {
            format!("span_bytes is {}, but must hold a request", self.span_bytes)
        } else if !(0.0..=1.0).contains(&self.write_share) {
            format!("write_share is {}, but must be from 0 to 1", self.write_share)
        } else if !(0.001..=SECONDS_MAX).contains(&self.duration_s) {
            format!(
                "duration_s is {}, but must be from 0.001 to {SECONDS_MAX}",
                self.duration_s
            )
        } else {
            return None;
        };
        Some(format!("the pattern can't be run: {fault}"))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
    pub(crate) fn run(&self, volume: &mut Volume, seed: u64, figures: &mut Figures) {
        // Another stream than that of the latencies, which has the same seed.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let places = self.span_bytes / u64::from(self.request_bytes);
        let end_ns = (self.duration_s * SECOND_NS as f64).round() as u64;
        // Of 2^64 draws; all of them where every request is a write.
        let writes_below = (self.write_share * (u64::MAX as f64)) as u64;
        let mut next_place = 0;
        let mut written = vec![0_u32; self.depth as usize];
        let mut waiting: BinaryHeap<Reverse<(u64, u32)>> =
            (0..self.depth).map(|client| Reverse((0, client))).collect();
        while let Some(Reverse((arrival_ns, client))) = waiting.pop() {
            // All that come after this one arrive later still.
            if arrival_ns >= end_ns {
                return;
            }
            let written = &mut written[client as usize];
            let kind = if self.flush_after > 0 && *written == self.flush_after {
                Kind::Flush
            } else if self.write_share >= 1.0 || (self.write_share > 0.0 && random.next_u64() < writes_below)
            {
                Kind::Write
            } else {
                Kind::Read
            };
            *written = match kind {
                Kind::Flush => 0,
                Kind::Write => *written + 1,
                Kind::Read => *written,
            };
            let place = match (kind, self.order) {
                (Kind::Flush, _) => 0,
                (_, Order::Sequential) => {
                    let place = next_place;
                    next_place = (next_place + 1) % places;
                    place
                }
                // The high bits of a product: without a division, and even to one part in 2^64 / places.
                (_, Order::Random) => ((u128::from(random.next_u64()) * u128::from(places)) >> 64) as u64,
            };
            let request = Request {
                arrival_ns,
                kind,
                offset: place * u64::from(self.request_bytes),
                length: if kind == Kind::Flush {
                    0
                } else {
                    self.request_bytes
                },
            };
            let completion = volume.submit(&request);
            if completion.done_ns <= end_ns {
                figures.count(&request, &completion);
            }
            // A volume without latency and limits would let a closed loop stand still in time.
            waiting.push(Reverse((completion.done_ns.max(arrival_ns + 1), client)));
        }
    }
}
