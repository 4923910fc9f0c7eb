//! Counting requests in units, with adjacent ones merged.

use crate::request::Kind;

/// How many runs of adjacent requests are followed at once: several scans and the WAL go side by side.
const RUNS: usize = 8;

/// A run of adjacent requests whose last unit has room left.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    /// Where the next request must begin.
    end: u64,
    /// Bytes left in the unit that was paid last.
    room: u32,
    /// When the last request of the run is done; nothing can be merged with it after that.
    done_ns: u64,
}

/// What requests cost in units of a size.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    quantum: u32,
    /// `None` where requests are counted one by one.
    runs: Option<[Run; RUNS]>,
    /// The run that the last request belongs to.
    current: usize,
    /// The run that gives way to a new one next.
    oldest: usize,
    /// Whether it is still to be told when the last request is done.
    unsettled: bool,
}

impl Units {
    pub(crate) fn new(quantum: u32, merging: bool) -> Self {
        // Done at 0, so that no request is merged with it.
        let never = Run {
            kind: Kind::Flush,
            end: 0,
            room: 0,
            done_ns: 0,
        };
        Self {
            quantum,
            runs: merging.then_some([never; RUNS]),
            current: 0,
            oldest: 0,
            unsettled: false,
        }
    }

    /// How many new units a request costs.
    #[inline]
    pub(crate) fn charge(&mut self, kind: Kind, offset: u64, length: u32, arrival_ns: u64) -> u64 {
        let Some(runs) = &mut self.runs else {
            return u64::from(length.div_ceil(self.quantum));
        };
        let joined = runs
            .iter()
            .position(|run| run.end == offset && run.kind == kind && arrival_ns < run.done_ns);
        let room = joined.map_or(0, |index| runs[index].room);
        let beyond = length.saturating_sub(room);
        let units = beyond.div_ceil(self.quantum);
        // The room of the last unit, the one begun by this request or the one that it joined.
        let left = if beyond == 0 {
            room - length
        } else {
            self.quantum - 1 - (beyond - 1) % self.quantum
        };
        self.current = joined.unwrap_or_else(|| {
            let index = self.oldest;
            self.oldest = (index + 1) % RUNS;
            index
        });
        runs[self.current] = Run {
            kind,
            end: offset.saturating_add(u64::from(length)),
            room: left,
            done_ns: 0,
        };
        self.unsettled = true;
        u64::from(units)
    }

    /// Tells when the request that was charged last is done; says nothing where none was since the last time.
    #[inline]
    pub(crate) fn settle(&mut self, done_ns: u64) {
        if let (true, Some(runs)) = (self.unsettled, &mut self.runs) {
            runs[self.current].done_ns = done_ns;
            self.unsettled = false;
        }
    }

    /// Bytes of one unit.
    #[inline]
    pub(crate) fn quantum(&self) -> u32 {
        self.quantum
    }
}
