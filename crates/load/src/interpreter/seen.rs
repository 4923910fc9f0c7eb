//! What others see of a client's way through its scripts: where it is, how long commands take, each step on request.

use pgassay_pgbench::command::{Action, Command};

use super::Interpreter;
use super::command_times::CommandTimes;
use super::sessions::Session;
use crate::spec::QueryProtocol;

impl Interpreter {
    /// Goes on with what is prepared on another connection.
    pub fn set_session(&mut self, session: Session) {
        self.session = session;
        self.unconfirmed.clear();
    }

    /// Gives what is prepared back with its connection.
    pub fn take_session(&mut self) -> Session {
        self.unconfirmed.clear();
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

    /// The SQL that was sent last.
    pub fn sent_text(&self) -> String {
        match self.action() {
            Some(Action::Sql(..)) if self.protocol == QueryProtocol::Simple => self.text.clone(),
            Some(Action::Sql(query, _)) => query.prepared_text(),
            _ => String::new(),
        }
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
