//! The file of a trace: what is written is read, and what was cut off or changed is told.

use pgassay_volume::Kind;
use pgassay_volume::recording::{Encoder, Recorded, Recording, decode, header, trailer};

#[allow(dead_code)] // each file draws what it needs
mod drawn;
use drawn::Draw;

fn drawn_requests(draw: &mut Draw, count: usize) -> Vec<Recorded> {
    (0..count)
        .map(|_| {
            let issue_ns = draw.magnitude(u64::MAX / 4);
            let kind = [Kind::Read, Kind::Write, Kind::Flush][draw.up_to(2) as usize];
            let is_flush = kind == Kind::Flush;
            Recorded {
                issue_ns,
                done_ns: issue_ns + draw.magnitude(u64::MAX / 4),
                kind,
                offset: if is_flush { 0 } else { draw.magnitude(u64::MAX - 1) },
                length: if is_flush {
                    0
                } else {
                    draw.magnitude(1 << 31) as u32
                },
            }
        })
        .collect()
}

fn file_of(requests: &[Recorded], lost: u64) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut file = header(77, 42);
    for request in requests {
        if let Some((chunk, _)) = encoder.add(request) {
            file.extend(chunk);
        }
    }
    file.extend(encoder.take().0);
    file.extend(trailer(requests.len() as u64, lost));
    file
}

#[test]
fn what_is_written_is_read() {
    let mut draw = Draw::new(1);
    for count in [0, 1, 2, 100, 20_000] {
        let mut requests = drawn_requests(&mut draw, count);
        let found = decode(&file_of(&requests, 3)).unwrap();
        requests.sort_by_key(|request| request.issue_ns);
        let expected = Recording {
            clock_ns: 77,
            overhead_ns: 42,
            requests,
            lost: 3,
            is_complete: true,
        };
        assert_eq!(found, expected, "{count}");
    }
}

#[test]
fn single_pages_of_a_gibibyte_take_a_dozen_bytes_each() {
    let mut draw = Draw::new(2);
    let requests: Vec<Recorded> = (0..10_000)
        .map(|number| Recorded {
            issue_ns: number * 100_000 + draw.up_to(50_000),
            done_ns: number * 100_000 + 700_000,
            kind: Kind::Read,
            offset: draw.up_to(131_071) * 8192,
            length: 8192,
        })
        .collect();
    assert!(file_of(&requests, 0).len() < 14 * requests.len());
}

#[test]
fn a_file_that_was_cut_off_gives_its_whole_chunks() {
    let requests = drawn_requests(&mut Draw::new(3), 9000);
    let file = file_of(&requests, 0);
    let mut before = 0;
    for length in (32..file.len()).step_by(4999) {
        let found = decode(&file[..length]).unwrap();
        assert!(!found.is_complete);
        assert!(found.requests.len() >= before);
        before = found.requests.len();
    }
    assert!(before > 0 && before < requests.len());
}

#[test]
fn any_changed_bit_behind_the_header_is_noticed_and_nothing_breaks() {
    let requests = drawn_requests(&mut Draw::new(4), 3000);
    let file = file_of(&requests, 0);
    let mut draw = Draw::new(5);
    for _ in 0..120 {
        let mut changed = file.clone();
        let at = 32 + draw.up_to(file.len() as u64 - 33) as usize;
        changed[at] ^= 1 << draw.up_to(7);
        assert!(!decode(&changed).unwrap().is_complete, "byte {at}");
    }
    for length in 0..200 {
        let noise: Vec<u8> = (0..length).map(|_| draw.up_to(255) as u8).collect();
        assert!(decode(&noise).is_err());
        let _ = decode(&[header(0, 0), noise].concat());
    }
}

#[test]
fn what_is_no_trace_is_refused_in_a_sentence() {
    let refused = decode(b"PGDMP and more than thirty-two bytes of it").unwrap_err();
    assert!(refused.to_string().contains("not a trace"));
    let mut later = header(0, 0);
    later[8] = 9;
    assert!(decode(&later).unwrap_err().to_string().contains("version 9"));
}
