//! Systems whose parts are known, run on a volume, and what a block device would see of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pgassay_volume::recording::{Recorded, Recording};
use pgassay_volume::{Distribution, Kind, Latency, Limiter, Model, Request, Scope, Stripes, Unit, Volume};

use crate::drawn::Draw;

/// A volume with this latency, and a limit of operations where one is given.
pub fn volume_of(latency_us: f64, sigma: f64, iops: Option<u64>) -> Model {
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
        stripes: Stripes::default(),
        limiters,
        latency: Latency {
            read: latency,
            write: latency,
            flush: latency,
        },
        first_touch: None,
    }
}

/// A whole recording of these requests.
pub fn recording_of(mut requests: Vec<Recorded>) -> Recording {
    requests.sort_by_key(|request| request.issue_ns);
    Recording {
        requests,
        is_complete: true,
        ..Recording::default()
    }
}

pub fn read(arrival_ns: u64, offset: u64) -> Request {
    Request {
        arrival_ns,
        kind: Kind::Read,
        offset,
        length: 8192,
    }
}

pub fn recorded(request: &Request, done_ns: u64) -> Recorded {
    Recorded {
        issue_ns: request.arrival_ns,
        done_ns,
        kind: request.kind,
        offset: request.offset,
        length: request.length,
    }
}

/// Clients that compute, read a page, and so on, each with a processor of its own.
pub fn clients(
    model: &Model,
    count: usize,
    reads: usize,
    computing_ns: impl Fn(&mut Draw) -> u64,
) -> Recording {
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
pub fn look_ahead(
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

/// A reader that computes, and then asks for one page, or, once in ten times, for three at once; it goes on when all
/// of them are done.
pub fn bursts(model: &Model, rounds: usize, computing_ns: u64) -> Recording {
    let mut volume = Volume::new(model, 7).unwrap();
    let mut draw = Draw::new(3);
    let mut at = 0;
    let mut requests = Vec::new();
    for _ in 0..rounds {
        at += computing_ns;
        let count = if draw.up_to(10) == 0 { 3 } else { 1 };
        let mut last_ns = 0;
        for number in 0..count {
            let request = read(at + number * 1000, draw.up_to(1 << 20) * 8192);
            let done_ns = volume.submit(&request).done_ns;
            requests.push(recorded(&request, done_ns));
            last_ns = done_ns.max(last_ns);
        }
        at = last_ns;
    }
    recording_of(requests)
}

/// Clients that compute, each on a processor of its own, and commit: what waits is written behind the last write, in one
/// piece, when that one is done. Returns the time in which so many commits were done at least, and how many were.
pub fn commits(model: &Model, clients: usize, count: u64, computing_ns: (u64, u64)) -> (Recording, u64, u64) {
    let mut volume = Volume::new(model, 7).unwrap();
    let mut draw = Draw::new(5);
    let mut drawn = move || computing_ns.0 + draw.up_to(computing_ns.1);
    let mut ready: BinaryHeap<Reverse<u64>> = (0..clients).map(|_| Reverse(drawn())).collect();
    let (mut done_ns, mut offset, mut committed) = (0, 0, 0);
    let mut requests = Vec::new();
    while committed < count {
        let Reverse(first_ns) = *ready.peek().unwrap();
        let arrival_ns = first_ns.max(done_ns);
        let mut group = 0;
        while ready.peek().is_some_and(|Reverse(at)| *at <= arrival_ns) {
            ready.pop();
            group += 1;
        }
        let request = Request {
            arrival_ns,
            kind: Kind::Write,
            offset,
            length: 8192,
        };
        done_ns = volume.submit(&request).done_ns;
        requests.push(recorded(&request, done_ns));
        (offset, committed) = (offset + 8192, committed + group);
        ready.extend((0..group).map(|_| Reverse(done_ns + drawn())));
    }
    (recording_of(requests), done_ns, committed)
}
