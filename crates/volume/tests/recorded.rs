//! Recorded on one volume, predicted on another. The oracle is a system whose parts are known: its clients are
//! run on both volumes, and what a block device would see on the one must give the time on the other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pgassay_volume::recording::{Recorded, Recording};
use pgassay_volume::simulate::{Dependencies, STRETCHES};
use pgassay_volume::{Distribution, Kind, Latency, Limiter, Model, Request, Scope, Unit, Volume};

#[allow(dead_code)] // each file draws what it needs
mod drawn;
use drawn::Draw;

const MANY: f64 = 1000.0;

fn volume_of(latency_us: f64, sigma: f64, iops: Option<u64>) -> Model {
    let latency = Distribution {
        median_ns: latency_us * 1000.0,
        sigma,
        bytes_per_second: None,
    };
    let limiters = iops
        .map(|rate| Limiter {
            name: "operations".to_owned(),
            scope: Scope::Volume,
            unit: Unit::Operations,
            rate,
            peak: None,
            capacity: 0,
            fill: None,
            quantum_bytes: 1 << 18,
            merging: false,
            reset_period_s: None,
            window_ns: 1_000_000,
        })
        .into_iter()
        .collect();
    Model {
        name: format!("{latency_us} µs"),
        stripes: pgassay_volume::Stripes::default(),
        limiters,
        latency: Latency {
            read: latency,
            write: latency,
            flush: latency,
        },
    }
}

fn predicted_ns(recording: &Recording, model: &Model, processors: f64) -> u64 {
    let inferred = Dependencies::infer(recording, &[], processors).unwrap();
    (inferred.simulate(model, 1.0, 1).unwrap().elapsed_s * 1e9).round() as u64
}

fn elapsed_ns(recording: &Recording) -> u64 {
    let requests = &recording.requests;
    requests.iter().map(|request| request.done_ns).max().unwrap() - requests[0].issue_ns
}

fn recording_of(mut requests: Vec<Recorded>) -> Recording {
    requests.sort_by_key(|request| request.issue_ns);
    Recording {
        requests,
        is_complete: true,
        ..Recording::default()
    }
}

fn read(arrival_ns: u64, offset: u64) -> Request {
    Request {
        arrival_ns,
        kind: Kind::Read,
        offset,
        length: 8192,
    }
}

fn recorded(request: &Request, done_ns: u64) -> Recorded {
    Recorded {
        issue_ns: request.arrival_ns,
        done_ns,
        kind: request.kind,
        offset: request.offset,
        length: request.length,
    }
}

/// Clients that compute, read a page, and so on, each with a processor of its own.
fn clients(model: &Model, count: usize, reads: usize, computing_ns: impl Fn(&mut Draw) -> u64) -> Recording {
    let mut volume = Volume::new(model, 7).unwrap();
    let mut draws: Vec<Draw> = (0..count).map(|client| Draw::new(client as u64)).collect();
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> = (0..count)
        .map(|client| Reverse((computing_ns(&mut draws[client]), client)))
        .collect();
    let mut requests = Vec::new();
    while requests.len() < reads {
        let Reverse((at, client)) = ready.pop().unwrap();
        let request = read(at, draws[client].up_to(1 << 20) * 8192);
        let done_ns = volume.submit(&request).done_ns;
        requests.push(recorded(&request, done_ns));
        ready.push(Reverse((done_ns + computing_ns(&mut draws[client]), client)));
    }
    recording_of(requests)
}

/// A reader that looks ahead by `window` requests of which `workers` at most are on their way, and computes for
/// each in their order.
fn look_ahead(
    model: &Model,
    reads: usize,
    window: usize,
    workers: usize,
    computing_ns: u64,
) -> (Recording, u64) {
    let mut volume = Volume::new(model, 7).unwrap();
    let mut requests: Vec<Recorded> = Vec::new();
    let mut free: BinaryHeap<Reverse<u64>> = (0..workers).map(|_| Reverse(0)).collect();
    let mut consumed: VecDeque<u64> = VecDeque::new();
    let mut last_consumed_ns = 0;
    for number in 0..reads {
        let Reverse(free_ns) = free.pop().unwrap();
        let allowed_ns = if number < window {
            0
        } else {
            consumed.pop_front().unwrap()
        };
        let request = read(free_ns.max(allowed_ns), number as u64 * 8192);
        let done_ns = volume.submit(&request).done_ns;
        free.push(Reverse(done_ns));
        last_consumed_ns = done_ns.max(last_consumed_ns) + computing_ns;
        consumed.push_back(last_consumed_ns);
        requests.push(recorded(&request, done_ns));
    }
    (recording_of(requests), last_consumed_ns)
}

fn assert_within(found: u64, expected: u64, share: f64, what: &str) {
    let ratio = found as f64 / expected as f64;
    assert!(
        (ratio - 1.0).abs() <= share,
        "{what}: {found} for {expected} ({ratio:.3})"
    );
}

#[test]
fn one_client_is_predicted_to_the_nanosecond() {
    let computing = |draw: &mut Draw| 1000 + draw.up_to(400_000);
    let models = [
        volume_of(0.0, 0.0, None),
        volume_of(250.0, 0.0, None),
        volume_of(600.0, 0.0, Some(300)),
        volume_of(5000.0, 0.0, None),
    ];
    let runs: Vec<Recording> = models
        .iter()
        .map(|model| clients(model, 1, 3000, computing))
        .collect();
    for run in &runs {
        for (model, expected) in models.iter().zip(&runs) {
            assert_eq!(
                predicted_ns(run, model, 1.0),
                elapsed_ns(expected),
                "{}",
                model.name
            );
        }
    }
}

#[test]
fn recorded_answers_give_the_recorded_times_back() {
    let mut draw = Draw::new(1);
    for case in 0..60 {
        // Anything at all: bursts, pauses, answers in any order.
        let mut at = 0;
        let requests: Vec<Recorded> = (0..400)
            .map(|number| {
                at += draw.magnitude(1_000_000);
                let kind = [Kind::Read, Kind::Read, Kind::Read, Kind::Flush][draw.up_to(3) as usize];
                Recorded {
                    issue_ns: at,
                    done_ns: at + draw.magnitude(3_000_000),
                    kind,
                    // The place is the name by which the answer is found.
                    offset: number,
                    length: 512,
                }
            })
            .collect();
        let answers: Vec<u64> = requests.iter().map(|each| each.done_ns - each.issue_ns).collect();
        let recording = recording_of(requests);
        let inferred = Dependencies::infer(&recording, &[], MANY).unwrap();
        let first_ns = recording.requests[0].issue_ns;
        let mut issued = vec![0; answers.len()];
        let elapsed = inferred.replay(|request| {
            issued[request.offset as usize] = request.arrival_ns;
            request.arrival_ns + answers[request.offset as usize]
        });
        assert_eq!(elapsed, elapsed_ns(&recording), "case {case}");
        let expected: Vec<u64> = recording
            .requests
            .iter()
            .map(|each| each.issue_ns - first_ns)
            .collect();
        assert_eq!(issued, expected, "case {case}");
    }
}

#[test]
fn twenty_clients_are_predicted_on_slower_and_faster_volumes() {
    let computing = |draw: &mut Draw| 20_000 + draw.up_to(100_000);
    let models = [
        volume_of(300.0, 0.4, None),
        volume_of(600.0, 0.4, None),
        volume_of(2000.0, 0.2, None),
        volume_of(600.0, 0.4, Some(3000)),
        volume_of(600.0, 0.4, Some(12_000)),
    ];
    let runs: Vec<Recording> = models
        .iter()
        .map(|model| clients(model, 20, 8000, computing))
        .collect();
    for run in &runs {
        for (model, expected) in models.iter().zip(&runs) {
            assert_within(
                predicted_ns(run, model, MANY),
                elapsed_ns(expected),
                0.05,
                &model.name,
            );
        }
    }
}

#[test]
fn a_look_ahead_is_as_fast_as_the_slower_of_reading_and_computing() {
    let models = [2000.0, 1000.0, 600.0, 100.0].map(|latency_us| volume_of(latency_us, 0.0, None));
    let [(slow, _), ..] = [look_ahead(&models[0], 8000, 16, 3, 100_000)];
    let (_, floor_ns) = look_ahead(&volume_of(0.0, 0.0, None), 8000, 16, 3, 100_000);
    for model in &models {
        let (_, expected_ns) = look_ahead(model, 8000, 16, 3, 100_000);
        let found_ns = predicted_ns(&slow, model, 1.0).max(floor_ns);
        assert_within(found_ns, expected_ns, 0.02, &model.name);
    }
}

#[test]
fn a_reader_one_step_ahead_of_itself_shares_its_processor_between_its_lanes() {
    // The kernel's read-ahead: two on their way at most, computing before each is asked for.
    let models = [20.0, 100.0, 300.0, 600.0, 2000.0].map(|latency_us| volume_of(latency_us, 0.0, None));
    let runs = models
        .each_ref()
        .map(|model| look_ahead(model, 5000, 2, 2, 100_000));
    for (run, _) in &runs[2..] {
        for (model, (_, expected_ns)) in models.iter().zip(&runs) {
            let found_ns = predicted_ns(run, model, 1.0);
            assert_within(found_ns, *expected_ns, 0.05, &model.name);
        }
    }
}

#[test]
fn commits_share_the_writes_of_a_log_that_is_slow() {
    // Eight clients that write 8 kB each at one place after the other, one at a time: on a slow volume all of
    // them wait for two writes at most.
    let quick: Vec<Recorded> = (0..8000_u64)
        .map(|number| Recorded {
            issue_ns: number * 50_000,
            done_ns: number * 50_000 + 10_000,
            kind: Kind::Write,
            offset: number * 8192,
            length: 8192,
        })
        .collect();
    let reads = (0..8).flat_map(|client| {
        (0..50_u64).map(move |round| Recorded {
            issue_ns: round * 8_000_000 + client * 10,
            done_ns: round * 8_000_000 + 45_000 + client,
            kind: Kind::Read,
            offset: (1 << 40) + (round * 8 + client) * 1_000_000,
            length: 8192,
        })
    });
    let recording = recording_of(quick.into_iter().chain(reads).collect());
    let inferred = Dependencies::infer(&recording, &[], MANY).unwrap();
    assert_eq!(
        (inferred.facts().log_writes, inferred.facts().write_back),
        (8000, 0)
    );
    let mut writes = 0;
    let mut on_its_way_until = 0;
    let mut bytes = 0;
    let elapsed = inferred.replay(|request| {
        if request.kind == Kind::Write {
            assert!(request.arrival_ns >= on_its_way_until, "two at once");
            on_its_way_until = request.arrival_ns + 5_000_000;
            writes += 1;
            bytes += u64::from(request.length);
        }
        request.arrival_ns + 5_000_000
    });
    assert!(writes < 4000, "{writes}");
    assert!(bytes >= 8000 * 8192);
    assert!(elapsed < 8000 * 5_000_000 / 2);
}

#[test]
fn nobody_waits_for_write_back() {
    let mut draw = Draw::new(9);
    let mut requests: Vec<Recorded> = clients(&volume_of(100.0, 0.0, None), 1, 1000, |_| 50_000).requests;
    let without = recording_of(requests.clone());
    let model = volume_of(3000.0, 0.0, None);
    let expected_ns = predicted_ns(&without, &model, 1.0);
    requests.extend((0..2000).map(|number| Recorded {
        issue_ns: 60_000 + number * 70_000,
        done_ns: 60_000 + number * 70_000 + 900_000,
        kind: Kind::Write,
        offset: (1 << 41) + draw.up_to(1 << 20) * 65_536,
        length: 8192,
    }));
    let with = recording_of(requests);
    let inferred = Dependencies::infer(&with, &[], 1.0).unwrap();
    assert!(inferred.facts().write_back > 1980);
    assert_within(
        predicted_ns(&with, &model, 1.0),
        expected_ns,
        0.02,
        "with write-back",
    );
}

#[test]
fn lanes_end_where_there_are_fewer_requests_on_their_way() {
    let many = clients(&volume_of(500.0, 0.0, None), 16, 4000, |_| 10_000);
    let end_ns = many.requests.iter().map(|each| each.done_ns).max().unwrap();
    let mut requests = many.requests.clone();
    let mut at = end_ns + 10_000;
    for number in 0..4000 {
        requests.push(recorded(&read(at, number * 8192), at + 500_000));
        at += 510_000;
    }
    let slow = volume_of(5000.0, 0.0, None);
    let found_ns = predicted_ns(&recording_of(requests), &slow, MANY);
    let expected_ns = 4000 / 16 * 5_010_000 + 4000 * 5_010_000;
    assert_within(found_ns, expected_ns, 0.06, "sixteen, then one");
}

#[test]
fn a_part_begins_and_ends_where_it_is_told() {
    let mut recording = clients(&volume_of(100.0, 0.0, None), 1, 1000, |_| 50_000);
    recording.clock_ns = 1_000_000_000;
    // Two stretches of thirty milliseconds, with ten between them that don't count.
    let origin = 1_000_000_000;
    let parts =
        [(30, 60), (70, 100)].map(|(from, until)| (origin + from * 1_000_000, origin + until * 1_000_000));
    let inferred = Dependencies::infer(&recording, &parts, 1.0).unwrap();
    assert_eq!(inferred.facts().reads, 400);
    assert!((inferred.facts().elapsed_s - 0.060).abs() < 0.0002);
    let same = inferred.simulate(&volume_of(100.0, 0.0, None), 1.0, 1).unwrap();
    assert!((same.elapsed_s - inferred.facts().elapsed_s).abs() < 1e-9);
    let found = |parts: &[(u64, u64)]| Dependencies::infer(&recording, parts, 1.0);
    let refused = |part: (u64, u64)| found(&[part]).unwrap_err().to_string();
    assert!(refused((u64::MAX / 2, u64::MAX / 2)).contains("no requests"));
    assert!(refused((origin + 9, origin + 8)).contains("must follow each other"));
    assert!(refused((1, 2)).contains("begins before it"));
    assert!(Dependencies::infer(&recording, &[], 0.0).is_err());
}

#[test]
fn milestones_say_when_each_stretch_of_the_recording_was_reached() {
    let recording = clients(&volume_of(100.0, 0.0, None), 1, 2000, |_| 50_000);
    let inferred = Dependencies::infer(&recording, &[], 1.0).unwrap();
    let same = inferred.simulate(&volume_of(100.0, 0.0, None), 1.0, 1).unwrap();
    let slower = inferred.simulate(&volume_of(400.0, 0.0, None), 1.0, 1).unwrap();
    assert_eq!(same.milestones_s.len(), STRETCHES + 1);
    assert_eq!(
        (slower.milestones_s[0], slower.milestones_s[STRETCHES]),
        (0.0, slower.elapsed_s)
    );
    for number in 0..=STRETCHES {
        let at = same.elapsed_s * number as f64 / STRETCHES as f64;
        assert!((same.milestones_s[number] - at).abs() < 1e-6);
        // Three times as long for each request and its computing.
        assert!((slower.milestones_s[number] - 3.0 * at).abs() < 0.001);
    }
}

#[test]
fn what_the_way_to_the_recorder_takes_is_no_computing() {
    let mut recording = clients(&volume_of(100.0, 0.0, None), 1, 1000, |_| 50_000);
    // The recorder saw each request for 60 of its 100 microseconds.
    for request in &mut recording.requests {
        request.done_ns -= 40_000;
    }
    recording.overhead_ns = 40_000;
    let found_ns = predicted_ns(&recording, &volume_of(400.0, 0.0, None), 1.0);
    assert_eq!(found_ns, 1000 * 400_000 + 999 * 50_000);
}
