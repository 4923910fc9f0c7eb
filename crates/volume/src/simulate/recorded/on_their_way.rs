//! How many requests are on their way at once, and how many lanes there are by that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dependencies::{LANES_SHARE, NEARBY};
use crate::recording::Recorded;

/// For each, how many are on their way when it has been issued.
pub(super) fn in_flight(requests: &[Recorded], in_lanes: &[usize]) -> Vec<u32> {
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    in_lanes
        .iter()
        .map(|index| {
            let request = &requests[*index];
            while ends
                .peek()
                .is_some_and(|Reverse(done_ns)| *done_ns <= request.issue_ns)
            {
                ends.pop();
            }
            ends.push(Reverse(request.done_ns));
            u32::try_from(ends.len()).unwrap_or(u32::MAX)
        })
        .collect()
}

/// For each, the greatest number that [`LANES_SHARE`] of those around it reach.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a number of requests
pub(super) fn lanes_nearby(in_flight: &[u32]) -> Vec<u32> {
    let greatest = in_flight.iter().copied().max().unwrap_or(0);
    let mut counts = vec![0_usize; greatest as usize + 2];
    // How many reach the level: as few as suffice.
    let (mut level, mut reaching) = (0_usize, 0_usize);
    let (mut first, mut next) = (0, 0);
    (0..in_flight.len())
        .map(|index| {
            while next < in_flight.len() && next <= index + NEARBY {
                counts[in_flight[next] as usize] += 1;
                reaching += usize::from(in_flight[next] as usize >= level);
                next += 1;
            }
            while first + NEARBY < index {
                counts[in_flight[first] as usize] -= 1;
                reaching -= usize::from(in_flight[first] as usize >= level);
                first += 1;
            }
            let needed = (((next - first) as f64 * LANES_SHARE).ceil() as usize).max(1);
            while reaching < needed && level > 0 {
                level -= 1;
                reaching += counts[level];
            }
            while reaching - counts[level] >= needed {
                reaching -= counts[level];
                level += 1;
            }
            level as u32
        })
        .collect()
}
