//! `volume`: files for block devices that answer as the models of volumes say, in real time.
//!
//! One process serves one volume, or several that may share the limits of an instance, each by a thread of its own.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;

use pgassay_fuse::{
    Command, Connection, Event, FILE_NAME, Image, Inbox, Instance, Mailbox, Setup, mailbox, serve,
};
use pgassay_protocol::Failure;
use pgassay_volume::{Fault, Model};
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::{gettid, set_current_timer_slack};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, bad_input, fail, write_line};

/// The kernel's killer of processes takes this one last: all who use the volume hang on it.
const OOM_SCORE: &str = "-900";

/// The first line, and what `serve` says of a further volume.
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
    MeasureOverhead {
        device: PathBuf,
    },
    MeasureCeiling {
        device: PathBuf,
    },
    End {},
    /// Serves a further volume, by this name.
    Serve {
        name: String,
        volume: Document,
    },
    /// Tells one of the others to the volume of this name.
    To {
        name: String,
        told: Box<Told>,
    },
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
    /// The limits of an instance, shared with all volumes on which the same are imposed meanwhile.
    #[serde(default)]
    instance: Option<Box<Model>>,
}

/// Where the lines of one volume go; those of further ones are marked with its name.
#[derive(Clone, Debug)]
struct Output {
    name: Option<String>,
    lines: Sender<(Value, bool)>,
    alive: Arc<AtomicUsize>,
    is_flusher: bool,
}

impl Output {
    fn write(&self, line: Value) {
        self.send(line, false);
    }

    /// The volume's last line, after which the process ends if no other one is served.
    fn end(&self) {
        let is_last = self.alive.fetch_sub(1, Ordering::SeqCst) == 1;
        self.send(json!({ "ended": {} }), is_last);
    }

    fn send(&self, line: Value, is_last: bool) {
        let line = match &self.name {
            Some(name) => json!({"of": {"name": name, "line": line}}),
            None => line,
        };
        let _ = self.lines.send((line, is_last));
    }

    fn refuse(&self, failure: &Failure) {
        self.write(json!({ "error": failure }));
    }
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
    // Memory that this process asks for must never wait for writes to the very volumes that it serves; threads
    // have this from who starts them.
    let is_flusher = configure_io_flusher_behavior(true).is_ok();
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    // Nobody reads the output while he waits for a volume, so it is written by a thread of its own.
    let (lines, written) = channel::<(Value, bool)>();
    let output = Output {
        name: None,
        lines,
        alive: Arc::new(AtomicUsize::new(0)),
        is_flusher,
    };
    // What is refused here is told by the exit status.
    let prepared = Prepared::new(document, output.clone())?;
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        for (line, is_last) in written {
            write_line(&line);
            if is_last {
                exit(0);
            }
        }
    })?;
    let mut volumes = Volumes::new(output, prepared.mailbox.clone());
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || volumes.read_commands())?;
    prepared.serve()?;
    loop {
        // The output's thread ends the process once the last line is out.
        thread::park();
    }
}

/// A volume that is mounted and not served yet.
struct Prepared {
    setup: Setup,
    folder: PathBuf,
    inbox: Inbox,
    mailbox: Mailbox,
    output: Output,
    is_locked: bool,
}

impl Prepared {
    fn new(document: &Document, output: Output) -> io::Result<Self> {
        let (image, is_locked) = match (document.bytes, &document.path) {
            (Some(bytes), None) => Image::in_memory(bytes)?,
            (None, Some(path)) => (Image::in_file(path)?, false),
            _ => {
                return Err(io::Error::other(
                    "one of 'bytes' and 'path' says what the image is",
                ));
            }
        };
        let (mailbox, inbox) = mailbox()?;
        let connection = Connection::mount(&document.folder)?;
        let is_further = output.name.is_some();
        output.alive.fetch_add(1, Ordering::SeqCst);
        Ok(Self {
            setup: Setup {
                connection,
                image,
                is_further,
            },
            folder: document.folder.clone(),
            inbox,
            mailbox,
            output,
            is_locked,
        })
    }

    /// Serves until the volume ends; says so.
    fn serve(self) -> io::Result<()> {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let output = self.output;
        output.write(json!({"ready": {
            "file": self.folder.join(FILE_NAME), "bytes": self.setup.image.bytes(),
            "locked": self.is_locked, "io_flusher": output.is_flusher, "thread": gettid().as_raw_nonzero().get(),
        }}));
        serve(self.setup, &self.inbox, &self.mailbox, |event| match event {
            Event::Refused(message) => output.refuse(&Failure::client(message)),
            event => output.write(json!(event)),
        })?;
        output.end();
        Ok(())
    }
}

/// The volumes that are served, as the input names them.
struct Volumes {
    output: Output,
    first: Mailbox,
    others: HashMap<String, (Mailbox, Output)>,
    /// The instance that volumes are attached to under their models.
    instance: Weak<Instance>,
}

impl Volumes {
    fn new(output: Output, first: Mailbox) -> Self {
        Self {
            output,
            first,
            others: HashMap::new(),
            instance: Weak::new(),
        }
    }

    /// Hands on what is told, until the input ends, which ends all volumes.
    fn read_commands(&mut self) {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str::<Told>(&line) {
                Ok(Told::Serve { name, volume }) => self.serve_further(name, &volume),
                Ok(Told::To { name, told }) => match self.others.get(&name).cloned() {
                    Some((mailbox, output)) => self.tell(&mailbox, &output, *told),
                    None => self
                        .output
                        .refuse(&Failure::client(format!("no volume is called '{name}'"))),
                },
                Ok(told) => self.tell(&self.first.clone(), &self.output.clone(), told),
                Err(error) => self.output.refuse(&bad_input(&error)),
            }
        }
        // Whoever told it what to do is gone. A dead mount is what the next start finds the block device by.
        for (mailbox, _) in self.others.values() {
            mailbox.send(Command::End { unmounts: false });
        }
        self.first.send(Command::End { unmounts: false });
    }

    fn tell(&mut self, mailbox: &Mailbox, output: &Output, told: Told) {
        match told {
            Told::Impose(imposed) => match self.instance_of(imposed.instance, imposed.seed) {
                Ok(instance) => {
                    if let Some(path) = imposed.trace {
                        mailbox.send(Command::Trace(path));
                    }
                    mailbox.send(Command::Impose(imposed.model, imposed.seed, instance));
                }
                Err(fault) => output.refuse(&Failure::client(fault.to_string())),
            },
            Told::Release {} => mailbox.send(Command::Release),
            Told::MeasureOverhead { device } => mailbox.send(Command::MeasureOverhead(device)),
            Told::MeasureCeiling { device } => mailbox.send(Command::MeasureCeiling(device)),
            Told::End {} => mailbox.send(Command::End { unmounts: true }),
            Told::Serve { .. } | Told::To { .. } => {
                output.refuse(&Failure::client("unknown command for a volume".to_owned()));
            }
        }
    }

    /// The one that is in use, where it has these limits; else a new one, which others may then share.
    fn instance_of(&mut self, model: Option<Box<Model>>, seed: u64) -> Result<Option<Arc<Instance>>, Fault> {
        let Some(model) = model else {
            return Ok(None);
        };
        if let Some(shared) = self.instance.upgrade().filter(|shared| shared.is_of(&model)) {
            return Ok(Some(shared));
        }
        let made = Instance::new(*model, seed)?;
        self.instance = Arc::downgrade(&made);
        Ok(Some(made))
    }

    fn serve_further(&mut self, name: String, document: &Document) {
        let output = Output {
            name: Some(name.clone()),
            ..self.output.clone()
        };
        let begun = Prepared::new(document, output.clone()).and_then(|prepared| {
            let mailbox = prepared.mailbox.clone();
            let failed = output.clone();
            thread::Builder::new().name("volume".to_owned()).spawn(move || {
                if let Err(error) = prepared.serve() {
                    failed.refuse(&Failure::client(error.to_string()));
                    failed.end();
                }
            })?;
            Ok(mailbox)
        });
        match begun {
            Ok(mailbox) => {
                self.others.insert(name, (mailbox, output));
            }
            Err(error) => output.refuse(&Failure::client(error.to_string())),
        }
    }
}
