//! Clients that commit to a log, and volumes for data and log: recorded on one, predicted on another. The oracle is as
//! in `recorded.rs`.

use pgassay_volume::recording::{Recorded, Recording};
use pgassay_volume::simulate::{Dependencies, Who};
use pgassay_volume::{Kind, Model};

#[allow(dead_code)] // each file draws what it needs
mod drawn;
#[allow(dead_code)] // as that
mod systems;
use systems::{Commits, Committing, commits, recording_of, volume_of};

const MANY: f64 = 1000.0;

fn assert_within(found: f64, expected: f64, share: f64, what: &str) {
    let ratio = found / expected;
    assert!(
        (ratio - 1.0).abs() <= share,
        "{what}: {found} for {expected} ({ratio:.3})"
    );
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
    let inferred = Dependencies::infer(&recording, &[], Who::on(MANY)).unwrap();
    assert_eq!(
        (inferred.facts().log_writes, inferred.facts().write_back),
        (8000, 0)
    );
    let mut writes = 0;
    let mut on_its_way_until = 0;
    let mut bytes = 0;
    let elapsed = inferred.replay(|_, request| {
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
fn clients_that_commit_are_predicted_on_slower_volumes() {
    // A log that is always shared, and processors that are.
    let kinds = [
        (MANY, (100_000, 200_000), 60_000),
        (2.0, (300_000, 300_000), 60_000),
        (2.0, (500_000, 1_500_000), 100_000),
    ];
    for (clients, (processors, computing_ns, passing_on_ns)) in [2, 8, 20]
        .into_iter()
        .flat_map(|clients| kinds.map(|kind| (clients, kind)))
    {
        let committing = Committing {
            clients,
            processors,
            computing_ns,
            passing_on_ns,
            rows: 0,
            before_row: 0.0,
        };
        let run = |latency_us: f64| commits(&volume_of(latency_us, 0.0, None), committing, 5000);
        let infer = |run: &Commits, passing_on_ns| {
            let who = Who {
                clients: u32::try_from(clients).unwrap(),
                cpu_s: run.cpu_s,
                commits: run.committed,
                passing_on_ns,
                ..Who::on(processors)
            };
            Dependencies::infer(&run.recording, &[], who).unwrap()
        };
        // The slow one shows what it takes to write what waits, the quick one how long clients compute.
        let seen_us = infer(&run(1000.0), None).facts().passing_on_us;
        let quick = run(80.0);
        let inferred = infer(&quick, Some((seen_us * 1e3) as u64));
        assert_eq!(inferred.facts().writes, quick.recording.requests.len() as u64);
        for latency_us in [80.0, 350.0, 600.0, 1000.0, 3000.0] {
            let model = volume_of(latency_us, 0.0, None);
            let found_s = inferred.simulate(&model, 1.0, 1).unwrap().elapsed_s / quick.committed as f64;
            let what = format!("{clients} clients, {committing:?}, {latency_us} µs");
            assert_within(found_s * 1e9, run(latency_us).ns_each(), 0.06, &what);
        }
    }
}

#[test]
fn who_commits_had_no_more_processors_than_were_seen() {
    // Two processors, of which somebody else has one and a half.
    let had = Committing {
        clients: 8,
        processors: 0.5,
        computing_ns: (300_000, 300_000),
        passing_on_ns: 0,
        rows: 0,
        before_row: 0.0,
    };
    let run = |latency_us: f64| commits(&volume_of(latency_us, 0.0, None), had, 5000);
    let quick = run(80.0);
    let who = Who {
        clients: 8,
        cpu_s: quick.cpu_s,
        commits: quick.committed,
        passing_on_ns: Some(0),
        ..Who::on(2.0)
    };
    let inferred = Dependencies::infer(&quick.recording, &[], who).unwrap();
    for latency_us in [80.0, 600.0, 3000.0] {
        let model = volume_of(latency_us, 0.0, None);
        let found_s = inferred.simulate(&model, 1.0, 1).unwrap().elapsed_s / quick.committed as f64;
        assert_within(found_s * 1e9, run(latency_us).ns_each(), 0.05, &model.name);
    }
}

#[test]
fn who_waits_for_a_row_until_another_has_committed_is_predicted() {
    // Eight clients on two processors, and as few rows as make a few of them wait; rows are taken early or late.
    for (rows, before_row) in [(60, 0.7), (60, 0.3), (20, 0.7), (400, 0.5)] {
        let who = Committing {
            clients: 8,
            processors: 2.0,
            computing_ns: (150_000, 150_000),
            passing_on_ns: 30_000,
            rows,
            before_row,
        };
        let run = |latency_us: f64| commits(&volume_of(latency_us, 0.2, None), who, 20_000);
        let infer = |run: &Commits, passing_on_ns, lock_chance| {
            let who = Who {
                clients: 8,
                cpu_s: run.cpu_s,
                commits: run.committed,
                passing_on_ns,
                lock_waits: run.lock_waits,
                lock_chance,
                ..Who::on(2.0)
            };
            Dependencies::infer(&run.recording, &[], who).unwrap()
        };
        let slow = run(1000.0);
        let seen = infer(&slow, None, None).facts().clone();
        // Whoever met a row met that of one of the others.
        assert_within(seen.lock_chance, 1.0 / rows as f64, 0.35, &format!("{rows} rows"));
        let passing_on_ns = Some((seen.passing_on_us * 1e3) as u64);
        let inferred = infer(&run(40.0), passing_on_ns, Some(seen.lock_chance));
        for latency_us in [40.0, 350.0, 600.0, 1000.0, 3000.0] {
            let model = volume_of(latency_us, 0.2, None);
            let found_s = inferred.simulate(&model, 1.0, 1).unwrap().elapsed_s / 20_000.0;
            let what = format!("{rows} rows, {before_row}, {latency_us} µs");
            assert_within(found_s * 1e9, run(latency_us).ns_each(), 0.06, &what);
        }
    }
}

#[test]
fn a_log_that_goes_on_in_a_new_file_holds_up_all_whose_commits_share_its_writes() {
    let who = Committing {
        clients: 8,
        processors: 2.0,
        computing_ns: (150_000, 150_000),
        passing_on_ns: 30_000,
        rows: 0,
        before_row: 0.0,
    };
    let model = volume_of(600.0, 0.2, None);
    let run = commits(&model, who, 20_000);
    // Before every 500th write nobody asks for anything for 40 ms but for sixteen large writes, which end after 34.
    let (mut requests, mut filled_ns) = (Vec::new(), 0);
    for (number, write) in run.recording.requests.iter().enumerate() {
        if number % 500 == 499 {
            let begin_ns = write.issue_ns + filled_ns + 10_000_000;
            requests.extend((0..16).map(|piece| Recorded {
                issue_ns: begin_ns + piece * 1_500_000,
                done_ns: begin_ns + piece * 1_500_000 + 1_400_000,
                kind: Kind::Write,
                offset: (1 << 40) + ((number as u64 * 16 + piece) << 20),
                length: 1 << 20,
            }));
            filled_ns += 40_000_000;
        }
        requests.push(Recorded {
            issue_ns: write.issue_ns + filled_ns,
            done_ns: write.done_ns + filled_ns,
            ..*write
        });
    }
    let known = Who {
        clients: 8,
        cpu_s: run.cpu_s,
        commits: run.committed,
        processors_min: 2.0,
        ..Who::on(2.0)
    };
    let elapsed_s = |recording: &Recording| {
        let inferred = Dependencies::infer(recording, &[], known).unwrap();
        assert_eq!(inferred.facts().write_back, 0);
        inferred.simulate(&model, 1.0, 1).unwrap().elapsed_s
    };
    let filling_s = elapsed_s(&recording_of(requests)) - elapsed_s(&run.recording);
    assert!(filled_ns > run.elapsed_ns / 12, "{filled_ns}");
    // What the large writes take on the model; the rest was computed.
    assert_within(filling_s * 1e9, filled_ns as f64 * 39.2 / 40.0, 0.05, "new files");
}

#[test]
fn two_volumes_at_once_answer_each_its_own_and_share_the_limits_of_their_instance() {
    // A client that reads from the one and writes to the other, by two clocks.
    let both = |number: u64| (number * 300_000, number * 300_000 + 100_000);
    let request = |at_ns: u64, took_ns: u64, kind: Kind, offset: u64| Recorded {
        issue_ns: at_ns,
        done_ns: at_ns + took_ns,
        kind,
        offset,
        length: 8192,
    };
    let data: Vec<Recorded> = (0..2000)
        .map(|number| request(both(number).0, 80_000, Kind::Read, number * 81_920))
        .collect();
    let log: Vec<Recorded> = (0..2000)
        .map(|number| request(both(number).1 + 5000, 150_000, Kind::Write, number * 8192))
        .collect();
    let (mut data, mut log) = (recording_of(data), recording_of(log));
    (data.clock_ns, log.clock_ns) = (1_000_000, 995_000);
    // By the clock of the one: reads at 0, writes at 100 µs, each with 20 and 50 µs of computing before it.
    let one = Who {
        clients: 1,
        ..Who::on(1.0)
    };
    let inferred = Dependencies::infer_all(&[&data, &log], &[], one).unwrap();
    assert_eq!(
        (inferred.facts().reads, inferred.facts().log_writes),
        (2000, 2000)
    );
    let elapsed_s = |data: &Model, log: &Model, instance: Option<&Model>| {
        inferred
            .simulate_all(&[data, log], instance, 1.0, 1)
            .unwrap()
            .elapsed_s
    };
    let (quick, slow) = (volume_of(100.0, 0.0, None), volume_of(500.0, 0.0, None));
    let closed_form_s = |data_us: f64, log_us: f64| 2000.0 * (data_us + log_us + 70.0) / 1e6;
    for (data, data_us) in [(&quick, 100.0), (&slow, 500.0)] {
        for (log, log_us) in [(&quick, 100.0), (&slow, 500.0)] {
            let found_s = elapsed_s(data, log, None);
            assert!(
                (found_s / closed_form_s(data_us, log_us) - 1.0).abs() < 1e-3,
                "{found_s}"
            );
        }
    }
    // 1,000 a second of one volume alone are 2 s; of both together 4 s.
    let limit = volume_of(0.0, 0.0, Some(1000));
    assert!((elapsed_s(&volume_of(100.0, 0.0, Some(1000)), &quick, None) - 2.0).abs() < 0.01);
    assert!((elapsed_s(&quick, &quick, Some(&limit)) - 4.0).abs() < 0.01);
    // One volume for two is refused.
    assert!(
        inferred
            .simulate(&quick, 1.0, 1)
            .unwrap_err()
            .to_string()
            .contains("requests of 2")
    );
}
