//! Which writes are of a log: those that go on where one before them ended, once that one was done. And which
//! others are waited for by all.

use super::dependencies::{LOG_WRITES_MIN, NO_LOG, WRITE_BYTES_MAX};
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
        // A commit does not fill a request: such writes are of a file that is filled.
        if request.kind != Kind::Write || request.length >= WRITE_BYTES_MAX {
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

/// The lanes are silent where none asks for anything for so many times as long as usual.
const SILENCE_GAPS: u64 = 10;

/// For each request, whether it is a write of no log for which all lanes waited: they were silent until it was done.
///
/// A log that goes on in a new file is written full of zeros there, which is flushed before anybody commits.
pub(super) fn bursts_of(requests: &[Recorded], log_of: &[u32]) -> Vec<bool> {
    let is_write_back = |index: usize| requests[index].kind == Kind::Write && log_of[index] == NO_LOG;
    let mut found = vec![false; requests.len()];
    let mut lanes = (0..requests.len()).filter(|index| !is_write_back(*index));
    let (Some(first), Some(last), count) = (lanes.next(), lanes.next_back(), lanes.count() as u64 + 1) else {
        return found;
    };
    let silence_ns = (requests[last].issue_ns - requests[first].issue_ns) / count * SILENCE_GAPS;
    // Write-back since the last request of a lane.
    let mut since: Vec<usize> = Vec::new();
    let mut busy_until_ns = requests[first].done_ns;
    for (index, request) in requests.iter().enumerate().skip(first) {
        if is_write_back(index) {
            since.push(index);
            continue;
        }
        let silent = busy_until_ns..=request.issue_ns;
        if silent.end().saturating_sub(busy_until_ns) >= silence_ns {
            since.retain(|index| {
                silent.contains(&requests[*index].issue_ns) && silent.contains(&requests[*index].done_ns)
            });
            if since.len() >= LOG_WRITES_MIN as usize {
                since.iter().for_each(|index| found[*index] = true);
            }
        }
        since.clear();
        busy_until_ns = busy_until_ns.max(request.done_ns);
    }
    found
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

    #[test]
    fn writes_that_all_wait_for_are_those_that_nobody_asks_for_anything_beside() {
        // A log of a write every 10, and five other writes at once, while it goes on and while it does not.
        let mut requests: Vec<Recorded> = (0..100).map(|at| write(at * 10, at * 8192)).collect();
        requests.extend((100..200).map(|at| write(at * 10 + 500, at * 8192)));
        let others = |at: u64| (0..5).map(move |number| write(at + number, (1 << 40) + number * 65_536));
        requests.extend(others(301).chain(others(1200)));
        requests.sort_by_key(|request| request.issue_ns);
        let (log_of, _) = logs_of(&requests);
        let found = bursts_of(&requests, &log_of);
        let waited_for: Vec<u64> = (0..requests.len())
            .filter(|index| found[*index])
            .map(|index| requests[index].issue_ns)
            .collect();
        assert_eq!(waited_for, [1200, 1201, 1202, 1203, 1204]);
    }
}
