//! Statements' texts, each looked through once.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use pgassay_capture::lexer::names_behind;
use pgassay_capture::secrets::lacks_secret;

use super::parts::{Family, Wanted};
use super::sequences::{Calls, Names};
use crate::lexer::look;

/// More texts are looked through again when they come again.
const TEXTS_KEPT_MAX: usize = 200_000;
const SAMPLE_BYTES_MAX: usize = 64 << 10;

/// A session's statements that PREPARE made, by name.
pub type InSql = HashMap<Vec<u8>, Arc<Text>>;

/// What is known of a text.
#[derive(Clone, Debug, Default)]
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
    /// Names of statements that it prepares.
    pub(super) prepares: Vec<Vec<u8>>,
    /// Names of prepared statements that it executes.
    pub(super) executes: Vec<Vec<u8>>,
}

/// All of them.
pub struct Texts<'a> {
    wanted: &'a Wanted,
    known: HashMap<(String, Arc<[u8]>), Arc<Text>>,
    keys: HashMap<u64, u32>,
    /// Of those that execute: by their own family and what they execute.
    executing: HashMap<(u32, Vec<u32>), u32>,
    /// Families, by number.
    pub families: Vec<Family>,
}

impl Text {
    /// Whether it makes statements, and runs none of them.
    pub fn only_prepares(&self) -> bool {
        !self.prepares.is_empty() && self.executes.is_empty()
    }
}

impl<'a> Texts<'a> {
    /// None yet.
    pub fn new(wanted: &'a Wanted) -> Self {
        Self {
            wanted,
            known: HashMap::new(),
            keys: HashMap::new(),
            executing: HashMap::new(),
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

    /// Looks a text of a session up; one that executes statements is taken as these.
    pub fn followed(&mut self, database: &str, text: &Arc<[u8]>, in_sql: &mut InSql) -> Arc<Text> {
        let own = self.get(database, text);
        for name in &own.prepares {
            in_sql.insert(name.clone(), Arc::clone(&own));
        }
        let executed: Vec<_> = own.executes.iter().filter_map(|name| in_sql.get(name)).collect();
        match executed.is_empty() {
            true => own,
            false => Arc::new(self.executing(&own, text, &executed)),
        }
    }

    /// What EXECUTE does is what the prepared statements do, with the values that stand in its own text.
    fn executing(&mut self, own: &Text, text: &[u8], executed: &[&Arc<Text>]) -> Text {
        let mut found = own.clone();
        for prepared in executed {
            add(&mut found.touched, &prepared.touched);
            add(&mut found.written, &prepared.written);
            add(&mut found.looked_into, &prepared.looked_into);
            add(&mut found.made_in, &prepared.made_in);
            found.is_plain &= prepared.is_plain;
            found.counts |= prepared.counts;
            found.asks_last |= prepared.asks_last;
            if prepared.calls != Calls::default() {
                found.calls = prepared
                    .calls
                    .bound(|index| Some(&text[own.values.get(index)?.clone()]));
                found.names = found.calls.names(|_| None);
            }
        }
        // Another session may have prepared something else under the same name.
        let key = (
            own.family,
            executed.iter().map(|prepared| prepared.family).collect(),
        );
        let sample = Arc::clone(&self.families[own.family as usize].sample);
        let writes = !found.written.is_empty();
        found.family = *self.executing.entry(key).or_insert_with(|| {
            self.families.push(Family { sample, writes });
            u32::try_from(self.families.len() - 1).unwrap_or(u32::MAX)
        });
        found
    }

    fn looked(&mut self, database: &str, text: &Arc<[u8]>) -> Text {
        let look = look(text);
        let family = *self.keys.entry(look.key).or_insert_with(|| {
            let sample = &text[..text.len().min(SAMPLE_BYTES_MAX)];
            self.families.push(Family {
                sample: Arc::from(sample),
                writes: look.changes,
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
        let names = |word: &str| match has(word) {
            true => names_behind(text, word),
            false => Vec::new(),
        };
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
            prepares: names("prepare"),
            executes: names("execute"),
            has_secret: lacks_secret(text),
        }
    }
}

fn add(list: &mut Vec<u32>, more: &[u32]) {
    list.extend(more);
    list.sort_unstable();
    list.dedup();
}
