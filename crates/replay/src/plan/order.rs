//! The order between sessions, as far as it can matter: of commits, reads and writes of one table, what was over before
//! the other began.
//!
//! Per table there are three queues. *Commits* are numbered by their answers, *reads* without locks by their beginnings
//! (what they see is settled then), *writes* by their answers. A step waits for the commits that had been answered when
//! it was sent; a write for the writes too; a commit for the reads that had begun when it was sent (its locks are free long
//! before its answer has come). Every wait points to what came earlier, so that they can't go round in a circle; locks
//! of rows can, and the player finds that.

use std::collections::HashMap;

use super::parts::{Mark, Plan, Span, Wait};

const QUEUES_OF_A_TABLE: u32 = 3;

#[derive(Clone, Copy)]
enum Queue {
    Commits,
    Reads,
    Writes,
}

/// Counts the members of all queues.
pub struct Order {
    counts: Vec<u32>,
    /// Per table: as far as this the writes are of transactions whose commit has been sent.
    committing: Vec<u32>,
    ended: u32,
}

/// A step that was sent and isn't over.
#[derive(Debug, Default)]
pub struct Begun {
    /// Its number in its session.
    pub step: usize,
    waits: Vec<Wait>,
    /// What it waits for besides, where it turns out to be a commit.
    reads: Vec<Wait>,
    marks: Vec<Mark>,
    /// Tables that it may write.
    pub written: Vec<u32>,
    /// Whether an earlier step of its pipeline waits for it.
    pub is_within: bool,
}

impl Begun {
    /// Waits for what another would have waited for.
    pub fn take_waits(&mut self, other: &mut Self) {
        for (own, others) in [
            (&mut self.waits, &mut other.waits),
            (&mut self.reads, &mut other.reads),
        ] {
            for wait in others.drain(..) {
                match own.iter_mut().find(|known| known.queue == wait.queue) {
                    Some(known) => known.count = known.count.max(wait.count),
                    None => own.push(wait),
                }
            }
        }
    }
}

impl Order {
    /// For so many tables.
    pub fn new(tables: u32) -> Self {
        Self {
            counts: vec![0; (tables * QUEUES_OF_A_TABLE) as usize],
            committing: vec![0; tables as usize],
            ended: 0,
        }
    }

    /// The queue of ended sessions, behind those of the tables.
    pub fn ended_queue(&self) -> u32 {
        u32::try_from(self.counts.len()).unwrap_or(u32::MAX)
    }

    /// How many sessions have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    /// One more has ended; its place.
    pub fn end(&mut self) -> u32 {
        self.ended += 1;
        self.ended - 1
    }

    fn number(table: u32, queue: Queue) -> u32 {
        table * QUEUES_OF_A_TABLE + queue as u32
    }

    /// Keeps how many members the queues have now.
    pub fn remember(&self, counts: &mut Vec<u32>) {
        counts.clone_from(&self.counts);
    }

    fn wait(counts: &[u32], table: u32, queue: Queue, waits: &mut Vec<Wait>) {
        let queue = Self::number(table, queue);
        let count = counts[queue as usize];
        if count > 0 {
            waits.push(Wait { queue, count });
        }
    }

    fn join(&mut self, table: u32, queue: Queue, marks: &mut Vec<Mark>) {
        let queue = Self::number(table, queue);
        let place = self.counts[queue as usize];
        self.counts[queue as usize] += 1;
        marks.push(Mark { queue, place });
    }

    /// A step is sent: tables that it touches and writes, and those that its transaction has written before. One of a
    /// pipeline waits for what was done `before` the pipeline: for what came later it can't wait without a circle.
    pub fn begin(
        &mut self,
        step: usize,
        (touched, written, open): (&[u32], &[u32], &[u32]),
        is_plain: bool,
        before: Option<&[u32]>,
    ) -> Begun {
        let mut begun = Begun {
            step,
            written: written.to_vec(),
            ..Begun::default()
        };
        let mut tables: Vec<u32> = touched.iter().chain(open).copied().collect();
        tables.sort_unstable();
        tables.dedup();
        let counts = before.unwrap_or(&self.counts);
        for table in tables {
            Self::wait(counts, table, Queue::Commits, &mut begun.waits);
            if !is_plain {
                Self::wait(counts, table, Queue::Writes, &mut begun.waits);
                Self::wait(counts, table, Queue::Reads, &mut begun.reads);
            }
        }
        if is_plain {
            for &table in touched {
                self.join(table, Queue::Reads, &mut begun.marks);
            }
        }
        begun
    }

    /// A commit is sent; by table, how far the writes of its transaction reach.
    pub fn commit(&mut self, reaches: &HashMap<u32, u32>) {
        for (&table, &reach) in reaches {
            let known = &mut self.committing[table as usize];
            *known = reach.max(*known);
        }
    }

    /// A step is over, and with the last of a transaction that one: `committed` are all the tables that it wrote.
    ///
    /// A write may have waited for a lock of a transaction whose commit was sent meanwhile. So it waits for the writes
    /// of that one, or it might take the lock first, and the two wait for each other.
    pub fn over(
        &mut self,
        mut begun: Begun,
        is_of_commit: bool,
        committed: &[u32],
        reaches: &mut HashMap<u32, u32>,
        plan: &mut Plan,
    ) -> (usize, Span, Span) {
        for &table in &begun.written {
            let queue = Self::number(table, Queue::Writes);
            let count = match begun.is_within {
                true => 0,
                false => self.committing[table as usize],
            };
            match begun.waits.iter_mut().find(|wait| wait.queue == queue) {
                Some(wait) => wait.count = wait.count.max(count),
                None if count > 0 => begun.waits.push(Wait { queue, count }),
                None => {}
            }
            self.join(table, Queue::Writes, &mut begun.marks);
            reaches.insert(table, self.counts[queue as usize]);
        }
        if is_of_commit {
            begun.waits.append(&mut begun.reads);
        }
        for &table in committed {
            self.join(table, Queue::Commits, &mut begun.marks);
        }
        let waits = append(&mut plan.waits, &begun.waits);
        (begun.step, waits, append(&mut plan.marks, &begun.marks))
    }

    /// A step that never was over: what it reads counts as read.
    pub fn left(begun: &Begun, plan: &mut Plan) -> (usize, Span, Span) {
        let waits = append(&mut plan.waits, &begun.waits);
        (begun.step, waits, append(&mut plan.marks, &begun.marks))
    }
}

fn append<T: Copy>(list: &mut Vec<T>, more: &[T]) -> Span {
    let from = u32::try_from(list.len()).unwrap_or(u32::MAX);
    list.extend_from_slice(more);
    Span {
        from,
        to: u32::try_from(list.len()).unwrap_or(u32::MAX),
    }
}
