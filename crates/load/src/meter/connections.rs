//! What a meter counts of connections that come and go.

use pgassay_protocol::Failure;

use super::{Meter, Phase};
use crate::connections::{ConnectionCounts, Gap};

impl Meter {
    /// From now on connections are counted.
    pub fn count_connections(&mut self) {
        self.tally.connections = Some(ConnectionCounts::of_thread());
    }

    fn connections(&mut self) -> Option<&mut ConnectionCounts> {
        self.tally.connections.as_mut()
    }

    /// Counts a connection that was opened beside the loop: how long it took, and the processor time of it.
    pub fn opened(&mut self, took_ns: u64, cpu_ns: u64) {
        if self.phase != Phase::Measured {
            return;
        }
        self.tally.opening_cpu_ns += cpu_ns;
        if let Some(counts) = self.connections() {
            counts.opened += 1;
            counts.opening.count(took_ns);
        }
    }

    /// Counts a connection that the server ended.
    pub fn lost_connection(&mut self) {
        if let Some(counts) = self.connections() {
            counts.lost += 1;
        }
    }

    /// Counts a connection that could not be opened.
    pub fn refused(&mut self, why: &Failure) {
        if let Some(counts) = self.connections() {
            counts.refused.count_refused(why);
        }
    }

    /// Notes a stretch in which no transaction ended and connections were lost.
    pub fn gap(&mut self, gap: Gap) {
        if let Some(counts) = self.connections() {
            counts.gaps.push(gap);
        }
    }

    /// Counts a transaction that was due and got no connection until `closes_ns`: with what it had waited.
    pub fn abandoned(&mut self, due_ns: u64, closes_ns: u64) {
        if self.counting.is_paced {
            if self.schedule.is_measured(due_ns) {
                self.tally.balance.scheduled += 1;
                self.tally.balance.queued += 1;
                self.undone(due_ns, closes_ns);
            }
        } else {
            self.tally.latency.count(closes_ns.saturating_sub(due_ns));
        }
        if let Some(counts) = self.connections() {
            counts.abandoned += 1;
        }
    }
}
