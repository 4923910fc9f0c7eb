//! Values that the server makes now in place of those that it made then, and messages with them.

use std::collections::HashMap;

use crate::plan::values::{canonical, field, written};
use crate::plan::{Expected, Place, Plan, Step};

/// By source and number of the value then: the value now, as text, where it is another one.
#[derive(Default)]
pub struct Made {
    now: HashMap<(u32, u32), Box<[u8]>>,
}

impl Made {
    /// Takes a row that came for an execution whose rows were kept.
    pub fn row(&mut self, plan: &Plan, expected: &Expected, row: u64, body: &[u8]) {
        let Some(columns) = plan.columns.get(expected.columns as usize) else {
            return;
        };
        let returned = &plan.returned[expected.returned.range()];
        let from = usize::try_from(row)
            .unwrap_or(usize::MAX)
            .saturating_mul(columns.len());
        let Some(then) = returned.get(from..from.saturating_add(columns.len())) else {
            return;
        };
        for (column, then) in columns.iter().zip(then) {
            let value = field(body, column.place).and_then(|bytes| canonical(bytes, column.form));
            if let (Some(value), true) = (value, then.value != u32::MAX) {
                self.now
                    .insert((then.source, then.value), value.into_boxed_slice());
            }
        }
    }

    /// Appends a step's messages; how many values were replaced.
    pub fn write(&self, plan: &Plan, step: &Step, output: &mut Vec<u8>) -> u64 {
        let bytes = &plan.bytes;
        let mut from = at(step.from);
        // Messages that were changed: where they are in the plan and in the output, and by how much they grew.
        let mut changed: Vec<(u64, usize, i64)> = Vec::new();
        let mut replaced = 0;
        for place in &plan.places[step.places.range()] {
            let Some(value) = self.other(plan, place) else {
                continue;
            };
            if changed
                .last()
                .is_none_or(|(message, ..)| *message != place.message)
            {
                changed.push((place.message, output.len() + at(place.message) - from, 0));
            }
            let before = at(place.at) - if place.is_parameter { 4 } else { 0 };
            output.extend_from_slice(&bytes[from..before]);
            if place.is_parameter {
                output.extend_from_slice(&u32::try_from(value.len()).unwrap_or(0).to_be_bytes());
            }
            output.extend_from_slice(&value);
            from = at(place.at) + place.length as usize;
            if let Some((.., grown)) = changed.last_mut() {
                *grown += i64::try_from(value.len()).unwrap_or(0) - i64::from(place.length);
            }
            replaced += 1;
        }
        output.extend_from_slice(&bytes[from..at(step.to)]);
        for (_, begin, grown) in changed {
            lengthen(&mut output[begin + 1..begin + 5], grown);
        }
        replaced
    }

    fn other(&self, plan: &Plan, place: &Place) -> Option<Vec<u8>> {
        let value = self.now.get(&(place.source, place.value))?;
        let value = written(value, place.form, place.length as usize)?;
        let then = &plan.bytes[at(place.at)..at(place.at) + place.length as usize];
        (value != then).then_some(value)
    }
}

/// A place in the plan's bytes, which are in memory.
#[allow(clippy::cast_possible_truncation)]
fn at(place: u64) -> usize {
    place as usize
}

fn lengthen(length: &mut [u8], grown: i64) {
    let before = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    let now = u32::try_from(i64::from(before) + grown).unwrap_or(before);
    length.copy_from_slice(&now.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Form;
    use crate::plan::Span;

    #[test]
    fn a_replaced_value_changes_its_own_length_and_its_message_s() {
        let bind = b"B\0\0\0\x14\0s\0\0\0\0\x01\0\0\0\x0299\0\0";
        let query = b"Q\0\0\0\x0dselect 5\0";
        let mut plan = Plan::default();
        plan.bytes.extend_from_slice(bind);
        plan.bytes.extend_from_slice(query);
        let value_at = 16;
        let literal_at = bind.len() as u64 + 5 + 7;
        plan.places = vec![
            Place::new(0, value_at, 2, true, (1, 1)),
            Place::new(bind.len() as u64, literal_at, 1, false, (1, 2)),
        ];
        let step = Step {
            from: 0,
            to: plan.bytes.len() as u64,
            places: Span { from: 0, to: 2 },
            ..Step::default()
        };
        let mut made = Made::default();
        let mut output = Vec::new();
        assert_eq!(made.write(&plan, &step, &mut output), 0);
        assert_eq!(output, plan.bytes);
        made.now.insert((1, 1), Box::from(&b"12345"[..]));
        made.now.insert((1, 2), Box::from(&b"77"[..]));
        output.clear();
        assert_eq!(made.write(&plan, &step, &mut output), 2);
        let expected = [
            &b"B\0\0\0\x17\0s\0\0\0\0\x01\0\0\0\x0512345\0\0"[..],
            b"Q\0\0\0\x0eselect 77\0",
        ]
        .concat();
        assert_eq!(output, expected);
        assert_eq!(plan.places[0].form, Form::Text);
    }
}
