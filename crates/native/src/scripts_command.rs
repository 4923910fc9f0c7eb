//! `scripts`: reads scripts of pgbench's language without running them, and tells what they send.

use pgassay_load::{QueryProtocol, ScriptSpec};
use pgassay_pgbench::command::Action;
use pgassay_pgbench::reader::ScriptError;
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
    /// How they will be sent; left out where that is not known yet.
    #[serde(default = "simple")]
    protocol: QueryProtocol,
}

fn simple() -> QueryProtocol {
    QueryProtocol::Simple
}

/// Runs the command and gives its exit status.
pub fn scripts() -> i32 {
    let question = match read_document::<Question>() {
        Ok(question) => question,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    match read(&question) {
        Ok(answer) => {
            write_line(&answer);
            0
        }
        Err(Refusal::Script(fault)) => tell(&fault),
        Err(Refusal::Other(failure)) => fail(&failure, EXIT_USAGE),
    }
}

/// Says where a script is none, in its parts too.
fn tell(fault: &ScriptError) -> i32 {
    write_line(&json!({ "error": {
        "message": fault.to_string(),
        "fault": {
            "script": fault.script,
            "line": fault.line,
            "column": fault.column,
            "command": fault.command,
            "number": fault.number,
            "shown": fault.shown.as_ref().map(|shown| json!({
                "line": shown.line,
                "text": shown.text,
                "mark": shown.mark,
            })),
            "message": fault.message,
        },
    }}));
    EXIT_USAGE
}

enum Refusal {
    Script(ScriptError),
    Other(Failure),
}

fn read(question: &Question) -> Result<serde_json::Value, Refusal> {
    let mut names = Names::default();
    let mut statements = Vec::new();
    let mut has_pipeline = false;
    for script in &question.scripts {
        let program = Program::parse(&script.name, &script.text, &mut names).map_err(Refusal::Script)?;
        if program.commands.is_empty() {
            let message = format!("{}: the script has no command", script.name);
            return Err(Refusal::Other(Failure::client(message)));
        }
        if question.protocol != QueryProtocol::Simple {
            program.check_parameters().map_err(Refusal::Script)?;
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
