//! Which command follows where a condition does not hold (CheckConditional in pgbench.c).

use crate::command::{Action, Command};

/// A condition that has no end, or a branch without a condition.
pub struct Fault {
    /// The line of the command.
    pub line: usize,
    /// Its number, from 1; one more than there are where an end is missing.
    pub number: usize,
    /// pgbench's message.
    pub message: &'static str,
}

/// A condition that is open: the commands that begin its branches.
struct Open {
    branches: Vec<usize>,
    has_else: bool,
}

/// Writes into every branch where the next one begins, and where the condition ends.
///
/// # Errors
/// The first command that stands where it must not.
pub fn link(commands: &mut [Command]) -> Result<(), Fault> {
    let mut open: Vec<Open> = Vec::new();
    for index in 0..commands.len() {
        let line = commands[index].line;
        let number = index + 1;
        let fault = |message| Fault {
            line,
            number,
            message,
        };
        match commands[index].action {
            Action::If(..) => open.push(Open {
                branches: vec![index],
                has_else: false,
            }),
            Action::Elif(..) => {
                let inner = open
                    .last_mut()
                    .ok_or_else(|| fault("\\elif without matching \\if"))?;
                if inner.has_else {
                    return Err(fault("\\elif after \\else"));
                }
                inner.branches.push(index);
            }
            Action::Else(_) => {
                let inner = open
                    .last_mut()
                    .ok_or_else(|| fault("\\else without matching \\if"))?;
                if inner.has_else {
                    return Err(fault("\\else after \\else"));
                }
                inner.has_else = true;
                inner.branches.push(index);
            }
            Action::EndIf => {
                let inner = open.pop().ok_or_else(|| fault("\\endif without matching \\if"))?;
                close(commands, &inner.branches, index);
            }
            _ => {}
        }
    }
    match open.last() {
        None => Ok(()),
        Some(left) => Err(Fault {
            line: commands[left.branches[0]].line,
            number: commands.len() + 1,
            message: "\\if without matching \\endif",
        }),
    }
}

fn close(commands: &mut [Command], branches: &[usize], end_index: usize) {
    for (place, &index) in branches.iter().enumerate() {
        let following = branches.get(place + 1).copied().unwrap_or(end_index);
        match &mut commands[index].action {
            Action::If(_, otherwise) => *otherwise = following,
            Action::Elif(_, otherwise, end) => {
                *otherwise = following;
                *end = end_index;
            }
            Action::Else(end) => *end = end_index,
            _ => {}
        }
    }
}
