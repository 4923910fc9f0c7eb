//! `simulate`: models of volumes and what is run on them in, the figures of each model out.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pgassay_protocol::Failure;
use pgassay_volume::recording::{Recording, decode};
use pgassay_volume::simulate::{
    Dependencies, Pattern, Simulated, Trace, Who, Work, simulate as simulate_one,
};
use pgassay_volume::{Fault, Model};
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};

/// The document of one simulation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Simulation {
    /// The volumes.
    models: Vec<Model>,
    /// Of a recording of two volumes, for each of `models` what is beside it.
    #[serde(default)]
    beside: Vec<Beside>,
    /// What is run on each of them.
    work: WorkDocument,
    /// The length of an interval of the series.
    #[serde(default = "one_second")]
    interval_s: f64,
    /// Decides the latencies and the pattern; the same for all models.
    #[serde(default)]
    seed: u64,
    /// How many models are simulated at once.
    threads: usize,
}

/// The volume of the WAL, and the instance whose limits it shares with that of the data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    /// Without the limits that are shared.
    wal: Model,
    /// These limits; its latency counts for nothing.
    #[serde(default)]
    instance: Option<Model>,
}

fn one_second() -> f64 {
    1.0
}

/// What is run, as it is asked for: one of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum WorkDocument {
    /// A number of requests is kept on its way.
    Pattern(Pattern),
    /// Requests of the document.
    Trace(Trace),
    /// Requests of a file that the command `volume` recorded.
    Recorded(RecordedDocument),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedDocument {
    /// The file.
    path: PathBuf,
    /// That of the volume of the WAL, where it has one of its own.
    #[serde(default)]
    wal_path: Option<PathBuf>,
    /// The stretches that count, by CLOCK_MONOTONIC from and until; all of it where there are none.
    #[serde(default)]
    parts: Vec<(u64, u64)>,
    /// The processors that those had who computed.
    processors: f64,
    /// How many clients there were; 0 where nobody knows.
    #[serde(default)]
    clients: u32,
    /// The time of processors that all of it took, in seconds; 0 where nobody knows.
    #[serde(default)]
    cpu_s: f64,
    /// How often one of the clients committed; 0 where nobody knows.
    #[serde(default)]
    commits: u64,
    /// What passing a log on takes of a processor, as another recording shows it.
    #[serde(default)]
    passing_on_ns: Option<u64>,
    /// At least so many processors were had; 0 where nobody knows.
    #[serde(default)]
    processors_min: f64,
    /// How many clients waited for another's transaction to end, on average; 0 where nobody knows.
    #[serde(default)]
    lock_waits: f64,
    /// With which chance a transaction needs a lock that a certain other one holds, as another recording shows it.
    #[serde(default)]
    lock_chance: Option<f64>,
}

/// What is run, ready to be.
enum Ready {
    Work(Work),
    Recorded(Box<Dependencies>),
}

impl Ready {
    fn of(document: WorkDocument) -> Result<Self, Fault> {
        let work = match document {
            WorkDocument::Pattern(pattern) => Work::Pattern(pattern),
            WorkDocument::Trace(trace) => Work::Trace(trace),
            WorkDocument::Recorded(recorded) => {
                return Ok(Self::Recorded(Box::new(recorded.dependencies()?)));
            }
        };
        work.check()?;
        Ok(Self::Work(work))
    }

    fn simulate(
        &self,
        model: &Model,
        beside: Option<&Beside>,
        interval_s: f64,
        seed: u64,
    ) -> Result<Simulated, Fault> {
        match (self, beside) {
            (Self::Work(work), _) => simulate_one(model, work, interval_s, seed),
            (Self::Recorded(dependencies), None) => dependencies.simulate(model, interval_s, seed),
            (Self::Recorded(dependencies), Some(Beside { wal, instance })) => {
                dependencies.simulate_all(&[model, wal], instance.as_ref(), interval_s, seed)
            }
        }
    }
}

impl Beside {
    fn models(&self) -> impl Iterator<Item = &Model> {
        iter::once(&self.wal).chain(&self.instance)
    }
}

impl RecordedDocument {
    fn dependencies(&self) -> Result<Dependencies, Fault> {
        let who = Who {
            processors: self.processors,
            clients: self.clients,
            cpu_s: self.cpu_s,
            commits: self.commits,
            passing_on_ns: self.passing_on_ns,
            processors_min: self.processors_min,
            lock_waits: self.lock_waits,
            lock_chance: self.lock_chance,
        };
        let read = |path: &PathBuf| {
            let bytes = fs::read(path).map_err(|error| Fault(error.to_string()));
            bytes
                .and_then(|bytes| decode(&bytes))
                .map_err(|fault| replay_fault(path, &fault))
        };
        let data = read(&self.path)?;
        let wal = self.wal_path.as_ref().map(read).transpose()?;
        let all: Vec<&Recording> = iter::once(&data).chain(&wal).collect();
        Dependencies::infer_all(&all, &self.parts, who).map_err(|fault| replay_fault(&self.path, &fault))
    }
}

fn replay_fault(path: &Path, fault: &Fault) -> Fault {
    Fault(format!("the trace {} can't be replayed: {fault}", path.display()))
}

/// Runs the command and gives its exit status.
pub fn simulate() -> i32 {
    let simulation = match read_document::<Simulation>() {
        Ok(simulation) => simulation,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    let Simulation {
        models,
        beside,
        work,
        interval_s,
        seed,
        threads,
    } = simulation;
    // All are looked at before any work is done.
    let mut all = models.iter().chain(beside.iter().flat_map(Beside::models));
    let mut checked = all.try_for_each(Model::check);
    if !beside.is_empty() && beside.len() != models.len() {
        checked = Err(Fault(format!(
            "`beside` has {} entries for {} models",
            beside.len(),
            models.len()
        )));
    }
    let work = match checked.and_then(|()| Ready::of(work)) {
        Ok(work) => work,
        Err(fault) => return fail(&Failure::client(fault.to_string()), EXIT_USAGE),
    };
    if let Err(error) = watch_input(|| exit(EXIT_ABORTED)) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    if let Ready::Recorded(dependencies) = &work {
        write_line(&json!({ "recorded": dependencies.facts() }));
    }
    let answers = run_all(models.len(), threads, |index| {
        work.simulate(&models[index], beside.get(index), interval_s, seed)
    });
    for answer in answers {
        match answer {
            Ok(simulated) => write_line(&json!({ "simulated": simulated })),
            Err(fault) => return fail(&Failure::client(fault.to_string()), EXIT_USAGE),
        }
    }
    0
}

/// The answers in the order of the models, of which there are so many.
fn run_all(
    models: usize,
    threads: usize,
    run: impl Fn(usize) -> Result<Simulated, Fault> + Sync,
) -> Vec<Result<Simulated, Fault>> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(models));
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, models.max(1)) {
            scope.spawn(|| {
                while let Some(index) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < models)
                {
                    let answer = run(index);
                    // A panic ends the whole process, so that no lock is ever poisoned.
                    if let Ok(mut answers) = answers.lock() {
                        answers.push((index, answer));
                    }
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_default();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
