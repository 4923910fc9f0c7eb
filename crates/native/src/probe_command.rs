//! `probe`: a conversation about one machine's storage; a request a line, progress and an answer for each.

use std::io::{self, BufRead};
use std::process::exit;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use pgassay_probe::checksum_speed::{self, SpeedSpec};
use pgassay_probe::durable_writes::WriteSpec;
use pgassay_probe::failure::{Code, Failure};
use pgassay_probe::files::{self, MakeSpec};
use pgassay_probe::spec::CellSpec;
use pgassay_probe::sys::signals;
use pgassay_probe::verify::{VerifySpec, verify_file};
use pgassay_probe::{cell, durable_writes};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lines::{EXIT_FAILURE, write_line};

/// Added to a signal's number, as shells tell how a process ended.
const EXIT_SIGNAL: i32 = 128;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Make(MakeSpec),
    Facts(Named),
    Evict(Named),
    Warm(WarmSpec),
    Cell(Box<CellSpec>),
    Write(WriteSpec),
    Checksum(SpeedSpec),
    Verify(VerifySpec),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WarmSpec {
    file: String,
    bytes: u64,
}

/// Runs the command and gives its exit status.
pub fn probe() -> i32 {
    // What was made is of no use to anybody after a signal.
    let at_signal = |signal| {
        files::remove_made(true);
        exit(EXIT_SIGNAL + signal);
    };
    let (sender, receiver) = sync_channel(0);
    let started = signals::on_end(at_signal).and_then(|()| {
        thread::Builder::new()
            .name("standard-input".to_owned())
            .spawn(move || read_lines(&sender))
    });
    if let Err(error) = started {
        write_line(&json!({ "error": Failure::of(&error, "starting a thread") }));
        return EXIT_FAILURE;
    }
    while let Ok(line) = receiver.recv() {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => handle(request),
            Err(error) => Err(Failure::new(
                Code::Usage,
                format!("the JSON document on standard input can't be used: {error}"),
            )),
        };
        write_line(&answer.unwrap_or_else(|failure| json!({ "error": failure })));
    }
    0
}

/// Hands over line after line. When standard input closes the process ends, whatever it is measuring; a file that
/// is only half made goes with it.
fn read_lines(sender: &SyncSender<String>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if !line.trim().is_empty() && sender.send(line).is_err() {
            break;
        }
    }
    files::remove_made(false);
    exit(0);
}

fn handle(request: Request) -> Result<Value, Failure> {
    match request {
        Request::Make(spec) => {
            let progress = |bytes| write_line(&json!({ "progress": { "bytes": bytes } }));
            files::make(&spec, progress).map(|made| json!({ "made": made }))
        }
        Request::Facts(named) => files::facts(&named.file).map(|facts| json!({ "facts": facts })),
        Request::Evict(named) => {
            files::evict(&named.file).map(|bytes| json!({ "evicted": { "resident_bytes": bytes } }))
        }
        Request::Warm(spec) => {
            files::warm(&spec.file, spec.bytes).map(|bytes| json!({ "warmed": { "resident_bytes": bytes } }))
        }
        Request::Write(spec) => durable_writes::measure(&spec).map(|written| json!({ "write": written })),
        Request::Checksum(spec) => checksum_speed::measure(spec).map(|speeds| json!({ "checksum": speeds })),
        Request::Verify(spec) => verify_file(&spec).map(|verified| json!({ "verified": verified })),
        Request::Cell(spec) => cell::run(&spec).map(|record| json!({ "cell": record })),
    }
}
