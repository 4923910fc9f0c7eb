//! One statement as a simple query, timed from its writing to ReadyForQuery, and how it is cancelled.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use pgassay_load::clock::monotonic_ns;
use pgassay_protocol::{Answer, AnswerState, Failure, Parameters, requests};

use crate::connect::{self, Connection, Socket};

const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// The statement that is running, as a request to cancel needs to know it.
pub struct Running {
    parameters: Parameters,
    process_id: i32,
    secret_key: i32,
}

impl Running {
    /// What runs on this connection.
    pub fn of(connection: &Connection, parameters: &Parameters) -> Self {
        Self {
            parameters: parameters.clone(),
            process_id: connection.session.process_id,
            secret_key: connection.session.secret_key,
        }
    }
}

/// Asks the server to end what is running.
pub fn cancel(running: &Running) {
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

/// Runs a statement, or several in one string; `name` is how failures call it. Rows are read and dropped.
///
/// Returns the clock's readings at both ends, in nanoseconds of the monotonic clock.
///
/// # Errors
/// The server's error, after which the connection can be used, or a `fatal` one where the connection is lost.
pub fn run_query(
    connection: &mut Connection,
    name: &str,
    sql: &str,
    answer: &mut Answer,
) -> Result<(u64, u64), Failure> {
    let mut request = BytesMut::new();
    requests::simple_query(sql, &mut request)?;
    let start_ns = monotonic_ns();
    let written = connection
        .socket
        .write_all(&request)
        .and_then(|()| connection.socket.flush());
    let received = read_answer(connection, answer);
    let end_ns = monotonic_ns();
    if let Err(failure) = received {
        // A server that ended the session may have said why before the query was even sent.
        let failure = match (failure.sqlstate.is_some(), written) {
            (false, Err(error)) => Failure::client(format!("the connection is lost: {error}")),
            _ => failure,
        };
        return Err(failure.within(&format!("statement \"{name}\"")));
    }
    match answer.error.take() {
        Some(error) => Err(error),
        None => Ok((start_ns, end_ns)),
    }
}

/// Runs a COPY FROM STDIN: `header`, then what `next` appends until it gives false, then `trailer`.
///
/// # Errors
/// As of `run_query`.
pub fn copy_in(
    connection: &mut Connection,
    sql: &str,
    header: &[u8],
    next: &mut dyn FnMut(&mut BytesMut) -> bool,
    trailer: &[u8],
) -> Result<(), Failure> {
    let lost = |error: io::Error| Failure::client(format!("the connection to the server was lost: {error}"));
    let mut answer = Answer::default();
    let mut request = BytesMut::new();
    requests::simple_query(sql, &mut request)?;
    connection.socket.write_all(&request).map_err(lost)?;
    if read_until(connection, &mut answer)? != AnswerState::CopyIn {
        let refused = || Failure::client("the server asks for no data");
        return Err(answer.error.take().unwrap_or_else(refused));
    }
    let mut data = BytesMut::from(header);
    let mut message = BytesMut::new();
    loop {
        let is_more = next(&mut data);
        if !is_more {
            data.extend_from_slice(trailer);
        }
        message.clear();
        requests::copy_data(&data, &mut message)?;
        data.clear();
        if !is_more {
            requests::copy_done(&mut message);
        }
        if let Err(error) = connection.socket.write_all(&message) {
            // The server may have said why it closed the connection.
            read_answer(connection, &mut answer)?;
            return Err(answer.error.take().unwrap_or_else(|| lost(error)));
        }
        if !is_more {
            break;
        }
    }
    connection.socket.flush().map_err(lost)?;
    read_answer(connection, &mut answer)?;
    answer.error.take().map_or(Ok(()), Err)
}

fn read_answer(connection: &mut Connection, answer: &mut Answer) -> Result<(), Failure> {
    while read_until(connection, answer)? == AnswerState::CopyIn {
        refuse_copy(&mut connection.socket)?;
    }
    Ok(())
}

/// Reads until the server waits for data or for the next query.
fn read_until(connection: &mut Connection, answer: &mut Answer) -> Result<AnswerState, Failure> {
    loop {
        let state = answer.read(&mut connection.input)?;
        if state != AnswerState::Incomplete {
            return Ok(state);
        }
        match connection.socket.read(connection.input.space()) {
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
