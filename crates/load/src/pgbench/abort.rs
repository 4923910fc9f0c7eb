//! What pgbench says of a client that can't go on (commandFailed and its callers in pgbench.c).

use pgassay_pgbench::command::Action;
use pgassay_protocol::Failure;

use crate::client::Client;
use crate::transport::Transport;

/// The transaction's statistics are counted before this is found.
const OPEN_TRANSACTION: &str = "end of script reached without completing the last transaction";
/// Of a connection that ended without another word.
const BACKEND_DIED: &str = "perhaps the backend died while processing";

/// Why a client can't go on.
pub struct Abort {
    /// pgbench's messages, in their order.
    pub messages: Vec<String>,
    /// Where in which script, in words; none where no command is at fault.
    pub place: Option<String>,
    /// Whether its transaction counts all the same.
    pub counts: bool,
}

/// What is said of a client that failed so.
pub fn abort_of<T: Transport>(client: &mut Client<T>, failure: &Failure) -> Abort {
    let (number, at, is_rolling_back) = (client.number(), client.failed_at(), client.is_rolling_back());
    let Some(interpreter) = client.interpreter() else {
        return Abort {
            messages: vec![failure.message.clone()],
            place: None,
            counts: false,
        };
    };
    let (script, command) = interpreter.position();
    let text = failure.message.as_str();
    if text.starts_with("end of script") {
        let messages = vec![format!("client {number} aborted: {text}")];
        return Abort {
            messages,
            place: None,
            counts: text == OPEN_TRANSACTION,
        };
    }
    let is_lost = failure.sqlstate.is_none() && text.starts_with("the connection to the server was lost");
    let of_server = || match is_lost {
        true => BACKEND_DIED.to_owned(),
        false => failure.libpq_text(interpreter.failed_text(at).as_deref()),
    };
    let failed_in = |name: &str, why: &str| {
        format!("client {number} aborted in command {command} ({name}) of script {script}; {why}")
    };
    let (evaluation, execution) = (
        "evaluation of meta-command failed",
        "execution of meta-command failed",
    );
    let from_server = failure.sqlstate.is_some() || text.starts_with("the connection to the server");
    let messages = if is_rolling_back {
        vec![format!(
            "client {number} aborted while rolling back the transaction after an error; {}",
            of_server()
        )]
    } else if is_lost {
        vec![failed_in("SQL", BACKEND_DIED)]
    } else if text.ends_with("COPY data") {
        vec!["COPY is not supported in pgbench, aborting".to_owned()]
    } else {
        match interpreter.action() {
            Some(Action::Set(..)) => vec![text.to_owned(), failed_in("set", evaluation)],
            Some(Action::If(..)) => vec![text.to_owned(), failed_in("if", evaluation)],
            Some(Action::Elif(..)) => vec![text.to_owned(), failed_in("elif", evaluation)],
            Some(Action::Sleep(..)) => vec![bare(text), failed_in("sleep", execution)],
            Some(Action::SetShell(..)) => vec![bare(text), failed_in("setshell", execution)],
            Some(Action::Shell(..)) => vec![bare(text), failed_in("shell", execution)],
            Some(Action::StartPipeline) => vec![failed_in("startpipeline", text)],
            Some(Action::SyncPipeline) => vec![failed_in("syncpipeline", text)],
            Some(Action::EndPipeline) if !from_server => vec![failed_in("endpipeline", text)],
            Some(Action::Sql(..)) if text.ends_with("not allowed in pipeline mode") => {
                vec![failed_in(
                    if text.starts_with("\\aset") {
                        "aset"
                    } else {
                        "gset"
                    },
                    text,
                )]
            }
            Some(Action::Sql(_, capture)) if text.starts_with("query ") => {
                let takes_all = capture.as_ref().is_some_and(|capture| capture.takes_all);
                let command_name = if takes_all { "aset" } else { "gset" };
                let unusable = text.rsplit_once(" storing into variable ").map(|(_, name)| name);
                let mut messages: Vec<String> = unusable
                    .iter()
                    .map(|name| format!("{command_name}: invalid variable name: \"{name}\""))
                    .collect();
                messages.push(format!(
                    "client {number} script {script} command {command} {text}"
                ));
                messages
            }
            _ => {
                let aborted = |why: &str| {
                    let query = at.query;
                    format!(
                        "client {number} script {script} aborted in command {command} query {query}: {why}"
                    )
                };
                let unprepared = interpreter
                    .failed_name(at)
                    .filter(|_| failure.sqlstate.is_some() && !failure.fatal);
                match unprepared {
                    // pgbench prepares on its own, goes on after a failure, and fails where it wants to execute.
                    Some(name) => {
                        let severity = &failure.shown.severity;
                        let why = format!("{severity}:  prepared statement \"{name}\" does not exist");
                        vec![of_server(), aborted(&why)]
                    }
                    None => vec![aborted(&of_server())],
                }
            }
        }
    };
    Abort {
        messages,
        place: Some(interpreter.place()),
        counts: false,
    }
}

/// A server's refusal of a connection in the words of libpq; what the client found stays as it is.
pub fn refusal(failure: Failure) -> Failure {
    let severity = failure.shown.severity.as_str();
    let parts = failure
        .message
        .split_once("connecting to ")
        .and_then(|(before, rest)| {
            rest.split_once(" failed: ")
                .map(|(server, why)| (before, server, why))
        });
    let Some((before, server, why)) = parts.filter(|_| !severity.is_empty()) else {
        return failure;
    };
    let place = match server.rsplit_once(':') {
        Some((host, port)) if !server.starts_with('/') => format!("at \"{host}\", port {port}"),
        _ => format!("on socket \"{server}\""),
    };
    let message = format!("{before}connection to server {place} failed: {severity}:  {why}");
    Failure { message, ..failure }
}

/// pgbench names these commands without their backslash.
fn bare(message: &str) -> String {
    message.strip_prefix('\\').unwrap_or(message).to_owned()
}
