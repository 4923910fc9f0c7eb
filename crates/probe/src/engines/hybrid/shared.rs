//! What all consumers of the engine `hybrid` share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::helpers::Helpers;
use super::mode::{Coordinator, Mode};
use crate::engine::Decision;
use crate::engines::io_uring::AsyncRule;
use crate::reading::Target;

/// What the consumers share.
pub(super) struct Shared {
    pub(super) target: Arc<Target>,
    /// The most requests that a consumer has on their way.
    pub(super) depth: usize,
    pub(super) rule: AsyncRule,
    /// Whether requests that the consumer reads itself are announced, as `sync` does where pages are left out.
    pub(super) advises: bool,
    pub(super) helpers: Helpers,
    /// Whether the work may be spread over other cores at all.
    pub(super) may_spread: bool,
    /// What the controllers share.
    pub(super) coordinator: Coordinator,
    /// Requests that were given to worker threads of the kernel.
    pub(super) asynchronous: AtomicU64,
    /// The controllers' decisions.
    pub(super) decisions: Mutex<Vec<Decision>>,
}

impl Shared {
    /// The modes that are possible here, in the order of their costs.
    pub(super) fn modes(&self) -> Vec<Mode> {
        if self.depth == 1 {
            // A consumer that looks no further than one request can't gain from asking the kernel to go ahead.
            return vec![Mode::Own];
        }
        let mut modes = match self.rule.buffered {
            true => vec![Mode::Own, Mode::Ring],
            false => vec![Mode::Ring],
        };
        // Few pages at a time are read sooner than handed over.
        if self.may_spread && !self.advises {
            let most = self.helpers.count();
            let growing = std::iter::successors(Some(1), |count| Some(count * 3));
            modes.extend(growing.take_while(|count| *count < most).map(Mode::Shared));
            modes.extend([Mode::Shared(most), Mode::Given(most)]);
        }
        modes
    }
}
