//! What is written is read again, in its order, and what was cut off is told.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgassay_capture::format::encode::Seen;
use pgassay_capture::format::event::{Answer, Begin, End, EndReason, Event, Rows, What};
use pgassay_capture::store::reader::Capture;
use pgassay_capture::store::writer::{CaptureWriter, GroupLimits};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pgassay-capture-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn begin() -> Begin {
    Begin {
        protocol: 196_608,
        is_encrypted: false,
        parameters: vec![(b"user".to_vec(), b"u".to_vec())],
    }
}

fn seen(tag: u8, body: &[u8]) -> Seen<'_> {
    Seen {
        tag,
        body,
        left_out_bytes: None,
    }
}

fn complete(affected: u64) -> Answer {
    Answer::Complete {
        tag: Arc::from(&b"SELECT"[..]),
        affected: Some(affected),
        rows: Rows {
            count: affected,
            bytes: 12 * affected,
            sum: 0xDEAD_BEEF,
        },
    }
}

fn write_statements(writer: &mut CaptureWriter, session: u32, count: u64, from_ns: u64) {
    writer.open_session(session).unwrap();
    writer
        .record(session, |to| to.begin(session, from_ns, &begin()))
        .unwrap();
    writer
        .record(session, |to| to.ready(session, from_ns + 1))
        .unwrap();
    let parse = b"s1\0SELECT abalance FROM pgbench_accounts WHERE aid = $1\0\0\x01\0\0\0\x17";
    writer
        .record(session, |to| {
            to.messages(session, from_ns + 2, [seen(b'P', parse)])
        })
        .unwrap();
    let mut at = from_ns + 3;
    for number in 0..count {
        let mut bind = b"\0s1\0\0\0\0\x01\0\0\0\x06".to_vec();
        bind.extend_from_slice(format!("{:06}", number * 7919 % 1_000_000).as_bytes());
        bind.extend_from_slice(b"\0\x01\0\0");
        let messages = [
            seen(b'B', &bind),
            seen(b'D', b"P\0"),
            seen(b'E', b"\0\0\0\0\0"),
            seen(b'S', b""),
        ];
        // The times that a server takes are never alike.
        at += 40_000 + number * 7919 % 9973;
        writer
            .record(session, |to| to.messages(session, at, messages))
            .unwrap();
        at += 60_000 + number * 104_729 % 9973;
        let mut row_sum = complete(1);
        if let Answer::Complete { rows, .. } = &mut row_sum {
            rows.sum = (number as u32).wrapping_mul(2_654_435_761);
        }
        let answers = [
            Answer::Plain(b'2'),
            Answer::Description(b'T', Arc::from(&b"\0\x01abalance\0......"[..])),
            row_sum,
            Answer::Ready(b'I'),
        ];
        writer
            .record(session, |to| to.answers(session, at, &answers))
            .unwrap();
    }
}

fn end(writer: &mut CaptureWriter, session: u32, at_ns: u64) {
    let end = End {
        reason: EndReason::Terminated,
        sqlstate: None,
    };
    writer.record(session, |to| to.end(session, at_ns, end)).unwrap();
    writer.close_session(session).unwrap();
}

fn events(folder: &Path) -> Vec<Event> {
    let capture = Capture::open(folder).unwrap();
    capture.events().unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn what_is_written_is_read_and_a_statement_takes_at_most_40_bytes() {
    let folder = Folder::new("bytes");
    let mut writer = CaptureWriter::create(&folder.0, 1_000, GroupLimits::default()).unwrap();
    write_statements(&mut writer, 1, 20_000, 0);
    end(&mut writer, 1, 10_u64.pow(12));
    let bytes = writer.finish().unwrap();
    let values = 6 * 20_000;
    let each = bytes.saturating_sub(values) as f64 / 20_000.0;
    println!("{each:.1} bytes a statement");
    assert!(each <= 40.0, "{each} bytes a statement beside its values");

    let found = events(&folder.0);
    assert_eq!(found.len(), 3 + 40_000 + 1);
    assert!(found.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    let What::Messages(parse) = &found[2].what else {
        panic!("{:?}", found[2]);
    };
    assert_eq!(
        parse[0].body,
        b"s1\0SELECT abalance FROM pgbench_accounts WHERE aid = $1\0\0\x01\0\0\0\x17"
    );
    let What::Messages(bind) = &found[5].what else {
        panic!("{:?}", found[5]);
    };
    assert_eq!(bind[0].body, b"\0s1\0\0\0\0\x01\0\0\0\x06007919\0\x01\0\0");
    let mut sent = Vec::new();
    bind[3].write(&mut sent);
    assert_eq!(sent, b"S\0\0\0\x04");
    assert!(matches!(&found.last().unwrap().what, What::End(end) if end.reason == EndReason::Terminated));
}

#[test]
fn a_file_that_was_cut_anywhere_gives_its_whole_blocks() {
    let folder = Folder::new("cut");
    let mut writer = CaptureWriter::create(&folder.0, 1_000, GroupLimits::default()).unwrap();
    for part in 0..4_u32 {
        write_statements(&mut writer, part + 1, 10, u64::from(part) * 10_u64.pow(9));
        writer.flush().unwrap();
    }
    // As after kill -9: nothing is finished.
    drop(writer);
    let whole = events(&folder.0);
    assert_eq!(whole.len(), 4 * 23);
    let path = Capture::open(&folder.0).unwrap().files[0].clone();
    let length = fs::metadata(&path).unwrap().len();
    for cut in (32..length).rev().step_by(7) {
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(cut)
            .unwrap();
        let found = events(&folder.0);
        assert!(
            found.len() % 23 == 0 && found[..] == whole[..found.len()],
            "cut at {cut}"
        );
        assert_eq!(Capture::open(&folder.0).unwrap().unfinished.len(), 1);
    }
}

#[test]
fn groups_are_merged_by_time_and_dropped_sessions_left_out() {
    let folder = Folder::new("groups");
    let limits = GroupLimits {
        sessions: 2,
        ..GroupLimits::default()
    };
    let mut writer = CaptureWriter::create(&folder.0, 1_000, limits).unwrap();
    for session in 1..=5 {
        write_statements(&mut writer, session, 3, u64::from(session) * 1_000);
    }
    writer.record(4, |to| to.drop_session(4, 10_u64.pow(9))).unwrap();
    writer.close_session(4).unwrap();
    for session in [1, 2, 3, 5] {
        end(&mut writer, session, 10_u64.pow(9) + u64::from(session));
    }
    writer.finish().unwrap();
    let capture = Capture::open(&folder.0).unwrap();
    assert_eq!((capture.files.len(), capture.unfinished.len()), (3, 0));
    assert_eq!(capture.dropped.iter().copied().collect::<Vec<_>>(), [4]);
    let found = events(&folder.0);
    assert!(found.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    assert_eq!(found.len(), 4 * (3 + 6 + 1));
    assert!(found.iter().all(|event| event.session != 4));
}

#[test]
fn long_messages_secrets_and_left_out_data_come_back_as_they_should() {
    let folder = Folder::new("long");
    let mut writer = CaptureWriter::create(&folder.0, 1_000, GroupLimits::default()).unwrap();
    writer.open_session(1).unwrap();
    let long = vec![b'x'; 3 << 20];
    writer.record(1, |to| to.part(1, 1, &long[..1 << 20])).unwrap();
    writer
        .record(1, |to| to.part(1, 2, &long[1 << 20..2 << 20]))
        .unwrap();
    writer
        .record(1, |to| {
            to.messages(1, 3, [seen(b'B', &long[2 << 20..]), seen(b'S', b"")])
        })
        .unwrap();
    let left_out = Seen {
        tag: b'd',
        body: b"",
        left_out_bytes: Some(77),
    };
    let secret = seen(b'Q', b"ALTER ROLE a PASSWORD 'hunter2'\0");
    let odd = seen(b'Q', b"no zero, hunter2");
    writer
        .record(1, |to| to.messages(1, 4, [left_out, secret, odd]))
        .unwrap();
    writer.finish().unwrap();
    let found = events(&folder.0);
    let What::Messages(first) = &found[0].what else {
        panic!()
    };
    assert_eq!(
        (first[0].tag, first[0].body == long, first[1].tag),
        (b'B', true, b'S')
    );
    let What::Messages(second) = &found[1].what else {
        panic!()
    };
    assert_eq!((second[0].tag, second[0].left_out_bytes), (b'd', Some(77)));
    assert_eq!(
        second[1].text.as_deref(),
        Some(&b"ALTER ROLE a PASSWORD '***'"[..])
    );
    assert_eq!(
        (second[2].tag, second[2].left_out_bytes, second[2].body.len()),
        (b'Q', Some(16), 0)
    );
}
