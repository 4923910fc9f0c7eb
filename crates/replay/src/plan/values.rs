//! Values that the server made then (RETURNING, nextval, …), and the places where clients used them later.
//!
//! A source is what values come from: a table's column, a sequence, else a column of a statement's answers. A slot is a
//! parameter or literal of a family. Where a slot's values had come from a source, values that the server makes otherwise
//! now are replaced; [`super::links`] decides that when all is read.

use std::collections::{HashMap, HashSet};

use pgassay_capture::format::bind::format_of;

use super::forms::{array_of, canonical, described, elements, field, form_of, forms_of, is_place};
use super::parts::{Column, Form, Maker, Place, Plan, Returned};
use super::sequences::{Names, words};
use super::texts::Text;

/// Texts of this length don't match by chance, and shorter ones are not followed.
const TEXT_BYTES_MIN: usize = 16;

/// What values come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// A table's column, by OID and number.
    Column(u32, u16),
    /// A sequence, by its name; several that a statement asks at once.
    Sequence(Box<[u8]>),
    /// The last value of a sequence, after a row of these tables was made.
    Last(Vec<u32>),
    /// A column of the answers of a family.
    Statement(u32, usize),
}

/// What is known of a source.
#[derive(Default)]
pub struct Source {
    /// Tables that the statements wrote which gave its values.
    pub tables: Vec<u32>,
    /// How many values it made.
    pub made: usize,
    /// The lowest and the highest whole number.
    range: Option<(u64, u64)>,
}

/// What a slot's values had of one source.
#[derive(Default)]
pub struct Seen {
    /// So many were of it.
    pub hits: usize,
    /// Of the values that the source made, the share that was younger, summed over the hits.
    pub ages: f64,
    /// The lowest whole number of these.
    pub lowest: Option<u64>,
    /// So many whole numbers within its range were of no source.
    pub misses: usize,
}

/// What is known of a slot.
#[derive(Default)]
pub struct Slot {
    /// By source.
    pub seen: HashMap<u32, Seen>,
    /// Numbers of its values that a server had made.
    pub values: HashSet<u32>,
    /// Tables whose keys its statement may hold.
    pub tables: Vec<u32>,
    /// It stands in the statement's text, where GROUP BY 1 has a number that is no value.
    pub is_literal: bool,
}

/// Where a client uses a value.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// The database of the session, by number.
    pub database: u32,
    /// Of which statement.
    pub family: u32,
    /// The parameter's or literal's number.
    pub index: usize,
    /// Where the message begins, in [`Plan::bytes`].
    pub message: u64,
    /// Where the value does.
    pub at: u64,
    /// In its binary form.
    pub is_binary: bool,
    /// As a parameter, whose length stands before it.
    pub is_parameter: bool,
}

/// What lastval() tells of.
pub struct Last {
    origin: Origin,
    tables: Vec<u32>,
}

impl Last {
    /// What it tells of after a statement.
    pub fn after(text: &Text, names: &Names) -> Option<Self> {
        if text.only_prepares() {
            return None;
        }
        if let Some(name) = text.calls.last(names) {
            return Some(Self {
                origin: Origin::Sequence(name),
                tables: Vec::new(),
            });
        }
        text.counts.then(|| Self {
            origin: match text.made_in.is_empty() {
                true => Origin::Statement(text.family, usize::MAX),
                false => Origin::Last(text.made_in.clone()),
            },
            tables: text.made_in.clone(),
        })
    }
}

/// What an execution's answers are taken as.
pub struct Answering<'a> {
    /// The database of the session, by number.
    pub database: u32,
    /// The statement.
    pub text: &'a Text,
    /// The names of the sequences that it asks.
    pub names: &'a Names,
    /// What lastval() tells of.
    pub last: Option<&'a Last>,
    /// The tables that a sequence's name stands for.
    pub tables: &'a dyn Fn(&[u8]) -> &'a [u32],
    /// The body of RowDescription.
    pub description: &'a [u8],
    /// Formats of columns that Bind asked for.
    pub formats: Option<&'a [u16]>,
}

/// All values and slots, while a capture is read.
#[derive(Default)]
pub struct Values {
    databases: HashMap<String, u32>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// By value, the sources that made it, and as which of theirs.
    made: HashMap<u32, Vec<(u32, usize)>>,
    /// Who made values, in the order of the answers.
    pub makers: Vec<Maker>,
    /// By source and value, who made it last.
    latest: HashMap<(u32, u32), u32>,
    numbers_of_sources: HashMap<(u32, Origin), u32>,
    /// Sources, by number.
    pub sources: Vec<Source>,
    /// Slots, by number.
    pub slots: Vec<Slot>,
    slot_numbers: HashMap<(u32, u32, usize), u32>,
    sets: HashMap<Vec<Column>, u32>,
}

impl Values {
    /// A database's number.
    pub fn database(&mut self, name: &str) -> u32 {
        let next = u32::try_from(self.databases.len()).unwrap_or(u32::MAX);
        *self.databases.entry(name.to_owned()).or_insert(next)
    }

    /// The set of followed columns of an execution's rows.
    pub fn columns(&mut self, of: &Answering<'_>, plan: &mut Plan) -> u32 {
        let mut found = Vec::new();
        for (place, (type_oid, format, column)) in described(of.description).into_iter().enumerate() {
            let format = of.formats.map_or(format, |formats| format_of(formats, place));
            let element = array_of(type_oid);
            let Some(form) = form_of(element.unwrap_or(type_oid), format) else {
                continue;
            };
            let (origin, mut tables) = origin(of, column, place);
            if let Origin::Sequence(name) = &origin {
                tables = words(name).flat_map(|word| (of.tables)(word)).copied().collect();
            }
            let next = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
            let source = *self
                .numbers_of_sources
                .entry((of.database, origin))
                .or_insert(next);
            if source == next {
                self.sources.push(Source::default());
            }
            add(&mut self.sources[source as usize].tables, &tables);
            found.push(Column {
                place,
                source,
                form,
                is_array: element.is_some(),
            });
        }
        *self.sets.entry(found.clone()).or_insert_with(|| {
            plan.columns.push(found);
            u32::try_from(plan.columns.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Takes a row that was kept, with these columns, of a step.
    pub fn made(&mut self, columns: &[Column], row: &[u8], by: Maker, made: &mut Vec<Returned>) {
        if self.makers.last() != Some(&by) {
            self.makers.push(by);
        }
        for column in columns {
            let bytes = field(row, column.place);
            if !column.is_array {
                made.push(self.one_made(column, bytes));
                continue;
            }
            let elements = column.elements(bytes);
            made.push(Returned {
                source: u32::MAX,
                value: u32::try_from(elements.len()).unwrap_or(u32::MAX),
            });
            for element in elements {
                made.push(self.one_made(column, Some(element)));
            }
        }
    }

    fn one_made(&mut self, column: &Column, bytes: Option<&[u8]>) -> Returned {
        let value = bytes
            .and_then(|bytes| canonical(bytes, column.form))
            .filter(|value| is_followed(value));
        Returned {
            source: column.source,
            value: value.map_or(u32::MAX, |value| self.make(column.source, value)),
        }
    }

    fn make(&mut self, source: u32, value: Vec<u8>) -> u32 {
        let known = &mut self.sources[source as usize];
        if let Some(number) = whole(&value) {
            let (low, high) = known.range.unwrap_or((number, number));
            known.range = Some((low.min(number), high.max(number)));
        }
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX - 1);
        let number = *self.numbers.entry(value.into_boxed_slice()).or_insert(next);
        let sources = self.made.entry(number).or_default();
        let maker = u32::try_from(self.makers.len()).unwrap_or(u32::MAX) - 1;
        self.latest.insert((source, number), maker);
        if !sources.iter().any(|(of, _)| *of == source) {
            sources.push((source, known.made));
            known.made += 1;
        }
        number
    }

    /// Takes a value that a client sends, or the elements of an array; candidates go to the plan's places.
    pub fn used(&mut self, used: Used, text: &Text, bytes: &[u8], plan: &mut Plan) {
        let Some((ranges, form)) = elements(bytes, used.is_binary) else {
            let place = Place {
                message: used.message,
                at: used.at,
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                parameter: used.is_parameter.then_some(used.at),
                is_element: false,
                form: Form::Text,
                source: 0,
                value: 0,
                maker: u32::MAX,
                slot: 0,
            };
            let forms = if used.is_binary {
                forms_of(bytes.len())
            } else {
                &[Form::Text]
            };
            return self.one(used, text, bytes, (&place, forms), plan);
        };
        for range in ranges {
            let place = Place {
                message: used.message,
                at: used.at + range.start as u64,
                length: u32::try_from(range.len()).unwrap_or(u32::MAX),
                parameter: used.is_parameter.then_some(used.at),
                is_element: used.is_binary,
                form: Form::Text,
                source: 0,
                value: 0,
                maker: u32::MAX,
                slot: 0,
            };
            let forms = [form.unwrap_or(Form::Text)];
            self.one(used, text, &bytes[range], (&place, &forms), plan);
        }
    }

    fn one(
        &mut self,
        used: Used,
        text: &Text,
        bytes: &[u8],
        (place, forms): (&Place, &[Form]),
        plan: &mut Plan,
    ) {
        let values = forms.iter().filter_map(|form| {
            let value = canonical(bytes, *form).filter(|value| is_followed(value))?;
            Some((*form, self.numbers.get(value.as_slice()).copied(), whole(&value)))
        });
        let values: Vec<_> = values.collect();
        let made = values.iter().find(|(_, number, _)| number.is_some());
        let Some(&(form, number, whole)) = made.or(values.first()) else {
            return;
        };
        let slot = self.slot(used, text);
        let known = &mut self.slots[slot as usize];
        let Some(number) = number else {
            let Some(whole) = whole else { return };
            for (source, of) in self.sources.iter().enumerate() {
                if of.range.is_some_and(|(low, high)| (low..=high).contains(&whole)) {
                    let source = u32::try_from(source).unwrap_or(u32::MAX);
                    known.seen.entry(source).or_default().misses += 1;
                }
            }
            return;
        };
        known.values.insert(number);
        for &(source, made) in self.made.get(&number).into_iter().flatten() {
            let seen = known.seen.entry(source).or_default();
            seen.hits += 1;
            seen.ages += age(made, self.sources[source as usize].made);
            seen.lowest = match (seen.lowest, whole) {
                (Some(lowest), Some(whole)) => Some(lowest.min(whole)),
                (known, found) => known.or(found),
            };
            plan.places.push(Place {
                form,
                source,
                value: number,
                maker: self.latest.get(&(source, number)).copied().unwrap_or(u32::MAX),
                slot,
                ..place.clone()
            });
        }
    }

    fn slot(&mut self, used: Used, text: &Text) -> u32 {
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let key = (used.database, used.family, used.index);
        let slot = *self.slot_numbers.entry(key).or_insert(next);
        if slot == next {
            self.slots.push(Slot {
                tables: text.looked_into.clone(),
                is_literal: !used.is_parameter,
                ..Slot::default()
            });
        }
        slot
    }
}

/// What the values of a column come from, and the tables that were written for them.
fn origin(of: &Answering<'_>, column: (u32, u16), place: usize) -> (Origin, Vec<u32>) {
    let text = of.text;
    if column.0 != 0 {
        return (Origin::Column(column.0, column.1), text.made_in.clone());
    }
    if let Some(name) = text.calls.of_column(of.names, place) {
        return (Origin::Sequence(name), Vec::new());
    }
    if let (Some(last), true) = (of.last, text.asks_last) {
        return (last.origin.clone(), last.tables.clone());
    }
    (Origin::Statement(text.family, place), text.made_in.clone())
}

fn add(list: &mut Vec<u32>, more: &[u32]) {
    for each in more {
        if !list.contains(each) {
            list.push(*each);
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn age(made: usize, of: usize) -> f64 {
    (of - 1 - made) as f64 / of as f64
}

fn whole(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn is_followed(value: &[u8]) -> bool {
    if value.is_empty() {
        return false;
    }
    value.len() >= TEXT_BYTES_MIN || value.iter().all(u8::is_ascii_digit) || is_place(value)
}
