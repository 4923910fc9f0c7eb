//! `sql`: a conversation, one line each way. Statements are timed from the write of the query to ReadyForQuery.

use std::io::{self, BufRead};
use std::process::exit;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pgassay_protocol::{Answer, Failure, Notice, NoticeStore, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::{self, Connection};
use crate::lines::{EXIT_FAILURE, bad_input, write_line};
use crate::query::{Running, cancel, run_query};
use crate::transaction::{Part, run_transaction};

/// VACUUM VERBOSE of a database with thousands of tables fits.
const NOTICE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Command {
    Connect(Parameters),
    Execute(NamedStatement),
    Disconnect {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedStatement {
    name: String,
    #[serde(default)]
    sql: String,
    /// Of a transaction, in place of its text: its statements.
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Executed<'a> {
    name: &'a str,
    elapsed_ns: u64,
    start_ns: u64,
    end_ns: u64,
    rows: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts_ns: Vec<u64>,
    notices: Vec<Notice>,
    notices_dropped: u64,
}

type SharedRunning = Arc<Mutex<Option<Running>>>;

/// Runs the command and gives its exit status.
pub fn sql() -> i32 {
    let running = SharedRunning::default();
    let (sender, receiver) = sync_channel(0);
    let reader = {
        let running = Arc::clone(&running);
        thread::Builder::new()
            .name("standard-input".to_owned())
            .spawn(move || read_lines(&sender, &running))
    };
    if let Err(error) = reader {
        write_line(&json!({ "error": Failure::client(error.to_string()) }));
        return EXIT_FAILURE;
    }
    answer_commands(&receiver, &running);
    0
}

/// Hands over line after line. When standard input closes the process ends, whatever it is waiting for; a
/// statement that is running is cancelled first, so that the server doesn't go on with it.
fn read_lines(sender: &SyncSender<String>, running: &SharedRunning) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if !line.trim().is_empty() && sender.send(line).is_err() {
            break;
        }
    }
    let running = running.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(running) = running {
        cancel(&running);
    }
    exit(0);
}

fn answer_commands(receiver: &Receiver<String>, running: &SharedRunning) {
    let mut conversation = Conversation {
        connection: None,
        running: Arc::clone(running),
    };
    while let Ok(line) = receiver.recv() {
        let answer = match serde_json::from_str(&line) {
            Ok(command) => conversation.handle(command),
            Err(error) => Err(bad_input(&error)),
        };
        write_line(&answer.unwrap_or_else(|failure| json!({ "error": failure })));
    }
}

struct Conversation {
    connection: Option<(Connection, Parameters)>,
    running: SharedRunning,
}

impl Conversation {
    fn handle(&mut self, command: Command) -> Result<Value, Failure> {
        match command {
            Command::Connect(parameters) => self.connect(parameters),
            Command::Execute(statement) => self.execute(&statement),
            Command::Disconnect {} => {
                self.disconnect();
                Ok(json!({ "disconnected": {} }))
            }
        }
    }

    fn connect(&mut self, parameters: Parameters) -> Result<Value, Failure> {
        self.disconnect();
        let connection = connect::open(&parameters)?;
        let session = &connection.session;
        // "18.4 (Debian 18.4-1)": the packager's part says nothing of the version.
        let version = session
            .server_version
            .split_whitespace()
            .next()
            .unwrap_or_default();
        let answer = json!({ "connected": { "pid": session.process_id, "server_version": version } });
        self.connection = Some((connection, parameters));
        Ok(answer)
    }

    fn disconnect(&mut self) {
        if let Some((connection, _)) = self.connection.take() {
            connection.end();
        }
    }

    fn execute(&mut self, statement: &NamedStatement) -> Result<Value, Failure> {
        let Some((connection, parameters)) = &mut self.connection else {
            let mut failure = Failure::client("there is no connection: send \"connect\" first");
            failure.fatal = false;
            return Err(failure);
        };
        let running = Running::of(connection, parameters);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        let outcome = run_statement(connection, statement);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match outcome {
            Ok(executed) => Ok(json!({ "executed": executed })),
            Err(failure) => {
                if failure.fatal {
                    self.connection = None;
                }
                Err(failure)
            }
        }
    }
}

fn run_statement<'a>(
    connection: &mut Connection,
    statement: &'a NamedStatement,
) -> Result<Executed<'a>, Failure> {
    let mut answer = Answer {
        notices: NoticeStore::with_room(NOTICE_BYTES_MAX),
        ..Answer::default()
    };
    let bytes_before = connection.input.received_bytes();
    let (start_ns, end_ns, parts_ns) = if statement.parts.is_empty() {
        let (start_ns, end_ns) = run_query(connection, &statement.name, &statement.sql, &mut answer)?;
        (start_ns, end_ns, Vec::new())
    } else {
        let done = run_transaction(connection, &statement.name, &statement.parts, &mut answer)
            .map_err(|failure| failure.within(&format!("statement \"{}\"", statement.name)))?;
        (done.start_ns, done.end_ns, done.parts_ns)
    };
    Ok(Executed {
        name: &statement.name,
        elapsed_ns: end_ns - start_ns,
        start_ns,
        end_ns,
        rows: answer.rows,
        parts_ns,
        bytes: connection.input.received_bytes() - bytes_before,
        notices: answer.notices.read(),
        notices_dropped: answer.notices.dropped(),
    })
}
