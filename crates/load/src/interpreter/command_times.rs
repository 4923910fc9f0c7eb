//! How long the commands of scripts take, for pgbench's -r.

use crate::clock::monotonic_ns;

/// Of one client, by the place of a command among those of all scripts.
#[derive(Clone, Debug, Default)]
pub struct CommandTimes {
    /// How often each command ended, and how long it took in all.
    pub commands: Vec<(u64, u64)>,
    running: Option<(usize, u64)>,
}

impl CommandTimes {
    /// None taken, of so many commands.
    pub fn new(commands: usize) -> Self {
        Self {
            commands: vec![(0, 0); commands],
            running: None,
        }
    }

    /// A command begins.
    pub fn begin(&mut self, command: usize) {
        self.running = Some((command, monotonic_ns()));
    }

    /// The command that runs, if any, has ended.
    pub fn end(&mut self) {
        if let Some((command, began_ns)) = self.running.take() {
            let (count, total_ns) = &mut self.commands[command];
            *count += 1;
            *total_ns += monotonic_ns() - began_ns;
        }
    }

    /// The command that runs came to no end.
    pub fn forget(&mut self) {
        self.running = None;
    }

    /// Adds another client's.
    pub fn merge(&mut self, other: &Self) {
        if self.commands.len() < other.commands.len() {
            self.commands.resize(other.commands.len(), (0, 0));
        }
        for (mine, theirs) in self.commands.iter_mut().zip(&other.commands) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
    }
}
