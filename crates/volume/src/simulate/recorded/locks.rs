//! Locks that are held until a commit is done: who needs one of them waits for as long as the volume takes.
//!
//! A row that was updated is its transaction's until the transaction ends. So the slower a commit is, the more often
//! others meet such a row, and the longer they wait for it; meanwhile they have no part in the next write of the log.
//! Nobody knows which lock a transaction takes when: it is taken to be one, in the middle of what its client computes
//! before the commit.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The same recording gives the same answer.
const SEED: u64 = 2;

/// With which chance a transaction needs a lock that a certain other one holds, where so many clients waited for locks
/// on average. `held`: from when until when transactions held theirs.
///
/// Whoever takes a lock while others hold theirs would wait for each of these until its end, if it needed what that one
/// holds. The chance is the share of all that waiting which there was.
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

/// Who holds a lock in a replay, and who waits for whom.
pub(super) struct Locks {
    chance: f64,
    random: Xoshiro256PlusPlus,
    holders: Vec<u32>,
    /// Of each request, whether its transaction has its lock.
    has_lock: Vec<bool>,
    /// The request of who waits, and that of the holder.
    waiting: Vec<(u32, u32)>,
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
    pub(super) fn take(&mut self, index: u32) -> bool {
        let drawn = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        match self.holders.get((drawn / self.chance) as usize) {
            Some(holder) => {
                self.waiting.push((index, *holder));
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
    pub(super) fn end(&mut self, index: u32) -> Option<u32> {
        if let Some(place) = self.holders.iter().position(|holder| *holder == index) {
            self.holders.remove(place);
        }
        let place = self.waiting.iter().position(|(_, holder)| *holder == index)?;
        let (next, _) = self.waiting.remove(place);
        for (_, holder) in &mut self.waiting {
            if *holder == index {
                *holder = next;
            }
        }
        self.give(next);
        Some(next)
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
        assert_eq!([0, 1, 2].map(|index| locks.take(index)), [true, false, false]);
        assert!(locks.has(0) && !locks.has(1));
        assert_eq!(locks.end(0), Some(1));
        assert!(locks.has(1) && !locks.take(3));
        assert_eq!([1, 2, 3].map(|index| locks.end(index)), [Some(2), Some(3), None]);
    }

    #[test]
    fn a_lock_is_needed_as_often_as_the_chance_says() {
        let mut locks = Locks::new(0.05, 20_002);
        assert!(locks.take(0));
        // One that holds nothing yet meets it in one of twenty cases.
        let blocked = (1..=20_000).filter(|index| {
            let is_blocked = !locks.take(*index);
            if is_blocked {
                locks.waiting.clear();
            } else {
                locks.end(*index);
            }
            is_blocked
        });
        let blocked = blocked.count();
        assert!((880..=1120).contains(&blocked), "{blocked}");
    }
}
