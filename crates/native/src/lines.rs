//! JSON lines: what every command reads and writes.

use std::io::{self, BufRead, Write};
use std::process::exit;
use std::thread;

use pgassay_protocol::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The exit status when input is of no use.
pub const EXIT_USAGE: i32 = 2;
/// The exit status when a server or a measurement failed.
pub const EXIT_FAILURE: i32 = 1;
/// The exit status when standard input was closed while a load ran.
pub const EXIT_ABORTED: i32 = 130;

/// Writes one document as one line, at once. Ends the process when nobody reads any more.
pub fn write_line(document: &impl Serialize) {
    let mut line = match serde_json::to_string(document) {
        Ok(line) => line,
        Err(error) => format!("{{\"error\": {{\"message\": {:?}}}}}", error.to_string()),
    };
    line.push('\n');
    let mut output = io::stdout().lock();
    if output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .is_err()
    {
        exit(EXIT_FAILURE);
    }
}

/// Says what went wrong; returns the exit status.
pub fn fail(failure: &Failure, status: i32) -> i32 {
    write_line(&serde_json::json!({ "error": failure }));
    status
}

/// Reads the one document of a command that takes one; it may be spread over several lines.
///
/// # Errors
/// When standard input ends early or holds something else; the message never repeats the input, which may hold
/// a password.
pub fn read_document<T: DeserializeOwned>() -> Result<T, Failure> {
    let mut documents = serde_json::Deserializer::from_reader(io::stdin().lock()).into_iter::<T>();
    match documents.next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(error)) => Err(bad_input(&error)),
        None => Err(Failure::client(
            "standard input is empty: write one JSON document to it",
        )),
    }
}

/// The failure for a document that can't be read.
pub fn bad_input(error: &serde_json::Error) -> Failure {
    let mut failure = Failure::client(format!(
        "the JSON document on standard input can't be used: {error}"
    ));
    failure.fatal = false;
    failure
}

/// Calls `at_end` on a thread of its own when standard input closes; what comes before that is ignored.
///
/// # Errors
/// When the system gives no thread.
pub fn watch_input(at_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let watch = move || {
        let mut input = io::stdin().lock();
        loop {
            match input.fill_buf() {
                Ok([]) => break,
                Ok(bytes) => {
                    let count = bytes.len();
                    input.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        at_end();
    };
    thread::Builder::new()
        .name("standard-input".to_owned())
        .spawn(watch)
        .map(drop)
}
