//! `replay`: plays a capture against a server.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hdrhistogram::Histogram;
use pgassay_load::timed::{Timed, serialise};
use pgassay_protocol::{Failure, Parameters, requests};
use pgassay_replay::plan::{Session, Touch, read};
use pgassay_replay::play::Progress;
use pgassay_replay::play::opening::{Opened, Opener};
use pgassay_replay::play::tally::FamilyTally;
use pgassay_replay::{Outcome, Plan, Player, Wanted};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connect;
use crate::lines::{EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::link::{Link, allow_many_sockets};

const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
const READ_ONLY: &str = "-c default_transaction_read_only=on";
/// What the connection itself says, or what a session of a replay has of its own.
const NOT_SETTINGS: [&str; 6] = [
    "user",
    "database",
    "replication",
    "options",
    "application_name",
    "client_encoding",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplaySpec {
    connect: Parameters,
    folder: PathBuf,
    /// None: as fast as the order allows.
    speed: Option<f64>,
    #[serde(default)]
    from_s: Option<f64>,
    #[serde(default)]
    until_s: Option<f64>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    sample: Option<f64>,
    /// The capture's databases, and the server's.
    databases: HashMap<String, String>,
    /// By database of the capture and word: numbers of tables that it makes a statement read, write, and look into.
    #[serde(default)]
    names: HashMap<String, HashMap<String, Words>>,
    #[serde(default)]
    tables: u32,
    /// By the server's database and user of the capture: options of its sessions, as `-c role=app`.
    #[serde(default)]
    options: RoleOptions,
    /// Whether statements that may write are played.
    writes: bool,
    /// When no server says anything for so long the sessions end; a minute without.
    #[serde(default)]
    silent_s: Option<f64>,
}

type RoleOptions = HashMap<String, HashMap<String, String>>;
/// Tables that it reads, writes and refers to; whether new rows take values of a sequence.
type Words = (Vec<u32>, Vec<u32>, Vec<u32>, bool);

/// Runs the command and gives its exit status; ends early when standard input closes.
pub fn replay() -> i32 {
    let spec = match read_document::<ReplaySpec>() {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    let started = Instant::now();
    let wanted = wanted(&spec);
    let plan = match read(&spec.folder, &wanted) {
        Ok(plan) => plan,
        Err(fault) => return fail(&Failure::client(fault.0), EXIT_USAGE),
    };
    let writing = plan.families.iter().filter(|family| family.writes);
    write_line(&json!({ "ready": {
        "sessions": plan.sessions.len(),
        "left_out": plan.left_out,
        "unfinished": plan.unfinished,
        "statements": plan.executions(),
        "seconds_captured": seconds(plan.to_ns.saturating_sub(plan.from_ns)),
        "writing": writing.clone().count(),
        "writing_example": writing.map(|family| text(&family.sample)).next(),
        "prepared_in_s": started.elapsed().as_secs_f64(),
        "users": plan.sessions.iter().map(|session| &session.user).collect::<std::collections::BTreeSet<_>>(),
    } }));
    if !spec.writes && plan.families.iter().any(|family| family.writes) {
        return fail(
            &Failure::client("the capture has statements that may write"),
            EXIT_USAGE,
        );
    }
    allow_many_sockets();
    match play(spec, plan) {
        Ok(()) => 0,
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
}

fn play(spec: ReplaySpec, plan: Plan) -> Result<(), Failure> {
    let system = |error: std::io::Error| Failure::client(error.to_string());
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stop);
    watch_input(move || stopper.store(true, Ordering::Relaxed)).map_err(system)?;
    let plan = Arc::new(plan);
    let opener = LinkOpener {
        parameters: spec.connect,
        options: spec.options,
        writes: spec.writes,
    };
    let mut player = Player::new(Arc::clone(&plan), spec.speed, opener).map_err(system)?;
    if let Some(silent_s) = spec.silent_s {
        player.silent_ns = nanoseconds(silent_s);
    }
    let outcome = player.play(&stop, |progress| {
        write_line(&json!({ "progress": shown(progress) }))
    })?;
    let mut ended = document(&plan, &outcome);
    ended["measured"] = measured(&outcome)?;
    write_line(&json!({ "ended": ended }));
    Ok(())
}

fn wanted(spec: &ReplaySpec) -> Wanted {
    let touches = |words: &HashMap<String, Words>| {
        let touch = |(reads, writes, refers, is_numbered): &Words| Touch {
            reads: reads.clone(),
            writes: writes.clone(),
            refers: refers.clone(),
            is_numbered: *is_numbered,
        };
        words
            .iter()
            .map(|(word, tables)| (word.clone(), touch(tables)))
            .collect()
    };
    Wanted {
        from_ns: spec.from_s.map(nanoseconds),
        until_ns: spec.until_s.map(nanoseconds),
        users: spec.users.clone(),
        sample: spec.sample,
        databases: spec.databases.clone(),
        names: spec
            .names
            .iter()
            .map(|(database, words)| (database.clone(), touches(words)))
            .collect(),
        tables: spec.tables,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn nanoseconds(s: f64) -> u64 {
    (s * 1e9) as u64
}

struct LinkOpener {
    parameters: Parameters,
    options: RoleOptions,
    writes: bool,
}

impl LinkOpener {
    fn of(&self, session: &Session) -> Parameters {
        let mut parameters = self.parameters.clone();
        parameters.dbname.clone_from(&session.database);
        let mut options = vec![parameters.options.clone()];
        let of_roles = self.options.get(&session.database);
        options.extend(of_roles.and_then(|roles| roles.get(&session.user)).cloned());
        for (name, value) in &session.parameters {
            match name.as_str() {
                "options" => options.push(value.clone()),
                "application_name" => parameters.application_name.clone_from(value),
                "client_encoding" => parameters.client_encoding = Some(value.clone()),
                name if NOT_SETTINGS.contains(&name) || name.starts_with("_pq_.") => {}
                name => options.push(format!("-c {name}={}", escaped(value))),
            }
        }
        if !self.writes {
            // Behind what the captured role or client had set itself: the last one holds.
            options.push(READ_ONLY.to_owned());
        }
        options.retain(|part| !part.is_empty());
        parameters.options = options.join(" ");
        parameters
    }
}

/// A value within `options`: spaces and backslashes have a backslash before them.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(' ', "\\ ")
}

impl Opener for LinkOpener {
    type Transport = Link;

    fn open(&self, session: &Session) -> Result<Opened<Link>, Failure> {
        let connection = connect::open(&self.of(session))?;
        let key = (connection.session.process_id, connection.session.secret_key);
        let transport = Link::from_socket(connection.socket)?;
        Ok(Opened { transport, key })
    }

    fn cancel(&self, (process_id, secret_key): (i32, i32)) {
        let mut request = BytesMut::new();
        requests::cancel(process_id, secret_key, &mut request);
        // Best effort: where the server can't be reached any more there is nothing to cancel.
        if let Ok(mut socket) = connect::open_socket(&self.parameters, CANCEL_TIMEOUT) {
            let _ = socket.set_read_timeout(Some(CANCEL_TIMEOUT));
            if socket.write_all(&request).is_ok() {
                let _ = socket.read(&mut [0]);
            }
        }
    }
}

fn shown(progress: Progress) -> Value {
    json!({
        "elapsed_s": seconds(progress.elapsed_ns),
        "replayed": progress.replayed,
        "open": progress.open,
        "behind_s": seconds(progress.behind_ns),
    })
}

fn document(plan: &Plan, outcome: &Outcome) -> Value {
    let tally = &outcome.tally;
    let families = tally.families.iter().zip(&plan.families);
    let families: Vec<Value> = families
        .filter_map(|(found, family)| {
            let found = found.as_deref()?;
            Some(of_family(&text(&family.sample), found))
        })
        .collect();
    json!({
        "is_stopped": outcome.is_stopped,
        "seconds": seconds(outcome.elapsed_ns),
        "seconds_captured": seconds(plan.to_ns.saturating_sub(plan.from_ns)),
        "replayed": tally.replayed,
        "lacking": tally.lacking,
        "reordered": tally.reordered,
        "replaced": tally.replaced,
        "waited_s": seconds(tally.waited_ns),
        "sessions_opened": tally.opened,
        "sessions_lost": tally.lost,
        "failures": tally.failures.iter().collect::<BTreeMap<_, _>>(),
        "latency_ms": percentiles(&tally.latency),
        "behind_ms": percentiles(&tally.behind),
        "player": {
            "cpu_s": seconds(outcome.cpu_ns),
            "without_processor_s": seconds(outcome.without_processor_ns),
            "late_ms": percentiles(&tally.late),
        },
        "families": families,
    })
}

/// What a load's record has of it as well: readings of the monotonic clock, and histograms of microseconds.
fn measured(outcome: &Outcome) -> Result<Value, Failure> {
    let latency = in_microseconds(&outcome.tally.latency)?;
    let late = in_microseconds(&outcome.tally.late)?;
    Ok(json!({
        "start_ns": outcome.start_ns,
        "end_ns": outcome.start_ns + outcome.elapsed_ns,
        "latency_ms": figures(&outcome.tally.latency),
        "histogram": latency,
        "own_delay_ms": figures(&outcome.tally.late),
        "own_delay_histogram": late,
    }))
}

fn in_microseconds(times: &Histogram<u64>) -> Result<String, Failure> {
    let mut found = Timed::default().histogram;
    for each in times.iter_recorded() {
        let us = (each.value_iterated_to() / 1000).max(1);
        found.saturating_record_n(us, each.count_at_value());
    }
    serialise(&found)
}

/// As those of a load's latencies; zeros of nothing.
#[allow(clippy::cast_precision_loss)]
fn figures(times: &Histogram<u64>) -> Value {
    let at = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e6;
    json!({
        "mean": times.mean() / 1e6, "min": times.min() as f64 / 1e6, "max": times.max() as f64 / 1e6,
        "p50": at(0.5), "p75": at(0.75), "p90": at(0.9), "p95": at(0.95),
        "p99": at(0.99), "p99.9": at(0.999), "p99.99": at(0.9999),
    })
}

fn of_family(sample: &str, found: &FamilyTally) -> Value {
    json!({
        "sample": sample,
        "calls": found.calls,
        "diverged": found.diverged,
        "other_values": found.other_values,
        "seconds_captured": seconds(found.captured_ns),
        "seconds": seconds(found.replayed_ns),
        "same": found.same,
        "same_s": seconds(found.same_ns),
        "diverged_s": seconds(found.diverged_ns),
        "example": found.example.as_ref().map(|(expected, came)| json!({ "captured": expected, "now": came })),
        "times_ms": percentiles(&found.times),
    })
}

#[allow(clippy::cast_precision_loss)]
fn percentiles(times: &Histogram<u64>) -> Value {
    let at = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e6;
    if times.is_empty() {
        return Value::Null;
    }
    json!({
        "mean": times.mean() / 1e6,
        "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "p99.9": at(0.999),
        "max": times.max() as f64 / 1e6,
    })
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_stay_read_only_whatever_the_captured_role_or_client_had_set() {
        let writable = "-c default_transaction_read_only=off";
        let session = Session {
            begin_ns: 0,
            end_ns: None,
            parameters: vec![("options".to_owned(), writable.to_owned())],
            user: "app".to_owned(),
            database: "shop".to_owned(),
            steps: Vec::new(),
            expected: Vec::new(),
            cancels: Vec::new(),
            after_ended: 0,
            ended_place: None,
        };
        let options = |writes: bool| {
            let connect = json!({ "host": "/run", "port": 5432, "user": "u", "dbname": "d" });
            let opener = LinkOpener {
                parameters: serde_json::from_value(connect).unwrap(),
                options: ["shop", "other"]
                    .map(|database| {
                        let options = if database == "shop" {
                            writable
                        } else {
                            "-c role=other"
                        };
                        let of_role = HashMap::from([("app".to_owned(), options.to_owned())]);
                        (database.to_owned(), of_role)
                    })
                    .into(),
                writes,
            };
            opener.of(&session).options
        };
        assert_eq!(options(false), format!("{writable} {writable} {READ_ONLY}"));
        assert_eq!(options(true), format!("{writable} {writable}"));
    }
}
