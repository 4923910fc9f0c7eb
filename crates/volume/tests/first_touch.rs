//! A volume that was restored from a snapshot: each chunk is paid for once, by whoever asks for it until it is there.

use pgassay_volume::simulate::{Work, simulate};
use pgassay_volume::{Kind, Model, Request, Volume};
use serde_json::{Value, json};

const CHUNK: u64 = 1 << 19;
const OWN_NS: u64 = 600_000;
const FETCH_NS: u64 = 20_000_000;

fn model(first_touch: &Value, sigma: f64) -> Model {
    let own = json!({"median_ns": OWN_NS, "sigma": sigma});
    serde_json::from_value(json!({
        "name": "restored", "latency": {"read": own, "write": own, "flush": own}, "first_touch": first_touch,
    }))
    .unwrap()
}

fn restored(sigma: f64) -> Model {
    model(
        &json!({"chunk_bytes": CHUNK, "latency": {"median_ns": FETCH_NS, "sigma": sigma}}),
        sigma,
    )
}

fn took(volume: &mut Volume, kind: Kind, arrival_ns: u64, offset: u64, length: u64) -> u64 {
    let length = u32::try_from(length).unwrap();
    let request = Request {
        arrival_ns,
        kind,
        offset,
        length,
    };
    let completion = volume.submit(&request);
    assert_eq!(completion.latency_ns, completion.done_ns - arrival_ns);
    completion.latency_ns
}

#[test]
fn the_first_request_to_a_chunk_pays_for_it() {
    let mut volume = Volume::new(&restored(0.0), 1).unwrap();
    let both = OWN_NS + FETCH_NS;
    assert_eq!(took(&mut volume, Kind::Read, 0, 0, 8192), both);
    // It is on its way: who comes meanwhile waits for the rest of it alone.
    assert_eq!(
        took(&mut volume, Kind::Read, 5_000_000, 8192, 8192),
        both - 5_000_000
    );
    assert_eq!(took(&mut volume, Kind::Write, 40_000_000, CHUNK - 1, 1), OWN_NS);
    assert_eq!(took(&mut volume, Kind::Flush, 41_000_000, 0, 0), OWN_NS);
    // Over the edge: the second chunk is a new one. Several are fetched side by side.
    assert_eq!(took(&mut volume, Kind::Write, 50_000_000, CHUNK - 1, 2), both);
    assert_eq!(
        took(&mut volume, Kind::Read, 60_000_000, 10 * CHUNK, 8 * CHUNK),
        both
    );
    assert_eq!(
        took(&mut volume, Kind::Read, 90_000_000, 11 * CHUNK, 7 * CHUNK),
        OWN_NS
    );
}

#[test]
fn a_scan_pays_once_for_each_chunk_and_a_second_one_nothing() {
    let work: Work = serde_json::from_value(json!({"pattern": {"depth": 1, "request_bytes": 131_072,
        "order": "sequential", "span_bytes": 64 * CHUNK, "duration_s": 10.0}}))
    .unwrap();
    let found = simulate(&restored(0.0), &work, 1.0, 1).unwrap();
    // Four requests of 128 kB a chunk: each takes its own time, and 64 of them the fetch.
    let expected = (10_000_000_000 - 64 * FETCH_NS) / OWN_NS;
    assert!(
        found.requests.abs_diff(expected) <= 1,
        "{} is not {expected}",
        found.requests
    );
}

#[test]
fn what_was_fetched_has_the_latencies_of_a_volume_that_was_never_restored() {
    let mut fresh = Volume::new(&model(&Value::Null, 0.4), 7).unwrap();
    let mut fetched = Volume::new(&restored(0.4), 7).unwrap();
    let mut waits = 0;
    for index in 0..1000_u64 {
        let at = (Kind::Read, index * 1_000_000_000, index % 10 * CHUNK, 8192);
        let alone = took(&mut fresh, at.0, at.1, at.2, at.3);
        let wait = took(&mut fetched, at.0, at.1, at.2, at.3) - alone;
        assert_eq!(wait > 0, index < 10, "request {index}");
        waits += u64::from(wait > 0);
    }
    assert_eq!(waits, 10);
}

#[test]
fn a_chunk_of_no_size_is_refused() {
    for (chunk_bytes, words) in [
        (0, "first_touch.chunk_bytes is 0"),
        (1_u64 << 31, "chunk_bytes is 2147483648"),
    ] {
        let first_touch = json!({"chunk_bytes": chunk_bytes, "latency": {"median_ns": 1, "sigma": 0.0}});
        let fault = Volume::new(&model(&first_touch, 0.0), 1).unwrap_err().to_string();
        assert!(fault.contains(words), "{fault}");
    }
    let first_touch = json!({"chunk_bytes": CHUNK, "latency": {"median_ns": 1, "sigma": 9.0}});
    let fault = Volume::new(&model(&first_touch, 0.0), 1).unwrap_err().to_string();
    assert!(
        fault.contains("the latency of first_touch: sigma is 9"),
        "{fault}"
    );
}
