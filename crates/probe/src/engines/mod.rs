//! The ways of reading, one file or folder each.

pub mod hybrid;
pub mod io_uring;
pub mod null;
pub mod sync;
pub mod worker;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::reading::Target;
use crate::spec::{CellSpec, EngineName, Pattern};

/// The engine that a cell names.
///
/// # Errors
/// When the system refuses what the engine's threads share.
pub fn make(spec: &CellSpec, target: Target) -> Result<Box<dyn Engine>, Failure> {
    let depth = spec.effective_depth();
    Ok(match spec.engine {
        EngineName::Null => Box::new(null::Null),
        EngineName::Sync => Box::new(sync::Sync {
            // As in PostgreSQL: the kernel's own read-ahead is better for sequences, and O_DIRECT has no cache.
            advise: spec.advise && !spec.direct && spec.pattern != Pattern::Sequential,
            target,
        }),
        EngineName::Worker => Box::new(worker::Worker::new(
            target,
            spec.workers,
            spec.consumers,
            spec.major,
        )?),
        EngineName::IoUring => Box::new(io_uring::Uring::new(target, depth, spec)),
        EngineName::Hybrid => Box::new(hybrid::Hybrid::new(target, depth, spec)?),
    })
}
