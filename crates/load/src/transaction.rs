//! What a transaction is made of: statements with variables, and the values they are given each time.

use std::fmt::Write;

/// How a prepared statement is declared and its result asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// The type of every parameter; 0 leaves it to the server, as pgbench does.
    pub parameter_type: u32,
    /// 0 for text, 1 for binary.
    pub result_format: i16,
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
    pieces: Vec<String>,
    parameters: Vec<usize>,
}

impl Statement {
    /// A statement from its text; `names` are the variables that may occur in it, in the order of its values.
    pub fn parse(number: usize, text: &str, names: &[&str], wire: Wire) -> Self {
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
                .position(|name| *name == &after[..end])
                .expect("a built-in statement's variable");
            pieces.push(rest[..colon].to_owned());
            parameters.push(variable);
            rest = &after[end..];
        }
        pieces.push(rest.to_owned());
        Self {
            name: format!("pgassay_{number}"),
            text: text.to_owned(),
            wire,
            pieces,
            parameters,
        }
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
    pub fn arguments<'a>(&'a self, values: &'a [i64]) -> impl Iterator<Item = i64> + 'a {
        self.parameters.iter().map(|&variable| values[variable])
    }

    /// The type of each parameter, where they are declared at all.
    pub fn parameter_types(&self) -> impl Iterator<Item = u32> + '_ {
        let declared = if self.wire.parameter_type == 0 {
            0
        } else {
            self.parameters.len()
        };
        std::iter::repeat_n(self.wire.parameter_type, declared)
    }

    /// Writes the text with the values in place.
    pub fn interpolate(&self, values: &[i64], text: &mut String) {
        text.clear();
        text.push_str(&self.pieces[0]);
        for (&variable, piece) in self.parameters.iter().zip(&self.pieces[1..]) {
            // Writing to a String can't fail.
            let _ = write!(text, "{}", values[variable]);
            text.push_str(piece);
        }
    }
}

/// One transaction as drawn: its statements in the order they are sent, each with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    values: Vec<i64>,
    /// The number of a statement, and where its values begin.
    steps: Vec<(usize, usize)>,
}

impl Transaction {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.values.clear();
        self.steps.clear();
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
