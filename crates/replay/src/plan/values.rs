//! Values that the server made then (RETURNING, nextval, …), and the places where clients used them later.
//!
//! A source is a column of a family's answers, a slot a parameter or literal of a family. A slot is linked to a source
//! where its values had come from there: then a value that the server makes otherwise now is replaced. Keys that were
//! there before the capture lie outside of what a source made, and say nothing for or against it.

use std::collections::{HashMap, HashSet};

use pgassay_capture::format::bind::format_of;

use super::parts::{Column, Form, Place, Plan, Returned};

/// Below this share of its values between a source's lowest and highest a slot is not linked to it.
const SHARE_MIN: f64 = 0.8;
/// A slot with few different values, as quantities are, matches small keys by chance.
const DISTINCT_SHARE_MIN: f64 = 0.1;
const FEW: usize = 10;
/// Texts of this length don't match by chance, and shorter ones are not followed.
const TEXT_BYTES_MIN: usize = 16;

#[derive(Default)]
struct Slot {
    uses: HashMap<u32, usize>,
    hits: HashMap<u32, usize>,
    values: HashSet<u32>,
}

/// Where a client uses a value.
#[derive(Clone, Copy, Default)]
pub struct Used {
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

/// All values and slots, while a capture is read.
#[derive(Default)]
pub struct Values {
    numbers: HashMap<Box<[u8]>, u32>,
    made: HashMap<u32, Vec<u32>>,
    sources: HashMap<(u32, usize), u32>,
    /// By source, the lowest and the highest whole number that it made.
    ranges: HashMap<u32, (u64, u64)>,
    slots: Vec<Slot>,
    slot_numbers: HashMap<(u32, usize), u32>,
    sets: HashMap<Vec<Column>, u32>,
}

impl Values {
    /// The set of followed columns of a family's rows, from the body of RowDescription; `formats` are those that Bind asks for.
    pub fn columns(
        &mut self,
        family: u32,
        description: &[u8],
        formats: Option<&[u16]>,
        plan: &mut Plan,
    ) -> u32 {
        let mut found = Vec::new();
        for (place, (type_oid, format)) in described(description).into_iter().enumerate() {
            let format = formats.map_or(format, |formats| format_of(formats, place));
            let form = match (type_oid, format) {
                (20 | 21 | 23 | 25 | 1043 | 2950, 0) | (25 | 1043, 1) => Form::Text,
                (20 | 21 | 23, 1) => Form::Integer,
                (2950, 1) => Form::Uuid,
                _ => continue,
            };
            let next = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
            let source = *self.sources.entry((family, place)).or_insert(next);
            found.push(Column { place, source, form });
        }
        *self.sets.entry(found.clone()).or_insert_with(|| {
            plan.columns.push(found);
            u32::try_from(plan.columns.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Takes a row that was kept, of a set of columns.
    pub fn made(&mut self, set: u32, row: &[u8], sets: &[Vec<Column>], made: &mut Vec<Returned>) {
        for &column in &sets[set as usize] {
            let value = field(row, column.place)
                .and_then(|bytes| canonical(bytes, column.form))
                .filter(|value| is_followed(value));
            let number = match value {
                Some(value) => {
                    if let Some(number) = whole(&value) {
                        let range = self.ranges.entry(column.source).or_insert((number, number));
                        *range = (range.0.min(number), range.1.max(number));
                    }
                    let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX - 1);
                    let number = *self.numbers.entry(value.into_boxed_slice()).or_insert(next);
                    let sources = self.made.entry(number).or_default();
                    if !sources.contains(&column.source) {
                        sources.push(column.source);
                    }
                    number
                }
                None => u32::MAX,
            };
            made.push(Returned {
                source: column.source,
                value: number,
            });
        }
    }

    /// Takes a value that a client sends; candidates go to the plan's places.
    pub fn used(&mut self, used: Used, bytes: &[u8], plan: &mut Plan) {
        let form = match (used.is_binary, bytes.len()) {
            (false, _) => Form::Text,
            (true, 2 | 4 | 8) => Form::Integer,
            (true, 16) => Form::Uuid,
            (true, _) => return,
        };
        let Some(value) = canonical(bytes, form).filter(|value| is_followed(value)) else {
            return;
        };
        let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let slot = *self.slot_numbers.entry((used.family, used.index)).or_insert(next);
        if slot == next {
            self.slots.push(Slot::default());
        }
        let known = &mut self.slots[slot as usize];
        if let Some(number) = whole(&value) {
            for (&source, &(low, high)) in &self.ranges {
                if (low..=high).contains(&number) {
                    *known.uses.entry(source).or_default() += 1;
                }
            }
        }
        let Some(number) = self.numbers.get(value.as_slice()) else {
            return;
        };
        known.values.insert(*number);
        for &source in self.made.get(number).into_iter().flatten() {
            *known.hits.entry(source).or_default() += 1;
            plan.places.push(Place {
                message: used.message,
                at: used.at,
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                is_parameter: used.is_parameter,
                form,
                source,
                value: *number,
                slot,
            });
        }
    }

    /// Which places are looked up: those of slots with a source.
    pub fn linked(&self) -> impl Fn(&Place) -> bool + '_ {
        let sources: Vec<Option<u32>> = self.slots.iter().map(Slot::source).collect();
        move |place| sources[place.slot as usize] == Some(place.source)
    }
}

impl Slot {
    #[allow(clippy::cast_precision_loss)]
    fn source(&self) -> Option<u32> {
        let (source, hits) = self
            .hits
            .iter()
            .max_by_key(|(source, hits)| (**hits, u32::MAX - **source))?;
        let is_varied = *hits <= FEW || self.values.len() as f64 >= DISTINCT_SHARE_MIN * *hits as f64;
        let uses = self.uses.get(source).copied().unwrap_or(0);
        (is_varied && *hits as f64 >= SHARE_MIN * uses as f64).then_some(*source)
    }
}

fn whole(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn is_followed(value: &[u8]) -> bool {
    value.len() >= TEXT_BYTES_MIN || value.iter().all(u8::is_ascii_digit)
}

/// Type and format of each column of a RowDescription.
fn described(body: &[u8]) -> Vec<(u32, u16)> {
    let mut found = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let Some(numbers) = rest.get(end + 1..end + 19) else {
            break;
        };
        let type_oid = u32::from_be_bytes([numbers[6], numbers[7], numbers[8], numbers[9]]);
        found.push((type_oid, u16::from_be_bytes([numbers[16], numbers[17]])));
        rest = &rest[end + 19..];
    }
    found
}

/// A field of a DataRow; none where it is null or not there.
pub fn field(row: &[u8], place: usize) -> Option<&[u8]> {
    let mut rest = row.get(2..)?;
    for at in 0.. {
        let length = i32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
        let length = usize::try_from(length);
        if at == place {
            return rest.get(4..4 + length.ok()?);
        }
        rest = rest.get(4 + length.unwrap_or(0)..)?;
    }
    None
}

/// A value as text, whatever it is written in; none where the bytes are no such value.
pub fn canonical(bytes: &[u8], form: Form) -> Option<Vec<u8>> {
    match form {
        Form::Text => Some(bytes.to_vec()),
        Form::Integer => {
            let number = match bytes.len() {
                2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
                4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
                8 => i64::from_be_bytes(bytes.try_into().ok()?),
                _ => return None,
            };
            Some(number.to_string().into_bytes())
        }
        Form::Uuid => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            (digits.len() == 32).then(|| {
                let parts = [
                    &digits[..8],
                    &digits[8..12],
                    &digits[12..16],
                    &digits[16..20],
                    &digits[20..],
                ];
                parts.join("-").into_bytes()
            })
        }
    }
}

/// A value from its text, in the form and length of the place; none where it does not fit there.
pub fn written(value: &[u8], form: Form, length: usize) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(value).ok()?;
    match form {
        Form::Text => Some(value.to_vec()),
        Form::Integer => {
            let number: i64 = text.parse().ok()?;
            match length {
                2 => Some(i16::try_from(number).ok()?.to_be_bytes().to_vec()),
                4 => Some(i32::try_from(number).ok()?.to_be_bytes().to_vec()),
                _ => Some(number.to_be_bytes().to_vec()),
            }
        }
        Form::Uuid => {
            let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
            let pairs = digits.chunks(2).map(|pair| {
                let pair = std::str::from_utf8(pair).ok()?;
                u8::from_str_radix(pair, 16).ok()
            });
            pairs
                .collect::<Option<Vec<u8>>>()
                .filter(|bytes| bytes.len() == 16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_in_each_form() {
        let uuid: Vec<u8> = (0..16).collect();
        let text = canonical(&uuid, Form::Uuid).unwrap();
        assert_eq!(text, b"00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(written(&text, Form::Uuid, 16), Some(uuid));
        for (length, bytes) in [(2, vec![0xff, 0xfe]), (4, vec![0, 0, 1, 0]), (8, vec![0; 8])] {
            let text = canonical(&bytes, Form::Integer).unwrap();
            assert_eq!(written(&text, Form::Integer, length), Some(bytes));
        }
        assert_eq!(written(b"70000", Form::Integer, 2), None);
    }

    #[test]
    fn a_field_is_found_behind_a_null() {
        let row = b"\0\x03\xff\xff\xff\xff\0\0\0\x01a\0\0\0\0";
        assert_eq!(field(row, 0), None);
        assert_eq!(field(row, 1), Some(&b"a"[..]));
        assert_eq!(field(row, 2), Some(&b""[..]));
        assert_eq!(field(row, 3), None);
        assert_eq!(field(b"\0\x01\0\0\0\x09a", 0), None);
    }

    #[test]
    fn a_parameter_is_linked_to_the_column_its_values_came_from_and_a_quantity_is_not() {
        let (mut values, mut plan) = (Values::default(), Plan::default());
        // One column, int4, as text.
        let description = b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
        let columns = values.columns(0, description, None, &mut plan);
        let mut made = Vec::new();
        for id in 1..=200 {
            let text = id.to_string();
            let row = [
                &b"\0\x01\0\0\0"[..],
                &[u8::try_from(text.len()).unwrap()],
                text.as_bytes(),
            ]
            .concat();
            values.made(columns, &row, &plan.columns, &mut made);
            let sent = [text, (1 + id % 3).to_string(), (id * 7 % 4000).to_string()];
            for (index, value) in sent.iter().enumerate() {
                let used = Used {
                    family: 1,
                    index,
                    is_parameter: true,
                    ..Used::default()
                };
                values.used(used, value.as_bytes(), &mut plan);
            }
        }
        let is_linked = values.linked();
        let linked: Vec<&Place> = plan.places.iter().filter(|place| is_linked(place)).collect();
        assert_eq!(linked.len(), 200);
        assert!(linked.iter().all(|place| place.slot == linked[0].slot));
    }
}
