//! One thread of a run by sysbench's rules: its connections from their first event to their last.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pgassay_protocol::Failure;

use super::books::{Books, OfConnection, Seen};
use super::spec::SysbenchSpec;
use crate::client::Outcome;
use crate::clock::{ThreadTimes, monotonic_ns};
use crate::pacing::Pacer;
use crate::run::queue::Queue;
use crate::transaction::Queries;
use crate::transport::Connector;
use crate::worker::opener::Opener;
use crate::worker::{Worker, watch};

/// So many events that ask the server nothing are run before others get their turn.
const EVENTS_AT_ONCE: usize = 256;

/// Where a connection is.
#[derive(Clone, Copy, Default)]
struct Slot {
    due_ns: u64,
    began_ns: u64,
    /// It waits for its next event to be due.
    is_throttled: bool,
    /// Its events since its connection was opened.
    events: u64,
    /// Its event is done but for the new connection, which belongs to it.
    is_reconnecting: bool,
    /// It sends what it had gathered, and is over then.
    is_closing: bool,
    is_over: bool,
}

/// A thread with all that it needs.
pub struct ClientThread<C: Connector> {
    /// Connections and their events.
    pub worker: Worker<C>,
    /// The run.
    pub spec: Arc<SysbenchSpec>,
    /// Where events are due by a rate.
    pub pacer: Option<Pacer>,
    /// With --reconnect.
    pub opener: Option<Opener<C::Transport>>,
    /// What the coordinator reads of the counts meanwhile.
    pub seen: Arc<Mutex<Seen>>,
    /// Events that any connection has begun, where there is a limit of them.
    pub begun: Arc<AtomicU64>,
    /// From when on events are counted.
    pub counts_from_ns: u64,
    /// When no event begins any more.
    pub end_ns: u64,
}

struct Run<C: Connector> {
    thread: ClientThread<C>,
    slots: Vec<Slot>,
    books: Books,
    /// Events that are due and were not begun yet, by when they were.
    due: VecDeque<u64>,
    running: usize,
}

impl<C: Connector> ClientThread<C> {
    /// Runs all events of the thread's connections; what was counted, and what ended them before their time: a
    /// connection was lost, a statement failed for good, or the system refused what the thread needs.
    pub fn run(self) -> (Books, Option<Failure>) {
        let count = self.worker.clients.len();
        let tells = self.spec.report_interval_s.is_some();
        let queue = self.pacer.as_ref().filter(|_| tells).map(Queue::of);
        let mut run = Run {
            thread: self,
            slots: vec![Slot::default(); count],
            books: Books {
                connections: vec![OfConnection::default(); count],
                ..Books::default()
            },
            due: VecDeque::new(),
            running: count,
        };
        run.seen(|seen| seen.queue = queue);
        let (times, outcome) = ThreadTimes::during(|| run.all_events());
        let failure = outcome.err();
        // Of a run that another thread's failure ended nothing more was due.
        if failure.is_none() && !run.thread.worker.shared.stop.load(Ordering::Relaxed) {
            run.count_the_queue();
        }
        run.books.times_of_threads = times;
        (run.books, failure)
    }
}

impl<C: Connector> Run<C> {
    fn all_events(&mut self) -> Result<(), Failure> {
        for index in 0..self.slots.len() {
            let outcome = self.begin_next(index, monotonic_ns())?;
            self.follow(index, outcome)?;
        }
        let mut ready = Vec::new();
        while self.running > 0 {
            self.thread.worker.wait()?;
            for index in std::mem::take(&mut self.thread.worker.again) {
                self.follow(index, Outcome::Committed)?;
            }
            self.wake_sleepers()?;
            self.take_opened()?;
            ready.clear();
            ready.extend(self.thread.worker.ready());
            if self.thread.worker.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            for &event in &ready {
                if !self.slots[event.index].is_over {
                    let outcome = self.thread.worker.serve(event)?;
                    self.follow(event.index, outcome)?;
                }
            }
        }
        Ok(())
    }

    fn wake_sleepers(&mut self) -> Result<(), Failure> {
        while let Some(&Reverse((until_ns, index))) = self.thread.worker.sleepers.peek() {
            let now_ns = monotonic_ns();
            if until_ns > now_ns {
                break;
            }
            self.thread.worker.sleepers.pop();
            self.slots[index].is_throttled = false;
            let outcome = self.begin(index, now_ns)?;
            self.follow(index, outcome)?;
        }
        Ok(())
    }

    /// What comes after a connection's outcome, as long as that is known at once.
    fn follow(&mut self, index: usize, mut outcome: Outcome) -> Result<(), Failure> {
        for _ in 0..EVENTS_AT_ONCE {
            outcome = match outcome {
                Outcome::Prepared if self.slots[index].is_reconnecting => {
                    self.slots[index].is_reconnecting = false;
                    self.end_event(index)?
                }
                Outcome::Waiting | Outcome::Prepared => return self.thread.worker.watch_sending(index),
                Outcome::Sleeping(until_ns) => {
                    self.thread.worker.sleepers.push(Reverse((until_ns, index)));
                    return Ok(());
                }
                Outcome::Committed if self.slots[index].is_closing => {
                    self.count_queries(index);
                    self.finish(index);
                    return Ok(());
                }
                Outcome::Committed if self.reconnects(index)? => return Ok(()),
                Outcome::Committed => self.end_event(index)?,
                Outcome::GivenUp => self.begin_again(index)?,
            };
        }
        match outcome {
            Outcome::Committed => self.thread.worker.again.push(index),
            _ => return self.follow(index, outcome),
        }
        Ok(())
    }

    fn end_event(&mut self, index: usize) -> Result<Outcome, Failure> {
        let now_ns = monotonic_ns();
        self.count(index, now_ns);
        self.begin_next(index, now_ns)
    }

    /// Has a connection opened anew where its events are that many; `true` where it is (check_reconnect in
    /// src/lua/oltp_common.lua).
    fn reconnects(&mut self, index: usize) -> Result<bool, Failure> {
        let (Some(opener), slot) = (&self.thread.opener, &mut self.slots[index]) else {
            return Ok(false);
        };
        slot.events += 1;
        if slot.events < self.thread.spec.reconnect_after {
            return Ok(false);
        }
        (slot.events, slot.is_reconnecting) = (0, true);
        self.thread.worker.clients[index].disconnect();
        self.thread.worker.is_waiting_to_send[index] = false;
        opener.open(index)?;
        Ok(true)
    }

    /// Goes on with the connections that were opened anew.
    fn take_opened(&mut self) -> Result<(), Failure> {
        while let Some(opened) = self.thread.opener.as_ref().and_then(Opener::next) {
            let (index, worker) = (opened.slot, &mut self.thread.worker);
            let connection = opened
                .outcome
                .map_err(|failure| failure.within("a connection could not be opened again"))?;
            let client = &mut worker.clients[index];
            client.connect(connection);
            watch(&worker.poll, client, index)?;
            let outcome = client.prepare()?;
            if monotonic_ns() >= self.thread.counts_from_ns {
                self.books.reconnects += 1;
                if self.thread.spec.report_interval_s.is_some() {
                    self.seen(|seen| seen.reconnects += 1);
                }
            }
            self.follow(index, outcome)?;
        }
        Ok(())
    }

    /// Begins a connection's next event, now or when it is due.
    fn begin_next(&mut self, index: usize, now_ns: u64) -> Result<Outcome, Failure> {
        if now_ns >= self.thread.end_ns || !self.is_within_events(now_ns) {
            return self.close(index);
        }
        self.slots[index].due_ns = now_ns;
        if self.thread.pacer.is_some() {
            self.gather_due(now_ns);
            let due_ns = match (self.due.pop_front(), &mut self.thread.pacer) {
                (None, Some(pacer)) => pacer.take(),
                (due, _) => due.unwrap_or(now_ns),
            };
            if due_ns >= self.thread.end_ns {
                return self.close(index);
            }
            if self.thread.spec.report_interval_s.is_some() {
                self.take_of_queue();
            }
            let slot = &mut self.slots[index];
            slot.due_ns = due_ns;
            if due_ns > now_ns {
                slot.is_throttled = true;
                return Ok(Outcome::Sleeping(due_ns));
            }
        }
        self.begin(index, now_ns)
    }

    /// Takes one of the events that all connections share.
    fn is_within_events(&self, now_ns: u64) -> bool {
        let Some(most) = self.thread.spec.events else {
            return true;
        };
        now_ns < self.thread.counts_from_ns || self.thread.begun.fetch_add(1, Ordering::Relaxed) < most
    }

    fn gather_due(&mut self, now_ns: u64) {
        if let Some(pacer) = &mut self.thread.pacer {
            while pacer.due_ns() <= now_ns {
                self.due.push_back(pacer.take());
            }
        }
    }

    fn begin(&mut self, index: usize, now_ns: u64) -> Result<Outcome, Failure> {
        self.slots[index].began_ns = now_ns;
        if self.thread.pacer.is_some() && self.thread.spec.report_interval_s.is_some() {
            self.show_running();
        }
        let worker = &mut self.thread.worker;
        worker.clients[index].begin(now_ns, &mut worker.choose)
    }

    /// The same event with other values: its time goes on.
    fn begin_again(&mut self, index: usize) -> Result<Outcome, Failure> {
        let now_ns = monotonic_ns();
        if now_ns >= self.thread.counts_from_ns {
            if let Some(why) = self.thread.worker.clients[index].given_up() {
                self.books.errors.count(why);
            }
            if self.thread.spec.report_interval_s.is_some() {
                self.seen(|seen| seen.errors += 1);
            }
        }
        let worker = &mut self.thread.worker;
        worker.clients[index].begin(now_ns, &mut worker.choose)
    }

    fn count(&mut self, index: usize, now_ns: u64) {
        let slot = self.slots[index];
        if now_ns < self.thread.counts_from_ns {
            self.thread.worker.clients[index].take_queries();
            return;
        }
        let latency_ns = now_ns.saturating_sub(slot.began_ns);
        self.books.latency.count(latency_ns);
        if self.thread.pacer.is_some() {
            self.books.from_due.count(now_ns.saturating_sub(slot.due_ns));
            self.gather_due(now_ns);
        }
        let of_connection = &mut self.books.connections[index];
        of_connection.events += 1;
        of_connection.busy_ns += u128::from(latency_ns);
        let queries = self.count_queries(index);
        if self.thread.spec.report_interval_s.is_some() {
            self.seen(|seen| {
                seen.latency.count(latency_ns);
                seen.queries.merge(queries);
                if let Some(queue) = &mut seen.queue {
                    queue.pass(now_ns);
                }
            });
        }
    }

    fn count_queries(&mut self, index: usize) -> Queries {
        let queries = self.thread.worker.clients[index].take_queries();
        self.books.queries.merge(queries);
        queries
    }

    fn take_of_queue(&self) {
        self.seen(|seen| {
            if let Some(queue) = &mut seen.queue {
                queue.take();
            }
        });
    }

    fn show_running(&self) {
        let running = self.running - self.thread.worker.sleepers.len().min(self.running);
        self.seen(|seen| seen.running = running);
    }

    fn seen(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.thread.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends a connection, once it has sent what it had gathered.
    fn close(&mut self, index: usize) -> Result<Outcome, Failure> {
        if self.slots[index].is_over {
            return Ok(Outcome::Waiting);
        }
        self.slots[index].is_closing = true;
        match self.thread.worker.clients[index].send_rest()? {
            Outcome::Committed => {
                self.finish(index);
                Ok(Outcome::Waiting)
            }
            other => Ok(other),
        }
    }

    fn finish(&mut self, index: usize) {
        if !self.slots[index].is_over {
            self.slots[index].is_over = true;
            self.running -= 1;
            self.thread.worker.clients[index].disconnect();
        }
    }

    /// What was due before the end and never begun.
    fn count_the_queue(&mut self) {
        if self.thread.end_ns != u64::MAX {
            self.gather_due(self.thread.end_ns);
            self.books.queued = self.due.iter().filter(|&&due| due < self.thread.end_ns).count() as u64;
        }
    }
}
