//! What came out, counted.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::plan::{Expected, Kind};

/// Times above an hour count as an hour.
const NS_MAX: u64 = 3_600_000_000_000;
const FAILURES_NAMED_MAX: usize = 20;

/// One family's executions.
#[derive(Clone, Debug)]
pub struct FamilyTally {
    /// That were expected.
    pub calls: u64,
    /// That came out with other rows, another command tag or another SQLSTATE, or not at all.
    pub diverged: u64,
    /// With as many rows, but other ones.
    pub other_values: u64,
    /// What they took in the capture.
    pub captured_ns: u64,
    /// What they took now, of those that were executed.
    pub replayed_ns: u64,
    /// That were executed and came out as in the capture.
    pub same: u64,
    /// What those took now.
    pub same_ns: u64,
    /// What those that diverged took in the capture.
    pub diverged_ns: u64,
    /// The first that diverged: what was expected, and what came.
    pub example: Option<(String, String)>,
    /// Times now, nanoseconds.
    pub times: Histogram<u64>,
}

/// All of it.
#[derive(Debug)]
pub struct Tally {
    /// By family.
    pub families: Vec<Option<Box<FamilyTally>>>,
    /// From the intended start to the answer, nanoseconds.
    pub latency: Histogram<u64>,
    /// How late steps went out by the player's own doing, nanoseconds.
    pub late: Histogram<u64>,
    /// How far behind the intended start they went out, for whatever reason, nanoseconds.
    pub behind: Histogram<u64>,
    /// Executions whose outcome is here.
    pub replayed: u64,
    /// That can't come out the same, since something of them is not in the capture.
    pub lacking: u64,
    /// Steps that did not wait any longer for what should have been before them.
    pub reordered: u64,
    /// What steps waited for others, added up, nanoseconds.
    pub waited_ns: u64,
    /// Values that were replaced by those that the server made now.
    pub replaced: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that could not be opened, or were lost before their end.
    pub lost: u64,
    /// Why, and how often.
    pub failures: BTreeMap<String, u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(families: usize) -> Self {
        Self {
            families: vec![None; families],
            latency: histogram(3),
            late: histogram(3),
            behind: histogram(3),
            replayed: 0,
            lacking: 0,
            reordered: 0,
            waited_ns: 0,
            replaced: 0,
            opened: 0,
            lost: 0,
            failures: BTreeMap::new(),
        }
    }

    /// An execution's outcome: what came, and its rows with their sum; whether they are as in the capture.
    pub fn count(&mut self, expected: &Expected, came: &Kind, rows: (u64, u32), error: &str) -> bool {
        self.replayed += 1;
        let is_same = is_same(expected, came, rows.0);
        let family = self.family(expected);
        if expected.is_lacking {
            self.lacking += 1;
        } else if !is_same {
            let said = shown(came, rows.0) + if error.is_empty() { "" } else { ": " } + error;
            family.diverge(expected, said);
        } else {
            family.same += 1;
            let is_other = rows.1 != expected.sum && expected.kind != Kind::Unknown;
            family.other_values += u64::from(is_other);
        }
        is_same && !expected.is_lacking
    }

    /// How long an execution took that was counted.
    pub fn took(&mut self, expected: &Expected, is_same: bool, busy_ns: u64) {
        let Some(family) = self.families[expected.family as usize].as_deref_mut() else {
            return;
        };
        family.replayed_ns += busy_ns;
        record(&mut family.times, busy_ns);
        if is_same {
            family.same_ns += busy_ns;
        }
    }

    /// One that was not executed, or more than were expected.
    pub fn count_missing(&mut self, expected: &Expected, why: &str) {
        let is_lacking = expected.is_lacking;
        let family = self.family(expected);
        if !is_lacking {
            family.diverge(expected, why.to_owned());
        }
        self.lacking += u64::from(is_lacking);
    }

    /// A session that failed.
    pub fn lose(&mut self, why: String) {
        self.lost += 1;
        if self.failures.len() < FAILURES_NAMED_MAX || self.failures.contains_key(&why) {
            *self.failures.entry(why).or_default() += 1;
        }
    }

    fn family(&mut self, expected: &Expected) -> &mut FamilyTally {
        let family = self.families[expected.family as usize].get_or_insert_with(|| {
            Box::new(FamilyTally {
                calls: 0,
                diverged: 0,
                other_values: 0,
                captured_ns: 0,
                replayed_ns: 0,
                same: 0,
                same_ns: 0,
                diverged_ns: 0,
                example: None,
                times: histogram(2),
            })
        });
        family.calls += 1;
        family.captured_ns += expected.busy_ns;
        family
    }
}

impl FamilyTally {
    fn diverge(&mut self, expected: &Expected, came: String) {
        self.diverged += 1;
        self.diverged_ns += expected.busy_ns;
        self.example
            .get_or_insert_with(|| (shown(&expected.kind, expected.rows), came));
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    let mut found = Histogram::new_with_bounds(1, 1_000_000_000, digits).expect("the bounds are constants");
    found.auto(true);
    found
}

/// Adds a time; the histogram grows as far as is needed.
pub fn record(times: &mut Histogram<u64>, ns: u64) {
    let _ = times.record(ns.clamp(1, NS_MAX));
}

fn is_same(expected: &Expected, came: &Kind, rows: u64) -> bool {
    match (&expected.kind, came) {
        (Kind::Unknown, Kind::Error(_)) => false,
        (Kind::Unknown, _) => true,
        (one, other) => one == other && rows == expected.rows,
    }
}

fn shown(kind: &Kind, rows: u64) -> String {
    match kind {
        Kind::Complete(tag, Some(number)) => format!("{} {number}", String::from_utf8_lossy(tag)),
        Kind::Complete(tag, None) => String::from_utf8_lossy(tag).into_owned(),
        Kind::Error(sqlstate) => format!("error {}", String::from_utf8_lossy(sqlstate)),
        Kind::Suspended => format!("{rows} rows, then a pause"),
        Kind::Other(b'V') => "a function's result".to_owned(),
        Kind::Other(_) => "an empty statement".to_owned(),
        Kind::Unknown => "no error".to_owned(),
        Kind::Ready => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_fails_at_once_or_is_not_executed_makes_no_family_fast() {
        let done = Kind::Complete(Arc::from(&b"SELECT"[..]), Some(1));
        let expected = Expected {
            kind: done.clone(),
            busy_ns: 5_000,
            ..Expected::ready()
        };
        let mut tally = Tally::new(1);
        let is_same = tally.count(&expected, &done, (0, 0), "");
        tally.took(&expected, is_same, 6_000);
        let is_same = tally.count(&expected, &Kind::Error(*b"42883"), (0, 0), "no function");
        tally.took(&expected, is_same, 10);
        tally.count_missing(&expected, "not executed");
        let family = tally.families[0].as_deref().unwrap();
        assert_eq!((family.calls, family.diverged), (3, 2));
        assert_eq!((family.same, family.same_ns), (1, 6_000));
    }
}
