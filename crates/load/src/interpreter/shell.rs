//! Shell commands of scripts. The thread waits for them, as pgbench's does.

use std::process::{Command, Stdio};

/// Runs a command.
///
/// # Errors
/// A sentence, where it can't be run or fails.
pub fn run(command: &str) -> Result<(), String> {
    // Standard output is the record's.
    let status = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("command {command:?} failed ({status})")),
        Err(error) => Err(format!("could not launch shell command: {error}")),
    }
}

/// Runs a command and reads the integer that it prints.
///
/// # Errors
/// A sentence, where it can't be run, fails or prints something else.
pub fn integer(command: &str) -> Result<i64, String> {
    let output = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("could not launch shell command: {error}"))?;
    if !output.status.success() {
        return Err(format!("command {command:?} failed ({})", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or("").trim();
    line.parse()
        .map_err(|_| format!("shell command must return an integer (not {line:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_and_its_number_read() {
        assert_eq!(integer("echo 42"), Ok(42));
        assert!(integer("echo x").unwrap_err().contains("must return an integer"));
        assert!(integer("exit 3").is_err());
        assert_eq!(run("true"), Ok(()));
        assert!(run("false").is_err());
    }
}
