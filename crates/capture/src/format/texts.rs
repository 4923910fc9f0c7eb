//! The dictionary of a file: statement texts, descriptions and command tags that are stored once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// What the dictionary may hold, in bytes; beyond that new texts stand where they are used.
const DICTIONARY_BYTES_MAX: usize = 32 << 20;
/// Longer texts stand where they are used.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// How many texts that were seen once are remembered, by their hashes.
const SEEN_MAX: usize = 1 << 20;

/// Where a text is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the record itself.
    Here,
    /// The dictionary has it under this number.
    Known(u64),
    /// It enters the dictionary, with this number, before the record.
    Entered(u64),
}

/// The dictionary as its writer has it.
#[derive(Default)]
pub struct Texts {
    numbers: HashMap<Arc<[u8]>, u64>,
    bytes: usize,
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl Texts {
    /// Where this text goes. One that is likely to come again enters at once; another at its second time, since
    /// simple queries with values in them never come again.
    pub fn place(&mut self, text: &[u8], comes_again: bool) -> Place {
        if let Some(number) = self.numbers.get(text) {
            return Place::Known(*number);
        }
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || self.bytes + text.len() > DICTIONARY_BYTES_MAX {
            return Place::Here;
        }
        if !comes_again && self.seen.insert(self.hasher.hash_one(text)) {
            if self.seen.len() > SEEN_MAX {
                self.seen.clear();
            }
            return Place::Here;
        }
        let number = self.numbers.len() as u64 + 1;
        self.bytes += text.len();
        self.numbers.insert(text.into(), number);
        Place::Entered(number)
    }
}
