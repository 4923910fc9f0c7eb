//! Recordings of several volumes as one: by one clock, and with places that lie behind each other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::on_their_way::{in_flight, lanes_nearby};
use crate::model::Fault;
use crate::recording::{Recorded, Recording};

/// So many pauses tell how long the way to the recorder can be at most: this share of the shortest hundredth.
const PAUSES_MIN: usize = 100;
const PAUSE_SHARE: f64 = 0.9;
/// So much lies between the places of two volumes, that no request of one goes on where the other ends.
const APART_BYTES: u64 = 1 << 30;

/// Requests in the order of their issue.
pub(super) struct Merged {
    pub(super) requests: Vec<Recorded>,
    /// Where the places of each volume begin.
    pub(super) begins: Vec<u64>,
    /// Where the last of the parts ends; 0 without parts.
    pub(super) until_ns: u64,
}

/// The requests of the parts, as if these followed each other at once from 0 on.
pub(super) fn merged(recordings: &[&Recording], parts: &[(u64, u64)]) -> Result<Merged, Fault> {
    let mut requests = Vec::new();
    let mut begins = Vec::with_capacity(recordings.len());
    let mut begin = 0_u64;
    let first_ns = recordings.iter().filter_map(|recording| {
        let first = recording.requests.first()?;
        Some(recording.clock_ns.saturating_add(first.issue_ns))
    });
    let first_ns = first_ns.min().unwrap_or(0);
    let mut until_ns = 0;
    for recording in recordings {
        begins.push(begin);
        let found = requests.len();
        let way_ns = way_ns(recording);
        let mut add = |which: &[Recorded], from_ns: u64, to_ns: u64| {
            requests.extend(which.iter().map(|request| Recorded {
                issue_ns: request.issue_ns - from_ns + to_ns,
                done_ns: request.done_ns + way_ns - from_ns + to_ns,
                offset: begin.saturating_add(request.offset),
                ..*request
            }));
        };
        if parts.is_empty() {
            // One of them may have begun before the first request, and another one after it.
            let (from_ns, to_ns) = (
                first_ns.saturating_sub(recording.clock_ns),
                recording.clock_ns.saturating_sub(first_ns),
            );
            add(&recording.requests, from_ns, to_ns);
        } else {
            until_ns = add_parts(recording, parts, add)?;
        }
        let end = requests[found..]
            .iter()
            .map(|request| request.offset.saturating_add(u64::from(request.length)));
        begin = end.max().unwrap_or(begin).saturating_add(APART_BYTES);
    }
    if begins.len() > 1 {
        if begin == u64::MAX {
            return Err(Fault("the traces have places that no volume has".to_owned()));
        }
        requests.sort_by_key(|request| request.issue_ns);
    }
    Ok(Merged {
        requests,
        begins,
        until_ns,
    })
}

/// Adds what is issued in each part, from when and at which time it begins; returns where the last one ends.
fn add_parts(
    recording: &Recording,
    parts: &[(u64, u64)],
    mut add: impl FnMut(&[Recorded], u64, u64),
) -> Result<u64, Fault> {
    let (mut before_ns, mut last_until) = (0, 0);
    for (from, until) in parts {
        if from > until || *from < last_until {
            return Err(Fault("the parts of the trace must follow each other".to_owned()));
        }
        last_until = *until;
        let (Some(from_ns), Some(until_ns)) = (
            from.checked_sub(recording.clock_ns),
            until.checked_sub(recording.clock_ns),
        ) else {
            return Err(Fault("a part of the trace begins before it".to_owned()));
        };
        let all = &recording.requests;
        let first = all.partition_point(|request| request.issue_ns < from_ns);
        let last = all.partition_point(|request| request.issue_ns <= until_ns);
        add(&all[first..last], from_ns, before_ns);
        before_ns += until_ns - from_ns;
    }
    Ok(before_ns)
}

/// What a request spends on its way to the recorder and back: what was measured, unless pauses say otherwise.
///
/// From an answer to the next request passes that way at least, where one lane alone is there, or where all of them
/// are seen then: another may be on its way to the recorder otherwise. A machine that was busy when the way was
/// measured would make requests overlap that followed each other.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a time
fn way_ns(recording: &Recording) -> u64 {
    let requests = &recording.requests;
    let all: Vec<usize> = (0..requests.len()).collect();
    let seen = in_flight(requests, &all);
    let lanes = lanes_nearby(&seen);
    let mut pauses: Vec<u64> = Vec::new();
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut last_done_ns = None;
    for (index, request) in requests.iter().enumerate() {
        while ends
            .peek()
            .is_some_and(|Reverse(done_ns)| *done_ns <= request.issue_ns)
        {
            last_done_ns = ends.pop().map(|Reverse(done_ns)| done_ns);
        }
        if let Some(done_ns) = last_done_ns.filter(|_| seen[index] >= lanes[index]) {
            pauses.push(request.issue_ns - done_ns);
        }
        ends.push(Reverse(request.done_ns));
    }
    if pauses.len() < PAUSES_MIN {
        return recording.overhead_ns;
    }
    let short = pauses.len() / 100;
    let (_, pause_ns, _) = pauses.select_nth_unstable(short);
    recording.overhead_ns.min((*pause_ns as f64 * PAUSE_SHARE) as u64)
}
