//! What scripts have prepared on a connection, which goes with it from client to client.

/// An SQL command that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Its number in its script.
    pub command: usize,
    /// Whether it was sent to be prepared as well, under a name of its own.
    pub is_new: bool,
}

impl Sent {
    pub(super) fn of(command: usize, is_new: bool) -> Self {
        Self { command, is_new }
    }
}

/// Where among what a script had sent a failure was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedAt {
    /// How many of the commands that were sent had ended, of those of the extended protocol.
    pub sent: usize,
    /// How many of them had been prepared.
    pub prepared: u64,
    /// The number that pgbench tells: of the query in a simple one, else of the answers since the last query ended.
    pub query: u64,
}

/// How far the answers to a pipeline have come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answered {
    /// Queries that ended in those that are complete.
    pub queries: u64,
    /// Complete ones since the last query ended.
    pub syncs: u64,
}

impl Answered {
    /// One of its answers is complete, in which so many queries ended.
    pub fn end(&mut self, queries: u64) {
        self.syncs = if queries == 0 { self.syncs + 1 } else { 1 };
        self.queries += queries;
    }
}

/// The prepared statements of one connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// By command the number in the name it was prepared under; 0 where it was not.
    prepared: Vec<u32>,
    generation: u32,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            prepared: Vec::new(),
            generation: 1,
        }
    }
}

impl Session {
    /// Whether a command has yet to be prepared, which it counts as from now on, and the number in its name.
    pub(super) fn prepared(&mut self, command: usize) -> (bool, u32) {
        if self.prepared.len() <= command {
            self.prepared.resize(command + 1, 0);
        }
        let number = &mut self.prepared[command];
        let is_new = *number == 0;
        if is_new {
            *number = self.generation;
        }
        (is_new, *number)
    }

    /// These may have been prepared or not: the next time they have other names.
    pub(super) fn forget(&mut self, commands: impl Iterator<Item = usize>) {
        let mut is_any = false;
        for command in commands {
            self.prepared[command] = 0;
            is_any = true;
        }
        self.generation += u32::from(is_any);
    }
}
