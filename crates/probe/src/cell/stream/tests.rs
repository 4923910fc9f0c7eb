//! What a scan asks for, against the closed forms of read_stream.c.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::cell::burn::Burn;
use crate::cell::consumer::buffers_needed;
use crate::cell::meter::Meter;
use crate::cell::pattern::Requests;
use crate::reading::Completed;
use crate::sys::memory::{self, Pages};

/// Completes everything at once and keeps what was asked for; says that reads had to be waited for.
#[derive(Default)]
struct Recorder {
    started: VecDeque<Read>,
    runs: Vec<(u64, u64)>,
    in_flight_max: usize,
    in_flight_sum: usize,
    pages_max: u64,
    submits: usize,
}

impl Lane for Recorder {
    fn start(&mut self, read: Read, _watch: &mut Stopwatch) -> Result<(), Failure> {
        self.runs.push((read.run.block, read.run.pages));
        self.started.push_back(read);
        self.in_flight_max = self.in_flight_max.max(self.started.len());
        self.in_flight_sum += self.started.len();
        let pages = self.started.iter().map(|read| read.run.pages).sum();
        self.pages_max = self.pages_max.max(pages);
        Ok(())
    }

    fn submit(&mut self, _watch: &mut Stopwatch) -> Result<(), Failure> {
        self.submits += 1;
        Ok(())
    }

    fn wait(&mut self, wanted: Wanted, _watch: &mut Stopwatch) -> Result<Completed, Failure> {
        let read = self.started.pop_front().expect("a read that was started");
        assert_eq!(wanted, Wanted::Number(read.number), "in order");
        Ok(Completed {
            read,
            latency_ns: 1,
            broken: Vec::new(),
        })
    }
}

/// What a scan of `blocks` blocks asks for, and the bytes that it consumed.
fn scan(blocks: u64, more: &str) -> (Recorder, u64) {
    let bytes = blocks * PAGE_BYTES as u64;
    let spec: CellSpec = serde_json::from_str(&format!(
        r#"{{"file": "f", "engine": "null", "duration_s": 60, "depth": 16, "request_bytes": 131072,
             "bytes_max": {bytes} {more}}}"#
    ))
    .expect("a valid cell");
    let buffers = memory::buffers(buffers_needed(&spec), spec.request_bytes, Pages::Small);
    let stop = AtomicBool::new(false);
    let mut watch = Stopwatch::start();
    let mut consumer = Consumer {
        spec: &spec,
        requests: Requests::new(&spec, 1 << 20, 0, Arc::default()),
        buffers: buffers.expect("memory").into(),
        stop: &stop,
        deadline_ns: u64::MAX,
        bytes_left: bytes,
        burn: Burn::calibrated(),
        owed_pages: 0,
        meter: Meter::new(watch.start_ns(), 1_000_000),
    };
    let mut recorder = Recorder::default();
    consumer.run(&mut recorder, &mut watch).expect("nothing can fail");
    assert!(recorder.started.is_empty());
    (recorder, consumer.meter.bytes)
}

fn sizes(recorder: &Recorder) -> Vec<u64> {
    recorder.runs.iter().map(|(_, pages)| *pages).collect()
}

#[test]
fn reads_double_up_to_io_combine_limit_and_every_block_is_read_once() {
    for version in ["", r#", "major": 19"#] {
        let (recorder, bytes) = scan(1024, &format!(r#", "pattern": "sequential" {version}"#));
        let sizes = sizes(&recorder);
        assert_eq!(sizes[..6], [1, 2, 4, 8, 16, 16]);
        assert!(sizes[4..67].iter().all(|pages| *pages == 16));
        assert_eq!(sizes[67..], [1]);
        let mut next = 0;
        for (block, pages) in &recorder.runs {
            assert_eq!(*block, next);
            next += pages;
        }
        assert_eq!((next, bytes), (1024, 1024 * PAGE_BYTES as u64));
        // 17 reads' worth is pinned, of which 16 may be on their way.
        assert_eq!(recorder.in_flight_max, 16);
    }
}

#[test]
fn the_pins_of_a_small_server_end_the_look_ahead() {
    let (recorder, _) = scan(4096, r#", "pattern": "sequential", "pins": 94"#);
    // The read that is worked on has a part of them.
    assert!(recorder.pages_max <= 94 && recorder.pages_max > 94 - 2 * 16);
    assert!(recorder.in_flight_max <= 94_usize.div_ceil(16));
}

#[test]
fn mostly_found_blocks_shrink_the_look_ahead_of_18_and_not_that_of_19() {
    let found = r#", "pattern": "sequential", "found": 0.99"#;
    let (of_18, bytes) = scan(50_000, found);
    let (of_19, _) = scan(50_000, &format!(r#"{found}, "major": 19"#));
    assert_eq!(bytes, 50_000 * PAGE_BYTES as u64, "what is found counts as well");
    let share = of_18.runs.iter().map(|(_, pages)| pages).sum::<u64>() as f64 / 50_000.0;
    assert!((share - 0.01).abs() < 0.003, "{share}");
    // It doubles with each block that is read and loses about 99 before the next, which it doesn't survive; 19
    // keeps its 272 blocks through as many that are found, 2.7 of which are read.
    let in_flight = |recorder: &Recorder| recorder.in_flight_sum as f64 / recorder.runs.len() as f64;
    assert!(in_flight(&of_18) < 1.5, "{}", in_flight(&of_18));
    assert!(in_flight(&of_19) > 2.5, "{}", in_flight(&of_19));
}

#[test]
fn with_everything_found_nothing_is_read() {
    let (recorder, bytes) = scan(1000, r#", "pattern": "sequential", "found": 1"#);
    assert!(recorder.runs.is_empty() && recorder.submits == 0);
    assert_eq!(bytes, 1000 * PAGE_BYTES as u64);
}

#[test]
fn gaps_end_a_read_and_requests_are_submitted_together() {
    let (recorder, _) = scan(3000, r#", "pattern": "gaps", "gap": 0.1"#);
    assert_eq!(recorder.in_flight_max, 16);
    assert!(sizes(&recorder).iter().all(|pages| *pages < 16));
    assert!(recorder.submits < recorder.runs.len());
}
