//! The ways of reading, one file or folder each, and the table of their names.

pub mod hybrid;
pub mod io_uring;
pub mod null;
pub mod sync;
pub mod worker;

use crate::engine::Engine;
use crate::failure::{Code, Failure};
use crate::reading::Target;
use crate::spec::CellSpec;

/// Makes an engine for a cell that reads the target. Fails when the system refuses what its threads share.
type Make = fn(&CellSpec, Target) -> Result<Box<dyn Engine>, Failure>;

/// Every engine by the name that a cell gives: a new one is one file and one line here.
const ENGINES: &[(&str, Make)] = &[
    ("null", null::make),
    ("sync", sync::make),
    ("worker", worker::make),
    ("io_uring", io_uring::make),
    ("hybrid", hybrid::make),
];

/// The engine that a cell names.
///
/// # Errors
/// `usage` for a name that no engine has, and when the system refuses what the engine's threads share.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    match ENGINES.iter().find(|(name, _)| *name == spec.engine) {
        Some((_, make)) => make(spec, target),
        None => Err(unknown(&spec.engine)),
    }
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = ENGINES.iter().map(|(known, _)| *known).collect();
    let message = format!(
        "there is no engine '{name}': the engines are {}",
        names.join(", ")
    );
    Failure::new(Code::Usage, message)
}
