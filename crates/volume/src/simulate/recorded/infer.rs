//! From times of issue and completion to what waited for what.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dependencies::{Dependencies, Facts, Milestone, NO_LOG, Role, STRETCHES, Step, Who};
use super::lanes::{Cause, causes, in_flight, lanes_nearby, shorten};
use super::order::straighten;
use super::writes::{bursts_of, logs_of};
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
    let bursts = bursts_of(&requests, &log_of);
    let waits =
        |index: usize| requests[index].kind != Kind::Write || log_of[index] != NO_LOG || bursts[index];
    let in_lanes: Vec<usize> = (0..requests.len()).filter(|index| waits(*index)).collect();
    let lanes = lanes_nearby(&in_flight(&requests, &in_lanes));
    let mut causes = causes(&requests, &in_lanes, &lanes, who, &bursts);
    if who.clients > 0 {
        let is_of_log = |lane: usize| log_of[in_lanes[lane]] != NO_LOG;
        shorten(&mut causes, who.cpu_s, is_of_log);
    }
    let mut facts = Facts {
        lanes: lanes.iter().copied().max().unwrap_or(0).max(who.clients),
        lost: recording.lost,
        is_complete: recording.is_complete,
        ..Facts::default()
    };
    let mut steps = Vec::with_capacity(requests.len());
    let (mut lane, mut last_issue_ns) = (0, 0);
    for (index, request) in requests.iter().enumerate() {
        let since_ns = request.issue_ns - last_issue_ns;
        let (role, after_ns, after_done) = if in_lanes.get(lane) == Some(&index) {
            lane += 1;
            match causes[lane - 1] {
                Cause::Free {
                    after_done,
                    computing_ns,
                } => (Role::Claimed, computing_ns, after_done),
                Cause::Request => (Role::Begins, since_ns, 0),
            }
        } else {
            (Role::WriteBack, since_ns, 0)
        };
        if role != Role::WriteBack {
            last_issue_ns = request.issue_ns;
        }
        let step = Step {
            after_ns,
            offset: request.offset,
            length: request.length,
            after_done,
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
    for milestone in &milestones {
        // As many as come before it, which are in the order of their numbers.
        let before = milestone.step.map_or(in_lanes.len(), |step| {
            in_lanes.partition_point(|index| *index < step as usize)
        });
        facts.issued.push(before as u64);
        if let Some(step) = milestone.step {
            steps[step as usize].is_milestone = true;
        }
    }
    if who.clients == 0 {
        let reads = in_lanes.iter().copied().zip(lanes);
        let reads: Vec<(usize, u32)> = reads
            .filter(|(index, _)| requests[*index].kind == Kind::Read)
            .collect();
        straighten(&mut steps, &reads);
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

impl Facts {
    fn count(&mut self, step: &Step) {
        match step.kind {
            Kind::Read => self.reads += 1,
            Kind::Write => self.writes += 1,
            Kind::Flush => self.flushes += 1,
        }
        self.bytes += u64::from(step.length);
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
