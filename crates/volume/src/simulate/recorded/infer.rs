//! From times of issue and completion to what waited for what.

use super::commits::{Shared, mix, share};
use super::dependencies::{Dependencies, Facts, Milestone, NO_LOG, Role, STRETCHES, Step, Who};
use super::lanes::{Cause, Inferred, Lanes, shorten};
use super::locks::{Answers, chance, chance_of};
use super::merged::{Merged, merged};
use super::on_their_way::{in_flight, lanes_nearby};
use super::order::straighten;
use super::replay::replay;
use super::writes::{bursts_of, logs_of};
use crate::model::{Fault, SECOND_NS};
use crate::recording::{Recorded, Recording};
use crate::request::Kind;

pub(super) fn infer(
    recordings: &[&Recording],
    parts: &[(u64, u64)],
    who: Who,
) -> Result<Dependencies, Fault> {
    let Merged {
        requests,
        begins,
        until_ns,
    } = merged(recordings, parts)?;
    if requests.is_empty() {
        return Err(Fault(
            "there are no requests in this part of the trace".to_owned(),
        ));
    }
    let (log_of, logs) = logs_of(&requests);
    let answers = Answers::of(&requests);
    // Before commits are set apart, which are taken to come earlier than the write that they share.
    let bursts = bursts_of(&requests, &log_of);
    let Shared {
        requests,
        log_of,
        bursts,
        is_further,
        passed_on,
    } = share(requests, log_of, bursts, who);
    if requests.len() + logs >= u32::MAX as usize {
        return Err(Fault(format!(
            "the trace has {} requests, but can have {} at most",
            requests.len(),
            u32::MAX as usize - 1 - logs
        )));
    }
    let waits =
        |index: usize| requests[index].kind != Kind::Write || log_of[index] != NO_LOG || bursts[index];
    let in_lanes: Vec<usize> = (0..requests.len()).filter(|index| waits(*index)).collect();
    let lanes = lanes_nearby(&in_flight(&requests, &in_lanes));
    let instants = passed_on.instants();
    // What passes the log on is no part of what lanes compute before they wait.
    let passing_on_s = passed_on.all_s(who.passing_on_ns.unwrap_or(0));
    let computed_s = (who.cpu_s - passing_on_s).max(0.0);
    let lanes_of = Lanes {
        requests: &requests,
        in_lanes: &in_lanes,
        lanes: &lanes,
        who: Who {
            cpu_s: computed_s,
            processors_min: passed_on.processors_min(who, computed_s),
            ..who
        },
        bursts: &bursts,
        instants: &instants,
    };
    let Inferred {
        mut causes,
        began_ns,
        readings,
        processors,
    } = lanes_of.causes();
    // One alone waits for nobody's write.
    let passing_on_ns = match who.passing_on_ns {
        _ if who.clients < 2 => 0,
        Some(known_ns) => known_ns,
        None => passed_on.work_ns(&instants, &readings),
    };
    let is_of_log = |lane: usize| log_of[in_lanes[lane]] != NO_LOG;
    let lock_chance = if who.commits == 0 || who.clients < 2 {
        0.0
    } else {
        who.lock_chance.unwrap_or_else(|| {
            let held = (0..in_lanes.len()).filter(|lane| is_of_log(*lane)).map(|lane| {
                let Recorded {
                    issue_ns, done_ns, ..
                } = requests[in_lanes[lane]];
                (began_ns[lane].midpoint(issue_ns), done_ns)
            });
            chance(held.collect(), who.lock_waits)
        })
    };
    if who.commits > 0 {
        mix(&mut causes, is_of_log);
    }
    if who.commits == 0 && who.clients > 0 || who.processors_min > 0.0 {
        shorten(&mut causes, computed_s, is_of_log);
    }
    let mut facts = Facts {
        passing_on_us: passing_on_ns as f64 / 1e3,
        lock_chance,
        lanes: lanes.iter().copied().max().unwrap_or(0).max(who.clients),
        lost: recordings.iter().map(|recording| recording.lost).sum(),
        is_complete: recordings.iter().all(|recording| recording.is_complete),
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
        facts.count(&step, is_further[index]);
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
    let mut found = Dependencies {
        steps,
        milestones,
        logs,
        begins,
        passing_on_ns,
        lock_chance,
        processors,
        tail_ns: until_ns - last_ns,
        facts,
    };
    if who.lock_chance.is_none() && lock_chance > 0.0 {
        found.lock_chance = chance_of(lock_chance, who.lock_waits, |chance| {
            found.lock_chance = chance;
            let mut answers = answers.clone();
            replay(&found, |_, request| answers.done_ns(request)).lock_waits
        });
        found.facts.lock_chance = found.lock_chance;
    }
    Ok(found)
}

impl Facts {
    /// `is_further`: it is of a write that counts already, but for its bytes.
    fn count(&mut self, step: &Step, is_further: bool) {
        if !is_further {
            match step.kind {
                Kind::Read => self.reads += 1,
                Kind::Write => self.writes += 1,
                Kind::Flush => self.flushes += 1,
            }
            self.log_writes += u64::from(step.log != NO_LOG);
        }
        self.bytes += u64::from(step.length);
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
