//! `scripts`: reads scripts of pgbench's language without running them, and tells what they send.

use pgassay_load::ScriptSpec;
use pgassay_pgbench::command::Action;
use pgassay_pgbench::script::Program;
use pgassay_pgbench::variables::Names;
use pgassay_protocol::Failure;
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_USAGE, fail, read_document, write_line};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    scripts: Vec<ScriptSpec>,
}

/// Runs the command and gives its exit status.
pub fn scripts() -> i32 {
    match read_document::<Question>().and_then(|question| read(&question.scripts)) {
        Ok(answer) => {
            write_line(&answer);
            0
        }
        Err(failure) => fail(&failure, EXIT_USAGE),
    }
}

fn read(scripts: &[ScriptSpec]) -> Result<serde_json::Value, Failure> {
    let mut names = Names::default();
    let mut statements = Vec::new();
    let mut has_pipeline = false;
    for script in scripts {
        let program = Program::parse(&script.name, &script.text, &mut names)
            .map_err(|fault| Failure::client(fault.to_string()))?;
        if program.commands.is_empty() {
            return Err(Failure::client(format!(
                "{}: the script has no command",
                script.name
            )));
        }
        for command in &program.commands {
            has_pipeline |= command.action == Action::StartPipeline;
            if let Action::Sql(query, _) = &command.action {
                statements.push(json!({ "script": script.name, "line": command.line, "sql": query.text }));
            }
        }
    }
    let variables: Vec<&str> = (0..names.len()).map(|place| names.name(place)).collect();
    Ok(json!({ "statements": statements, "variables": variables, "has_pipeline": has_pipeline }))
}
