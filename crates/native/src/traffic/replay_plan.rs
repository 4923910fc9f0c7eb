//! `capture-sessions` and `replay-plan`: what there is to play, without playing it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pgassay_capture::Fault;
use pgassay_capture::format::event::What;
use pgassay_capture::store::reader::Capture;
use pgassay_protocol::Failure;
use pgassay_replay::plan::{Kind, read};
use pgassay_replay::{Plan, Wanted};
use serde::Deserialize;
use serde_json::{Value, json};

use super::replay::{nanoseconds, seconds, text};
use crate::lines::{EXIT_USAGE, fail, read_document, write_line};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionsSpec {
    folder: PathBuf,
}

/// `capture-sessions`: says whose sessions a capture has, and gives the exit status.
pub fn capture_sessions() -> i32 {
    let spec = match read_document::<SessionsSpec>() {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    match sessions(&spec.folder) {
        Ok(found) => {
            write_line(&json!({ "sessions": found }));
            0
        }
        Err(fault) => fail(&Failure::client(fault.0), EXIT_USAGE),
    }
}

/// User, database and count of those that are alike, in the order of their first.
fn sessions(folder: &Path) -> Result<Vec<(String, String, u64)>, Fault> {
    let mut found: Vec<(String, String, u64)> = Vec::new();
    for event in Capture::open(folder)?.events()? {
        if let What::Begin(begin) = event?.what {
            let (user, database) = (begin.user(), begin.database());
            match found
                .iter_mut()
                .find(|known| known.0 == user && known.1 == database)
            {
                Some(known) => known.2 += 1,
                None => found.push((user, database, 1)),
            }
        }
    }
    Ok(found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanSpec {
    folder: PathBuf,
    database: String,
    #[serde(default)]
    from_s: Option<f64>,
    #[serde(default)]
    until_s: Option<f64>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    sample: Option<f64>,
}

/// `replay-plan`: says what a replay of one database would play, and gives the exit status.
pub fn replay_plan() -> i32 {
    let spec = match read_document::<PlanSpec>() {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    let wanted = Wanted {
        from_ns: spec.from_s.map(nanoseconds),
        until_ns: spec.until_s.map(nanoseconds),
        users: spec.users,
        sample: spec.sample,
        databases: HashMap::from([(spec.database.clone(), spec.database)]),
        ..Wanted::default()
    };
    match read(&spec.folder, &wanted) {
        Ok(plan) => {
            write_line(&json!({ "plan": described(&plan) }));
            0
        }
        Err(fault) => fail(&Failure::client(fault.0), EXIT_USAGE),
    }
}

fn described(plan: &Plan) -> Value {
    let mut families = vec![(0_u64, 0_u64); plan.families.len()];
    for session in &plan.sessions {
        for expected in &session.expected {
            if expected.kind != Kind::Ready {
                let (calls, busy_ns) = &mut families[expected.family as usize];
                *calls += 1;
                *busy_ns += expected.busy_ns;
            }
        }
    }
    let families: Vec<Value> = families
        .iter()
        .zip(&plan.families)
        .filter(|((calls, _), _)| *calls > 0)
        .map(|((calls, busy_ns), family)| {
            json!({
                "sample": text(&family.sample),
                "calls": calls,
                "seconds_captured": seconds(*busy_ns),
                "writes": family.writes,
            })
        })
        .collect();
    json!({
        "sessions": plan.sessions.len(),
        "sessions_most": most_at_once(plan),
        "left_out": plan.left_out,
        "statements": plan.executions(),
        "seconds_captured": seconds(plan.to_ns.saturating_sub(plan.from_ns)),
        "families": families,
    })
}

/// How many sessions were open at once.
fn most_at_once(plan: &Plan) -> usize {
    let mut edges: Vec<(u64, bool)> = Vec::with_capacity(2 * plan.sessions.len());
    for session in &plan.sessions {
        edges.push((session.begin_ns, true));
        edges.push((session.end_ns.unwrap_or(u64::MAX), false));
    }
    edges.sort_unstable();
    let (mut open, mut most) = (0_usize, 0);
    for (_, begins) in edges {
        open = if begins { open + 1 } else { open - 1 };
        most = most.max(open);
    }
    most
}
