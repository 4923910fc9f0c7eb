//! The floor: a bare epoll loop of prepared point selects. No transactions, no latencies, no errors handled, one
//! thread; what it spends is the kernel's part of a transaction (send, wake-up, receive) and next to nothing else.
//! A load generator's client CPU per transaction is measured against it. With several clients it polls for
//! a moment before it sleeps, as the load generator does, for as much throughput (`POLL_NS_PER_CLIENT` of
//! `crates/load/src/worker/waiting.rs`).
//!
//! Standard input: `{"connect": PARAMETERS, "clients": 8, "scale": 10, "duration_s": 5.0, "warmup_s": 1.0}`.
//! Standard output: `{"transactions", "elapsed_s", "client_cpu_s"}` of the interval after the warm-up.

use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgassay_native::connect::{self, Connection};
use pgassay_protocol::{Parameters, requests};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::json;

/// Requests encoded beforehand, with ids spread over the table; each client goes round them.
const REQUESTS: u64 = 1 << 16;
/// How often the clock is read: once in so many returns of epoll_wait.
const WAITS_PER_CLOCK: u32 = 64;
const POLL_PER_CLIENT: Duration = Duration::from_nanos(800);
const POLL_MAX: Duration = Duration::from_micros(10);
const READY_FOR_QUERY: &[u8] = b"Z\0\0\0\x05I";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    connect: Parameters,
    clients: usize,
    scale: u64,
    duration_s: f64,
    warmup_s: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let spec: Spec = serde_json::from_reader(std::io::stdin().lock())?;
    let mut connections = (0..spec.clients)
        .map(|_| open(&spec.connect))
        .collect::<Result<Vec<_>, _>>()?;
    let requests = encode_requests(spec.scale)?;
    let mut floor = Floor::new(&mut connections, &requests)?;
    floor.start()?;
    floor.run(Duration::from_secs_f64(spec.warmup_s))?;
    floor.transactions = 0;
    let (begin, cpu_before_s) = (Instant::now(), thread_cpu_s());
    floor.run(Duration::from_secs_f64(spec.duration_s))?;
    let (elapsed_s, client_cpu_s) = (begin.elapsed().as_secs_f64(), thread_cpu_s() - cpu_before_s);
    let transactions = floor.transactions;
    let report =
        json!({ "transactions": transactions, "elapsed_s": elapsed_s, "client_cpu_s": client_cpu_s });
    println!("{report}");
    Ok(())
}

fn open(parameters: &Parameters) -> Result<Connection, Box<dyn Error>> {
    let mut connection = connect::open(parameters)?;
    let mut request = BytesMut::new();
    let select = "SELECT abalance FROM pgbench_accounts WHERE aid = $1";
    requests::prepare("floor", select, [], &mut request)?;
    requests::sync(&mut request);
    connection.socket.write_all(&request)?;
    let mut answer = [0; 256];
    let count = connection.socket.read(&mut answer)?;
    if !answer[..count].ends_with(READY_FOR_QUERY) {
        return Err("the point select can't be prepared: is this a pgbench database?".into());
    }
    Ok(connection)
}

fn encode_requests(scale: u64) -> Result<Vec<BytesMut>, Box<dyn Error>> {
    let accounts = scale * 100_000;
    let encode = |number: u64| {
        // A stride prime to the number of accounts visits them in no order that a cache could follow.
        let aid = number * 48_271 % accounts + 1;
        let mut request = BytesMut::new();
        requests::execute_prepared(
            "floor",
            [requests::Argument::Integer(i64::try_from(aid)?)],
            0,
            &mut request,
        )?;
        Ok(request)
    };
    (0..REQUESTS).map(encode).collect()
}

struct Floor<'a> {
    epoll: std::os::fd::OwnedFd,
    connections: &'a mut [Connection],
    requests: &'a [BytesMut],
    next_request: usize,
    transactions: u64,
}

impl<'a> Floor<'a> {
    fn new(connections: &'a mut [Connection], requests: &'a [BytesMut]) -> Result<Self, Box<dyn Error>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, connection) in connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(index as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            match &connection.socket {
                connect::Socket::Unix(stream) => epoll::add(&epoll, stream, data, flags)?,
                connect::Socket::Tcp(stream) => epoll::add(&epoll, stream, data, flags)?,
                connect::Socket::Tls(_) => {
                    return Err("the bare loop knows no TLS: name a local server".into());
                }
            }
        }
        Ok(Self {
            epoll,
            connections,
            requests,
            next_request: 0,
            transactions: 0,
        })
    }

    fn start(&mut self) -> Result<(), Box<dyn Error>> {
        (0..self.connections.len()).try_for_each(|index| self.send(index))
    }

    fn send(&mut self, index: usize) -> Result<(), Box<dyn Error>> {
        self.next_request = (self.next_request + 1) % self.requests.len();
        Ok(self.connections[index]
            .socket
            .write_all(&self.requests[self.next_request])?)
    }

    fn run(&mut self, duration: Duration) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + duration;
        let mut events = Vec::with_capacity(1024);
        let mut answer = [0; 4096];
        let mut waits = 0;
        loop {
            waits += 1;
            if waits % WAITS_PER_CLOCK == 0 && Instant::now() >= end {
                return Ok(());
            }
            events.clear();
            self.wait(&mut events)?;
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                let count = self.connections[index].socket.read(&mut answer)?;
                if !answer[..count].ends_with(READY_FOR_QUERY) {
                    return Err("an answer was not a row in one piece".into());
                }
                self.transactions += 1;
                self.send(index)?;
            }
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<(), Box<dyn Error>> {
        if self.connections.len() > 1 {
            let clients = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
            let end = Instant::now() + POLL_PER_CLIENT.saturating_mul(clients).min(POLL_MAX);
            while Instant::now() < end {
                epoll::wait(&self.epoll, spare_capacity(events), Some(&Timespec::default()))?;
                if !events.is_empty() {
                    return Ok(());
                }
            }
        }
        epoll::wait(&self.epoll, spare_capacity(events), None)?;
        Ok(())
    }
}

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
    .as_secs_f64()
}
