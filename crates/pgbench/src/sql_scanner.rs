//! Where an SQL command of a script ends: at a semicolon outside of quotes, comments and parentheses, or before a
//! backslash command (src/fe_utils/psqlscan.l, with standard_conforming_strings on).

/// What a scan of SQL text ended at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A semicolon, which belongs to the command.
    Semicolon,
    /// A backslash command begins.
    Backslash,
    /// The end of the text.
    Text,
}

/// An SQL command as it is sent, how long its text is in the script, and what ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The command; `\;` has become a semicolon.
    pub sql: String,
    /// The bytes that were taken, the semicolon among them and the backslash not.
    pub length: usize,
    /// What ended it.
    pub end: End,
}

/// Scans one SQL command at the beginning of a text.
pub fn scan(text: &str) -> Scanned {
    let mut scanner = Scanner {
        text,
        at: 0,
        sql: String::new(),
        parentheses: 0,
        blocks: 0,
        words: Vec::new(),
    };
    let end = scanner.run();
    Scanned {
        sql: scanner.sql,
        length: scanner.at,
        end,
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    sql: String,
    parentheses: usize,
    /// How many BEGIN … END of a function's body are open.
    blocks: usize,
    /// The first words of the command, as far as they can begin a function.
    words: Vec<String>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self, length: usize) {
        let until = (self.at + length).min(self.text.len());
        self.sql.push_str(&self.text[self.at..until]);
        self.at = until;
    }

    fn run(&mut self) -> End {
        while let Some(first) = self.rest().chars().next() {
            let rest = self.rest();
            let bytes = rest.as_bytes();
            if rest.starts_with("--") {
                let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
                self.take(length);
            } else if rest.starts_with("/*") {
                self.take(comment_length(rest));
            } else if first == '\'' {
                self.take(quoted_length(rest, '\'', false));
            } else if first == '"' {
                self.take(quoted_length(rest, '"', false));
            } else if first == '$' {
                let length = dollar_quoted_length(rest).unwrap_or(1);
                self.take(length);
            } else if first == '\\' {
                let escaped = bytes.get(1).copied();
                if matches!(escaped, Some(b';' | b':')) {
                    self.at += 1;
                    if escaped == Some(b';') {
                        self.words.clear();
                    }
                    self.take(1);
                } else {
                    return End::Backslash;
                }
            } else if first == ';' {
                self.take(1);
                if self.parentheses == 0 && self.blocks == 0 {
                    return End::Semicolon;
                }
            } else if first == '(' {
                self.parentheses += 1;
                self.take(1);
            } else if first == ')' {
                self.parentheses = self.parentheses.saturating_sub(1);
                self.take(1);
            } else if first.is_alphabetic() || first == '_' {
                self.word();
            } else if first.is_ascii_digit() {
                // A number, with what sticks to it: 1e5 is no identifier.
                let length = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len());
                self.take(length);
            } else {
                self.take(first.len_utf8());
            }
        }
        End::Text
    }

    fn word(&mut self) {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
            .unwrap_or(rest.len());
        let word = rest[..length].to_ascii_lowercase();
        // E'…' has backslashes as escapes.
        if word == "e" && rest[length..].starts_with('\'') {
            let quoted = quoted_length(&rest[length..], '\'', true);
            self.take(length + quoted);
            return;
        }
        if self.words.len() < 4 {
            self.words.push(word.clone());
        }
        if self.parentheses == 0 && self.makes_function() {
            match word.as_str() {
                "begin" => self.blocks += 1,
                "case" if self.blocks > 0 => self.blocks += 1,
                "end" => self.blocks = self.blocks.saturating_sub(1),
                _ => {}
            }
        }
        self.take(length);
    }

    fn makes_function(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        matches!(
            words.as_slice(),
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure", ..]
        )
    }
}

fn comment_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted_length(text: &str, quote: char, escapes: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote as u8 {
            // A doubled quote is one quote, and ends nothing; seen as two texts it comes to the same.
            return at + 1;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The length of `$tag$ … $tag$` at the beginning; None where no tag stands there.
fn dollar_quoted_length(text: &str) -> Option<usize> {
    let inner = text[1..].find('$')?;
    let tag = &text[1..=inner];
    let is_tag = tag.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !tag.starts_with(|c: char| c.is_ascii_digit());
    if !is_tag {
        return None;
    }
    let delimiter = &text[..inner + 2];
    let after = inner + 2;
    let end = text[after..].find(delimiter);
    Some(end.map_or(text.len(), |place| after + place + delimiter.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(mut text: &str) -> Vec<(String, End)> {
        let mut found = Vec::new();
        loop {
            let scanned = scan(text);
            text = &text[scanned.length..];
            let end = scanned.end;
            found.push((scanned.sql, end));
            if end != End::Semicolon {
                return found;
            }
        }
    }

    #[test]
    fn a_semicolon_ends_a_command_outside_of_quotes_alone() {
        for whole in [
            "SELECT ';' ;",
            "SELECT \";\" ;",
            "SELECT $$;$$ ;",
            "SELECT $a$ ; $$ ; $a$ ;",
            "SELECT E'\\';' ;",
            "SELECT 1 -- ;\n ;",
            "SELECT /* ; /* ; */ ; */ 1 ;",
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2) ;",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END ;",
        ] {
            let (sql, end) = commands(whole).remove(0);
            assert_eq!((sql.as_str(), end), (whole, End::Semicolon));
        }
    }

    #[test]
    fn an_escaped_semicolon_joins_and_a_backslash_ends() {
        assert_eq!(
            commands("SELECT 1\\; SELECT 2;\\set a 1"),
            [
                ("SELECT 1; SELECT 2;".to_owned(), End::Semicolon),
                (String::new(), End::Backslash)
            ]
        );
        let scanned = scan("SELECT 1 \\gset");
        assert_eq!((scanned.sql.as_str(), scanned.end), ("SELECT 1 ", End::Backslash));
    }
}
