//! Locks that are held until a commit is done: who needs one of them waits for as long as the volume takes.
//!
//! A row that was updated is its transaction's until the transaction ends. So the slower a commit is, the more often
//! others meet such a row, and the longer they wait for it; meanwhile they have no part in the next write of the log.
//! Nobody knows which lock a transaction takes when: it is taken to be one, in the middle of what its client computes
//! before the commit.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::dependencies::WRITE_BYTES_MAX;
use crate::recording::Recorded;
use crate::request::{Kind, Request};

/// The same recording gives the same answer.
const SEED: u64 = 2;
/// So often a chance is replayed and corrected, each time by so many times at most.
const FITS: usize = 5;
const STEP_MAX: f64 = 2.0;

/// With which chance a transaction needs a lock that a certain other one holds, where so many clients waited for locks
/// on average. `held`: from when until when transactions held theirs.
///
/// Whoever takes a lock while others hold theirs would wait for each of these until its end, if it needed what that one
/// holds. The chance is the share of all that waiting which there was. That is a first guess: who waits for one who
/// waits is not in it.
pub(super) fn chance(mut held: Vec<(u64, u64)>, lock_waits: f64) -> f64 {
    held.sort_unstable();
    let (Some((first_ns, _)), Some(last_ns)) = (held.first(), held.iter().map(|(_, until)| *until).max())
    else {
        return 0.0;
    };
    let waited_ns = lock_waits * (last_ns - first_ns) as f64;
    let mut others: Vec<u64> = Vec::new();
    let mut all_ns = 0.0;
    for (from_ns, until_ns) in &held {
        others.retain(|other_ns| other_ns > from_ns);
        all_ns += others
            .iter()
            .map(|other_ns| (other_ns - from_ns) as f64)
            .sum::<f64>();
        others.push(*until_ns);
    }
    if all_ns > 0.0 {
        (waited_ns / all_ns).min(1.0)
    } else {
        0.0
    }
}

/// The chance with which a replay has as many wait for locks as there were: `waits_with` is how many one has, on average.
pub(super) fn chance_of(first_guess: f64, lock_waits: f64, mut waits_with: impl FnMut(f64) -> f64) -> f64 {
    let mut chance = first_guess;
    for _ in 0..FITS {
        let found = waits_with(chance);
        if found <= 0.0 {
            break;
        }
        chance = (chance * (lock_waits / found).clamp(1.0 / STEP_MAX, STEP_MAX)).min(1.0);
    }
    chance
}

/// Answers as they were recorded: those of requests alike, one behind the other and over again.
#[derive(Clone)]
pub(super) struct Answers {
    took_ns: [Vec<u64>; 6],
    next: [usize; 6],
}

impl Answers {
    pub(super) fn of(requests: &[Recorded]) -> Self {
        let mut took_ns: [Vec<u64>; 6] = Default::default();
        for request in requests {
            took_ns[Self::class(request.kind, request.length)].push(request.done_ns - request.issue_ns);
        }
        Self {
            took_ns,
            next: [0; 6],
        }
    }

    fn class(kind: Kind, length: u32) -> usize {
        kind as usize * 2 + usize::from(length >= WRITE_BYTES_MAX)
    }

    /// When the next request like this one is done.
    pub(super) fn done_ns(&mut self, request: &Request) -> u64 {
        let class = Self::class(request.kind, request.length);
        let took_ns = &self.took_ns[class];
        let number = self.next[class];
        self.next[class] = (number + 1) % took_ns.len().max(1);
        request.arrival_ns + took_ns.get(number).copied().unwrap_or(0)
    }
}

/// Who holds a lock in a replay, and who waits for whom.
pub(super) struct Locks {
    chance: f64,
    random: Xoshiro256PlusPlus,
    holders: Vec<u32>,
    /// Of each request, whether its transaction has its lock.
    has_lock: Vec<bool>,
    waiting: Vec<Waiting>,
    /// How long all of them waited whose wait is over.
    pub(super) waited_ns: u64,
}

#[derive(Clone, Copy)]
struct Waiting {
    /// The request of who waits, and that of the holder.
    index: u32,
    holder: u32,
    since_ns: u64,
}

impl Locks {
    /// Of so many requests.
    pub(super) fn new(chance: f64, requests: usize) -> Self {
        Self {
            chance,
            random: Xoshiro256PlusPlus::seed_from_u64(SEED),
            holders: Vec::new(),
            has_lock: vec![false; if chance > 0.0 { requests } else { 0 }],
            waiting: Vec::new(),
            waited_ns: 0,
        }
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn are_taken(&self) -> bool {
        self.chance > 0.0
    }

    /// Whether the transaction that this request commits has its lock.
    #[inline]
    pub(super) fn has(&self, index: u32) -> bool {
        self.has_lock[index as usize]
    }

    /// Takes the lock of the transaction that this request commits; false if another one holds it, whose end it
    /// waits for then.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // less than the number of holders
    pub(super) fn take(&mut self, index: u32, now_ns: u64) -> bool {
        let drawn = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        match self.holders.get((drawn / self.chance) as usize) {
            Some(holder) => {
                self.waiting.push(Waiting {
                    index,
                    holder: *holder,
                    since_ns: now_ns,
                });
                false
            }
            None => {
                self.give(index);
                true
            }
        }
    }

    fn give(&mut self, index: u32) {
        self.has_lock[index as usize] = true;
        self.holders.push(index);
    }

    /// The transaction that this request commits has ended. Returns that of the one who gets its lock; others wait for
    /// that one now.
    pub(super) fn end(&mut self, index: u32, now_ns: u64) -> Option<u32> {
        if let Some(place) = self.holders.iter().position(|holder| *holder == index) {
            self.holders.remove(place);
        }
        let place = self.waiting.iter().position(|each| each.holder == index)?;
        let next = self.waiting.remove(place);
        self.waited_ns += now_ns - next.since_ns;
        for other in self.waiting.iter_mut().filter(|other| other.holder == index) {
            other.holder = next.index;
        }
        self.give(next.index);
        Some(next.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_is_the_part_of_all_possible_waiting_that_there_was() {
        // The second begins 60 before the first one ends, the third 10 before the second.
        let held = vec![(0, 100), (40, 200), (190, 300)];
        assert_eq!(chance(held.clone(), 7.0 / 300.0), 0.1);
        assert_eq!((chance(held.clone(), 0.0), chance(held, 9.0)), (0.0, 1.0));
        assert_eq!(
            (chance(Vec::new(), 1.0), chance(vec![(0, 5), (7, 9)], 1.0)),
            (0.0, 0.0)
        );
    }

    #[test]
    fn who_waits_gets_the_lock_in_turn() {
        let mut locks = Locks::new(1.0, 4);
        assert_eq!(
            [0, 1, 2].map(|index| locks.take(index, u64::from(index))),
            [true, false, false]
        );
        assert!(locks.has(0) && !locks.has(1));
        assert_eq!((locks.end(0, 10), locks.waited_ns), (Some(1), 9));
        assert!(locks.has(1) && !locks.take(3, 15));
        assert_eq!(
            [1, 2, 3].map(|index| locks.end(index, 20)),
            [Some(2), Some(3), None]
        );
    }

    #[test]
    fn a_lock_is_needed_as_often_as_the_chance_says() {
        let mut locks = Locks::new(0.05, 20_002);
        assert!(locks.take(0, 0));
        // One that holds nothing yet meets it in one of twenty cases.
        let blocked = (1..=20_000).filter(|index| {
            let is_blocked = !locks.take(*index, 0);
            if is_blocked {
                locks.waiting.clear();
            } else {
                locks.end(*index, 0);
            }
            is_blocked
        });
        let blocked = blocked.count();
        assert!((880..=1120).contains(&blocked), "{blocked}");
    }
}
