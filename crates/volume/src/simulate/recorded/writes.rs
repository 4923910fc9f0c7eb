//! Which writes are of a log: those that go on where one before them ended, once that one was done.

use super::dependencies::{LOG_WRITES_MIN, NO_LOG};
use crate::recording::Recorded;
use crate::request::Kind;

/// How many places that may be a log's end are followed at once: the WAL, the file system's own, scans of others.
const RUNS: usize = 16;

#[derive(Clone, Copy)]
struct Run {
    number: u32,
    start: u64,
    end: u64,
    done_ns: u64,
}

/// For each request, the number of its log from 0, or [`NO_LOG`]; and how many logs there are.
pub(super) fn logs_of(requests: &[Recorded]) -> (Vec<u32>, usize) {
    let mut runs: Vec<Run> = Vec::with_capacity(RUNS);
    let mut writes_of: Vec<u32> = Vec::new();
    let mut found = vec![NO_LOG; requests.len()];
    let mut oldest = 0;
    for (index, request) in requests.iter().enumerate() {
        if request.kind != Kind::Write {
            continue;
        }
        let Recorded {
            issue_ns,
            done_ns,
            offset,
            length,
            ..
        } = *request;
        let joined = runs
            .iter_mut()
            .find(|run| (run.start..=run.end).contains(&offset) && run.done_ns <= issue_ns);
        let end = offset.saturating_add(u64::from(length));
        if let Some(run) = joined {
            writes_of[run.number as usize] += 1;
            found[index] = run.number;
            *run = Run {
                start: offset,
                end,
                done_ns,
                ..*run
            };
            continue;
        }
        #[allow(clippy::cast_possible_truncation)] // there are fewer than requests
        let number = writes_of.len() as u32;
        writes_of.push(1);
        found[index] = number;
        let run = Run {
            number,
            start: offset,
            end,
            done_ns,
        };
        if runs.len() < RUNS {
            runs.push(run);
        } else {
            runs[oldest] = run;
            oldest = (oldest + 1) % RUNS;
        }
    }
    // Numbers without gaps, and none for what is no log.
    let mut kept = 0;
    let numbers: Vec<u32> = writes_of
        .iter()
        .map(|writes| {
            if *writes < LOG_WRITES_MIN {
                return NO_LOG;
            }
            kept += 1;
            kept - 1
        })
        .collect();
    for number in found.iter_mut().filter(|number| **number != NO_LOG) {
        *number = numbers[*number as usize];
    }
    (found, kept as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(issue_ns: u64, offset: u64) -> Recorded {
        Recorded {
            issue_ns,
            done_ns: issue_ns + 5,
            kind: Kind::Write,
            offset,
            length: 8192,
        }
    }

    #[test]
    fn a_log_goes_on_where_it_ended_or_rewrites_its_end() {
        let log = [0, 8192, 8192, 16_384, 20_480].map(|place| 1_000_000 + place);
        let mut requests: Vec<Recorded> = (0..).step_by(10).zip(log).map(|(at, to)| write(at, to)).collect();
        // Three pages in a row, and one that is written while the one before it is on its way.
        requests.extend([
            write(60, 0),
            write(70, 8192),
            write(80, 16_384),
            write(82, 24_576),
        ]);
        let (found, logs) = logs_of(&requests);
        assert_eq!(logs, 1);
        assert_eq!(found[..5], [0; 5]);
        assert_eq!(found[5..], [NO_LOG; 4]);
    }
}
