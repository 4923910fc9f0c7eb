//! The commands of a script: what each does, and where it stands.

use crate::expression::Expression;
use crate::query::Query;

/// One word of a backslash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// As it stands.
    Text(String),
    /// The text of a variable, by its place.
    Variable(usize),
}

/// Where the rows of an SQL command go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// What stands before a column's name in the variable's.
    pub prefix: String,
    /// `\aset`: every query of the command, and none needs a row; `\gset`: one row of the last query.
    pub takes_all: bool,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends SQL.
    Sql(Query, Option<Capture>),
    /// Gives a variable a value.
    Set(usize, Expression),
    /// Gives a variable the number that a shell command prints.
    SetShell(usize, Vec<Word>),
    /// Runs a shell command.
    Shell(Vec<Word>),
    /// Waits: an amount, and how many microseconds one is.
    Sleep(Word, i64),
    /// Goes on behind it where the condition holds, else at a command that is the next branch or the end.
    If(Expression, usize),
    /// The same, reached from a branch that was not taken; `end` is where a taken branch before it goes on.
    Elif(Expression, usize, usize),
    /// The last branch; a taken one before it goes on at its end.
    Else(usize),
    /// Nothing.
    EndIf,
    /// From here on SQL commands are queued.
    StartPipeline,
    /// Asks for answers so far, and goes on.
    SyncPipeline,
    /// Waits for all answers.
    EndPipeline,
}

/// One command and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The line, from 1.
    pub line: usize,
    /// Its first line, for messages.
    pub text: String,
    /// What it does.
    pub action: Action,
}
