//! `sql`: a conversation, one line each way. Statements are timed from the write of the query to ReadyForQuery.

use std::io::{self, BufRead, Read, Write};
use std::process::exit;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use pgassay_load::clock::monotonic_ns;
use pgassay_protocol::{Answer, AnswerState, Failure, Notice, NoticeStore, Parameters, requests};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::{self, Connection, Socket};
use crate::lines::{EXIT_FAILURE, bad_input, write_line};

const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
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
    sql: String,
}

#[derive(Serialize)]
struct Executed<'a> {
    name: &'a str,
    elapsed_ns: u64,
    start_ns: u64,
    end_ns: u64,
    rows: u64,
    bytes: u64,
    notices: Vec<Notice>,
    notices_dropped: u64,
}

/// The statement that is running, as a request to cancel needs to know it.
struct Running {
    parameters: Parameters,
    process_id: i32,
    secret_key: i32,
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

fn cancel(running: &Running) {
    let mut request = BytesMut::new();
    requests::cancel(running.process_id, running.secret_key, &mut request);
    // Best effort: where the server can't be reached any more there is nothing to cancel.
    if let Ok(mut socket) = connect::open_socket(&running.parameters, CANCEL_TIMEOUT) {
        let _ = socket.set_read_timeout(Some(CANCEL_TIMEOUT));
        if socket.write_all(&request).is_ok() {
            // The server closes the connection once it has passed the request on.
            let _ = socket.read(&mut [0]);
        }
    }
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
        let running = Running {
            parameters: parameters.clone(),
            process_id: connection.session.process_id,
            secret_key: connection.session.secret_key,
        };
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
    let mut request = BytesMut::new();
    requests::simple_query(&statement.sql, &mut request)?;
    let bytes_before = connection.input.received_bytes();
    let mut answer = Answer {
        notices: NoticeStore::with_room(NOTICE_BYTES_MAX),
        ..Answer::default()
    };
    let start_ns = monotonic_ns();
    let written = connection
        .socket
        .write_all(&request)
        .and_then(|()| connection.socket.flush());
    let received = read_answer(connection, &mut answer);
    let end_ns = monotonic_ns();
    if let Err(failure) = received {
        // A server that ended the session may have said why before the query was even sent.
        let failure = match (failure.sqlstate.is_some(), written) {
            (false, Err(error)) => Failure::client(format!("the connection is lost: {error}")),
            _ => failure,
        };
        return Err(failure.within(&format!("statement \"{}\"", statement.name)));
    }
    if let Some(error) = answer.error {
        return Err(error);
    }
    Ok(Executed {
        name: &statement.name,
        elapsed_ns: end_ns - start_ns,
        start_ns,
        end_ns,
        rows: answer.rows,
        bytes: connection.input.received_bytes() - bytes_before,
        notices: answer.notices.read(),
        notices_dropped: answer.notices.dropped(),
    })
}

fn read_answer(connection: &mut Connection, answer: &mut Answer) -> Result<(), Failure> {
    loop {
        match answer.read(&mut connection.input)? {
            AnswerState::Ready(_) => return Ok(()),
            AnswerState::CopyIn => refuse_copy(&mut connection.socket)?,
            AnswerState::Incomplete => match connection.socket.read(connection.input.space()) {
                Ok(0) => {
                    return Err(Failure::client(
                        "the connection to the server was lost: the server closed it while the statement ran",
                    ));
                }
                Ok(count) => connection.input.received(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Failure::client(format!(
                        "the connection to the server was lost: {error}"
                    )));
                }
            },
        }
    }
}

fn refuse_copy(socket: &mut Socket) -> Result<(), Failure> {
    let mut refusal = BytesMut::new();
    requests::copy_fail("pgassay has no data to copy from standard input", &mut refusal)?;
    socket
        .write_all(&refusal)
        .map_err(|error| Failure::client(format!("the connection to the server was lost: {error}")))
}
