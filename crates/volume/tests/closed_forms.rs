//! Providers' worked examples and queueing theory, against whole simulations.

use pgassay_volume::simulate::{Simulated, Work, simulate};
use pgassay_volume::{Kind, Model, Request, Volume};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn model(limiters: &Value, stripes: u32) -> Model {
    let still = json!({"median_ns": 0.0, "sigma": 0.0});
    serde_json::from_value(json!({
        "name": "worked example",
        "stripes": {"count": stripes, "width_bytes": 262_144},
        "limiters": limiters,
        "latency": {"read": still, "write": still, "flush": still},
    }))
    .unwrap()
}

fn operations(rate: u64, peak: u64, capacity: u64, fill: u64) -> Value {
    json!({"name": "operations", "unit": "operations", "rate": rate, "peak": peak, "capacity": capacity,
           "fill": fill, "quantum_bytes": 262_144, "merging": true})
}

fn loop_of(depth: u32, bytes: u64, order: &str, duration_s: f64) -> Work {
    serde_json::from_value(
        json!({"pattern": {"depth": depth, "request_bytes": bytes, "order": order,
                                              "duration_s": duration_s}}),
    )
    .unwrap()
}

fn run(model: &Model, work: &Work) -> Simulated {
    simulate(model, work, 1.0, 1).unwrap()
}

#[track_caller]
fn assert_near(found: f64, expected: f64, share: f64) {
    assert!(
        (found / expected - 1.0).abs() <= share,
        "{found} is not {expected}"
    );
}

/// AWS, Amazon EBS I/O characteristics: one of 1,024 KiB, eight of 32 KiB behind each other, eight apart.
#[test]
fn requests_are_counted_in_units_of_256_kib() {
    let slow = model(&json!([operations(1, 1, 0, 0)]), 1);
    let counted = |lengths: u32, count: u64, apart: u64| -> u32 {
        let mut volume = Volume::new(&slow, 1).unwrap();
        (0..count)
            .map(|index| {
                let offset = index * (u64::from(lengths) + apart);
                let read = Request {
                    arrival_ns: 0,
                    kind: Kind::Read,
                    offset,
                    length: lengths,
                };
                volume.submit(&read).operations
            })
            .sum()
    };
    assert_eq!(counted(1 << 20, 1, 0), 4);
    assert_eq!(counted(32 << 10, 8, 0), 1);
    assert_eq!(counted(32 << 10, 8, 1 << 20), 8);
}

#[test]
fn only_what_still_waits_is_merged() {
    let fast = model(&json!([operations(1_000_000, 1_000_000, 0, 0)]), 1);
    let mut volume = Volume::new(&fast, 1).unwrap();
    // Each is done at once, before the next arrives: nothing to merge with.
    let counted: u32 = (0..8)
        .map(|index| {
            let read = Request {
                arrival_ns: index * 1000,
                kind: Kind::Read,
                offset: index * 8192,
                length: 8192,
            };
            volume.submit(&read).operations
        })
        .sum();
    assert_eq!(counted, 8);
}

#[test]
fn a_burst_ends_when_the_credits_are_gone() {
    // gp2 of 100 GiB with a hundredth of its credits: 54,000 / (3,000 - 300) = 20 s.
    let gp2 = model(&json!([operations(300, 3000, 5_400_000, 54_000)]), 1);
    let simulated = run(&gp2, &loop_of(32, 8192, "random", 30.0));
    assert_near(simulated.credits[0].ended_s.unwrap(), 20.0, 0.01);
    assert_eq!(simulated.series.requests[10], 3000);
    assert_eq!(simulated.series.requests[25], 300);
    // By Little's law: 32 on their way at 3,000 and at 300 a second.
    let latency = simulated.latency_ms.unwrap();
    assert_near(latency.p50, 32.0 / 3.0, 0.01);
    assert_near(latency.max, 32.0 / 0.3, 0.01);
}

#[test]
fn what_a_pause_brings_is_spent_again() {
    let gp2 = model(&json!([operations(300, 3000, 5_400_000, 0)]), 1);
    let mut volume = Volume::new(&gp2, 1).unwrap();
    let minute_ns = 60_000_000_000;
    assert_eq!(volume.levels(minute_ns)[0].credits, 18_000);
    let read = |index: u64| Request {
        arrival_ns: minute_ns,
        kind: Kind::Read,
        offset: index << 30,
        length: 8192,
    };
    let done: Vec<u64> = (0..40_000)
        .map(|index| volume.submit(&read(index)).done_ns - minute_ns)
        .collect();
    // 18,000 credits at 2,700 more than come in each second last 6.667 s; in these 20,000 are done.
    assert_near(done[19_999] as f64, 20_000e9 / 3000.0, 0.01);
    assert_eq!(done[39_999] - done[30_000], 9_999 * 1_000_000_000 / 300);
}

#[test]
fn an_empty_bucket_limits_bytes_by_the_size_of_its_units() {
    // gp2 of 250 GiB: 750 operations a second of 256 KiB are 187.5 MiB/s.
    let bytes = json!({"name": "bytes", "unit": "bytes", "rate": 250 * MIB});
    let gp2 = model(&json!([operations(750, 3000, 5_400_000, 0), bytes]), 1);
    for request_bytes in [32 << 10, 128 << 10, 256 << 10, 1 << 20] {
        let simulated = run(&gp2, &loop_of(32, request_bytes, "sequential", 20.0));
        assert_near(simulated.bytes_per_s / MIB as f64, 187.5, 0.002);
    }
}

#[test]
fn a_random_request_costs_a_whole_unit_of_bytes_on_a_disk_for_streams() {
    let st1 = json!([{"name": "bytes", "unit": "bytes", "rate": 40 * MIB, "peak": 250 * MIB,
                      "capacity": MIB * MIB, "quantum_bytes": MIB, "merging": true}]);
    let random = run(&model(&st1, 1), &loop_of(8, 8192, "random", 20.0));
    assert_near(random.requests_per_s, 250.0, 0.02);
    let sequential = run(&model(&st1, 1), &loop_of(8, 128 << 10, "sequential", 20.0));
    assert_near(sequential.bytes_per_s, 250.0 * MIB as f64, 0.02);
}

#[test]
fn an_instance_bursts_once_in_its_period() {
    // As m6g.large, with a period of a minute and 3 s of burst: 3 · (20,000 - 3,600).
    let instance = json!([{"name": "instance operations", "scope": "instance", "unit": "operations",
        "rate": 3600, "peak": 20_000, "capacity": 49_200, "quantum_bytes": 262_144, "reset_period_s": 60}]);
    let simulated = run(&model(&instance, 1), &loop_of(256, 8192, "random", 70.0));
    let per_second = &simulated.series.requests;
    assert_near(simulated.credits[0].ended_s.unwrap(), 3.0, 0.01);
    assert_eq!(per_second[1], 20_000);
    assert!(per_second[4..59].iter().all(|count| *count == 3600));
    assert_eq!((per_second[61], per_second[64]), (20_000, 3600));
    // What stays below the baseline takes nothing of it, however it is spread over a second.
    let mut volume = Volume::new(&model(&instance, 1), 1).unwrap();
    for second in 1..50 {
        for index in 0..3600 {
            let offset = index << 30;
            volume.submit(&Request {
                arrival_ns: second * 1_000_000_000,
                kind: Kind::Read,
                offset,
                length: 8192,
            });
        }
    }
    assert_eq!(volume.levels(50_000_000_000)[0].credits, 49_200);
}

#[test]
fn four_volumes_side_by_side_give_four_times_as_much() {
    let member = json!([operations(3000, 3000, 0, 0), {"name": "bytes", "unit": "bytes", "rate": 125 * MIB}]);
    let random = run(&model(&member, 4), &loop_of(256, 8192, "random", 5.0));
    // Random places are uneven: some volume is idle now and then.
    assert_near(random.requests_per_s, 12_000.0, 0.01);
    let sequential = run(&model(&member, 4), &loop_of(32, MIB, "sequential", 5.0));
    assert_near(sequential.bytes_per_s, 500.0 * MIB as f64, 0.01);
}

#[test]
fn a_day_of_backlog_is_exact_to_the_nanosecond() {
    // 7 a second: a period of 142,857,142.857… ns, a rounding error in any unit.
    let seven = model(
        &json!([{"name": "operations", "unit": "operations", "rate": 7, "quantum_bytes": 8192}]),
        1,
    );
    let mut volume = Volume::new(&seven, 1).unwrap();
    let read = |index: u64| Request {
        arrival_ns: 0,
        kind: Kind::Read,
        offset: index << 30,
        length: 8192,
    };
    let last = 7 * 86_400;
    let done_ns = (1..=last)
        .map(|index| volume.submit(&read(index)).done_ns)
        .last()
        .unwrap();
    // The bucket held 7 · 10 ms of a token at the beginning.
    assert_eq!(done_ns, 86_400_000_000_000 - 10_000_000);
}

#[test]
fn latencies_have_the_quantiles_of_their_distribution() {
    let distribution = json!({"median_ns": 600_000.0, "sigma": 0.4, "bytes_per_second": 8_192_000_000_u64});
    let mut late = model(&json!([]), 1);
    late.latency.read = serde_json::from_value(distribution).unwrap();
    let mut volume = Volume::new(&late, 3).unwrap();
    let count = 40_000;
    let read = |index: u64| Request {
        arrival_ns: index,
        kind: Kind::Read,
        offset: 0,
        length: 8192,
    };
    let latencies: Vec<u64> = (0..count)
        .map(|index| volume.submit(&read(index)).latency_ns)
        .collect();
    // The shares below exp(z · sigma) times the median plus 1,000 ns of bytes; four standard errors.
    for (z, share) in [
        (-1.644_854, 0.05),
        (0.0, 0.5),
        (1.281_552, 0.9),
        (2.326_348, 0.99),
    ] {
        let bound = 600_000.0 * (0.4_f64 * z).exp() + 1000.0;
        let below = latencies
            .iter()
            .filter(|latency| (**latency as f64) < bound)
            .count() as f64;
        let error: f64 = 4.0 * (share * (1.0 - share) / count as f64).sqrt();
        assert!((below / count as f64 - share).abs() < error, "{z}: {below}");
    }
}

#[test]
fn a_request_of_a_trace_may_wait_for_another() {
    let one_at_a_time: Work = serde_json::from_value(json!({"trace": {
        "arrival_ns": [0, 1000, 5000], "kind": "rwf", "offset": [0, 0, 0], "length": [8192, 8192, 0],
        "after": [null, 0, 1]}}))
    .unwrap();
    let mut late = model(&json!([]), 1);
    late.latency.read.median_ns = 500_000.0;
    late.latency.write.median_ns = 300_000.0;
    late.latency.flush.median_ns = 100_000.0;
    let simulated = run(&late, &one_at_a_time);
    assert_near(simulated.elapsed_s, 906_000e-9, 1e-12);
    assert_eq!(
        (simulated.requests, simulated.flushes, simulated.bytes),
        (2, 1, 16_384)
    );
    let shuffled: Work = serde_json::from_value(json!({"trace": {
        "arrival_ns": [1000, 0], "kind": "rr", "offset": [0, 0], "length": [8192, 8192]}}))
    .unwrap();
    assert_near(run(&late, &shuffled).elapsed_s, 501_000e-9, 1e-12);
}

#[test]
fn a_flush_follows_each_write_where_that_is_asked_for() {
    let mut late = model(&json!([]), 1);
    late.latency.write.median_ns = 600_000.0;
    late.latency.flush.median_ns = 400_000.0;
    let durable: Work = serde_json::from_value(json!({"pattern": {"depth": 1, "request_bytes": 8192,
        "order": "sequential", "write_share": 1.0, "flush_after": 1, "duration_s": 10.0}}))
    .unwrap();
    let simulated = run(&late, &durable);
    assert_eq!((simulated.requests, simulated.flushes), (10_000, 10_000));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_field() {
    let faults = [
        (json!({"unit": "bytes", "rate": 0}), "rate is 0"),
        (json!({"unit": "bytes", "rate": 5, "peak": 4}), "peak is 4"),
        (json!({"unit": "bytes", "rate": 5, "peak": 6}), "needs a capacity"),
        (
            json!({"unit": "bytes", "rate": 5, "capacity": 10, "fill": 11}),
            "fill is more",
        ),
        (
            json!({"unit": "bytes", "rate": 5, "reset_period_s": 5}),
            "needs a capacity",
        ),
        (
            json!({"unit": "bytes", "rate": 5, "quantum_bytes": 0}),
            "quantum_bytes is 0",
        ),
    ];
    for (mut limiter, words) in faults {
        limiter["name"] = json!("the wrong one");
        let fault = Volume::new(&model(&json!([limiter]), 1), 1)
            .unwrap_err()
            .to_string();
        assert!(
            fault.contains(words) && fault.contains("'the wrong one'"),
            "{fault}"
        );
    }
    let traces = [
        (
            json!({"arrival_ns": [0], "kind": "x", "offset": [0], "length": [1]}),
            "letter 'x'",
        ),
        (
            json!({"arrival_ns": [0], "kind": "r", "offset": [], "length": [1]}),
            "offset has 0 entries",
        ),
        (
            json!({"arrival_ns": [0], "kind": "r", "offset": [0], "length": [1], "after": [0]}),
            "request 0 waits",
        ),
    ];
    for (trace, words) in traces {
        let work: Work = serde_json::from_value(json!({ "trace": trace })).unwrap();
        let fault = work.check().unwrap_err().to_string();
        assert!(fault.contains(words), "{fault}");
    }
}
