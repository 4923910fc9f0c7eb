//! `simulate`: models of volumes and what is run on them in, the figures of each model out.

use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pgassay_protocol::Failure;
use pgassay_volume::simulate::{Simulated, Work, simulate as simulate_one};
use pgassay_volume::{Fault, Model};
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, read_document, watch_input, write_line};

/// The document of one simulation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Simulation {
    /// The volumes.
    models: Vec<Model>,
    /// What is run on each of them.
    work: Work,
    /// The length of an interval of the series.
    #[serde(default = "one_second")]
    interval_s: f64,
    /// Decides the latencies and the pattern; the same for all models.
    #[serde(default)]
    seed: u64,
    /// How many models are simulated at once.
    threads: usize,
}

fn one_second() -> f64 {
    1.0
}

/// Runs the command and gives its exit status.
pub fn simulate() -> i32 {
    let simulation = match read_document::<Simulation>() {
        Ok(simulation) => simulation,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    // All are looked at before any work is done.
    let checks = simulation.models.iter().map(Model::check);
    if let Some(Err(fault)) = checks.chain([simulation.work.check()]).find(Result::is_err) {
        return fail(&Failure::client(fault.to_string()), EXIT_USAGE);
    }
    if let Err(error) = watch_input(|| exit(EXIT_ABORTED)) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    let answers = run_all(&simulation);
    for answer in answers {
        match answer {
            Ok(simulated) => write_line(&json!({ "simulated": simulated })),
            Err(fault) => return fail(&Failure::client(fault.to_string()), EXIT_USAGE),
        }
    }
    0
}

/// The answers in the order of the models.
fn run_all(simulation: &Simulation) -> Vec<Result<Simulated, Fault>> {
    let Simulation {
        models,
        work,
        interval_s,
        seed,
        threads,
    } = simulation;
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(models.len()));
    thread::scope(|scope| {
        for _ in 0..(*threads).clamp(1, models.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, model)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    models.get(index).map(|model| (index, model))
                } {
                    let answer = simulate_one(model, work, *interval_s, *seed);
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

fn fail(failure: &Failure, status: i32) -> i32 {
    write_line(&json!({ "error": failure }));
    status
}
