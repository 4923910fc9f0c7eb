//! Which values of clients had come from the server: decided by slot, when the whole capture has been read.
//!
//! Small whole numbers are keys of several tables at once, and quantities too. A slot is linked to a source where
//! nearly all of its values within that source's range had been made by then. Of sources that come into question the one
//! counts whose values are of tables that the statement names, and were the younger when they were used: a table that grows
//! faster has the keys of one that grows slower too, but has had them for longer. Keys that were there before the capture
//! lie outside of what a source made, and say nothing for or against it.

use std::collections::HashMap;

use super::parts::Place;
use super::values::{Seen, Slot, Source, Values};

/// Below this share of its values within a source's range a slot is not linked to it.
const SHARE_MIN: f64 = 0.8;
/// A slot with few different values, as quantities are, matches small keys by chance.
const DISTINCT_SHARE_MIN: f64 = 0.1;
const MADE_SHARE_MIN: f64 = 0.5;
const FEW: usize = 10;
const SMALL_BELOW: u64 = 1000;
/// Whole numbers of a table that the statement does not name are its keys where they are young, as passed-on ones are.
const UNRELATED_AGE_MAX: f64 = 0.3;
const UNRELATED_WEIGHT: f64 = 0.25;
/// Of a sequence that no table has it is not known.
const UNKNOWN_WEIGHT: f64 = 0.8;

/// By slot and source: how good the source is, 0 the best.
pub struct Links(HashMap<(u32, u32), usize>);

impl Links {
    /// Decides.
    pub fn new(values: &Values, places: &[Place]) -> Self {
        let mut orders = HashMap::new();
        for (number, slot) in (0_u32..).zip(&values.slots) {
            let mut scored: Vec<(u32, f64)> = slot
                .seen
                .iter()
                .filter_map(|(&source, seen)| {
                    let score = score(slot, &values.sources[source as usize], seen)?;
                    Some((source, score))
                })
                .collect();
            scored.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
            for (order, (source, _)) in scored.into_iter().enumerate() {
                orders.insert((number, source), order);
            }
        }
        let found = Self(orders);
        found.without_chance(values, places)
    }

    /// Of a step's places those that are looked up, of each value one.
    pub fn chosen<'a>(&'a self, places: &'a [Place]) -> impl Iterator<Item = &'a Place> {
        uses(places).filter_map(|places| self.best(places))
    }

    fn best<'a>(&self, places: &'a [Place]) -> Option<&'a Place> {
        let ordered = places
            .iter()
            .filter_map(|place| Some((self.0.get(&(place.slot, place.source))?, place)));
        ordered.min_by_key(|(order, _)| **order).map(|(_, place)| place)
    }

    /// Without sources that share most of their values with a better one.
    fn without_chance(mut self, values: &Values, places: &[Place]) -> Self {
        let mut alone: HashMap<(u32, u32), usize> = HashMap::new();
        for place in self.chosen(places) {
            *alone.entry((place.slot, place.source)).or_default() += 1;
        }
        self.0.retain(|key, order| {
            let hits = values.slots[key.0 as usize].seen[&key.1].hits;
            *order == 0 || share(alone.get(key).copied().unwrap_or(0), hits) >= SHARE_MIN
        });
        self
    }
}

/// Places by the values that they are of: one for each source that had made the value.
fn uses(places: &[Place]) -> impl Iterator<Item = &[Place]> {
    places.chunk_by(|one, other| (one.message, one.at) == (other.message, other.at))
}

/// How well a slot's values are explained by a source; none where they are not.
fn score(slot: &Slot, source: &Source, seen: &Seen) -> Option<f64> {
    if seen.hits == 0 || share(seen.hits, seen.hits + seen.misses) < SHARE_MIN {
        return None;
    }
    let age = seen.ages / number(seen.hits);
    let is_related =
        source.tables.is_empty() || source.tables.iter().any(|table| slot.tables.contains(table));
    if let Some(lowest) = seen.lowest {
        let different = slot.values.len();
        let is_varied = seen.hits <= FEW
            || share(different, seen.hits) >= DISTINCT_SHARE_MIN
            || share(different, source.made) >= MADE_SHARE_MIN
            || lowest >= SMALL_BELOW;
        // As in GROUP BY 1 or LIMIT 5.
        let is_constant = slot.is_literal && different == 1 && seen.hits > 1 && lowest < SMALL_BELOW;
        if is_constant || !is_varied || (!is_related && age > UNRELATED_AGE_MAX) {
            return None;
        }
    }
    let weight = match is_related {
        true if source.tables.is_empty() => UNKNOWN_WEIGHT,
        true => 1.0,
        false => UNRELATED_WEIGHT,
    };
    Some(number(seen.hits) * (1.0 - age) * weight)
}

fn share(part: usize, whole: usize) -> f64 {
    number(part) / number(whole.max(1))
}

#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::parts::Plan;
    use super::super::sequences::Names;
    use super::super::texts::Text;
    use super::super::values::{Answering, Used};
    use super::*;

    /// One column, int4, as text, of a table's first column.
    fn description(table: u8) -> Vec<u8> {
        [
            &b"\0\x01id\0\0\0\0"[..],
            &[table],
            b"\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
        ]
        .concat()
    }

    fn make(values: &mut Values, plan: &mut Plan, table: u8, id: usize) {
        let text = Text {
            made_in: vec![u32::from(table)],
            ..Text::default()
        };
        let answering = Answering {
            database: 0,
            text: &text,
            names: &Names::new(),
            last: None,
            tables: &|_| &[],
            description: &description(table),
            formats: None,
        };
        let set = values.columns(&answering, plan);
        let id = id.to_string();
        let length = u8::try_from(id.len()).unwrap();
        let row = [&b"\0\x01\0\0\0"[..], &[length], id.as_bytes()].concat();
        values.made(&plan.columns[set as usize], &row, (0, 0), &mut Vec::new());
    }

    fn send(values: &mut Values, plan: &mut Plan, (index, tables): (usize, &[u32]), value: usize) {
        let text = Text {
            looked_into: tables.to_vec(),
            ..Text::default()
        };
        let used = Used {
            index,
            message: plan.places.len() as u64 * 100,
            is_parameter: true,
            ..Used::default()
        };
        let value = value.to_string();
        values.used(used, &text, value.as_bytes(), plan);
    }

    fn linked(values: &Values, plan: &Plan) -> Vec<(u32, u32)> {
        let links = Links::new(values, &plan.places);
        let found: HashSet<(u32, u32)> = links
            .chosen(&plan.places)
            .map(|place| (place.slot, place.source))
            .collect();
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_parameter_is_linked_to_the_column_its_values_came_from_and_a_quantity_is_not() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        for id in 1..=200 {
            make(&mut values, &mut plan, 1, id);
            for (index, value) in [id, 1 + id % 3, id * 7 % 4000].into_iter().enumerate() {
                send(&mut values, &mut plan, (index, &[]), value);
            }
        }
        assert_eq!(linked(&values, &plan), [(0, 0)]);
        let links = Links::new(&values, &plan.places);
        assert_eq!(links.chosen(&plan.places).count(), 200);
    }

    #[test]
    fn of_two_tables_that_count_from_1_each_has_its_own() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        for order in 1..=100 {
            make(&mut values, &mut plan, 1, order);
            for item in order * 3 - 2..=order * 3 {
                make(&mut values, &mut plan, 2, item);
                send(&mut values, &mut plan, (0, &[1]), order);
                send(&mut values, &mut plan, (1, &[2]), item);
                // A statement of both, and one whose table has no foreign key.
                send(&mut values, &mut plan, (2, &[1, 2]), order);
                send(&mut values, &mut plan, (3, &[9]), order);
            }
        }
        assert_eq!(linked(&values, &plan), [(0, 0), (1, 1), (2, 0), (3, 0)]);
    }

    #[test]
    fn a_value_that_is_used_often_is_linked_where_it_is_no_quantity() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        make(&mut values, &mut plan, 1, 4711);
        make(&mut values, &mut plan, 2, 5);
        for _ in 0..200 {
            send(&mut values, &mut plan, (0, &[1]), 4711);
        }
        assert_eq!(linked(&values, &plan), [(0, 0)]);
    }

    #[test]
    fn a_number_that_stays_in_a_text_is_no_key() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        make(&mut values, &mut plan, 1, 1);
        for message in 0..3 {
            // As in GROUP BY 1.
            let used = Used {
                message: message * 100,
                ..Used::default()
            };
            values.used(used, &Text::default(), b"1", &mut plan);
        }
        assert!(linked(&values, &plan).is_empty());
    }

    #[test]
    fn keys_from_before_are_no_keys_of_another_table() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        let mut drawn = 7_usize;
        for item in 1..=300 {
            make(&mut values, &mut plan, 2, item);
            drawn = (drawn * 1_103_515_245 + 12_345) % (1 << 31);
            send(&mut values, &mut plan, (0, &[1]), 1 + (drawn >> 8) % item);
        }
        assert!(linked(&values, &plan).is_empty());
    }
}
