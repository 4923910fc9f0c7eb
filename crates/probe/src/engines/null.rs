//! `null`: reads nothing and verifies nothing. What a cell costs with it is the harness's own.

use std::collections::VecDeque;

use crate::engine::{Engine, Lane, Wanted};
use crate::failure::{Code, Failure};
use crate::reading::{Completed, Read, Target};
use crate::spec::CellSpec;
use crate::time::stopwatch::Stopwatch;

/// The engine that reads nothing.
pub struct Null;

struct NullLane {
    started: VecDeque<Read>,
}

/// The engine for a cell.
///
/// # Errors
/// Never.
pub fn make(_spec: &CellSpec, _target: Target) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(Null))
}

impl Engine for Null {
    fn lane(&self, _consumer: usize) -> Result<Box<dyn Lane + '_>, Failure> {
        Ok(Box::new(NullLane {
            started: VecDeque::new(),
        }))
    }
}

impl Lane for NullLane {
    #[inline]
    fn start(&mut self, read: Read, _watch: &mut Stopwatch) -> Result<(), Failure> {
        self.started.push_back(read);
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _wanted: Wanted, watch: &mut Stopwatch) -> Result<Completed, Failure> {
        let read = self.started.pop_front().ok_or_else(nothing_started)?;
        let latency_ns = watch.last_ns().saturating_sub(read.started_ns);
        Ok(Completed {
            read,
            latency_ns,
            broken: Vec::new(),
        })
    }
}

/// The harness waits for a request that it never started: a mistake of the harness, said in words.
pub(super) fn nothing_started() -> Failure {
    Failure::new(Code::Usage, "a request was waited for that was never started")
}
