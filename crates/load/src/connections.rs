//! Connections as applications have them: what is asked of a pool, what is counted of it, and outages of the server.

use pgassay_protocol::Failure;
use serde::{Deserialize, Serialize};

use crate::clock::Schedule;
use crate::errors::Errors;
use crate::timed::{Latency, Timed, serialise};

pub mod idle_pauses;

const LIFETIME_S_MAX: f64 = 1e7;
/// A stretch without transactions in which connections were lost counts as an outage from this length on.
const OUTAGE_NS_MIN: u64 = 100_000_000;

/// How the clients of a load come to their connections; by default each opens one and keeps it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Holding {
    /// So many connections are shared by all clients: each takes one for a transaction and gives it back.
    pub pool: Option<usize>,
    /// A connection that is older is closed after its transaction, and opened again; 0 for after each one.
    pub lifetime_s: Option<f64>,
    /// Whether a connection that the server ended is opened again, with pauses between the attempts.
    pub reconnects: bool,
}

impl Holding {
    /// Whether connections come and go.
    pub fn is_managed(&self) -> bool {
        self.pool.is_some() || self.lifetime_s.is_some() || self.reconnects
    }

    /// Why it can't be done; None when it can.
    pub fn fault(&self, threads: usize) -> Option<String> {
        let lifetimes = 0.0..=LIFETIME_S_MAX;
        match (self.pool, self.lifetime_s) {
            (Some(pool), _) if pool < threads => Some(format!(
                "pool is {pool}, but must be at least 1 for each of {threads} threads"
            )),
            (_, Some(lifetime)) if !lifetimes.contains(&lifetime) => Some(format!(
                "lifetime_s is {lifetime}, but must be from 0 to {LIFETIME_S_MAX}"
            )),
            _ => None,
        }
    }
}

/// A stretch of the monotonic clock in which no transaction ended and connections were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last transaction before it had ended.
    pub from_ns: u64,
    /// The first one after it ended; where none did, when the load ended.
    pub to_ns: u64,
    /// Whether transactions ended again.
    pub is_over: bool,
}

impl Gap {
    fn common(self, other: Self) -> Option<Self> {
        let (from_ns, to_ns) = (self.from_ns.max(other.from_ns), self.to_ns.min(other.to_ns));
        // The first thread that goes on ends it for all.
        let is_over = self.is_over || other.is_over;
        (from_ns < to_ns).then_some(Self {
            from_ns,
            to_ns,
            is_over,
        })
    }
}

/// What is counted of connections that come and go.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts {
    /// Opened in the measured interval.
    pub opened: u64,
    /// How long opening took.
    pub opening: Timed,
    /// How long transactions waited for a connection before they began.
    pub waits: Timed,
    /// Ended by the server, or lost with it.
    pub lost: u64,
    /// Attempts to open one that failed.
    pub refused: Errors,
    /// Transactions that were due and got no connection until the load ended.
    pub abandoned: u64,
    /// By thread; of all of them: what they have in common.
    pub gaps: Vec<Gap>,
    threads: usize,
}

impl ConnectionCounts {
    /// Those of one thread.
    pub fn of_thread() -> Self {
        Self {
            threads: 1,
            ..Self::default()
        }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.opening.merge(&other.opening);
        self.waits.merge(&other.waits);
        self.lost += other.lost;
        self.refused.merge(&other.refused);
        self.abandoned += other.abandoned;
        self.gaps = match (self.threads, other.threads) {
            (0, _) => other.gaps.clone(),
            (_, 0) => std::mem::take(&mut self.gaps),
            _ => common(&self.gaps, &other.gaps),
        };
        self.threads += other.threads;
    }
}

fn common(mine: &[Gap], theirs: &[Gap]) -> Vec<Gap> {
    let pairs = mine.iter().flat_map(|a| theirs.iter().map(|b| a.common(*b)));
    pairs.flatten().collect()
}

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outage {
    /// When the last transaction before it had ended, from the beginning of the measured interval.
    pub from_s: f64,
    /// How long no transaction ended.
    pub length_s: f64,
    /// Whether transactions ended again before the load did.
    pub is_over: bool,
}

/// What a record has of connections that come and go.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionRecord {
    /// Opened in the measured interval.
    pub opened: u64,
    /// How long that took.
    pub opening_ms: Latency,
    /// How long transactions waited for a connection, a part of their latency.
    pub wait_ms: Latency,
    /// The histogram of that.
    pub wait_histogram: String,
    /// Ended by the server, or lost with it.
    pub lost: u64,
    /// Attempts to open one that failed, by SQLSTATE.
    pub refused: Errors,
    /// Transactions that got no connection until the load ended.
    pub abandoned: u64,
    /// Stretches in which no transaction ended and connections were lost.
    pub outages: Vec<Outage>,
}

impl ConnectionRecord {
    /// Of these counts.
    ///
    /// # Errors
    /// When a histogram can't be serialised.
    pub fn new(counts: &ConnectionCounts, schedule: Schedule) -> Result<Self, Failure> {
        let is_told =
            |gap: &&Gap| gap.to_ns - gap.from_ns >= OUTAGE_NS_MIN && gap.to_ns > schedule.measured_from_ns;
        Ok(Self {
            opened: counts.opened,
            opening_ms: counts.opening.figures(),
            wait_ms: counts.waits.figures(),
            wait_histogram: serialise(&counts.waits.histogram)?,
            lost: counts.lost,
            refused: counts.refused.clone(),
            abandoned: counts.abandoned,
            outages: counts
                .gaps
                .iter()
                .filter(is_told)
                .map(|gap| outage(*gap, schedule))
                .collect(),
        })
    }
}

#[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
fn outage(gap: Gap, schedule: Schedule) -> Outage {
    Outage {
        from_s: (gap.from_ns as f64 - schedule.measured_from_ns as f64) / 1e9,
        length_s: (gap.to_ns - gap.from_ns) as f64 / 1e9,
        is_over: gap.is_over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counts(gaps: &[(u64, u64, bool)]) -> ConnectionCounts {
        let gaps = gaps.iter().map(|&(from, to, is_over)| Gap {
            from_ns: from * MS,
            to_ns: to * MS,
            is_over,
        });
        ConnectionCounts {
            gaps: gaps.collect(),
            ..ConnectionCounts::of_thread()
        }
    }

    #[test]
    fn an_outage_is_what_all_threads_have_in_common() {
        let schedule = Schedule {
            start_ns: 0,
            measured_from_ns: 1000 * MS,
            measured_to_ns: 9000 * MS,
        };
        let mut all = ConnectionCounts::default();
        all.merge(&counts(&[
            (200, 900, true),
            (1500, 2500, true),
            (4000, 4050, true),
        ]));
        all.merge(&counts(&[
            (100, 950, true),
            (1700, 9000, false),
            (4000, 4090, true),
        ]));
        let found = ConnectionRecord::new(&all, schedule).unwrap().outages;
        // The first lies in the warm-up, the last is too short to be one.
        assert_eq!(
            found,
            [Outage {
                from_s: 0.7,
                length_s: 0.8,
                is_over: true
            }]
        );
        // A thread that lost nothing went on.
        all.merge(&counts(&[]));
        assert!(ConnectionRecord::new(&all, schedule).unwrap().outages.is_empty());
    }

    #[test]
    fn a_pool_has_a_connection_for_each_thread() {
        let holding = |pool, lifetime_s| Holding {
            pool,
            lifetime_s,
            reconnects: false,
        };
        assert!(!Holding::default().is_managed() && holding(None, Some(0.0)).is_managed());
        assert!(holding(Some(1), None).fault(2).unwrap().contains("pool is 1"));
        assert!(holding(None, Some(-1.0)).fault(1).unwrap().contains("lifetime_s"));
        assert_eq!(holding(Some(2), Some(0.0)).fault(2), None);
    }
}
