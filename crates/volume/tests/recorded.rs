//! Recorded on one volume, predicted on another. The oracle is a system whose parts are known: its clients are
//! run on both volumes, and what a block device would see on the one must give the time on the other.

use pgassay_volume::recording::{Recorded, Recording};
use pgassay_volume::simulate::{Dependencies, STRETCHES, Who};
use pgassay_volume::{Kind, Model};

#[allow(dead_code)] // each file draws what it needs
mod drawn;
#[allow(dead_code)] // as that
mod systems;
use drawn::Draw;
use systems::{bursts, clients, look_ahead, read, recorded, recording_of, volume_of};

const MANY: f64 = 1000.0;

fn predicted_ns(recording: &Recording, model: &Model, processors: f64) -> u64 {
    let inferred = Dependencies::infer(recording, &[], Who::on(processors)).unwrap();
    (inferred.simulate(model, 1.0, 1).unwrap().elapsed_s * 1e9).round() as u64
}

fn elapsed_ns(recording: &Recording) -> u64 {
    let requests = &recording.requests;
    requests.iter().map(|request| request.done_ns).max().unwrap() - requests[0].issue_ns
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
        let inferred = Dependencies::infer(&recording, &[], Who::on(MANY)).unwrap();
        let first_ns = recording.requests[0].issue_ns;
        let mut issued = vec![0; answers.len()];
        let elapsed = inferred.replay(|_, request| {
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
fn clients_that_are_known_are_predicted_from_a_volume_that_never_shows_them() {
    // On two processors; the volume is so fast that hardly two requests are ever on their way.
    let work_ns = 100_000;
    let quick: Vec<Recorded> = (0..10_000_u64)
        .map(|number| {
            recorded(
                &read(number * work_ns / 2, number * 8192),
                number * work_ns / 2 + 100,
            )
        })
        .collect();
    let who = Who {
        clients: 20,
        ..Who::on(2.0)
    };
    let inferred = Dependencies::infer(&recording_of(quick), &[], who).unwrap();
    // 20 clients: at 4.1 ms a round of computing and reading, or as many as the limit lets through.
    for (model, a_second) in [
        (volume_of(4000.0, 0.0, None), 20.0 / 0.0041),
        (volume_of(500.0, 0.0, Some(3000)), 3000.0),
        (volume_of(10.0, 0.0, None), 20_000.0),
    ] {
        let found = inferred.simulate(&model, 1.0, 1).unwrap();
        let ratio = found.requests_per_s / a_second;
        assert!((ratio - 1.0).abs() < 0.03, "{}: {ratio}", model.name);
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
fn a_reader_held_up_by_the_page_that_it_needs_next_does_not_compute_meanwhile() {
    // Of four pages three are on their way at most, and the fourth is asked for when the first has been consumed.
    let (reads, computing_ns) = (6000, 60_000);
    let models = [300.0, 600.0, 2000.0, 5000.0].map(|latency_us| volume_of(latency_us, 0.5, None));
    let known = Who {
        cpu_s: reads as f64 * computing_ns as f64 / 1e9,
        ..Who::on(1.0)
    };
    let runs = models
        .each_ref()
        .map(|model| look_ahead(model, reads, 4, 3, computing_ns));
    for (run, _) in &runs[1..] {
        let inferred = Dependencies::infer(run, &[], known).unwrap();
        assert!(inferred.facts().computing_s <= known.cpu_s);
        for (model, (_, expected_ns)) in models.iter().zip(&runs) {
            let found = inferred.simulate(model, 1.0, 1).unwrap();
            let found_ns = (found.elapsed_s * 1e9).round() as u64;
            assert_within(found_ns, *expected_ns, 0.05, &model.name);
        }
    }
}

#[test]
fn a_client_whose_pages_come_in_several_requests_is_one_client() {
    let models = [50.0, 300.0, 1000.0, 4000.0].map(|latency_us| volume_of(latency_us, 0.3, None));
    let runs = models.each_ref().map(|model| bursts(model, 4000, 50_000));
    let one = Who {
        clients: 1,
        ..Who::on(1.0)
    };
    for run in &runs {
        let inferred = Dependencies::infer(run, &[], one).unwrap();
        for (model, expected) in models.iter().zip(&runs) {
            let found = inferred.simulate(model, 1.0, 1).unwrap();
            let found_ns = (found.elapsed_s * 1e9).round() as u64;
            assert_within(found_ns, elapsed_ns(expected), 0.03, &model.name);
        }
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
    let inferred = Dependencies::infer(&with, &[], Who::on(1.0)).unwrap();
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
    let inferred = Dependencies::infer(&recording, &parts, Who::on(1.0)).unwrap();
    assert_eq!(inferred.facts().reads, 400);
    assert!((inferred.facts().elapsed_s - 0.060).abs() < 0.0002);
    let same = inferred.simulate(&volume_of(100.0, 0.0, None), 1.0, 1).unwrap();
    assert!((same.elapsed_s - inferred.facts().elapsed_s).abs() < 1e-9);
    let found = |parts: &[(u64, u64)]| Dependencies::infer(&recording, parts, Who::on(1.0));
    let refused = |part: (u64, u64)| found(&[part]).unwrap_err().to_string();
    assert!(refused((u64::MAX / 2, u64::MAX / 2)).contains("no requests"));
    assert!(refused((origin + 9, origin + 8)).contains("must follow each other"));
    assert!(refused((1, 2)).contains("begins before it"));
    assert!(Dependencies::infer(&recording, &[], Who::on(0.0)).is_err());
}

#[test]
fn recordings_that_began_at_different_times_are_one_by_the_clock() {
    let data = clients(&volume_of(100.0, 0.0, None), 1, 1000, |_| 50_000);
    let late_ns = 20_000_000;
    let by_one_clock: Vec<Recorded> = data.requests[..100].to_vec();
    let mut wal = recording_of(by_one_clock.clone());
    for request in &mut wal.requests {
        request.issue_ns += late_ns;
        request.done_ns += late_ns;
    }
    let mut began_late = recording_of(by_one_clock);
    began_late.clock_ns = data.clock_ns + late_ns;
    let facts = |wal: &Recording| {
        let inferred = Dependencies::infer_all(&[&data, wal], &[], Who::on(1.0)).unwrap();
        inferred.facts().clone()
    };
    assert_eq!(facts(&began_late), facts(&wal));
}

#[test]
fn milestones_say_when_each_stretch_of_the_recording_was_reached() {
    let recording = clients(&volume_of(100.0, 0.0, None), 1, 2000, |_| 50_000);
    let inferred = Dependencies::infer(&recording, &[], Who::on(1.0)).unwrap();
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
