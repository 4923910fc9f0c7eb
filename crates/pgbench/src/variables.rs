//! The variables of a client: values from expressions, or texts from the command line and from rows.

use std::collections::HashMap;

use crate::value::Value;

/// The names of all variables of a load, each with its place.
#[derive(Clone, Debug, Default)]
pub struct Names {
    places: HashMap<String, usize>,
    names: Vec<String>,
}

impl Names {
    /// The place of a name, which is new or known.
    pub fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.names.len();
        self.places.insert(name.to_owned(), place);
        self.names.push(name.to_owned());
        place
    }

    /// The place of a name that is known already.
    pub fn known(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The name at a place.
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Whether a text can be a variable's name: letters, digits, underscores and any byte above 127, no digit first.
pub fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(is_first) && text.bytes().all(is_further)
}

/// Whether a name can begin with this byte.
pub fn is_first(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Whether this byte can follow in a name.
pub fn is_further(byte: u8) -> bool {
    is_first(byte) || byte.is_ascii_digit()
}

#[derive(Clone, Debug, Default)]
enum Slot {
    #[default]
    Undefined,
    Value(Value),
    Text(String),
}

/// What the variables of one client are now, by their places.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    slots: Vec<Slot>,
}

impl Variables {
    /// None defined, of so many.
    pub fn new(count: usize) -> Self {
        Self {
            slots: vec![Slot::Undefined; count],
        }
    }

    /// Gives a variable a value.
    #[inline]
    pub fn set(&mut self, place: usize, value: Value) {
        *self.slot(place) = Slot::Value(value);
    }

    /// Gives a variable a text, whose type is found when it is used.
    pub fn set_text(&mut self, place: usize, text: String) {
        *self.slot(place) = Slot::Text(text);
    }

    fn slot(&mut self, place: usize) -> &mut Slot {
        if place >= self.slots.len() {
            self.slots.resize(place + 1, Slot::Undefined);
        }
        &mut self.slots[place]
    }

    /// Whether a variable has a value or a text.
    pub fn is_defined(&self, place: usize) -> bool {
        !matches!(self.slots.get(place), None | Some(Slot::Undefined))
    }

    /// A variable's value in an expression.
    ///
    /// # Errors
    /// pgbench's message, for one that is undefined or whose text has no value.
    #[inline]
    pub fn value(&self, place: usize, names: &Names) -> Result<Value, String> {
        match self.slots.get(place) {
            Some(Slot::Value(value)) => Ok(*value),
            Some(Slot::Text(text)) => Value::of_text(text)
                .ok_or_else(|| format!("malformed variable \"{}\" value: \"{text}\"", names.name(place))),
            _ => Err(format!("undefined variable \"{}\"", names.name(place))),
        }
    }

    /// Appends a variable's text; false, and nothing is appended, where it is undefined.
    #[inline]
    pub fn write(&self, place: usize, text: &mut String) -> bool {
        match self.slots.get(place) {
            Some(Slot::Value(value)) => value.write(text),
            Some(Slot::Text(found)) => text.push_str(found),
            _ => return false,
        }
        true
    }
}
