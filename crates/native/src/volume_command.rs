//! `volume`: a file for a block device that answers as the model of a volume says, in real time.

use std::fs;
use std::io::{self, BufRead};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::exit;
use std::sync::mpsc::channel;
use std::thread;

use pgassay_fuse::{Command, Connection, Event, FILE_NAME, Image, Mailbox, Setup, mailbox, serve};
use pgassay_protocol::Failure;
use pgassay_volume::Model;
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::set_current_timer_slack;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, bad_input, write_line};

/// The kernel's killer of processes takes this one last: all who use the volume hang on it.
const OOM_SCORE: &str = "-900";

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The folder that the file system is mounted in.
    folder: PathBuf,
    /// The size of an image in memory.
    bytes: Option<u64>,
    /// A file that is the image.
    path: Option<PathBuf>,
}

/// Each line after it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Impose(Imposed),
    Release {},
    MeasureOverhead { device: PathBuf },
    MeasureCeiling { device: PathBuf },
    End {},
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Imposed {
    model: Box<Model>,
    #[serde(default)]
    seed: u64,
    /// A new file in which the requests under the model are recorded.
    #[serde(default)]
    trace: Option<PathBuf>,
}

/// Runs the command and gives its exit status.
pub fn volume() -> i32 {
    let mut lines = io::stdin().lock().lines();
    let document = match lines.next() {
        Some(Ok(line)) => match serde_json::from_str::<Document>(&line) {
            Ok(document) => document,
            Err(error) => return fail(&bad_input(&error), EXIT_USAGE),
        },
        _ => return fail(&Failure::client("standard input is empty".to_owned()), EXIT_USAGE),
    };
    // This thread may not hold the input, which another one reads from now on.
    drop(lines);
    match run(&document) {
        Ok(()) => 0,
        Err(error) => fail(&Failure::client(error.to_string()), EXIT_FAILURE),
    }
}

fn run(document: &Document) -> io::Result<()> {
    let (image, is_locked) = match (document.bytes, &document.path) {
        (Some(bytes), None) => Image::in_memory(bytes)?,
        (None, Some(path)) => (Image::in_file(path)?, false),
        _ => {
            return Err(io::Error::other(
                "one of 'bytes' and 'path' says what the image is",
            ));
        }
    };
    // Memory that this process asks for must never wait for writes to the very volume that it serves.
    let is_flusher = configure_io_flusher_behavior(true).is_ok();
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let (sender, inbox) = mailbox()?;
    let bytes = image.bytes();
    let connection = Connection::mount(&document.folder)?;
    // Nobody reads the output while he waits for the volume, so it is written by a thread of its own.
    let (lines, written) = channel::<Value>();
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        for line in written {
            let is_last = line.get("ended").is_some();
            write_line(&line);
            if is_last {
                exit(0);
            }
        }
    })?;
    let commands = sender.clone();
    let refused = lines.clone();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        read_commands(&commands, |failure| {
            let _ = refused.send(json!({ "error": failure }));
        });
    })?;
    let ready = json!({"ready": {
        "file": document.folder.join(FILE_NAME), "bytes": bytes, "locked": is_locked, "io_flusher": is_flusher,
    }});
    let _ = lines.send(ready);
    serve(Setup { connection, image }, &inbox, &sender, |event| {
        let line = match event {
            Event::Refused(message) => json!({ "error": Failure::client(message) }),
            event => json!(event),
        };
        let _ = lines.send(line);
    })?;
    let _ = lines.send(json!({ "ended": {} }));
    loop {
        // The output's thread ends the process once the last line is out.
        thread::park();
    }
}

/// Hands on what is told, until the input ends, which ends the server.
fn read_commands(commands: &Mailbox, refuse: impl Fn(Failure)) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str::<Told>(&line) {
            Ok(Told::Impose(imposed)) => {
                if let Some(path) = imposed.trace {
                    commands.send(Command::Trace(path));
                }
                commands.send(Command::Impose(imposed.model, imposed.seed));
            }
            Ok(Told::Release {}) => commands.send(Command::Release),
            Ok(Told::MeasureOverhead { device }) => commands.send(Command::MeasureOverhead(device)),
            Ok(Told::MeasureCeiling { device }) => commands.send(Command::MeasureCeiling(device)),
            Ok(Told::End {}) => return commands.send(Command::End { unmounts: true }),
            Err(error) => refuse(bad_input(&error)),
        }
    }
    // Whoever told it what to do is gone. A dead mount is what the next start finds the block device by.
    commands.send(Command::End { unmounts: false });
}

fn fail(failure: &Failure, status: i32) -> i32 {
    write_line(&json!({ "error": failure }));
    status
}
