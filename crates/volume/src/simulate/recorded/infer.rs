//! From times of issue and completion to what waited for what.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::dependencies::{
    Dependencies, Facts, LANES_SHARE, Milestone, NEARBY, NO_LOG, Role, STRETCHES, Step, Who,
};
use super::processors::WorkClock;
use super::writes::logs_of;
use crate::model::{Fault, SECOND_NS};
use crate::recording::{Recorded, Recording};
use crate::request::Kind;

/// So many pauses tell how long the way to the recorder can be at most: this share of the shortest hundredth.
const PAUSES_MIN: usize = 100;
const PAUSE_SHARE: f64 = 0.9;

pub(super) fn infer(recording: &Recording, parts: &[(u64, u64)], who: Who) -> Result<Dependencies, Fault> {
    let (requests, until_ns) = requests_of(recording, parts)?;
    if requests.is_empty() {
        return Err(Fault(
            "there are no requests in this part of the trace".to_owned(),
        ));
    }
    if requests.len() >= u32::MAX as usize {
        return Err(Fault(format!(
            "the trace has {} requests, but can have {} at most",
            requests.len(),
            u32::MAX - 1
        )));
    }
    let (log_of, logs) = logs_of(&requests);
    let waits = |index: usize| requests[index].kind != Kind::Write || log_of[index] != NO_LOG;
    let in_lanes: Vec<usize> = (0..requests.len()).filter(|index| waits(*index)).collect();
    let mut lanes = lanes_nearby(&in_flight(&requests, &in_lanes));
    lanes
        .iter_mut()
        .for_each(|lanes| *lanes = who.clients.max(*lanes));
    let claims = claims(&requests, &in_lanes, &lanes, who);
    let mut facts = Facts {
        lost: recording.lost,
        is_complete: recording.is_complete,
        ..Facts::default()
    };
    let mut steps = Vec::with_capacity(requests.len());
    let (mut lane, mut last_issue_ns) = (0, 0);
    for (index, request) in requests.iter().enumerate() {
        let (role, after_ns, lanes) = if in_lanes.get(lane) == Some(&index) {
            let claim = claims[lane];
            lane += 1;
            match claim {
                Some(computing_ns) => (Role::Claimed, computing_ns, lanes[lane - 1]),
                None => (Role::Begins, request.issue_ns - last_issue_ns, lanes[lane - 1]),
            }
        } else {
            (Role::WriteBack, request.issue_ns - last_issue_ns, 0)
        };
        if role != Role::WriteBack {
            last_issue_ns = request.issue_ns;
        }
        let step = Step {
            after_ns,
            offset: request.offset,
            length: request.length,
            lanes,
            log: log_of[index],
            kind: request.kind,
            role,
            is_milestone: false,
        };
        facts.count(&step);
        steps.push(step);
    }
    let ends = |index: &usize| requests[*index].done_ns;
    let last_ns = in_lanes.iter().map(ends).max().unwrap_or_default();
    let until_ns = until_ns.max(last_ns);
    facts.elapsed_s = until_ns as f64 / SECOND_NS as f64;
    let issues = in_lanes.iter().map(|index| (*index, requests[*index].issue_ns));
    let milestones = milestones(issues, until_ns);
    for step in milestones.iter().filter_map(|milestone| milestone.step) {
        steps[step as usize].is_milestone = true;
    }
    Ok(Dependencies {
        steps,
        milestones,
        logs,
        who,
        tail_ns: until_ns - last_ns,
        facts,
    })
}

/// The requests of the parts, as if these followed each other at once from 0 on, and where the last one ends.
fn requests_of(recording: &Recording, parts: &[(u64, u64)]) -> Result<(Vec<Recorded>, u64), Fault> {
    let mut requests = Vec::new();
    let way_ns = way_ns(recording);
    let mut add = |request: &Recorded, from_ns: u64, to_ns: u64| {
        requests.push(Recorded {
            issue_ns: request.issue_ns - from_ns + to_ns,
            done_ns: request.done_ns + way_ns - from_ns + to_ns,
            ..*request
        });
    };
    if parts.is_empty() {
        let first_ns = recording.requests.first().map_or(0, |request| request.issue_ns);
        for request in &recording.requests {
            add(request, first_ns, 0);
        }
        return Ok((requests, 0));
    }
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
        let begin = recording
            .requests
            .partition_point(|request| request.issue_ns < from_ns);
        let end = recording
            .requests
            .partition_point(|request| request.issue_ns <= until_ns);
        for request in &recording.requests[begin..end] {
            add(request, from_ns, before_ns);
        }
        before_ns += until_ns - from_ns;
    }
    Ok((requests, before_ns))
}

/// What a request spends on its way to the recorder and back: what was measured, unless pauses say otherwise.
///
/// From an answer to the next request, while nothing else is on its way, passes that way at least. A machine that
/// was busy when it was measured would make single requests overlap that followed each other.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a time
fn way_ns(recording: &Recording) -> u64 {
    let mut pauses: Vec<u64> = Vec::new();
    let mut last_done_ns = u64::MAX;
    for request in &recording.requests {
        if request.issue_ns > last_done_ns {
            pauses.push(request.issue_ns - last_done_ns);
        }
        last_done_ns = if last_done_ns == u64::MAX {
            request.done_ns
        } else {
            last_done_ns.max(request.done_ns)
        };
    }
    if pauses.len() < PAUSES_MIN {
        return recording.overhead_ns;
    }
    let short = pauses.len() / 100;
    let (_, pause_ns, _) = pauses.select_nth_unstable(short);
    recording.overhead_ns.min((*pause_ns as f64 * PAUSE_SHARE) as u64)
}

impl Facts {
    fn count(&mut self, step: &Step) {
        match step.kind {
            Kind::Read => self.reads += 1,
            Kind::Write => self.writes += 1,
            Kind::Flush => self.flushes += 1,
        }
        self.bytes += u64::from(step.length);
        self.lanes = self.lanes.max(step.lanes);
        self.log_writes += u64::from(step.log != NO_LOG);
        match step.role {
            Role::Claimed => self.computing_s += step.after_ns as f64 / SECOND_NS as f64,
            Role::WriteBack => self.write_back += 1,
            Role::Begins => {}
        }
    }
}

/// The ends of equal stretches of the time until `until_ns`, with its beginning.
#[allow(clippy::cast_possible_truncation)] // as the number of requests
fn milestones(issues: impl Iterator<Item = (usize, u64)>, until_ns: u64) -> Vec<Milestone> {
    let mut issues = issues.peekable();
    (0..=STRETCHES as u64)
        .map(|number| {
            let at_ns = (u128::from(until_ns) * u128::from(number) / STRETCHES as u128) as u64;
            while issues.next_if(|(_, issue_ns)| *issue_ns < at_ns).is_some() {}
            match issues.peek() {
                Some((index, issue_ns)) => Milestone {
                    step: Some(*index as u32),
                    lead_ns: issue_ns - at_ns,
                },
                None => Milestone {
                    step: None,
                    lead_ns: until_ns - at_ns,
                },
            }
        })
        .collect()
}

/// For each request of a lane, how many are on their way when it has been issued.
fn in_flight(requests: &[Recorded], in_lanes: &[usize]) -> Vec<u32> {
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
fn lanes_nearby(in_flight: &[u32]) -> Vec<u32> {
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

/// For each request of a lane, the computing before it; `None` for one that begins a lane.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // computing is less than time that passed
fn claims(requests: &[Recorded], in_lanes: &[usize], lanes: &[u32], who: Who) -> Vec<Option<u64>> {
    let mut clock = WorkClock::new(who.processors);
    let mut on_the_way: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    // What the clock read when the lanes that compute began, in the order of the requests that they will issue.
    let mut began: VecDeque<f64> = VecDeque::new();
    // Clients that are known compute from the beginning on.
    let mut population = who.clients;
    let mut claimed = (who.clients as usize).min(in_lanes.len());
    began.resize(claimed, 0.0);
    let mut found = Vec::with_capacity(in_lanes.len());
    for (number, index) in in_lanes.iter().enumerate() {
        let request = &requests[*index];
        while let Some(&Reverse((done_ns, done))) = on_the_way.peek() {
            if done_ns > request.issue_ns {
                break;
            }
            on_the_way.pop();
            let reading = clock.advance(done_ns, began.len());
            if claimed < lanes.len() {
                if population > lanes[done] {
                    population -= 1;
                } else {
                    claimed += 1;
                    began.push_back(reading);
                }
            }
        }
        let reading = clock.advance(request.issue_ns, began.len());
        if number < claimed {
            found.push(began.pop_front().map(|began| (reading - began).round() as u64));
        } else {
            claimed = number + 1;
            population += 1;
            found.push(None);
        }
        on_the_way.push(Reverse((request.done_ns, number)));
    }
    found
}
