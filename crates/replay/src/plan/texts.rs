//! Statements' texts, each looked through once.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::parts::{Family, Wanted};
use super::sequences::{Calls, Names};
use crate::lexer::look;

/// More texts are looked through again when they come again.
const TEXTS_KEPT_MAX: usize = 200_000;
const SAMPLE_BYTES_MAX: usize = 64 << 10;
const SECRET: &[u8] = b"'***'";

/// What is known of a text.
#[derive(Debug, Default)]
pub struct Text {
    /// Its family.
    pub family: u32,
    /// Tables that it reads or writes.
    pub touched: Vec<u32>,
    /// Tables that it may write.
    pub written: Vec<u32>,
    /// Whether it reads without locks.
    pub is_plain: bool,
    /// Where values stand.
    pub values: Vec<Range<usize>>,
    /// Tables whose keys it may hold: those that it names, and those that its foreign keys look into.
    pub looked_into: Vec<u32>,
    /// Tables in which it makes keys.
    pub made_in: Vec<u32>,
    /// Whether that changes what lastval() tells.
    pub counts: bool,
    /// Where it asks sequences for values: nextval, currval, setval.
    pub calls: Calls,
    /// Their names, as far as they stand in the text.
    pub names: Names,
    /// Whether it asks for the last value of any sequence.
    pub asks_last: bool,
    /// Whether it ends a transaction.
    pub commits: bool,
    /// Whether a secret was taken out of it.
    pub has_secret: bool,
}

/// All of them.
pub struct Texts<'a> {
    wanted: &'a Wanted,
    known: HashMap<(String, Arc<[u8]>), Arc<Text>>,
    keys: HashMap<u64, u32>,
    /// Families, by number.
    pub families: Vec<Family>,
}

impl<'a> Texts<'a> {
    /// None yet.
    pub fn new(wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            known: HashMap::new(),
            keys: HashMap::new(),
            families: Vec::new(),
        }
    }

    /// The tables that a word stands for.
    pub fn tables(&self, database: &str, word: &[u8]) -> &'a [u32] {
        let names = self.wanted.names.get(database);
        let touch = names.and_then(|names| names.get(std::str::from_utf8(word).ok()?));
        touch.map_or(&[], |touch| &touch.reads)
    }

    /// Looks a text up, or through.
    pub fn get(&mut self, database: &str, text: &Arc<[u8]>) -> Arc<Text> {
        let key = (database.to_owned(), Arc::clone(text));
        if let Some(found) = self.known.get(&key) {
            return Arc::clone(found);
        }
        let found = Arc::new(self.looked(database, text));
        if self.known.len() < TEXTS_KEPT_MAX {
            self.known.insert(key, Arc::clone(&found));
        }
        found
    }

    fn looked(&mut self, database: &str, text: &Arc<[u8]>) -> Text {
        let look = look(text);
        let family = *self.keys.entry(look.key).or_insert_with(|| {
            let sample = &text[..text.len().min(SAMPLE_BYTES_MAX)];
            self.families.push(Family {
                sample: Arc::from(sample),
                writes: look.writes,
            });
            u32::try_from(self.families.len() - 1).unwrap_or(u32::MAX)
        });
        let (mut touched, mut written) = (Vec::new(), Vec::new());
        if let Some(names) = self.wanted.names.get(database) {
            for touch in look.words.iter().filter_map(|word| names.get(word)) {
                touched.extend(touch.reads.iter().chain(&touch.writes));
                if look.writes {
                    touched.extend(&touch.refers);
                }
                written.extend(&touch.writes);
                if look.writes {
                    written.extend(&touch.reads);
                }
            }
        }
        for list in [&mut touched, &mut written] {
            list.sort_unstable();
            list.dedup();
        }
        let target = self
            .wanted
            .names
            .get(database)
            .and_then(|names| names.get(look.target.as_ref()?));
        let made_in = target.map_or_else(|| written.clone(), |target| target.reads.clone());
        let mut looked_into = touched.clone();
        if let Some(target) = target {
            // A new row has no key of its own table yet, unless rows refer to each other.
            looked_into.retain(|table| !target.reads.contains(table) || target.refers.contains(table));
        }
        let has = |word: &str| look.words.iter().any(|known| known == word);
        let asks_sequence = has("nextval") || has("currval") || has("setval");
        let calls = if asks_sequence {
            Calls::new(text)
        } else {
            Calls::default()
        };
        self.families[family as usize].writes |= !written.is_empty();
        Text {
            family,
            looked_into,
            made_in,
            counts: look.target.is_some() && target.is_none_or(|target| target.is_numbered),
            names: calls.names(|_| None),
            calls,
            asks_last: has("lastval"),
            is_plain: !look.locks && written.is_empty(),
            commits: look.words.iter().any(|word| word == "commit" || word == "end"),
            touched,
            written,
            values: look.values,
            has_secret: text.windows(SECRET.len()).any(|window| window == SECRET),
        }
    }
}
