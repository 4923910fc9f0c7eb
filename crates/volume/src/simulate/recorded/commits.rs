//! Which of a log's writes carry the commits of several clients, and what passing the log on takes.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::dependencies::{NEARBY, NO_LOG, Who};
use super::lanes::Cause;
use crate::model::SECOND_NS;
use crate::recording::Recorded;

/// A block of the log: no commit writes less.
const BLOCK_BYTES: u64 = 8192;
/// The same recording gives the same answer.
const SEED: u64 = 1;

/// Requests as their lanes see them, each with its log.
pub(super) struct Shared {
    pub(super) requests: Vec<Recorded>,
    pub(super) log_of: Vec<u32>,
    /// As they were.
    pub(super) bursts: Vec<bool>,
    /// Of the requests behind the first of each write that is shared.
    pub(super) is_further: Vec<bool>,
    pub(super) passed_on: PassedOn,
}

/// Gives each commit a request of its own. Those that share a write came while the one before it was on its way, since
/// a commit that finds the log idle writes at once: so they are taken to be spread over its time, and the writes to
/// be shared by as many as that time makes likely. Who commits behind a burst, for which all waited, is taken to come then.
pub(super) fn share(requests: Vec<Recorded>, log_of: Vec<u32>, bursts: Vec<bool>, who: Who) -> Shared {
    let writes: Vec<usize> = (0..requests.len())
        .filter(|index| log_of[*index] != NO_LOG)
        .collect();
    let further = who.commits.saturating_sub(writes.len() as u64);
    let shares = if who.clients < 2 || further == 0 {
        Vec::new()
    } else {
        shares(&requests, &writes, &bursts, further, who.clients - 1)
    };
    let mut found = Shared {
        log_of,
        is_further: Vec::new(),
        passed_on: PassedOn::new(&requests, &writes),
        requests,
        bursts,
    };
    found.is_further = vec![false; found.requests.len()];
    let (mut more, mut write) = (Vec::new(), None);
    for (index, count) in writes.iter().zip(&shares) {
        // As it was issued, whenever those whom it is for began to wait.
        let before = write.replace(found.requests[*index]);
        let (Some(before), Some(write)) = (before.filter(|_| *count > 0), write) else {
            continue;
        };
        found.passed_on.shared += 1;
        let count = u64::from(*count) + 1;
        let since_ns = before.done_ns - before.issue_ns;
        for number in 0..count {
            let from = u64::from(write.length) * number / count / BLOCK_BYTES * BLOCK_BYTES;
            let until = (u64::from(write.length) * (number + 1)).div_ceil(count);
            let until = until.next_multiple_of(BLOCK_BYTES).min(u64::from(write.length));
            let each = Recorded {
                issue_ns: before.issue_ns + since_ns * (2 * number + 1) / (2 * count),
                offset: write.offset + from,
                #[allow(clippy::cast_possible_truncation)] // a part of a length
                length: (until - from) as u32,
                ..write
            };
            if number == 0 {
                found.requests[*index] = each;
            } else {
                more.push((each, found.log_of[*index]));
            }
        }
    }
    found.add(&more);
    found
}

/// How a log came from one write to the next.
pub(super) struct PassedOn {
    /// When one was done, and the next one issued.
    gaps: Vec<(u64, u64)>,
    /// The part of the time in which a write was on its way.
    busy_share: f64,
    /// How many are shared, so that somebody waited for the log.
    shared: u64,
}

impl PassedOn {
    fn new(requests: &[Recorded], writes: &[usize]) -> Self {
        let pairs = writes
            .windows(2)
            .map(|pair| (requests[pair[0]], requests[pair[1]]));
        let pairs: Vec<(Recorded, Recorded)> = pairs
            .filter(|(before, write)| before.done_ns <= write.issue_ns)
            .collect();
        let busy_ns: u64 = pairs
            .iter()
            .map(|(before, _)| before.done_ns - before.issue_ns)
            .sum();
        let all_ns: u64 = pairs
            .iter()
            .map(|(before, write)| write.issue_ns - before.issue_ns)
            .sum();
        Self {
            gaps: pairs
                .iter()
                .map(|(before, write)| (before.done_ns, write.issue_ns))
                .collect(),
            busy_share: busy_ns as f64 / all_ns.max(1) as f64,
            shared: 0,
        }
    }

    /// All of these times, in their order.
    pub(super) fn instants(&self) -> Vec<u64> {
        let mut instants: Vec<u64> = self
            .gaps
            .iter()
            .flat_map(|(done, issue)| [*done, *issue])
            .collect();
        instants.sort_unstable();
        instants
    }

    /// What it takes of a processor to write what waits, once the write before it is done. `readings` are those of the
    /// work clock at the instants.
    ///
    /// Who commits finds the log busy in as large a part of the cases as it is busy of the time, and the writes that
    /// follow soonest are those that were waited for: it is the middle of these.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a difference of readings that rise
    pub(super) fn work_ns(&self, instants: &[u64], readings: &[f64]) -> u64 {
        let reading = |at_ns: u64| readings[instants.partition_point(|instant| *instant < at_ns)];
        let gaps = self.gaps.iter();
        let mut work: Vec<u64> = gaps
            .map(|(done, issue)| (reading(*issue) - reading(*done)).round() as u64)
            .collect();
        let middle = (work.len() as f64 * self.busy_share / 2.0) as usize;
        if work.is_empty() {
            0
        } else {
            *work.select_nth_unstable(middle).1
        }
    }

    /// How many processors were had at least. Where the log was idle, a client that did not compute had none, though
    /// nobody used it; while others wrote the log, it may have waited for that.
    pub(super) fn processors_min(&self, who: Who, computed_s: f64) -> f64 {
        let (Some((first_ns, _)), Some((_, last_ns))) = (self.gaps.first(), self.gaps.last()) else {
            return 0.0;
        };
        let used = computed_s / ((last_ns - first_ns).max(1) as f64 / SECOND_NS as f64);
        if who.processors_min > used {
            used + (who.processors_min - used) * self.busy_share
        } else {
            who.processors_min
        }
    }

    /// All of that which these took.
    pub(super) fn all_s(&self, each_ns: u64) -> f64 {
        self.shared as f64 * each_ns as f64 / SECOND_NS as f64
    }
}

/// Of lanes that commit it is not known which of them it was that computed so long: so these times are in no order,
/// among those of requests nearby. An order would make clients march in step, or keep them out of it.
pub(super) fn mix(causes: &mut [Cause], is_of_log: impl Fn(usize) -> bool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let places: Vec<usize> = (0..causes.len())
        .filter(|lane| is_of_log(*lane) && matches!(causes[*lane], Cause::Free { .. }))
        .collect();
    for nearby in places.chunks(NEARBY) {
        let mut computing: Vec<u64> = nearby.iter().map(|lane| causes[*lane].computing_ns()).collect();
        for place in nearby {
            #[allow(clippy::cast_possible_truncation)] // less than a number of places
            let drawn = (random.next_u64() % computing.len() as u64) as usize;
            if let Cause::Free { computing_ns, .. } = &mut causes[*place] {
                *computing_ns = computing.swap_remove(drawn);
            }
        }
    }
}

impl Shared {
    /// Adds requests with their logs, in the order of issue.
    fn add(&mut self, more: &[(Recorded, u32)]) {
        let all = self.requests.iter().zip(&self.log_of).zip(&self.bursts);
        let mut all: Vec<(Recorded, u32, bool, bool)> = all
            .map(|((request, log), is_burst)| (*request, *log, *is_burst, false))
            .collect();
        all.extend(more.iter().map(|(request, log)| (*request, *log, false, true)));
        all.sort_by_key(|(request, ..)| request.issue_ns);
        self.requests = all.iter().map(|each| each.0).collect();
        self.log_of = all.iter().map(|each| each.1).collect();
        self.bursts = all.iter().map(|each| each.2).collect();
        self.is_further = all.iter().map(|each| each.3).collect();
    }
}

/// How many commits each write carries beside its first: in proportion to the time of the one before it, and no more
/// than there are clients that did not wait for that one.
fn shares(requests: &[Recorded], writes: &[usize], bursts: &[bool], further: u64, others: u32) -> Vec<u32> {
    let busy_ns = |place: usize| match place.checked_sub(1) {
        Some(before) if bursts[writes[before]..writes[place]].contains(&true) => 0,
        // Two that overlap are of two logs.
        Some(before) => {
            let before = requests[writes[before]];
            if before.done_ns <= requests[writes[place]].issue_ns {
                before.done_ns - before.issue_ns
            } else {
                0
            }
        }
        None => 0,
    };
    let all_ns: u64 = (0..writes.len()).map(busy_ns).sum();
    let (mut due, mut before) = (0.0_f64, 0);
    let shares = (0..writes.len()).map(|place| {
        let busy_ns = busy_ns(place);
        let most = if busy_ns > 0 {
            others.saturating_sub(before + 1)
        } else {
            0
        };
        due += further as f64 * busy_ns as f64 / all_ns.max(1) as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to a number of clients
        let count = due.round().clamp(0.0, f64::from(most)) as u32;
        due -= f64::from(count);
        before = count;
        count
    });
    shares.collect()
}
