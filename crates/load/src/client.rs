//! One connection of the load: what it has sent, what it waits for, what comes next.

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use pgassay_protocol::{Answer, AnswerState, Failure, InputBuffer, NoticeStore, TransactionStatus, requests};
use rand_xoshiro::Xoroshiro128StarStar;

use crate::connections::idle_pauses::{Idling, Pauses};
use crate::interpreter::Interpreter;
use crate::interpreter::sessions::{Answered, FailedAt};
use crate::programs::Programs;
use crate::script::Script;
use crate::spec::QueryProtocol;
use crate::sysbench::plan::Place;
use crate::tally::Timing;
use crate::transaction::{Queries, Statement, Transaction};
use crate::transport::Transport;

mod connection;
mod counted;
mod failures;
mod idling;
mod scripted;
mod statements;

/// The most that is kept of what the server says beside one answer.
const NOTICES_BYTES: usize = 1 << 20;

/// What a client's answer meant for the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Waiting,
    /// Every statement is prepared.
    Prepared,
    /// Nothing before this instant of the monotonic clock.
    Sleeping(u64),
    /// The transaction is done.
    Committed,
    /// The server gave the transaction up; it was rolled back.
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Preparing,
    Running,
    Sleeping,
    RollingBack,
}

/// Where transactions come from.
pub enum Source {
    /// A transaction of pgassay's own.
    Builtin(Script),
    /// Scripts of the user's.
    Programs(Arc<Programs>),
}

/// What all clients of a load run.
pub struct Work {
    /// The transactions it repeats.
    pub source: Source,
    /// How its statements travel.
    pub protocol: QueryProtocol,
    /// Whether any error of a statement ends its transaction alone, as those that trying again may mend.
    pub continues_on_error: bool,
    /// Whether each query is counted by what it did.
    pub counts_queries: bool,
    /// Whether a failure says which client met it and where, or only what the server says.
    pub tells_place: bool,
    /// Whether what libpq does in pgbench's hands is done: notices are told on standard error, COPY is refused.
    pub is_as_libpq: bool,
    /// Whether each statement's time is taken.
    pub times_statements: bool,
    /// How long a client is idle within its transactions.
    pub idling: Option<Idling>,
}

impl Work {
    /// What the answers of a connection are read into.
    fn answer(&self) -> Answer {
        Answer {
            counts_changes: self.counts_queries,
            refuses_copy: self.is_as_libpq,
            notices: NoticeStore::with_room(if self.is_as_libpq { NOTICES_BYTES } else { 0 }),
            ..Answer::default()
        }
    }
}

/// One connection, its place in the transaction that is running, and its random numbers.
pub struct Client<T> {
    number: usize,
    /// None between transactions, where each has a connection of its own.
    transport: Option<T>,
    work: Arc<Work>,
    input: InputBuffer,
    output: BytesMut,
    answer: Answer,
    state: State,
    random: Xoroshiro128StarStar,
    transaction: Transaction,
    place: Place,
    counted: Queries,
    text: String,
    /// The place in the transaction of the statement that is running.
    step: usize,
    /// The place in a script of the user's.
    interpreter: Option<Box<Interpreter>>,
    /// The answers that are still to come before the script goes on, those that came before it waited, and the first
    /// failure among all of them.
    awaited: usize,
    early: usize,
    failure: Option<Failure>,
    failed_at: Option<FailedAt>,
    answered: Answered,
    status: TransactionStatus,
    /// When the transaction that is running was due and began.
    pub timing: Timing,
    /// When the last one had ended; 0 before the first.
    pub free_ns: u64,
    /// Why the last transaction that was given up was.
    given_up: Option<Failure>,
    /// The connection has yet to be told what is prepared.
    is_fresh: bool,
    pauses: Option<Box<Pauses>>,
    /// When the statement that is running was sent, and what those before it took.
    asked_ns: u64,
    took: Vec<(usize, u64)>,
}

impl<T: Transport> Client<T> {
    /// An idle client, on an open connection or without one.
    pub fn new(
        number: usize,
        connection: Option<(T, InputBuffer)>,
        work: Arc<Work>,
        random: Xoroshiro128StarStar,
    ) -> Self {
        let (transport, mut input) = match connection {
            Some((transport, input)) => (Some(transport), input),
            None => (None, InputBuffer::with_capacity(0)),
        };
        let interpreter = match &work.source {
            Source::Builtin(_) => None,
            Source::Programs(programs) => {
                if programs.captures() {
                    input.keep_rows(true);
                }
                let programs = Arc::clone(programs);
                let mut interpreter = Interpreter::new(programs, work.protocol, number, random.clone());
                interpreter.idles = work.idling.is_some();
                Some(Box::new(interpreter))
            }
        };
        let answer = work.answer();
        let pauses = work.idling.map(|idling| Box::new(Pauses::new(idling, number)));
        Self {
            number,
            transport,
            work,
            input,
            output: BytesMut::with_capacity(1024),
            answer,
            state: State::Idle,
            random,
            transaction: Transaction::default(),
            place: Place::new(number),
            counted: Queries::default(),
            text: String::with_capacity(256),
            step: 0,
            interpreter,
            awaited: 0,
            early: 0,
            failure: None,
            failed_at: None,
            answered: Answered::default(),
            status: TransactionStatus::Idle,
            timing: Timing::default(),
            free_ns: 0,
            given_up: None,
            is_fresh: false,
            pauses,
            asked_ns: 0,
            took: Vec::new(),
        }
    }

    /// The stream, to be registered for events.
    pub fn transport(&mut self) -> Option<&mut T> {
        self.transport.as_mut()
    }

    /// Whether something could not be sent yet.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.output.is_empty()
    }

    /// Begins a transaction; `choose` is the thread's stream that scripts are drawn by.
    ///
    /// # Errors
    /// When the connection is lost, or a script fails.
    #[inline]
    pub fn begin(&mut self, now_ns: u64, choose: &mut Xoroshiro128StarStar) -> Result<Outcome, Failure> {
        self.timing = Timing::at_once(now_ns, 0);
        self.state = State::Running;
        self.took.clear();
        match &self.work.source {
            Source::Builtin(script) => {
                script.draw(&mut self.random, &mut self.place, &mut self.transaction);
                self.step = 0;
                if self.transaction.is_empty() {
                    return Ok(self.finish(Outcome::Committed));
                }
                self.asked_ns = now_ns;
                self.send_statement()?;
                Ok(Outcome::Waiting)
            }
            Source::Programs(programs) => {
                let script = programs.choose(choose);
                self.timing.kind = script;
                self.begin_script(script, now_ns)
            }
        }
    }

    /// Sends what can be sent without waiting.
    ///
    /// # Errors
    /// When the connection is lost.
    #[inline]
    pub fn send(&mut self) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else {
            self.output.clear();
            return Ok(());
        };
        while !self.output.is_empty() {
            match transport.write(&self.output) {
                Ok(count) if count == self.output.len() => self.output.clear(),
                Ok(count) => self.output.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The server may have said why before it closed the connection: reading finds out.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.output.clear();
                    return self.read_final_error();
                }
                Err(error) => return Err(self.connection_lost(&error.to_string())),
            }
        }
        Ok(())
    }

    #[cold]
    fn read_final_error(&mut self) -> Result<(), Failure> {
        while let Some(transport) = &mut self.transport {
            match transport.read(self.input.space()) {
                Ok(count) if count > 0 => self.input.received(count),
                _ => break,
            }
            if let Err(failure) = self.answer.read(&mut self.input) {
                return Err(self.with_context(failure));
            }
        }
        Err(self.connection_lost("the server closed it"))
    }

    /// Takes what has arrived, and sends the next statement of the transaction if there is one.
    /// `is_closing`: the event said that the server has closed its side.
    ///
    /// # Errors
    /// When the connection is lost, or the server reports an error that trying again would not mend.
    #[inline]
    pub fn receive(&mut self, is_closing: bool) -> Result<Outcome, Failure> {
        while let Some(transport) = &mut self.transport {
            let space = self.input.space();
            let room = space.len();
            let count = match transport.read(space) {
                Ok(0) => return Err(self.connection_lost("the server closed it")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Outcome::Waiting),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.connection_lost(&error.to_string())),
            };
            self.input.received(count);
            loop {
                match self.answer.read(&mut self.input) {
                    Ok(AnswerState::Ready(status)) => {
                        let outcome = self.answered(status)?;
                        // Of a pipeline the next answers may have arrived already, and no event tells of them.
                        if outcome != Outcome::Waiting || self.awaited == 0 {
                            return Ok(outcome);
                        }
                    }
                    // Less than there was room for: the socket is empty, and what comes next is a new event
                    // (epoll(7), edge-triggered notification of stream sockets). No second read to learn that.
                    // The end of the stream is no byte: where this event told of it, no other will.
                    Ok(AnswerState::Incomplete) if count < room && !is_closing => {
                        return Ok(Outcome::Waiting);
                    }
                    Ok(AnswerState::Incomplete) => break,
                    Ok(AnswerState::CopyIn) => {
                        return Err(self.with_context(Failure::client("the server asks for COPY data")));
                    }
                    Err(failure) => return Err(self.with_context(failure)),
                }
            }
        }
        Ok(Outcome::Waiting)
    }

    #[inline]
    fn answered(&mut self, status: TransactionStatus) -> Result<Outcome, Failure> {
        if self.state == State::Idle {
            return Err(self.with_context(Failure::client("the server answered what was not asked")));
        }
        if self.interpreter.is_some() && self.state != State::RollingBack {
            return self.answered_script(status);
        }
        if self.answer.error.is_some() {
            return self.answered_error(status);
        }
        if self.work.counts_queries {
            self.count_query();
        }
        if self.work.times_statements {
            self.note_statement();
        }
        match self.state {
            State::Running if self.step + 1 < self.transaction.len() => {
                self.step += 1;
                if let Some(pausing) = self.pause_before_end(status) {
                    return Ok(pausing);
                }
                self.send_statement()?;
                Ok(Outcome::Waiting)
            }
            State::Running => Ok(self.finish(Outcome::Committed)),
            State::Preparing => Ok(self.finish(Outcome::Prepared)),
            State::Idle | State::Sleeping | State::RollingBack => {
                self.status = status;
                Ok(self.finish(Outcome::GivenUp))
            }
        }
    }

    fn statement(&self) -> Option<&Statement> {
        let Source::Builtin(script) = &self.work.source else {
            return None;
        };
        Some(&script.statements[self.transaction.step(self.step).0])
    }

    #[inline]
    fn finish(&mut self, outcome: Outcome) -> Outcome {
        self.state = State::Idle;
        outcome
    }

    #[cold]
    fn answered_error(&mut self, status: TransactionStatus) -> Result<Outcome, Failure> {
        let Some(failure) = self.answer.error.take() else {
            return Ok(Outcome::Waiting);
        };
        let is_tolerated = (failure.is_retryable() && !self.loses_what_was_counted())
            || (self.work.continues_on_error && !failure.fatal)
            || self.is_tolerated_duplicate(&failure);
        if self.state != State::Running || !is_tolerated {
            return Err(self.with_context(failure));
        }
        self.given_up = Some(failure);
        // sysbench's driver sends it whether there is a transaction or not.
        if status == TransactionStatus::Idle && !self.work.counts_queries {
            return Ok(self.finish(Outcome::GivenUp));
        }
        self.state = State::RollingBack;
        requests::simple_query("ROLLBACK", &mut self.output)?;
        self.send()?;
        Ok(Outcome::Waiting)
    }

    /// Sends Terminate; whether it arrives doesn't matter any more.
    pub fn terminate(&mut self) {
        requests::terminate(&mut self.output);
        let _ = self.send();
    }
}
