//! A script: its commands with their branches.

use crate::command::{Action, Command};
use crate::conditional::link;
use crate::query::{PARAMETERS_MAX, too_many_arguments};
use crate::reader::{ScriptError, commands as read_commands};
use crate::variables::Names;

/// A script that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What it is called in messages.
    pub name: String,
    /// Its commands.
    pub commands: Vec<Command>,
}

impl Program {
    /// Reads a script; variables get their places in `names`.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn parse(name: &str, text: &str, names: &mut Names) -> Result<Self, ScriptError> {
        let mut commands = read_commands(name, text, names)?;
        link(&mut commands).map_err(|fault| ScriptError {
            script: name.to_owned(),
            line: fault.line,
            column: None,
            command: None,
            shown: None,
            number: Some(fault.number),
            message: format!("condition error in script: {}", fault.message),
        })?;
        Ok(Self {
            name: name.to_owned(),
            commands,
        })
    }

    /// Whether all SQL commands have no more variables than can travel apart from their text.
    ///
    /// # Errors
    /// pgbench's message of the first that has.
    pub fn check_parameters(&self) -> Result<(), ScriptError> {
        for command in &self.commands {
            if let Action::Sql(query, _) = &command.action {
                if query.places.len() > PARAMETERS_MAX {
                    return Err(ScriptError {
                        script: self.name.clone(),
                        line: command.line,
                        column: None,
                        command: None,
                        shown: None,
                        number: None,
                        message: too_many_arguments(query),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether any command keeps rows.
    pub fn captures(&self) -> bool {
        let is_capture = |command: &Command| matches!(command.action, Action::Sql(_, Some(_)));
        self.commands.iter().any(is_capture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    fn parsed(text: &str) -> Result<Program, ScriptError> {
        Program::parse("a.sql", text, &mut Names::default())
    }

    fn refused(text: &str) -> String {
        parsed(text).unwrap_err().to_string()
    }

    #[test]
    fn a_script_is_read_command_by_command() {
        let text = "-- a comment\n\\set aid random(1, \\\n  10)\nBEGIN;\nSELECT abalance\n  FROM t WHERE aid = :aid;\n\
                    SELECT 1 AS one \\gset p_\n\\sleep 10 ms\n\\sleep :aid us\n\\if :aid > 5\nSELECT 2;\n\\else\n\
                    SELECT 3\\; SELECT 4;\n\\endif\nEND";
        let program = parsed(text).unwrap();
        let lines: Vec<usize> = program.commands.iter().map(|command| command.line).collect();
        assert_eq!(lines, [2, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let Action::Sql(query, Some(capture)) = &program.commands[3].action else {
            panic!("a captured query")
        };
        assert_eq!(
            (query.text.as_str(), capture.prefix.as_str()),
            ("SELECT 1 AS one", "p_")
        );
        assert!(matches!(
            program.commands[4].action,
            Action::Sleep(Word::Text(_), 1_000)
        ));
        assert!(matches!(program.commands[6].action, Action::If(_, 8)));
        assert!(matches!(program.commands[8].action, Action::Else(10)));
        assert!(program.captures());
    }

    #[test]
    fn a_fault_is_named_with_its_place() {
        for (text, message) in [
            ("\\set\n", "a.sql:1: missing argument in command \"set\""),
            (
                "SELECT 1;\n\\set a 1 +\n",
                "a.sql:2: syntax error at column 11 in command \"set\"",
            ),
            (
                "\\set a foo(1)",
                "a.sql:1: unexpected function name (foo) at column 8 in command \"set\"",
            ),
            (
                "\\set 1a 2",
                "a.sql:1: invalid variable name (1a) at column 6 in command \"set\"",
            ),
            (
                "\\sleep 1 week",
                "a.sql:1: unrecognized time unit, must be us, ms or s (week) at column 10 in command \"sleep\"",
            ),
            (
                "\\frobnicate",
                "a.sql:1: invalid command in command \"frobnicate\"",
            ),
            (
                "\\gset",
                "a.sql:1: \\gset must follow an SQL command in command \"gset\"",
            ),
            (
                "\\if true\nSELECT 1;",
                "a.sql:1: condition error in script: \\if without matching \\endif",
            ),
            (
                "\\else",
                "a.sql:1: condition error in script: \\else without matching \\if",
            ),
            (
                "\\if 1\n\\else\n\\elif 2\n\\endif",
                "a.sql:3: condition error in script: \\elif after \\else",
            ),
            (
                "\\else 1",
                "a.sql:1: unexpected argument at column 7 in command \"else\"",
            ),
        ] {
            assert_eq!(refused(text), message, "{text}");
        }
    }

    #[test]
    fn a_thousand_conditions_nest() {
        let depth = 1000;
        let text = format!(
            "{}SELECT 1;\n{}",
            "\\if true\n".repeat(depth),
            "\\endif\n".repeat(depth)
        );
        assert_eq!(parsed(&text).unwrap().commands.len(), 2 * depth + 1);
    }
}
