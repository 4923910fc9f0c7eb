//! A limiter at work: buckets and what requests cost in them.

use crate::bucket::{Allowance, Bucket, TOKEN};
use crate::model::{Limiter, SECOND_NS, Unit};
use crate::request::Kind;
use crate::units::Units;

/// What brings tokens for ever, and how it saves them.
#[derive(Clone, Debug)]
enum Credits {
    /// None are saved: the one bucket of a limiter that can't burst.
    None(Bucket),
    /// A bucket of credits behind the peak's.
    Refilled { peak: Bucket, credits: Bucket },
    /// An allowance behind the peak's bucket.
    Reset { peak: Bucket, allowance: Allowance },
}

/// When a request may pass the buckets of a gate, and what it was counted as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    /// By the peak's bucket.
    pub(crate) peak_ns: u64,
    /// By the credits; its arrival where none are saved.
    pub(crate) credits_ns: u64,
    /// In units.
    pub(crate) units: u64,
}

/// The state of one [`Limiter`].
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    unit: Unit,
    units: Units,
    credits: Credits,
    /// When a request first waited for credits and for nothing else.
    emptied_ns: Option<u64>,
}

impl Gate {
    pub(crate) fn new(limiter: &Limiter) -> Self {
        let per_window = |rate: u64| u128::from(rate) * u128::from(limiter.window_ns);
        let full = |rate: u64| Bucket::new(rate, per_window(rate), per_window(rate));
        let capacity = u128::from(limiter.capacity) * TOKEN;
        let fill = limiter.fill.map_or(capacity, |fill| u128::from(fill) * TOKEN);
        let peak = full(limiter.peak_rate());
        let credits = match limiter.reset_period_s {
            _ if limiter.capacity == 0 => Credits::None(peak),
            None => Credits::Refilled {
                peak,
                credits: Bucket::new(limiter.rate, capacity, fill),
            },
            Some(period_s) => Credits::Reset {
                peak,
                allowance: Allowance::new(limiter.rate, capacity, fill, period_s),
            },
        };
        Self {
            unit: limiter.unit,
            units: Units::new(limiter.quantum_bytes, limiter.merging),
            credits,
            emptied_ns: None,
        }
    }

    /// Takes a read or a write and says when it lets it through.
    #[inline]
    pub(crate) fn admit(&mut self, kind: Kind, offset: u64, length: u32, arrival_ns: u64) -> Admitted {
        let units = self.units.charge(kind, offset, length, arrival_ns);
        let cost = match self.unit {
            Unit::Operations => units,
            Unit::Bytes => units * u64::from(self.units.quantum()),
        };
        let (peak_ns, credits_ns) = match &mut self.credits {
            Credits::None(bucket) => (bucket.take(arrival_ns, cost), arrival_ns),
            Credits::Refilled { peak, credits } => {
                (peak.take(arrival_ns, cost), credits.take(arrival_ns, cost))
            }
            Credits::Reset { peak, allowance } => {
                (peak.take(arrival_ns, cost), allowance.take(arrival_ns, cost))
            }
        };
        Admitted {
            peak_ns,
            credits_ns,
            units,
        }
    }

    /// Before this time nothing more passes.
    #[inline]
    pub(crate) fn busy_until_ns(&self) -> u64 {
        match &self.credits {
            Credits::None(bucket) => bucket.busy_until_ns(),
            Credits::Refilled { peak, credits } => peak.busy_until_ns().max(credits.busy_until_ns()),
            Credits::Reset { peak, allowance } => peak.busy_until_ns().max(allowance.busy_until_ns()),
        }
    }

    /// Tells that a request waited for credits alone from `now_ns` on: they had ended by then.
    #[inline]
    pub(crate) fn credits_ended(&mut self, now_ns: u64) {
        self.emptied_ns.get_or_insert(now_ns);
    }

    /// Tells when the request that was admitted last is done.
    #[inline]
    pub(crate) fn settle(&mut self, done_ns: u64) {
        self.units.settle(done_ns);
    }

    /// Whether it counts operations.
    #[inline]
    pub(crate) fn counts_operations(&self) -> bool {
        self.unit == Unit::Operations
    }

    /// Whole credits left; `None` where it saves none.
    pub(crate) fn credits_left(&self, now_ns: u64) -> Option<u64> {
        let level = match &self.credits {
            Credits::None(_) => return None,
            Credits::Refilled { credits, .. } => credits.level(now_ns),
            Credits::Reset { allowance, .. } => allowance.level(now_ns),
        };
        u64::try_from(level / u128::from(SECOND_NS)).ok()
    }

    /// When a request first waited for credits and for nothing else.
    pub(crate) fn emptied_ns(&self) -> Option<u64> {
        self.emptied_ns
    }
}
