//! What sessions wait for that send pipelines: several executions before a Sync, in several packets.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use pgassay_capture::format::encode::Seen;
use pgassay_capture::format::event::{Answer, Begin, End, EndReason, Rows};
use pgassay_capture::store::writer::{CaptureWriter, GroupLimits};
use pgassay_replay::plan::{Touch, read};
use pgassay_replay::{Plan, Wanted};

const PIPELINE: u32 = 1;
const OTHER: u32 = 2;
const EXECUTE: (u8, &[u8]) = (b'E', b"\0\0\0\0\0");
const BIND: (u8, &[u8]) = (b'B', b"\0\0\0\0\0\0\0\0");
const SYNC: (u8, &[u8]) = (b'S', b"");
const UPDATE_T: (u8, &[u8]) = (b'P', b"\0UPDATE t SET n = 1\0\0\0");
const UPDATE_U: (u8, &[u8]) = (b'P', b"\0UPDATE u SET n = 1\0\0\0");
const SELECT_T: (u8, &[u8]) = (b'P', b"\0SELECT n FROM t\0\0\0");

enum Said {
    Client(u32, Vec<(u8, &'static [u8])>),
    Server(u32, usize),
}

/// The plan of two sessions; each thing is said a millisecond after the one before.
fn plan_of(name: &str, said: &[Said]) -> Plan {
    let folder = std::env::temp_dir().join(format!("pgassay-pipelines-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let mut writer = CaptureWriter::create(&folder, 0, GroupLimits::default()).unwrap();
    let begin = Begin {
        protocol: 196_608,
        is_encrypted: false,
        parameters: vec![(b"user".to_vec(), b"u".to_vec())],
    };
    for session in [PIPELINE, OTHER] {
        let at_ns = u64::from(session);
        writer.open_session(session).unwrap();
        writer
            .record(session, |to| to.begin(session, at_ns, &begin))
            .unwrap();
        writer.record(session, |to| to.ready(session, at_ns)).unwrap();
    }
    let mut at_ns = 0;
    for part in said {
        at_ns += 1_000_000;
        match part {
            Said::Client(session, messages) => {
                let seen = messages.iter().map(|(tag, body)| Seen {
                    tag: *tag,
                    body,
                    left_out_bytes: None,
                });
                writer
                    .record(*session, |to| to.messages(*session, at_ns, seen))
                    .unwrap();
            }
            Said::Server(session, executions) => {
                let complete = Answer::Complete {
                    tag: Arc::from(&b"UPDATE"[..]),
                    affected: Some(1),
                    rows: Rows::default(),
                };
                let mut answers = vec![complete; *executions];
                answers.push(Answer::Ready(b'I'));
                writer
                    .record(*session, |to| to.answers(*session, at_ns, &answers))
                    .unwrap();
            }
        }
    }
    for session in [PIPELINE, OTHER] {
        let end = End {
            reason: EndReason::Terminated,
            sqlstate: None,
        };
        writer.record(session, |to| to.end(session, at_ns, end)).unwrap();
        writer.close_session(session).unwrap();
    }
    writer.finish().unwrap();
    let table = |number: u32| Touch {
        reads: vec![number],
        ..Default::default()
    };
    let names = HashMap::from([("t".to_owned(), table(0)), ("u".to_owned(), table(1))]);
    let wanted = Wanted {
        databases: HashMap::from([("u".to_owned(), "u".to_owned())]),
        names: HashMap::from([("u".to_owned(), names)]),
        tables: 2,
        ..Wanted::default()
    };
    let plan = read(&folder, &wanted).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    plan
}

/// By step of a session, for how many members of which queues it waits.
fn waits_of(plan: &Plan, session: usize) -> Vec<Vec<(u32, u32)>> {
    let steps = plan.sessions[session].steps.iter();
    steps
        .map(|step| {
            let waits = plan.waits[step.waits.range()].iter();
            let mut found: Vec<_> = waits.map(|wait| (wait.queue, wait.count)).collect();
            found.sort_unstable();
            found
        })
        .collect()
}

fn update(session: u32, statement: (u8, &'static [u8])) -> Said {
    Said::Client(session, vec![statement, BIND, EXECUTE, SYNC])
}

#[test]
fn the_first_step_of_a_pipeline_waits_for_all_of_it_and_the_others_for_nobody() {
    let plan = plan_of(
        "first",
        &[
            update(OTHER, UPDATE_T),
            Said::Server(OTHER, 1),
            update(OTHER, UPDATE_U),
            Said::Server(OTHER, 1),
            Said::Client(PIPELINE, vec![UPDATE_T, BIND, EXECUTE]),
            // To wait for this one with the pipeline's locks could be to wait for ever.
            update(OTHER, UPDATE_U),
            Said::Server(OTHER, 1),
            Said::Client(PIPELINE, vec![UPDATE_U, BIND, EXECUTE]),
            Said::Client(PIPELINE, vec![SYNC]),
            Said::Server(PIPELINE, 2),
            update(PIPELINE, UPDATE_U),
            Said::Server(PIPELINE, 1),
        ],
    );
    // Commits and writes of t, commits and writes of u.
    let all = vec![(0, 1), (2, 1), (3, 1), (5, 1)];
    let later = vec![(3, 3), (5, 3)];
    assert_eq!(waits_of(&plan, 0), [all, vec![], vec![], later]);
}

#[test]
fn no_circle_comes_of_a_pipeline_whose_read_another_session_s_commit_waits_for() {
    let plan = plan_of(
        "circle",
        &[
            Said::Client(PIPELINE, vec![SELECT_T, BIND, EXECUTE]),
            update(OTHER, UPDATE_T),
            Said::Server(OTHER, 1),
            Said::Client(PIPELINE, vec![UPDATE_T, BIND, EXECUTE, SYNC]),
            Said::Server(PIPELINE, 2),
        ],
    );
    assert_eq!(waits_of(&plan, 1), [[(1, 1)]]);
    assert_eq!(waits_of(&plan, 0), [vec![], vec![]]);
}

#[test]
fn what_follows_a_prepare_that_was_flushed_waits_for_itself() {
    let plan = plan_of(
        "flushed",
        &[
            Said::Client(PIPELINE, vec![UPDATE_T, (b'H', b"")]),
            update(OTHER, UPDATE_T),
            Said::Server(OTHER, 1),
            Said::Client(PIPELINE, vec![BIND, EXECUTE, SYNC]),
            Said::Server(PIPELINE, 1),
        ],
    );
    assert_eq!(waits_of(&plan, 0), [vec![], vec![(0, 1), (2, 1)]]);
}
