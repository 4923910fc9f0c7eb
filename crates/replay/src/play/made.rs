//! Values that the server makes now in place of those that it made then, and messages with them.

use std::collections::HashMap;

use crate::plan::forms::{canonical, field, written};
use crate::plan::{Column, Expected, Place, Plan, Returned, Step};

/// By source and number of the value then: the value now, as text, where it is another one.
#[derive(Default)]
pub struct Made {
    now: HashMap<(u32, u32), Box<[u8]>>,
}

impl Made {
    /// Takes a row that came for an execution whose rows were kept: the next one's values lie from `next` on, which moves
    /// behind them.
    pub fn row(&mut self, plan: &Plan, expected: &Expected, next: &mut usize, body: &[u8]) {
        let Some(columns) = plan.columns.get(expected.columns as usize) else {
            return;
        };
        let returned = plan.returned[expected.returned.range()].get(*next..);
        let mut then = returned.unwrap_or_default().iter();
        let left = then.len();
        for column in columns {
            let Some(first) = then.next() else { return };
            let bytes = field(body, column.place);
            if !column.is_array {
                self.one(column, first, bytes);
                continue;
            }
            let elements = column.elements(bytes);
            let of_array: Vec<_> = then.by_ref().take(first.value as usize).collect();
            if elements.len() == of_array.len() {
                for (then, element) in of_array.into_iter().zip(elements) {
                    self.one(column, then, Some(element));
                }
            }
        }
        *next += left - then.len();
    }

    fn one(&mut self, column: &Column, then: &Returned, bytes: Option<&[u8]>) {
        let value = bytes.and_then(|bytes| canonical(bytes, column.form));
        if let (Some(value), true) = (value, then.value != u32::MAX) {
            self.now
                .insert((then.source, then.value), value.into_boxed_slice());
        }
    }

    /// Appends a step's messages; how many values were replaced.
    pub fn write(&self, plan: &Plan, step: &Step, output: &mut Vec<u8>) -> u64 {
        let bytes = &plan.bytes;
        let mut from = at(step.from);
        // Lengths that change, and by how much; of each kind the latest.
        let mut changed: Vec<Length> = Vec::new();
        let mut latest = [usize::MAX; 3];
        let mut replaced = 0;
        for place in &plan.places[step.places.range()] {
            let Some(value) = self.other(plan, place) else {
                continue;
            };
            let by = i64::try_from(value.len()).unwrap_or(0) - i64::from(place.length);
            for (known, length) in latest.iter_mut().zip(place.lengths()) {
                let Some(length) = length else { continue };
                if changed.get(*known).is_none_or(|known| known.of != length) {
                    *known = changed.len();
                    changed.push(Length {
                        of: length,
                        output_at: output.len() + at(length) - from,
                        by: 0,
                    });
                }
                changed[*known].by += by;
            }
            output.extend_from_slice(&bytes[from..at(place.at)]);
            output.extend_from_slice(&value);
            from = at(place.at) + place.length as usize;
            replaced += 1;
        }
        output.extend_from_slice(&bytes[from..at(step.to)]);
        for length in changed {
            lengthen(&mut output[length.output_at..length.output_at + 4], length.by);
        }
        replaced
    }

    fn other(&self, plan: &Plan, place: &Place) -> Option<Vec<u8>> {
        let now = self.now.get(&(place.source, place.value))?;
        let then = &plan.bytes[at(place.at)..at(place.at) + place.length as usize];
        if canonical(then, place.form).as_deref() == Some(&**now) {
            return None;
        }
        written(now, place.form, then)
    }
}

/// A length in the messages, where it is written, and by how much it changes.
struct Length {
    of: u64,
    output_at: usize,
    by: i64,
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
    use crate::plan::{Form, Span};

    fn place(message: u64, value_at: u64, length: u32, parameter: Option<u64>, value: u32) -> Place {
        Place {
            message,
            at: value_at,
            length,
            parameter,
            is_element: false,
            form: Form::Text,
            source: 1,
            value,
            maker: u32::MAX,
            slot: 0,
        }
    }

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
            place(0, value_at, 2, Some(value_at), 1),
            place(bind.len() as u64, literal_at, 1, None, 2),
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
    }

    #[test]
    fn elements_of_arrays_change_the_parameter_s_length_too() {
        // An array as text, and one of texts in its binary form.
        let text = b"B\0\0\0\x14\0s\0\0\0\0\x01\0\0\0\x0a{9,NULL,5}\0\0";
        let binary = b"B\0\0\0\x40\0s\0\0\0\0\x01\0\0\0\x21ARRAY HEADER OF 20 B\0\0\0\x01a\0\0\0\x04bbbb\0\0";
        let mut plan = Plan::default();
        plan.bytes.extend_from_slice(text);
        let second = plan.bytes.len() as u64;
        plan.bytes.extend_from_slice(binary);
        let element = |at: u64, length| Place {
            is_element: true,
            ..place(second, second + at, length, Some(second + 16), 2)
        };
        plan.places = vec![
            place(0, 17, 1, Some(16), 1),
            place(0, 24, 1, Some(16), 1),
            element(40, 1),
            element(45, 4),
        ];
        let step = Step {
            to: plan.bytes.len() as u64,
            places: Span { from: 0, to: 4 },
            ..Step::default()
        };
        let mut made = Made::default();
        made.now.insert((1, 1), Box::from(&b"123"[..]));
        made.now.insert((1, 2), Box::from(&b"cc"[..]));
        let mut output = Vec::new();
        assert_eq!(made.write(&plan, &step, &mut output), 4);
        let expected = [
            &b"B\0\0\0\x18\0s\0\0\0\0\x01\0\0\0\x0e{123,NULL,123}\0\0"[..],
            b"B\0\0\0\x3f\0s\0\0\0\0\x01\0\0\0\x20ARRAY HEADER OF 20 B\0\0\0\x02cc\0\0\0\x02cc\0\0",
        ]
        .concat();
        assert_eq!(output, expected);
    }
}
