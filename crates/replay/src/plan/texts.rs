//! Statements' texts, each looked through once.

use std::collections::HashMap;
use std::sync::Arc;

use super::parts::{Family, Wanted};
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
    pub values: Vec<std::ops::Range<usize>>,
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
        self.families[family as usize].writes |= !written.is_empty();
        Text {
            family,
            is_plain: !look.locks && written.is_empty(),
            commits: look.words.iter().any(|word| word == "commit" || word == "end"),
            touched,
            written,
            values: look.values,
            has_secret: text.windows(SECRET.len()).any(|window| window == SECRET),
        }
    }
}
