//! An SQL command of a script: its text, and where variables stand in it.

use crate::variables::{Names, Variables, is_first, is_further};

/// The most variables in one command: pgbench's MAX_ARGS without the text itself.
pub const PARAMETERS_MAX: usize = 255;

/// What pgbench says of a command with more variables.
pub fn too_many_arguments(query: &Query) -> String {
    format!(
        "statement has too many arguments (maximum is {PARAMETERS_MAX}): {}",
        query.text
    )
}

/// An SQL command with its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The text as it was written.
    pub text: String,
    pieces: Vec<String>,
    /// The places of its variables, in the order in which they stand in the text.
    pub places: Vec<usize>,
}

impl Query {
    /// Finds the variables of a text. As in pgbench quotes don't count: `':name'` is replaced as well.
    pub fn parse(text: &str, names: &mut Names) -> Self {
        let bytes = text.as_bytes();
        let (mut pieces, mut places) = (Vec::new(), Vec::new());
        let (mut piece_from, mut at) = (0, 0);
        while let Some(found) = text[at..].find(':') {
            let colon = at + found;
            let is_variable = bytes.get(colon + 1).is_some_and(|&byte| is_first(byte));
            if !is_variable {
                // Of several colons none begins a variable: the casts of SQL.
                at = colon + bytes[colon..].iter().take_while(|&&byte| byte == b':').count();
                continue;
            }
            let length = bytes[colon + 1..]
                .iter()
                .take_while(|&&byte| is_further(byte))
                .count();
            let end = colon + 1 + length;
            pieces.push(text[piece_from..colon].to_owned());
            places.push(names.place(&text[colon + 1..end]));
            (piece_from, at) = (end, end);
        }
        pieces.push(text[piece_from..].to_owned());
        Self {
            text: text.to_owned(),
            pieces,
            places,
        }
    }

    /// The text to prepare: variables are $1, $2, … in their order, a repeated one once more.
    pub fn prepared_text(&self) -> String {
        let mut text = self.pieces[0].clone();
        for (index, piece) in self.pieces[1..].iter().enumerate() {
            text.push_str(&format!("${}{piece}", index + 1));
        }
        text
    }

    /// Writes the text with the values in place; an undefined variable stays as it is written.
    pub fn interpolate(&self, variables: &Variables, names: &Names, text: &mut String) {
        text.clear();
        text.push_str(&self.pieces[0]);
        for (&place, piece) in self.places.iter().zip(&self.pieces[1..]) {
            if !variables.write(place, text) {
                text.push(':');
                text.push_str(names.name(place));
            }
            text.push_str(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn variables_are_found_and_casts_are_not() {
        let mut names = Names::default();
        let query = Query::parse("SELECT :a::int, ':b', :a, '12:30', x:::c", &mut names);
        assert_eq!(query.prepared_text(), "SELECT $1::int, '$2', $3, '12:30', x:::c");
        let mut variables = Variables::new(names.len());
        variables.set(names.place("a"), Value::Integer(-4));
        let mut text = String::new();
        query.interpolate(&variables, &names, &mut text);
        assert_eq!(text, "SELECT -4::int, ':b', -4, '12:30', x:::c");
    }
}
