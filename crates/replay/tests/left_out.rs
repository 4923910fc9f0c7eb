//! What a plan makes of sessions that are not played: others wait for nothing of theirs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pgassay_capture::format::encode::Seen;
use pgassay_capture::format::event::{Answer, Begin, End, EndReason, Rows};
use pgassay_capture::store::writer::{CaptureWriter, GroupLimits};
use pgassay_replay::Wanted;
use pgassay_replay::plan::{Touch, read};

const REFUSED: u32 = 1;
const PLAYED: u32 = 2;

fn query(body: &[u8]) -> Seen<'_> {
    Seen {
        tag: b'Q',
        body,
        left_out_bytes: None,
    }
}

fn end(reason: EndReason) -> End {
    End {
        reason,
        sqlstate: None,
    }
}

/// One session that sent a SELECT with its startup and was refused, and one that then wrote into the same table.
fn write(folder: &Path) {
    let begin = Begin {
        protocol: 196_608,
        is_encrypted: false,
        parameters: vec![(b"user".to_vec(), b"u".to_vec())],
    };
    let done = [
        Answer::Complete {
            tag: Arc::from(&b"UPDATE"[..]),
            affected: Some(1),
            rows: Rows::default(),
        },
        Answer::Ready(b'I'),
    ];
    let mut writer = CaptureWriter::create(folder, 0, GroupLimits::default()).unwrap();
    for session in [REFUSED, PLAYED] {
        writer.open_session(session).unwrap();
        writer.record(session, |to| to.begin(session, 0, &begin)).unwrap();
    }
    let ahead = [query(b"SELECT * FROM t\0")].into_iter();
    writer
        .record(REFUSED, |to| to.messages(REFUSED, 1, ahead))
        .unwrap();
    writer
        .record(REFUSED, |to| to.end(REFUSED, 2, end(EndReason::Refused)))
        .unwrap();
    writer.close_session(REFUSED).unwrap();
    writer.record(PLAYED, |to| to.ready(PLAYED, 3)).unwrap();
    let sent = [query(b"UPDATE t SET a = 1\0")].into_iter();
    writer.record(PLAYED, |to| to.messages(PLAYED, 4, sent)).unwrap();
    writer.record(PLAYED, |to| to.answers(PLAYED, 5, &done)).unwrap();
    writer
        .record(PLAYED, |to| to.end(PLAYED, 6, end(EndReason::Terminated)))
        .unwrap();
    writer.close_session(PLAYED).unwrap();
    writer.finish().unwrap();
}

#[test]
fn what_a_refused_session_sent_ahead_keeps_nobody_waiting() {
    let folder = std::env::temp_dir().join(format!("pgassay-left-out-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    write(&folder);
    let table = Touch {
        reads: vec![0],
        ..Touch::default()
    };
    let wanted = Wanted {
        databases: HashMap::from([("u".to_owned(), "u".to_owned())]),
        names: HashMap::from([("u".to_owned(), HashMap::from([("t".to_owned(), table)]))]),
        tables: 1,
        ..Wanted::default()
    };
    let plan = read(&folder, &wanted).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((plan.sessions.len(), plan.left_out), (1, 1));
    // A commit waits for the reads that had begun before it, and the one that there was counts as done.
    let update = &plan.sessions[0].steps[0];
    let waits = &plan.waits[update.waits.range()];
    assert_eq!(waits.len(), 1);
    assert_eq!(plan.undone.len(), 1);
    assert_eq!(
        (waits[0].queue, waits[0].count),
        (plan.undone[0].queue, plan.undone[0].place + 1)
    );
}
