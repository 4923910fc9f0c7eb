//! Recorded requests: at their times, or each so long after the one that it waited for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;

use super::figures::Figures;
use crate::request::{Kind, Request};
use crate::volume::Volume;

/// No request waits for this one, and none before it.
const NONE: u32 = u32::MAX;

/// Requests as columns of equal length, so that half a million of them are a small document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// When each arrives, in nanoseconds from the beginning; for one that waits for another, how long after that
    /// one is done.
    pub arrival_ns: Vec<u64>,
    /// A letter each: `r` for a read, `w` for a write, `f` for a flush.
    pub kind: String,
    /// The first byte of each.
    pub offset: Vec<u64>,
    /// The bytes of each.
    pub length: Vec<u32>,
    /// The number, from 0, of the earlier request that each waits for; null for none. Left out where none waits.
    #[serde(default)]
    pub after: Option<Vec<Option<u32>>>,
}

impl Trace {
    pub(crate) fn fault(&self) -> Option<String> {
        let count = self.arrival_ns.len();
        let columns = [
            ("kind", self.kind.len()),
            ("offset", self.offset.len()),
            ("length", self.length.len()),
        ];
        let after = self.after.as_deref().unwrap_or_default();
        let fault = if let Some((name, length)) = columns.iter().find(|(_, length)| *length != count) {
            format!("{name} has {length} entries, but arrival_ns has {count}")
        } else if self.after.is_some() && after.len() != count {
            format!("after has {} entries, but arrival_ns has {count}", after.len())
        } else if count >= NONE as usize {
            format!("it has {count} requests, but can have {} at most", NONE - 1)
        } else if let Some(other) = self.kind.bytes().find(|letter| !b"rwf".contains(letter)) {
            format!(
                "kind has the letter '{}', but knows r, w and f alone",
                other.escape_ascii()
            )
        } else if let Some(index) =
            (0..after.len()).find(|index| after[*index].is_some_and(|before| before as usize >= *index))
        {
            format!("request {index} waits for one that isn't before it")
        } else {
            return None;
        };
        Some(format!("the trace can't be replayed: {fault}"))
    }

    /// Replays all of it, in the order of arrival; of those that arrive at once, in the trace's.
    pub(crate) fn run(&self, volume: &mut Volume, figures: &mut Figures) {
        let Some(after) = &self.after else {
            if self.arrival_ns.is_sorted() {
                for index in 0..self.arrival_ns.len() {
                    self.submit(index, self.arrival_ns[index], volume, figures);
                }
                return;
            }
            return self.run_dependent(&vec![None; self.arrival_ns.len()], volume, figures);
        };
        self.run_dependent(after, volume, figures);
    }

    #[allow(clippy::cast_possible_truncation)] // `fault` bounds the count
    fn run_dependent(&self, after: &[Option<u32>], volume: &mut Volume, figures: &mut Figures) {
        // For each request, the last one that waits for it, and for each of these the one before that.
        let mut last_waiting = vec![NONE; after.len()];
        let mut waiting_before = vec![NONE; after.len()];
        let mut due = BinaryHeap::new();
        for (index, before) in after.iter().enumerate() {
            match before {
                Some(before) => {
                    waiting_before[index] = last_waiting[*before as usize];
                    last_waiting[*before as usize] = index as u32;
                }
                None => due.push(Reverse((self.arrival_ns[index], index as u32))),
            }
        }
        while let Some(Reverse((arrival_ns, index))) = due.pop() {
            let done_ns = self.submit(index as usize, arrival_ns, volume, figures);
            let mut waiting = last_waiting[index as usize];
            while waiting != NONE {
                let arrival_ns = done_ns.saturating_add(self.arrival_ns[waiting as usize]);
                due.push(Reverse((arrival_ns, waiting)));
                waiting = waiting_before[waiting as usize];
            }
        }
    }

    #[inline]
    fn submit(&self, index: usize, arrival_ns: u64, volume: &mut Volume, figures: &mut Figures) -> u64 {
        let request = Request {
            arrival_ns,
            kind: match self.kind.as_bytes()[index] {
                b'r' => Kind::Read,
                b'w' => Kind::Write,
                _ => Kind::Flush,
            },
            offset: self.offset[index],
            length: self.length[index],
        };
        let completion = volume.submit(&request);
        figures.count(&request, &completion);
        completion.done_ns
    }
}
