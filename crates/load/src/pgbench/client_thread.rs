//! One thread of a run by pgbench's rules: its clients from their first transaction to their last.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgassay_protocol::Failure;

use super::abort::refusal;
use super::books::Books;
use super::log::{Line, TransactionLog};
use super::spec::{OfPgbench, PgbenchSpec};
use super::stats::{Ending, FailureKind};
use crate::client::Outcome;
use crate::clock::{ThreadTimes, monotonic_ns};
use crate::pacing::Pacer;
use crate::programs::Programs;
use crate::run::threads::Given;
use crate::transport::Connector;
use crate::worker::{Worker, watch};

/// Something that the user is to read, as pgbench's logging has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// With the word "error".
    Error(String),
    /// More of the error before it.
    Detail(String),
    /// With no word.
    Info(String),
}

/// Where a client is between its transactions.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// Transactions that came to an end, failed and skipped ones included.
    ended: u64,
    pub(super) tries: u32,
    script: usize,
    due_ns: u64,
    began_ns: u64,
    /// It waits for its next transaction to be due.
    is_throttled: bool,
    is_over: bool,
}

/// A thread with all that it needs.
pub(super) struct ClientThread<C: Connector> {
    /// Clients and their events.
    pub worker: Worker<C>,
    /// Connections, messages, and what the coordinator reads of the counts meanwhile.
    pub given: Given<C, OfPgbench>,
    /// The run.
    pub spec: Arc<PgbenchSpec>,
    /// The scripts.
    pub programs: Arc<Programs>,
    /// Where transactions are due by a rate.
    pub pacer: Option<Pacer>,
    /// What is logged.
    pub log: Option<TransactionLog>,
    /// When no transaction begins any more.
    pub end_ns: u64,
}

/// A run that is over: what was counted, or that it ended with the first client that was aborted.
type Finished = Result<Books, Failure>;

pub(super) struct Run<C: Connector> {
    pub(super) thread: ClientThread<C>,
    pub(super) slots: Vec<Slot>,
    pub(super) books: Books,
    running: usize,
    /// With --exit-on-abort: a client was.
    is_stopped: bool,
    /// With a rate, where progress is told.
    pub(super) tells_queue: bool,
}

impl<C: Connector> ClientThread<C> {
    /// Runs all transactions of the thread's clients.
    ///
    /// # Errors
    /// When the system refuses what the thread needs, or the log can't be written.
    pub fn run(self) -> Finished {
        let count = self.worker.clients.len();
        let commands = self.programs.offsets.last().copied().unwrap_or(0);
        let books = Books::new(self.programs.programs.len(), commands);
        let mut run = Run {
            thread: self,
            slots: vec![Slot::default(); count],
            books,
            running: count,
            is_stopped: false,
            tells_queue: false,
        };
        run.prepare();
        let (times, outcome) = ThreadTimes::during(|| run.all_transactions());
        outcome?;
        run.books.times_of_threads = times;
        run.close()
    }
}

impl<C: Connector> Run<C> {
    fn prepare(&mut self) {
        self.begin_queue();
        let spec = &self.thread.spec;
        for client in &mut self.thread.worker.clients {
            if let Some(interpreter) = client.interpreter() {
                if spec.times_commands {
                    interpreter.take_times();
                }
                if spec.is_traced {
                    interpreter.trace();
                }
            }
        }
        if let Some(log) = &mut self.thread.log {
            log.start();
        }
    }

    fn all_transactions(&mut self) -> Result<(), Failure> {
        for index in 0..self.slots.len() {
            let outcome = self.begin_next(index, monotonic_ns())?;
            self.follow_begun(index, outcome)?;
        }
        let mut ready = Vec::new();
        while self.running > 0 && !self.is_stopped {
            self.thread.worker.wait()?;
            for index in std::mem::take(&mut self.thread.worker.again) {
                self.follow(index, Ok(Outcome::Committed))?;
            }
            self.wake_sleepers()?;
            ready.clear();
            ready.extend(self.thread.worker.ready());
            if self.thread.worker.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            for &event in &ready {
                if self.slots[event.index].is_over {
                    continue;
                }
                let outcome = self.thread.worker.serve(event);
                self.follow(event.index, outcome)?;
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
            let outcome = if self.slots[index].is_throttled {
                self.slots[index].is_throttled = false;
                if now_ns >= self.thread.end_ns {
                    self.finish(index);
                    continue;
                }
                self.begin(index, now_ns)
            } else {
                self.thread.worker.clients[index].go_on(now_ns)
            };
            self.follow_begun(index, outcome)?;
        }
        Ok(())
    }

    /// Chooses a client's next script, and begins it now or when it is due.
    fn begin_next(&mut self, index: usize, now_ns: u64) -> Result<Result<Outcome, Failure>, Failure> {
        let script = self.thread.programs.choose(&mut self.thread.worker.choose);
        let slot = &mut self.slots[index];
        (slot.script, slot.tries, slot.due_ns) = (script, 1, now_ns);
        if self.thread.spec.is_traced {
            let (number, name) = (
                self.thread.worker.clients[index].number(),
                &self.thread.programs.programs[script].name,
            );
            eprintln!("pgbench: client {number} executing script \"{name}\"");
        }
        if now_ns >= self.thread.end_ns {
            self.finish(index);
            return Ok(Ok(Outcome::Waiting));
        }
        let limit_us = self.thread.spec.latency_limit_us;
        while let Some(pacer) = &mut self.thread.pacer {
            let due_ns = pacer.take();
            if self.tells_queue {
                self.take_of_queue();
            }
            self.slots[index].due_ns = due_ns;
            if limit_us.is_some_and(|limit| due_ns + limit * 1000 < now_ns) {
                self.count(index, Ending::Skipped)?;
                if self.is_last(index, now_ns) {
                    self.finish(index);
                    return Ok(Ok(Outcome::Waiting));
                }
                continue;
            }
            if due_ns > self.thread.end_ns {
                self.finish(index);
                return Ok(Ok(Outcome::Waiting));
            }
            if due_ns > now_ns {
                self.slots[index].is_throttled = true;
                return Ok(Ok(Outcome::Sleeping(due_ns)));
            }
            break;
        }
        Ok(self.begin(index, now_ns))
    }

    /// Begins a transaction, on a connection of its own where each has one.
    fn begin(&mut self, index: usize, now_ns: u64) -> Result<Outcome, Failure> {
        let worker = &mut self.thread.worker;
        let client = &mut worker.clients[index];
        let mut began_ns = now_ns;
        if !client.is_connected() {
            match self.thread.given.connector.connect() {
                Ok(connection) => client.connect(connection),
                Err(failure) => {
                    self.books.errors.count_refused(&failure);
                    let number = client.number();
                    self.thread.given.say(Said::Error(refusal(failure).message));
                    self.thread.given.say(Said::Error(format!(
                        "client {number} aborted while establishing connection"
                    )));
                    self.give_up_client(index);
                    return Ok(Outcome::Waiting);
                }
            }
            worker.is_waiting_to_send[index] = false;
            watch(&worker.poll, client, index)?;
            began_ns = monotonic_ns();
            self.books.connecting_ns += began_ns - now_ns;
        }
        let slot = &mut self.slots[index];
        slot.began_ns = began_ns;
        if self.thread.pacer.is_none() {
            slot.due_ns = began_ns;
        }
        client.begin_script(slot.script, began_ns)
    }

    /// What comes after the beginning of a transaction: one that asked the server nothing gives others their turn.
    fn follow_begun(&mut self, index: usize, outcome: Result<Outcome, Failure>) -> Result<(), Failure> {
        match outcome {
            Ok(Outcome::Committed) => {
                self.thread.worker.again.push(index);
                Ok(())
            }
            other => self.follow(index, other),
        }
    }

    /// What comes after a client's outcome.
    fn follow(&mut self, index: usize, outcome: Result<Outcome, Failure>) -> Result<(), Failure> {
        match outcome {
            Ok(Outcome::Waiting | Outcome::Prepared) => self.thread.worker.watch_sending(index),
            Ok(Outcome::Sleeping(until_ns)) => {
                self.thread.worker.sleepers.push(Reverse((until_ns, index)));
                self.thread.worker.watch_sending(index)
            }
            Ok(Outcome::Committed) => self.end_transaction(index, None),
            Ok(Outcome::GivenUp) => self.given_up(index),
            Err(failure) => self.abort(index, &failure),
        }
    }

    fn given_up(&mut self, index: usize) -> Result<(), Failure> {
        let now_ns = monotonic_ns();
        let spec = Arc::clone(&self.thread.spec);
        let client = &mut self.thread.worker.clients[index];
        let kind = FailureKind::of(client.given_up());
        let command = client
            .interpreter()
            .map_or(0, |interpreter| interpreter.command());
        if spec.tells_errors {
            self.tell_given_up(index);
        }
        if now_ns >= self.thread.end_ns {
            // As in pgbench: what failed when time was over is not counted.
            self.finish(index);
            return Ok(());
        }
        if let Some(why) = self.thread.worker.clients[index].given_up() {
            self.books.errors.count(why);
        }
        let slot = self.slots[index];
        let spent_us = now_ns.saturating_sub(slot.due_ns) / 1000;
        let is_tried_again = kind.is_retryable()
            && (spec.max_tries == 0 || slot.tries < spec.max_tries)
            && spec.latency_limit_us.is_none_or(|limit| spent_us <= limit);
        if spec.tells_errors {
            self.tell_end(index, is_tried_again, spent_us);
        }
        if !is_tried_again {
            self.books.commands[command].0 += 1;
            return self.end_transaction(index, Some(kind));
        }
        self.slots[index].tries += 1;
        self.books.commands[command].1 += 1;
        let outcome = self.thread.worker.clients[index].begin_again(now_ns);
        self.follow_begun(index, outcome)
    }

    fn end_transaction(&mut self, index: usize, failed: Option<FailureKind>) -> Result<(), Failure> {
        let mut now_ns = monotonic_ns();
        self.count(index, self.ending(index, now_ns, failed))?;
        if self.thread.spec.connects_each {
            self.thread.worker.clients[index].disconnect();
            let closed_ns = monotonic_ns();
            self.books.connecting_ns += closed_ns - now_ns;
            now_ns = closed_ns;
        }
        if self.is_last(index, now_ns) {
            self.finish(index);
            return Ok(());
        }
        let outcome = self.begin_next(index, now_ns)?;
        self.follow_begun(index, outcome)
    }

    #[allow(clippy::cast_precision_loss)] // Microseconds of a run are exact in a double.
    pub(super) fn ending(&self, index: usize, now_ns: u64, failed: Option<FailureKind>) -> Ending {
        let slot = self.slots[index];
        let since_due_us = |at_ns: u64| ((at_ns.saturating_sub(slot.due_ns) + 500) / 1000) as f64;
        match failed {
            Some(kind) => Ending::Failed(kind),
            None => Ending::Done {
                latency_us: since_due_us(now_ns),
                lag_us: since_due_us(slot.began_ns),
            },
        }
    }

    pub(super) fn count(&mut self, index: usize, ending: Ending) -> Result<(), Failure> {
        let slot = &mut self.slots[index];
        slot.ended += 1;
        let line = Line {
            client: self.thread.worker.clients[index].number(),
            transaction: slot.ended,
            script: slot.script,
            ending,
            tries: slot.tries,
        };
        let limit_us = self.thread.spec.latency_limit_us;
        self.books
            .count(&line, limit_us, self.thread.log.as_mut())
            .map_err(|error| Failure::client(format!("could not write the log: {error}")))?;
        if self.thread.spec.progress_s.is_some() {
            self.show(ending);
        }
        Ok(())
    }

    fn is_last(&self, index: usize, now_ns: u64) -> bool {
        let most = self.thread.spec.transactions;
        most.is_some_and(|most| self.slots[index].ended >= most) || now_ns >= self.thread.end_ns
    }

    fn finish(&mut self, index: usize) {
        if !self.slots[index].is_over {
            self.slots[index].is_over = true;
            self.running -= 1;
            self.thread.worker.clients[index].disconnect();
        }
    }

    pub(super) fn give_up_client(&mut self, index: usize) {
        self.finish(index);
        self.books.aborted += 1;
        self.is_stopped |= self.thread.spec.exits_on_abort;
    }

    fn close(mut self) -> Finished {
        for client in &mut self.thread.worker.clients {
            if let Some(times) = client.interpreter().and_then(|interpreter| interpreter.times()) {
                self.books.times.merge(times);
            }
            client.disconnect();
        }
        if let Some(log) = self.thread.log.take() {
            log.finish()
                .map_err(|error| Failure::client(format!("could not write the log: {error}")))?;
        }
        Ok(self.books)
    }
}
