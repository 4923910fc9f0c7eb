//! What a plan makes of a session that was captured: which answer ends what, whose columns are followed, how a part begins.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pgassay_capture::format::encode::Seen;
use pgassay_capture::format::event::{Answer, Begin, End, EndReason, Rows};
use pgassay_capture::store::writer::{CaptureWriter, GroupLimits};
use pgassay_replay::plan::{Kind, read};
use pgassay_replay::{Plan, Wanted};

/// What one side says at once.
enum Said {
    Client(Vec<(u8, Vec<u8>)>),
    Server(Vec<Answer>),
}

fn client(messages: &[(u8, &[u8])]) -> Said {
    Said::Client(messages.iter().map(|(tag, body)| (*tag, body.to_vec())).collect())
}

fn complete(tag: &[u8]) -> Answer {
    Answer::Complete {
        tag: Arc::from(tag),
        affected: Some(1),
        rows: Rows::default(),
    }
}

/// The plan of one session, whose parts follow each other by a second, from a time of it on.
fn plan_of(name: &str, said: &[Said], from_ns: Option<u64>) -> Plan {
    let folder: PathBuf = std::env::temp_dir().join(format!("pgassay-plan-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let mut writer = CaptureWriter::create(&folder, 0, GroupLimits::default()).unwrap();
    let begin = Begin {
        protocol: 196_608,
        is_encrypted: false,
        parameters: vec![(b"user".to_vec(), b"u".to_vec())],
    };
    writer.open_session(1).unwrap();
    writer.record(1, |to| to.begin(1, 0, &begin)).unwrap();
    writer.record(1, |to| to.ready(1, 0)).unwrap();
    let mut at_ns = 0;
    for part in said {
        at_ns += 1_000_000_000;
        match part {
            Said::Client(messages) => {
                let seen = messages.iter().map(|(tag, body)| Seen {
                    tag: *tag,
                    body,
                    left_out_bytes: None,
                });
                writer.record(1, |to| to.messages(1, at_ns, seen)).unwrap();
            }
            Said::Server(answers) => writer.record(1, |to| to.answers(1, at_ns, answers)).unwrap(),
        }
    }
    let end = End {
        reason: EndReason::Terminated,
        sqlstate: None,
    };
    writer.record(1, |to| to.end(1, at_ns, end)).unwrap();
    writer.close_session(1).unwrap();
    writer.finish().unwrap();
    let wanted = Wanted {
        from_ns,
        databases: HashMap::from([("u".to_owned(), "u".to_owned())]),
        ..Wanted::default()
    };
    let plan = read(&folder, &wanted).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    plan
}

const EXECUTE: (u8, &[u8]) = (b'E', b"\0\0\0\0\0");
const SYNC: (u8, &[u8]) = (b'S', b"");

fn copy() -> Vec<Said> {
    vec![
        // libpq and others send the first Sync before they know that the statement copies.
        client(&[
            (b'P', b"\0COPY t FROM STDIN\0\0\0"),
            (b'B', b"\0\0\0\0\0\0\0\0"),
            EXECUTE,
            SYNC,
        ]),
        Said::Server(vec![
            Answer::Plain(b'1'),
            Answer::Plain(b'2'),
            Answer::Plain(b'G'),
        ]),
        client(&[(b'd', b"1\n"), (b'c', b""), SYNC]),
        Said::Server(vec![complete(b"COPY"), Answer::Ready(b'I')]),
        client(&[(b'Q', b"SELECT 1\0")]),
        Said::Server(vec![complete(b"SELECT"), Answer::Ready(b'I')]),
    ]
}

#[test]
fn a_sync_that_the_server_ignores_within_copy_ends_no_step() {
    let plan = plan_of("copy", &copy(), None);
    let over: Vec<u32> = plan.sessions[0]
        .steps
        .iter()
        .map(|step| step.over_readies)
        .collect();
    assert_eq!(over, [1, 1, 2]);
}

#[test]
fn a_session_that_had_copied_by_then_is_played_from_a_later_time() {
    let plan = plan_of("copied", &copy(), Some(4_500_000_000));
    assert_eq!(plan.executions(), 1);
    let expected = &plan.sessions[0].expected[0];
    assert_eq!(expected.kind, Kind::Complete(Arc::from(&b"SELECT"[..]), Some(1)));
}

/// One column, int4, as text, of the first column of a table.
const DESCRIPTION: &[u8] = b"\0\x01id\0\0\0\x40\0\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";

#[test]
fn keys_are_followed_where_the_driver_asks_for_the_columns_when_it_prepares() {
    let said = [
        client(&[
            (b'P', b"a\0SELECT 1\0\0\0"),
            (b'D', b"Sa\0"),
            SYNC,
            (b'P', b"s\0INSERT INTO t (n) VALUES ($1) RETURNING id\0\0\0"),
            (b'D', b"Ss\0"),
            SYNC,
        ]),
        Said::Server(vec![
            // The first can't be prepared, so nothing describes it.
            Answer::Error {
                sqlstate: *b"42P01",
                rows: Rows::default(),
            },
            Answer::Ready(b'I'),
            Answer::Plain(b'1'),
            Answer::Description(b't', Arc::from(&b"\0\x01\0\0\0\x17"[..])),
            Answer::Description(b'T', Arc::from(DESCRIPTION)),
            Answer::Ready(b'I'),
        ]),
        client(&[(b'B', b"\0s\0\0\0\0\x01\0\0\0\x011\0\0"), EXECUTE, SYNC]),
        Said::Server(vec![
            Answer::Plain(b'2'),
            Answer::Row(b"\0\x01\0\0\0\x0217".to_vec()),
            complete(b"INSERT 0"),
            Answer::Ready(b'I'),
        ]),
    ];
    // Also where the statement was prepared before the part that is played.
    for from_ns in [None, Some(2_500_000_000)] {
        let plan = plan_of("described", &said, from_ns);
        let expected = &plan.sessions[0].expected;
        let execution = expected.iter().find(|each| each.columns != u32::MAX).unwrap();
        assert_eq!(execution.returned.range().len(), 1);
        assert_eq!(plan.columns[execution.columns as usize].len(), 1);
    }
}

#[test]
fn of_several_statements_before_a_part_those_are_sent_again_that_set_the_session_up() {
    let said = [
        client(&[(
            b'Q',
            b"/* app */ SET search_path = a; INSERT INTO t VALUES ('SET;'); SET work_mem = 64\0",
        )]),
        Said::Server(vec![
            complete(b"SET"),
            complete(b"INSERT 0"),
            complete(b"SET"),
            Answer::Ready(b'I'),
        ]),
        client(&[(b'Q', b"SELECT 1\0")]),
        Said::Server(vec![complete(b"SELECT"), Answer::Ready(b'I')]),
    ];
    let plan = plan_of("several", &said, Some(2_500_000_000));
    let sent = [
        &b"Q\0\0\0\x18SET search_path = a\0"[..],
        b"Q\0\0\0\x16SET work_mem = 64\0",
        b"Q\0\0\0\x0dSELECT 1\0",
    ];
    assert_eq!(
        String::from_utf8_lossy(&plan.bytes),
        String::from_utf8_lossy(&sent.concat())
    );
}

#[test]
fn a_statement_that_was_refused_before_a_part_takes_no_other_with_it() {
    let said = [
        client(&[(b'P', b"a\0SELECT nothing\0\0\0"), SYNC]),
        Said::Server(vec![
            Answer::Error {
                sqlstate: *b"42703",
                rows: Rows::default(),
            },
            Answer::Ready(b'I'),
        ]),
        client(&[(b'P', b"b\0SELECT 1\0\0\0"), SYNC]),
        Said::Server(vec![Answer::Plain(b'1'), Answer::Ready(b'I')]),
        client(&[(b'B', b"\0b\0\0\0\0\0\0\0"), EXECUTE, SYNC]),
        Said::Server(vec![
            Answer::Plain(b'2'),
            complete(b"SELECT"),
            Answer::Ready(b'I'),
        ]),
    ];
    let plan = plan_of("refused", &said, Some(4_500_000_000));
    // Each has a Sync of its own, and the execution another.
    let syncs = plan
        .bytes
        .windows(5)
        .filter(|bytes| *bytes == b"S\0\0\0\x04")
        .count();
    assert_eq!((syncs, plan.executions()), (3, 1));
}

#[test]
fn a_statement_that_was_closed_before_a_part_is_neither_prepared_nor_closed_again() {
    let said = [
        client(&[
            (b'P', b"_pg3_0\0SELECT 1\0\0\0"),
            (b'P', b"_pg3_1\0SELECT 2\0\0\0"),
            SYNC,
        ]),
        Said::Server(vec![
            Answer::Plain(b'1'),
            Answer::Plain(b'1'),
            Answer::Ready(b'I'),
        ]),
        client(&[(b'Q', b"DEALLOCATE _pg3_0\0")]),
        Said::Server(vec![complete(b"DEALLOCATE"), Answer::Ready(b'I')]),
        client(&[(b'B', b"\0_pg3_1\0\0\0\0\0\0\0"), EXECUTE, SYNC]),
        Said::Server(vec![
            Answer::Plain(b'2'),
            complete(b"SELECT"),
            Answer::Ready(b'I'),
        ]),
    ];
    let plan = plan_of("closed", &said, Some(4_500_000_000));
    let sent = String::from_utf8_lossy(&plan.bytes);
    assert!(sent.contains("SELECT 2") && !sent.contains("SELECT 1") && !sent.contains("DEALLOCATE"));
    assert_eq!(plan.executions(), 1);
}

#[test]
fn what_set_config_set_before_a_part_is_set_again() {
    let said = [
        client(&[(
            b'Q',
            b"SELECT set_config('TimeZone', 'Asia/Tokyo', false); \
              SELECT set_config('TimeZone', 'Europe/Berlin', false); \
              SELECT set_config('app.n', nextval('s')::text, false)\0",
        )]),
        Said::Server(vec![
            complete(b"SELECT"),
            complete(b"SELECT"),
            complete(b"SELECT"),
            Answer::Ready(b'I'),
        ]),
        client(&[(b'Q', b"SELECT 1\0")]),
        Said::Server(vec![complete(b"SELECT"), Answer::Ready(b'I')]),
    ];
    let plan = plan_of("configured", &said, Some(2_500_000_000));
    let sent = String::from_utf8_lossy(&plan.bytes);
    assert!(sent.contains("Europe/Berlin") && !sent.contains("Asia") && !sent.contains("nextval"));
    assert_eq!(plan.sessions[0].expected[0].kind, Kind::Unknown);
    assert_eq!(plan.executions(), 2);
}
