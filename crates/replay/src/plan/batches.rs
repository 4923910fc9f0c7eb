//! Executions that a client sent without Sync or Flush between them. A server keeps their answers back until the last is
//! ready, so that nobody outside can tell what each of them took: they share the time evenly.
//! `pgassay/traffic/statement_executions.py` does the same.

use super::parts::{Expected, Kind};

/// The time of a batch, shared out.
pub struct Shares {
    total_ns: u64,
    of: u64,
    given: u64,
}

impl Shares {
    /// For executions that ended so.
    pub fn new<'a>(total_ns: u64, kinds: impl Iterator<Item = &'a Kind>) -> Self {
        Self {
            total_ns,
            of: kinds.filter(|kind| !is_begin(kind)).count() as u64,
            given: 0,
        }
    }

    /// The share of the next one.
    pub fn next(&mut self, kind: &Kind) -> u64 {
        // Drivers send BEGIN with the first statement, and it takes next to nothing.
        if is_begin(kind) && self.of > 0 {
            return 0;
        }
        let until = |given: u64| u128::from(self.total_ns) * u128::from(given) / u128::from(self.of.max(1));
        let share = until(self.given + 1) - until(self.given);
        self.given += 1;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

fn is_begin(kind: &Kind) -> bool {
    matches!(kind, Kind::Complete(tag, _) if matches!(&**tag, b"BEGIN" | b"START TRANSACTION"))
}

/// Whether the second was answered together with the first, which it follows.
pub fn is_together(first: &Expected, second: &Expected) -> bool {
    first.batch == second.batch && first.batch != 0
}

/// Gives each execution of a batch its share of what all of them took.
pub fn share_out(expected: &mut [Expected]) {
    for batch in expected.chunk_by_mut(is_together) {
        let total_ns = batch.iter().map(|each| each.busy_ns).sum();
        let mut shares = Shares::new(total_ns, batch.iter().map(|each| &each.kind));
        for each in batch {
            each.busy_ns = shares.next(&each.kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_batch_shares_its_time_and_begin_takes_none_of_it() {
        let of = |batch, busy_ns, tag: &[u8]| Expected {
            kind: Kind::Complete(Arc::from(tag), None),
            batch,
            busy_ns,
            ..Expected::ready()
        };
        let mut expected = [
            of(1, 100, b"BEGIN"),
            of(1, 0, b"UPDATE"),
            of(1, 1, b"SELECT"),
            of(2, 7, b"BEGIN"),
            Expected::ready(),
            of(0, 3, b"SELECT"),
            of(0, 5, b"SELECT"),
        ];
        share_out(&mut expected);
        assert_eq!(expected.map(|each| each.busy_ns), [0, 50, 51, 7, 0, 3, 5]);
    }
}
