//! `toy`: reads a request as soon as its turn comes, and never ahead.

use std::collections::VecDeque;

use crate::engine::{Engine, Lane, Wanted};
use crate::failure::{Code, Failure};
use crate::files::reopen;
use crate::reading::{Completed, Read, Target};
use crate::spec::CellSpec;
use crate::time::stopwatch::{Stopwatch, Task};

struct Toy {
    target: Target,
}

struct ToyLane {
    target: Target,
    started: VecDeque<Read>,
}

/// The engine for a cell.
///
/// # Errors
/// Never.
pub fn make(_spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Toy { target }))
}

impl Engine for Toy {
    fn lane(&self, _consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(ToyLane {
            target: reopen(&self.target)?,
            started: VecDeque::new(),
        }))
    }
}

impl Lane for ToyLane {
    fn start(&mut self, read: Read, _watch: &mut Stopwatch) -> Result<(), Failure> {
        self.started.push_back(read);
        Ok(())
    }

    fn wait(&mut self, _wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        let first = self.started.pop_front();
        let mut read = first.ok_or_else(|| Failure::new(Code::Usage, "no request was started"))?;
        read.started_ns = watch.lap(Task::Harness);
        let ended_ns = self.target.read(&mut read, watch)?;
        let broken = self.target.check(&read, watch);
        Ok(Completed {
            latency_ns: ended_ns - read.started_ns,
            read,
            broken,
        })
    }
}
