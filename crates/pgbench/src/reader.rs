//! Reads the commands of a script from its text (ParseScript and process_backslash_command in pgbench.c).

use std::cell::Cell;
use std::fmt;

use crate::command::{Action, Capture, Command, Word};
use crate::expression::{Expression, parse as parse_expression};
use crate::query::Query;
use crate::sql_scanner::{End, scan};
use crate::variables::{Names, is_name};

/// A backslash command in which there is a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyCommand {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// Its whole text.
    pub text: String,
    /// The character of it that pgbench marks, from 0; None where the whole command is meant.
    pub mark: Option<usize>,
}

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The script's name.
    pub script: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1; None where the whole command is meant.
    pub column: Option<usize>,
    /// The backslash command, without the backslash; None for SQL.
    pub command: Option<String>,
    /// That command as pgbench shows it.
    pub shown: Option<Box<FaultyCommand>>,
    /// The number of the command, from 1, where conditions don't fit together.
    pub number: Option<usize>,
    /// pgbench's message, with what it is about in parentheses.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.script, self.line, self.message)?;
        if let Some(column) = self.column {
            write!(formatter, " at column {column}")?;
        }
        if let Some(command) = &self.command {
            write!(formatter, " in command \"{command}\"")?;
        }
        Ok(())
    }
}

/// The commands of a script; variables get their places in `names`.
///
/// # Errors
/// The first fault, with its place.
pub fn commands(script: &str, text: &str, names: &mut Names) -> Result<Vec<Command>, ScriptError> {
    let mut reader = Reader {
        script,
        text,
        at: 0,
        names,
        commands: Vec::new(),
        counted: Cell::new((0, 1)),
        backslash: (0, 0),
    };
    reader.read()?;
    Ok(reader.commands)
}

struct Reader<'a> {
    script: &'a str,
    text: &'a str,
    at: usize,
    names: &'a mut Names,
    commands: Vec<Command>,
    /// An offset whose line is known, and that line: of a long script lines are counted once.
    counted: Cell<(usize, usize)>,
    /// Where the backslash command that is read begins and ends.
    backslash: (usize, usize),
}

/// A backslash command: its words with their offsets in the script.
struct Line<'a> {
    words: Vec<(usize, &'a str)>,
    end: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<(), ScriptError> {
        loop {
            let from = self.at;
            let scanned = scan(&self.text[from..]);
            self.at += scanned.length;
            self.sql(from, &scanned.sql)?;
            match scanned.end {
                End::Semicolon => {}
                End::Backslash => self.backslash()?,
                End::Text => return Ok(()),
            }
        }
    }

    fn sql(&mut self, from: usize, sql: &str) -> Result<(), ScriptError> {
        let begins = sql.len() - without_comments(sql).len();
        let text = sql[begins..].trim_end();
        if text.is_empty() {
            return Ok(());
        }
        let query = Query::parse(text, self.names);
        self.push(from + begins, text, Action::Sql(query, None));
        Ok(())
    }

    fn push(&mut self, offset: usize, text: &str, action: Action) {
        self.commands.push(Command {
            line: self.line_of(offset),
            text: text.lines().next().unwrap_or("").to_owned(),
            action,
        });
    }

    fn line_of(&self, offset: usize) -> usize {
        let (mut from, mut line) = self.counted.get();
        if offset < from {
            (from, line) = (0, 1);
        }
        line += self.text[from..offset].matches('\n').count();
        self.counted.set((offset, line));
        line
    }

    fn error(&self, offset: usize, command: Option<&str>, message: &str, has_column: bool) -> ScriptError {
        let line_from = self.text[..offset].rfind('\n').map_or(0, |place| place + 1);
        ScriptError {
            script: self.script.to_owned(),
            line: self.line_of(offset),
            column: has_column.then(|| self.text[line_from..offset].chars().count() + 1),
            command: command.map(str::to_owned),
            shown: command.map(|_| self.shown(has_column.then_some(offset))),
            number: None,
            message: message.to_owned(),
        }
    }

    fn shown(&self, marked: Option<usize>) -> Box<FaultyCommand> {
        let (begins, end) = self.backslash;
        Box::new(FaultyCommand {
            line: self.line_of(begins),
            text: self.text[begins..end].trim_end().to_owned(),
            mark: marked.map(|offset| self.text[begins..offset].chars().count()),
        })
    }

    /// The words up to the end of the line; a backslash before the line's end lets it go on.
    fn line(&self, from: usize) -> Line<'a> {
        let text: &'a str = self.text;
        let bytes = text.as_bytes();
        let (mut words, mut at) = (Vec::new(), from);
        while at < bytes.len() && bytes[at] != b'\n' {
            if let Some(length) = continuation(&bytes[at..]) {
                at += length;
            } else if bytes[at].is_ascii_whitespace() {
                at += 1;
            } else {
                let begins = at;
                while at < bytes.len()
                    && !bytes[at].is_ascii_whitespace()
                    && continuation(&bytes[at..]).is_none()
                {
                    at += 1;
                }
                words.push((begins, &text[begins..at]));
            }
        }
        Line { words, end: at }
    }

    fn backslash(&mut self) -> Result<(), ScriptError> {
        let begins = self.at;
        let line = self.line(begins + 1);
        self.at = line.end;
        let first = line.words.first().copied().filter(|&(at, _)| at == begins + 1);
        let name = first.map_or("", |(_, word)| word).to_ascii_lowercase();
        let arguments = line.words.get(1..).unwrap_or_default();
        let end = line.end;
        self.backslash = (begins, end);
        let whole = |message: &str| self.error(begins, Some(&name), message, false);
        let action = match name.as_str() {
            "set" => {
                let Some(&(at, variable)) = arguments.first() else {
                    return Err(whole("missing argument"));
                };
                if !is_name(variable) {
                    return Err(self.error(
                        at,
                        Some("set"),
                        &format!("invalid variable name ({variable})"),
                        true,
                    ));
                }
                let place = self.names.place(variable);
                Action::Set(place, self.expression("set", at + variable.len(), end)?)
            }
            "if" | "elif" => {
                let condition = self.expression(&name, begins + 1 + name.len(), end)?;
                if name == "if" {
                    Action::If(condition, 0)
                } else {
                    Action::Elif(condition, 0, 0)
                }
            }
            "else" | "endif" | "startpipeline" | "syncpipeline" | "endpipeline" => {
                if let Some(&(at, _)) = arguments.first() {
                    return Err(self.error(at, Some(&name), "unexpected argument", true));
                }
                match name.as_str() {
                    "else" => Action::Else(0),
                    "endif" => Action::EndIf,
                    "startpipeline" => Action::StartPipeline,
                    "syncpipeline" => Action::SyncPipeline,
                    _ => Action::EndPipeline,
                }
            }
            "sleep" => self.sleep(begins, arguments)?,
            "setshell" => {
                let [(at, variable), command @ ..] = arguments else {
                    return Err(whole("missing argument"));
                };
                if command.is_empty() {
                    return Err(whole("missing argument"));
                }
                if !is_name(variable) {
                    let message = format!("invalid variable name ({variable})");
                    return Err(self.error(*at, Some("setshell"), &message, true));
                }
                let place = self.names.place(variable);
                Action::SetShell(place, self.shell_words(command))
            }
            "shell" => {
                if arguments.is_empty() {
                    return Err(whole("missing command"));
                }
                Action::Shell(self.shell_words(arguments))
            }
            "gset" | "aset" => return self.capture(begins, &name, arguments),
            _ => return Err(whole("invalid command")),
        };
        let text = self.text[begins..end].trim_end().to_owned();
        self.push(begins, &text, action);
        Ok(())
    }

    fn expression(&mut self, command: &str, from: usize, end: usize) -> Result<Expression, ScriptError> {
        parse_expression(&self.text[from..end], self.names).map_err(|fault| {
            let about = if fault.about.is_empty() {
                String::new()
            } else {
                format!(" ({})", fault.about)
            };
            let message = format!("{}{about}", fault.message);
            ScriptError {
                // As pgbench, which has read to the end of what it complains of.
                shown: Some(self.shown(Some(before(self.text, from + fault.end)))),
                ..self.error(from + fault.offset, Some(command), &message, true)
            }
        })
    }

    fn sleep(&mut self, begins: usize, arguments: &[(usize, &str)]) -> Result<Action, ScriptError> {
        let [(at, amount), rest @ ..] = arguments else {
            return Err(self.error(begins, Some("sleep"), "missing argument", false));
        };
        let (at, mut amount) = (*at, *amount);
        let unit = if let [(unit_at, unit), further @ ..] = rest {
            if let Some(&(at, _)) = further.first() {
                return Err(self.error(at, Some("sleep"), "too many arguments", true));
            }
            Some((*unit_at, *unit))
        } else if amount.starts_with(':') {
            None
        } else {
            // A unit may stick to its number.
            let digits = amount
                .find(|c: char| !(c.is_ascii_digit() || c == '-' || c == '+'))
                .unwrap_or(amount.len());
            let unit = &amount[digits..];
            amount = &amount[..digits];
            (!unit.is_empty()).then_some((at + digits, unit))
        };
        let unit_us = match unit {
            None => 1_000_000,
            Some((_, unit)) if unit.eq_ignore_ascii_case("us") => 1,
            Some((_, unit)) if unit.eq_ignore_ascii_case("ms") => 1_000,
            Some((_, unit)) if unit.eq_ignore_ascii_case("s") => 1_000_000,
            Some((at, unit)) => {
                let message = format!("unrecognized time unit, must be us, ms or s ({unit})");
                return Err(self.error(at, Some("sleep"), &message, true));
            }
        };
        let word = match amount.strip_prefix(':') {
            Some(name) if is_name(name) => Word::Variable(self.names.place(name)),
            _ => Word::Text(amount.to_owned()),
        };
        Ok(Action::Sleep(word, unit_us))
    }

    fn shell_words(&mut self, words: &[(usize, &str)]) -> Vec<Word> {
        let word = |&(_, word): &(usize, &str)| match word.strip_prefix(':') {
            // Two colons stand for one.
            Some(rest) if rest.starts_with(':') => Word::Text(rest.to_owned()),
            Some(name) if is_name(name) => Word::Variable(self.names.place(name)),
            _ => Word::Text(word.to_owned()),
        };
        words.iter().map(word).collect()
    }

    fn capture(&mut self, begins: usize, name: &str, arguments: &[(usize, &str)]) -> Result<(), ScriptError> {
        if let Some(&(at, _)) = arguments.get(1) {
            return Err(self.error(at, Some(name), "too many arguments", true));
        }
        let prefix = arguments.first().map_or("", |&(_, prefix)| prefix).to_owned();
        let must_follow = format!("\\{name} must follow an SQL command");
        let fault = self.error(begins, Some(name), &must_follow, false);
        match self.commands.last_mut().map(|command| &mut command.action) {
            Some(Action::Sql(_, capture @ None)) => {
                let takes_all = name == "aset";
                *capture = Some(Capture { prefix, takes_all });
                Ok(())
            }
            _ => Err(fault),
        }
    }
}

/// The length of a backslash that lets a line go on, with the end of the line.
fn continuation(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\\', b'\n', ..] => Some(2),
        [b'\\', b'\r', b'\n', ..] => Some(3),
        _ => None,
    }
}

/// Where the character before an offset begins.
fn before(text: &str, offset: usize) -> usize {
    let head = text.get(..offset).unwrap_or(text);
    head.char_indices().next_back().map_or(0, |(at, _)| at)
}

/// What follows white space and comments of one line at the beginning of a text (skip_sql_comments).
fn without_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if !text.starts_with("--") {
            return text;
        }
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
}
