//! What a transaction is made of: statements with variables, and the values they are given each time.

use std::fmt::Write;

use pgassay_protocol::requests::Argument;

/// PostgreSQL's number of the type varchar.
const VARCHAR: u32 = 1043;
/// A text's value: where it begins in the transaction's texts, and below that its length.
const PLACE_SHIFT: u32 = 32;

/// How a prepared statement is declared and its result asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// The type of every number among the parameters; 0 leaves all types to the server, as pgbench does.
    pub parameter_type: u32,
    /// 0 for text, 1 for binary.
    pub result_format: i16,
    /// Whether it is a simple query whatever the others are.
    pub is_simple: bool,
}

/// What the value of a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// A whole number.
    Integer,
    /// A text of the transaction, between quotes in a simple query. It holds none itself.
    Text,
    /// A part of the statement.
    Raw,
}

/// What an execution of a statement counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counter {
    /// It returns rows.
    Read,
    /// It changes rows, if it finds any.
    Write,
    /// Neither.
    #[default]
    Other,
}

/// Queries by what they did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Queries {
    /// They returned rows, or could have.
    pub read: u64,
    /// They changed rows.
    pub write: u64,
    /// Neither: BEGIN and COMMIT, and changes that found no row.
    pub other: u64,
}

impl Queries {
    /// Adds others.
    pub fn merge(&mut self, others: Self) {
        self.read += others.read;
        self.write += others.write;
        self.other += others.other;
    }
}

/// One statement: the text around its variables, and which variables they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The name it is prepared under.
    pub name: String,
    /// The text as written, with `:name` for variables.
    pub text: String,
    /// How it travels when it is prepared.
    pub wire: Wire,
    /// What its executions count as.
    pub counter: Counter,
    pieces: Vec<String>,
    parameters: Vec<(usize, VariableKind)>,
}

impl Statement {
    /// A statement from its text; `names` are the variables that may occur in it, in the order of its values.
    pub fn parse(number: usize, text: &str, names: &[&str], wire: Wire) -> Self {
        let integers: Vec<(&str, VariableKind)> =
            names.iter().map(|name| (*name, VariableKind::Integer)).collect();
        Self::with_kinds(number, text, &integers, wire)
    }

    /// The same with variables that are not all numbers.
    pub fn with_kinds<N: AsRef<str>>(
        number: usize,
        text: &str,
        names: &[(N, VariableKind)],
        wire: Wire,
    ) -> Self {
        let mut pieces = Vec::new();
        let mut parameters = Vec::new();
        let mut rest = text;
        while let Some(colon) = rest.find(':') {
            let after = &rest[colon + 1..];
            let end = after
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(after.len());
            let variable = names
                .iter()
                .position(|(name, _)| name.as_ref() == &after[..end])
                .expect("a built-in statement's variable");
            pieces.push(rest[..colon].to_owned());
            parameters.push((variable, names[variable].1));
            rest = &after[end..];
        }
        pieces.push(rest.to_owned());
        Self {
            name: format!("pgassay_{number}"),
            text: text.to_owned(),
            wire,
            counter: Counter::default(),
            pieces,
            parameters,
        }
    }

    /// The same statement, whose executions count as this.
    pub fn counted_as(mut self, counter: Counter) -> Self {
        self.counter = counter;
        self
    }

    /// The text to prepare: variables become $1, $2, … in the order they occur, a repeated one once more.
    pub fn prepared_text(&self) -> String {
        let mut text = self.pieces[0].clone();
        for (index, piece) in self.pieces[1..].iter().enumerate() {
            text.push_str(&format!("${}{piece}", index + 1));
        }
        text
    }

    /// The values of the parameters, in the order of `prepared_text`.
    #[inline]
    pub fn arguments<'a>(
        &'a self,
        values: &'a [i64],
        texts: &'a str,
    ) -> impl ExactSizeIterator<Item = Argument<'a>> + 'a {
        self.parameters.iter().map(move |&(variable, kind)| match kind {
            VariableKind::Integer => Argument::Integer(values[variable]),
            VariableKind::Text | VariableKind::Raw => Argument::Text(text_at(values[variable], texts)),
        })
    }

    /// The type of each parameter, where they are declared at all.
    pub fn parameter_types(&self) -> impl Iterator<Item = u32> + '_ {
        let integer = self.wire.parameter_type;
        let declared = if integer == 0 { 0 } else { self.parameters.len() };
        self.parameters[..declared]
            .iter()
            .map(move |(_, kind)| match kind {
                VariableKind::Integer => integer,
                VariableKind::Text | VariableKind::Raw => VARCHAR,
            })
    }

    /// Writes the text with the values in place.
    pub fn interpolate(&self, values: &[i64], texts: &str, text: &mut String) {
        text.clear();
        text.push_str(&self.pieces[0]);
        for (&(variable, kind), piece) in self.parameters.iter().zip(&self.pieces[1..]) {
            let value = values[variable];
            // Writing to a String can't fail.
            let _ = match kind {
                VariableKind::Integer => write!(text, "{value}"),
                VariableKind::Text => write!(text, "'{}'", text_at(value, texts)),
                VariableKind::Raw => text.write_str(text_at(value, texts)),
            };
            text.push_str(piece);
        }
    }
}

/// The text that a value stands for.
#[inline]
#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // As `Transaction::text` made it.
fn text_at(value: i64, texts: &str) -> &str {
    let begin = (value >> PLACE_SHIFT) as usize;
    let length = (value & i64::from(u32::MAX)) as usize;
    &texts[begin..begin + length]
}

/// One transaction as drawn: its statements in the order they are sent, each with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    values: Vec<i64>,
    /// The texts that values stand for, one after the other.
    texts: String,
    /// The number of a statement, and where its values begin.
    steps: Vec<(usize, usize)>,
}

impl Transaction {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.values.clear();
        self.texts.clear();
        self.steps.clear();
    }

    /// Keeps a text that `write` appends, and gives the value that stands for it.
    #[inline]
    #[allow(clippy::cast_possible_wrap)] // Below a gigabyte.
    pub fn text(&mut self, write: impl FnOnce(&mut String)) -> i64 {
        let begin = self.texts.len();
        write(&mut self.texts);
        ((begin as i64) << PLACE_SHIFT) | (self.texts.len() - begin) as i64
    }

    /// All texts.
    #[inline]
    pub fn texts(&self) -> &str {
        &self.texts
    }

    /// Appends a statement with as many values of its own as there are.
    #[inline]
    pub fn push_all(&mut self, statement: usize, values: impl Iterator<Item = i64>) {
        self.steps.push((statement, self.values.len()));
        self.values.extend(values);
    }

    /// Appends a statement with values of its own.
    #[inline]
    pub fn push(&mut self, statement: usize, values: &[i64]) {
        self.steps.push((statement, self.values.len()));
        self.values.extend_from_slice(values);
    }

    /// Becomes statements 0 to `statements` − 1 in their order, all on one set of values.
    #[inline]
    pub fn set_all(&mut self, statements: usize, values: impl Iterator<Item = i64>) {
        self.clear();
        self.values.extend(values);
        self.steps.extend((0..statements).map(|statement| (statement, 0)));
    }

    /// How many statements it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The number of the statement at a place, and the values it is given.
    #[inline]
    pub fn step(&self, place: usize) -> (usize, &[i64]) {
        let (statement, first_value) = self.steps[place];
        (statement, &self.values[first_value..])
    }
}
