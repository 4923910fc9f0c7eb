//! Systems whose parts are known, run on a volume, and what a block device would see of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

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

/// Clients that commit to one log.
#[derive(Clone, Copy, Debug)]
pub struct Committing {
    pub clients: usize,
    pub processors: f64,
    /// What a transaction computes: so much at least, and up to so much more.
    pub computing_ns: (u64, u64),
    /// What it takes one who waited to write what waits, when the write before it is done.
    pub passing_on_ns: u64,
    /// Each transaction updates one of so many rows, which is its own from then on until it ends; 0: none does.
    pub rows: u64,
    /// The part of its computing that a transaction does before it needs its row.
    pub before_row: f64,
}

/// What was run.
pub struct Commits {
    pub recording: Recording,
    pub elapsed_ns: u64,
    pub committed: u64,
    /// The time of processors.
    pub cpu_s: f64,
    /// How many clients waited for a row, on average.
    pub lock_waits: f64,
}

impl Commits {
    pub fn ns_each(&self) -> f64 {
        self.elapsed_ns as f64 / self.committed as f64
    }
}

/// What a client still computes: until it needs the row, if it has none, and then.
#[derive(Clone, Copy)]
struct Transaction {
    left: f64,
    then: f64,
    row: u64,
    has_row: bool,
}

/// Clients compute, on processors that are shared evenly, and commit: what waits is written behind the last write, in
/// one piece, when that one is done and somebody has taken the log over. Until so many commits are done.
pub fn commits(model: &Model, who: Committing, count: u64) -> Commits {
    let mut volume = Volume::new(model, 7).unwrap();
    let (mut draw, mut draw_row) = (Draw::new(5), Draw::new(6));
    let mut begun = move || {
        let all = (who.computing_ns.0 + draw.up_to(who.computing_ns.1)) as f64;
        if who.rows == 0 {
            return Transaction {
                left: all,
                then: 0.0,
                row: 0,
                has_row: true,
            };
        }
        let left = all * who.before_row;
        Transaction {
            left,
            then: all - left,
            row: draw_row.up_to(who.rows),
            has_row: false,
        }
    };
    let mut working: Vec<Transaction> = (0..who.clients).map(|_| begun()).collect();
    let mut rows_taken: HashSet<u64> = HashSet::new();
    let mut blocked: Vec<Transaction> = Vec::new();
    // Of who takes the log over; and when the write on its way is done, with those whom it is for.
    let mut taking_over: Option<f64> = None;
    let mut on_its_way: Option<(f64, Vec<Transaction>)> = None;
    let mut waiting: Vec<Transaction> = Vec::new();
    let (mut now, mut offset, mut committed, mut cpu_ns, mut blocked_ns) = (0.0_f64, 0, 0, 0.0, 0.0);
    let mut requests = Vec::new();
    while committed < count {
        let at_work = working.len() + usize::from(taking_over.is_some());
        let speed = (who.processors / at_work as f64).min(1.0);
        let lefts = working.iter().map(|each| each.left);
        let least = lefts.chain(taking_over).fold(f64::INFINITY, f64::min);
        let done_at = on_its_way.as_ref().map_or(f64::INFINITY, |(at, _)| *at);
        let next = (now + least / speed).min(done_at);
        let work = (next - now) * speed;
        cpu_ns += work * at_work as f64;
        blocked_ns += (next - now) * blocked.len() as f64;
        now = next;
        working.iter_mut().for_each(|each| each.left -= work);
        taking_over = taking_over.map(|left| left - work);
        if let Some((_, group)) = on_its_way.take_if(|(at, _)| *at <= now) {
            committed += group.len() as u64;
            for ended in group {
                if who.rows > 0 {
                    match blocked.iter().position(|each| each.row == ended.row) {
                        Some(place) => working.push(with_row(blocked.remove(place))),
                        None => assert!(rows_taken.remove(&ended.row)),
                    }
                }
                working.push(begun());
            }
            taking_over = (!waiting.is_empty()).then_some(who.passing_on_ns as f64);
            continue;
        }
        let (computed, at_work): (Vec<_>, Vec<_>) = working.into_iter().partition(|each| each.left < 0.5);
        working = at_work;
        for each in computed {
            if each.has_row {
                waiting.push(each);
            } else if rows_taken.insert(each.row) {
                working.push(with_row(each));
            } else {
                blocked.push(each);
            }
        }
        let is_over = taking_over.is_some_and(|left| left < 0.5);
        if (is_over || taking_over.is_none()) && on_its_way.is_none() && !waiting.is_empty() {
            taking_over = None;
            let request = Request {
                arrival_ns: now.round() as u64,
                kind: Kind::Write,
                offset,
                length: 8192,
            };
            let done_ns = volume.submit(&request).done_ns;
            requests.push(recorded(&request, done_ns));
            offset += 8192;
            on_its_way = Some((done_ns as f64, std::mem::take(&mut waiting)));
        }
    }
    Commits {
        recording: recording_of(requests),
        elapsed_ns: now.round() as u64,
        committed,
        cpu_s: cpu_ns / 1e9,
        lock_waits: blocked_ns / now,
    }
}

fn with_row(transaction: Transaction) -> Transaction {
    Transaction {
        left: transaction.then,
        has_row: true,
        ..transaction
    }
}
