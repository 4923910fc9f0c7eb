//! One client's place in a user's script: its variables, what it has queued, what comes next.

use std::sync::Arc;

use bytes::BytesMut;
use pgassay_pgbench::command::{Action, Capture, Word};
use pgassay_pgbench::expression::{Evaluation, Expression};
use pgassay_pgbench::query::{PARAMETERS_MAX, Query, too_many_arguments};
use pgassay_pgbench::value::Value;
use pgassay_pgbench::variables::{Variables, is_name};
use pgassay_protocol::{Captured, Failure, TransactionStatus, requests};
use rand_xoshiro::Xoroshiro128StarStar;

use crate::programs::Programs;

use crate::spec::QueryProtocol;

pub mod command_times;
mod debug;
mod pauses;
mod seen;
pub mod sessions;
mod shell;

use command_times::CommandTimes;
use sessions::{FailedAt, Sent, Session};

/// What a client does after its script went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was queued to be sent: wait for so many ReadyForQuery.
    Wait(usize),
    /// Go on after so many nanoseconds.
    Sleep(u64),
    /// Be idle in the transaction for a while, then go on to its end.
    Idle,
    /// The script is at its end.
    End,
}

/// A client's state.
pub struct Interpreter {
    work: Arc<Programs>,
    protocol: QueryProtocol,
    random: Xoroshiro128StarStar,
    variables: Variables,
    client: usize,
    script: usize,
    at: usize,
    /// The command that runs, for messages; `at` is the next one.
    running: usize,
    /// The answers that a pipeline is owed; none outside of one.
    pipeline: Option<usize>,
    session: Session,
    /// What was sent last, apart from simple queries: all that a pipeline has sent.
    sent: Vec<Sent>,
    /// Whether it is idle before the end of each transaction, and has been so in this one.
    pub idles: bool,
    has_idled: bool,
    capture: Option<Capture>,
    /// Whether the branch before was left out, so that an \\elif is asked.
    is_skipping: bool,
    text: String,
    /// What the random numbers were when the transaction began.
    random_before: Xoroshiro128StarStar,
    times: Option<Box<CommandTimes>>,
    /// Whether each step is told on standard error.
    is_traced: bool,
}

impl Interpreter {
    /// A client before its first script.
    pub fn new(
        work: Arc<Programs>,
        protocol: QueryProtocol,
        client: usize,
        random: Xoroshiro128StarStar,
    ) -> Self {
        Self {
            variables: work.variables_of(client),
            work,
            protocol,
            random_before: random.clone(),
            random,
            client,
            script: 0,
            at: 0,
            running: 0,
            pipeline: None,
            session: Session::default(),
            sent: Vec::new(),
            idles: false,
            has_idled: false,
            capture: None,
            is_skipping: false,
            text: String::new(),
            times: None,
            is_traced: false,
        }
    }

    /// Goes to the beginning of a script.
    pub fn begin(&mut self, script: usize) {
        self.script = script;
        self.random_before.clone_from(&self.random);
        self.rewind();
    }

    /// Goes back to where the transaction began, with the random numbers of that moment.
    pub fn begin_again(&mut self) {
        self.random.clone_from(&self.random_before);
        self.rewind();
    }

    fn rewind(&mut self) {
        (self.at, self.running) = (0, 0);
        self.pipeline = None;
        self.sent.clear();
        self.is_skipping = false;
        self.capture = None;
        self.has_idled = false;
        if let Some(times) = &mut self.times {
            times.forget();
        }
    }

    /// Whether the rows of the answer that is awaited are read.
    pub fn wants_rows(&self) -> bool {
        self.capture.is_some()
    }

    /// Where the script is, for messages.
    pub fn place(&self) -> String {
        let program = &self.work.programs[self.script];
        let command = &program.commands[self.running.min(program.commands.len() - 1)];
        format!("in {}:{} \"{}\"", program.name, command.line, command.text)
    }

    /// Goes on to the next command that has to wait; `status`: of the session.
    ///
    /// # Errors
    /// A command that fails for good.
    pub fn advance(&mut self, output: &mut BytesMut, status: TransactionStatus) -> Result<Step, Failure> {
        let work = Arc::clone(&self.work);
        let program = &work.programs[self.script];
        self.end_command();
        if self.pipeline.is_none() {
            self.sent.clear();
        }
        while let Some(command) = program.commands.get(self.at) {
            if self.idles && self.is_idle_before(&command.action, status) {
                return Ok(Step::Idle);
            }
            self.running = self.at;
            self.at += 1;
            self.begin_command(command);
            match &command.action {
                Action::Sql(query, capture) => {
                    if let Some(step) = self.send(query, capture.as_ref(), output)? {
                        return Ok(step);
                    }
                }
                Action::Set(place, expression) => {
                    let value = self.value(expression)?;
                    self.variables.set(*place, value);
                }
                Action::If(condition, otherwise) => {
                    if !self.value(condition)?.is_true() {
                        self.skip_to(*otherwise);
                    }
                }
                Action::Elif(condition, otherwise, end) => {
                    if !std::mem::take(&mut self.is_skipping) {
                        self.at = end + 1;
                    } else if !self.value(condition)?.is_true() {
                        self.skip_to(*otherwise);
                    }
                }
                Action::Else(end) => {
                    if !std::mem::take(&mut self.is_skipping) {
                        self.at = end + 1;
                    }
                }
                Action::EndIf => self.is_skipping = false,
                Action::Sleep(amount, unit_us) => return self.sleep(amount, *unit_us),
                Action::SetShell(place, words) => {
                    let number = shell::integer(&self.shell_command("\\setshell", words)?)
                        .map_err(|message| failed(&format!("\\setshell: {message}")))?;
                    self.variables.set(*place, Value::Integer(number));
                }
                Action::Shell(words) => {
                    shell::run(&self.shell_command("\\shell", words)?)
                        .map_err(|message| failed(&format!("\\shell: {message}")))?;
                }
                Action::StartPipeline => {
                    if self.protocol == QueryProtocol::Simple {
                        return Err(failed("cannot use pipeline mode with the simple query protocol"));
                    }
                    if self.pipeline.is_some() {
                        return Err(failed("already in pipeline mode"));
                    }
                    self.pipeline = Some(0);
                }
                Action::SyncPipeline => {
                    let owed = self
                        .pipeline
                        .as_mut()
                        .ok_or_else(|| failed("not in pipeline mode"))?;
                    *owed += 1;
                    requests::sync(output);
                }
                Action::EndPipeline => {
                    let owed = self
                        .pipeline
                        .take()
                        .ok_or_else(|| failed("not in pipeline mode"))?;
                    requests::sync(output);
                    return Ok(Step::Wait(owed + 1));
                }
            }
            self.end_command();
        }
        if self.pipeline.is_some() {
            return Err(failed("end of script reached with pipeline open"));
        }
        if status != TransactionStatus::Idle {
            return Err(failed(
                "end of script reached without completing the last transaction",
            ));
        }
        Ok(Step::End)
    }

    fn skip_to(&mut self, branch: usize) {
        self.at = branch;
        self.is_skipping = true;
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, Failure> {
        let place = self.running;
        let script = self.script;
        let mut evaluation = Evaluation {
            variables: &self.variables,
            names: &self.work.names,
            random: &mut self.random,
            debug: &mut |value| debug::print_debug(script, place, value),
        };
        evaluation.value(expression).map_err(|message| failed(&message))
    }

    /// Queues an SQL command; what to wait for, none in a pipeline.
    fn send(
        &mut self,
        query: &Query,
        capture: Option<&Capture>,
        output: &mut BytesMut,
    ) -> Result<Option<Step>, Failure> {
        if self.protocol == QueryProtocol::Simple {
            query.interpolate(&self.variables, &self.work.names, &mut self.text);
            self.tell_sent(&self.text);
            requests::simple_query(&self.text, output)?;
        } else {
            if let Some(capture) = capture.filter(|_| self.pipeline.is_some()) {
                let name = if capture.takes_all { "aset" } else { "gset" };
                return Err(failed(&format!("\\{name} is not allowed in pipeline mode")));
            }
            let name = self.prepare(query, output)?;
            self.bind(query, &name, output)?;
            self.tell_sent(if name.is_empty() { &query.text } else { &name });
            if self.pipeline.is_some() {
                return Ok(None);
            }
            requests::sync(output);
        }
        self.capture = capture.cloned();
        Ok(Some(Step::Wait(1)))
    }

    /// Has the command prepared: under a name of its own once, or anew each time; returns the name.
    fn prepare(&mut self, query: &Query, output: &mut BytesMut) -> Result<String, Failure> {
        if self.protocol == QueryProtocol::Extended {
            requests::prepare("", &query.prepared_text(), [], output)?;
            self.sent.push(Sent::of(self.running, false));
            return Ok(String::new());
        }
        let number = self.command();
        let (is_new, generation) = self.session.prepared(number);
        self.sent.push(Sent::of(self.running, is_new));
        let name = self.work.prepared_name(number, generation);
        if is_new {
            requests::prepare(&name, &query.prepared_text(), [], output)?;
        }
        Ok(name)
    }

    fn bind(&mut self, query: &Query, name: &str, output: &mut BytesMut) -> Result<(), Failure> {
        if query.places.len() > PARAMETERS_MAX {
            return Err(failed(&too_many_arguments(query)));
        }
        self.text.clear();
        let mut ends = [None; PARAMETERS_MAX];
        for (end, &place) in ends.iter_mut().zip(&query.places) {
            let begins = self.text.len();
            let is_defined = self.variables.write(place, &mut self.text);
            *end = is_defined.then_some((begins, self.text.len()));
        }
        let values = ends[..query.places.len()]
            .iter()
            .map(|range| range.map(|(begins, ends)| &self.text[begins..ends]));
        requests::execute_texts(name, values, output)
    }

    /// Says where what was sent failed, if it did. What a pipeline sent after that may have been prepared or not: it
    /// is prepared again, under another name.
    pub fn answered(&mut self, failed_at: Option<FailedAt>) {
        if let Some(at) = failed_at {
            let offset = self.work.offsets[self.script];
            let prepared = usize::try_from(at.prepared).unwrap_or(usize::MAX);
            let new = self.sent.iter().filter(|sent| sent.is_new).skip(prepared);
            self.session.forget(new.map(|sent| offset + sent.command));
        }
    }

    fn shell_command(&self, context: &str, words: &[Word]) -> Result<String, Failure> {
        let mut command = String::new();
        for word in words {
            if !command.is_empty() {
                command.push(' ');
            }
            match word {
                Word::Text(text) => command.push_str(text),
                Word::Variable(place) => {
                    if !self.variables.write(*place, &mut command) {
                        let name = self.work.names.name(*place);
                        return Err(failed(&format!("{context}: undefined variable \"{name}\"")));
                    }
                }
            }
        }
        Ok(command)
    }

    /// Keeps the row of the answer in variables, as the command asks.
    ///
    /// # Errors
    /// Where there is not one row, or a column's name can be no variable's.
    pub fn keep(&mut self, captured: Captured) -> Result<(), Failure> {
        let Some(capture) = self.capture.take() else {
            return Ok(());
        };
        let last = captured.queries.len().saturating_sub(1);
        for (number, query) in captured.queries.into_iter().enumerate() {
            let is_kept = capture.takes_all || number == last;
            if !is_kept || (capture.takes_all && query.rows == 0) {
                continue;
            }
            if !capture.takes_all && query.rows != 1 {
                return Err(failed(&format!(
                    "query {number}: expected one row, got {}",
                    query.rows
                )));
            }
            for (column, value) in query.columns.iter().zip(query.last) {
                let name = format!("{}{column}", capture.prefix);
                if !is_name(&name) {
                    return Err(failed(&format!(
                        "query {number}: error storing into variable {name}"
                    )));
                }
                // A variable that no script names is asked for by nobody.
                if let Some(place) = self.work.names.known(&name) {
                    self.variables.set_text(place, value.unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

fn failed(message: &str) -> Failure {
    Failure::client(message)
}
