//! What others see of a client's way through its scripts: where it is, how long commands take, each step on request.

use pgassay_pgbench::command::{Action, Command};

use super::Interpreter;
use super::command_times::CommandTimes;
use super::sessions::{FailedAt, Session};
use crate::spec::QueryProtocol;

impl Interpreter {
    /// Goes on with what is prepared on another connection.
    pub fn set_session(&mut self, session: Session) {
        self.session = session;
    }

    /// Gives what is prepared back with its connection.
    pub fn take_session(&mut self) -> Session {
        std::mem::take(&mut self.session)
    }

    /// From now on the time of each command is taken.
    pub fn take_times(&mut self) {
        self.times = Some(Box::new(CommandTimes::new(
            self.work.offsets.last().copied().unwrap_or(0),
        )));
    }

    /// The times that were taken.
    pub fn times(&self) -> Option<&CommandTimes> {
        self.times.as_deref()
    }

    /// From now on each step is told on standard error, as pgbench's --debug does.
    pub fn trace(&mut self) {
        self.is_traced = true;
    }

    /// The script that runs, and the number of its command that runs.
    pub fn position(&self) -> (usize, usize) {
        (self.script, self.running)
    }

    /// The command that runs, as a place of all scripts' commands.
    pub fn command(&self) -> usize {
        self.work.offsets[self.script] + self.running
    }

    /// Whether no command is left.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.work.programs[self.script].commands.len()
    }

    /// What the command that runs does.
    pub fn action(&self) -> Option<&Action> {
        let commands = &self.work.programs[self.script].commands;
        commands.get(self.running).map(|command| &command.action)
    }

    /// The SQL that failed as libpq knows it: none of a statement that had been prepared before.
    pub fn failed_text(&self, at: FailedAt) -> Option<String> {
        if self.protocol == QueryProtocol::Simple {
            return Some(self.text.clone());
        }
        let sent = self.sent.get(at.sent)?;
        let is_with_text = self.protocol == QueryProtocol::Extended || self.failed_name(at).is_some();
        match &self.work.programs[self.script].commands[sent.command].action {
            Action::Sql(query, _) if is_with_text => Some(query.prepared_text()),
            _ => None,
        }
    }

    /// The name of the statement that failed, where it could not be prepared.
    pub fn failed_name(&self, at: FailedAt) -> Option<String> {
        let sent = self.sent.get(at.sent).filter(|sent| sent.is_new)?;
        let new = self.sent[..at.sent].iter().filter(|sent| sent.is_new).count();
        let is_prepared = usize::try_from(at.prepared).is_ok_and(|prepared| prepared > new);
        (!is_prepared).then(|| {
            self.work
                .prepared_name(self.work.offsets[self.script] + sent.command, 1)
        })
    }

    #[inline]
    pub(super) fn begin_command(&mut self, command: &Command) {
        if self.is_traced {
            self.tell_command(command);
        }
        if let Some(times) = &mut self.times {
            // The end of a branch that is left out is no command that ran.
            let is_passed = self.is_skipping && matches!(command.action, Action::Else(_) | Action::EndIf);
            if !is_passed {
                times.begin(self.work.offsets[self.script] + self.running);
            }
        }
    }

    #[inline]
    pub(super) fn end_command(&mut self) {
        if let Some(times) = &mut self.times {
            times.end();
        }
    }

    #[cold]
    fn tell_command(&self, command: &Command) {
        // Of expressions pgbench tells no more than what they are for.
        let words = match command.action {
            Action::Sql(..) => return,
            Action::Set(..) => 2,
            Action::If(..) | Action::Elif(..) => 1,
            _ => usize::MAX,
        };
        let told: Vec<&str> = command.text.split_whitespace().take(words).collect();
        eprintln!("pgbench: client {} executing {}", self.client, told.join(" "));
    }

    #[inline]
    pub(super) fn tell_sent(&self, what: &str) {
        if self.is_traced {
            eprintln!("pgbench: client {} sending {what}", self.client);
        }
    }
}
