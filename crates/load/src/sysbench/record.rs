//! What a run by sysbench's rules hands back.

use pgassay_protocol::Failure;
use serde::Serialize;

use super::books::{Books, Seen};
use super::spec::SysbenchSpec;
use crate::errors::Errors;
use crate::timed::{Latency, Percentiles, Timed, serialise};
use crate::transaction::Queries;

/// sysbench's histogram: so many places from a microsecond to a hundred seconds, as wide by their logarithms.
const PLACES: usize = 1024;
const LEAST_MS: f64 = 0.001;
const MOST_MS: f64 = 1e5;

/// One interval of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SysbenchProgress {
    /// Since the measured run began.
    pub elapsed_s: f64,
    /// How long the interval was.
    pub interval_s: f64,
    /// Connections.
    pub connections: usize,
    /// Events that ended in it.
    pub events: u64,
    /// Their queries.
    pub queries: Queries,
    /// Events that were begun again.
    pub errors: u64,
    /// Connections that were opened anew.
    pub reconnects: u64,
    /// The percentile that was asked for; 0 of no event.
    pub percentile_ms: f64,
    /// Others.
    pub percentiles: Percentiles,
    /// With a rate: how many are due and wait for a connection, and how many run.
    pub queued: u64,
    /// See `queued`.
    pub running: usize,
}

impl SysbenchProgress {
    /// Of what was seen in an interval.
    pub fn new(spec: &SysbenchSpec, seen: &Seen, (elapsed_s, interval_s): (f64, f64)) -> Self {
        Self {
            elapsed_s,
            interval_s,
            connections: spec.connections,
            events: seen.latency.histogram.len(),
            queries: seen.queries,
            errors: seen.errors,
            reconnects: seen.reconnects,
            percentile_ms: seen.latency.percentile_ms(spec.percentile).unwrap_or(0.0),
            percentiles: Percentiles::of(&seen.latency),
            queued: seen.queued,
            running: seen.running,
        }
    }
}

/// What one connection did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConnectionRecord {
    /// Its events.
    pub events: u64,
    /// How long they took, together.
    pub busy_s: f64,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct SysbenchRecord {
    /// From the first event to the end of the last.
    pub elapsed_s: f64,
    /// Events.
    pub events: u64,
    /// Their queries.
    pub queries: Queries,
    /// Events that were begun again, by SQLSTATE.
    pub errors: Errors,
    /// Connections that were opened anew.
    pub reconnects: u64,
    /// What ended the run before its time.
    pub failure: Option<Failure>,
    /// How long events took.
    pub latency_ms: Latency,
    /// Their sum.
    pub latency_sum_ms: f64,
    /// The percentile that was asked for.
    pub percentile_ms: f64,
    /// Base64 of the compressed V2 serialisation of a HdrHistogram of microseconds.
    pub histogram: String,
    /// sysbench's own histogram, where it is asked for: milliseconds and how many; empty places left out.
    pub places: Vec<(f64, u64)>,
    /// With a rate: latencies from when events were due.
    pub from_due_ms: Option<Latency>,
    /// With a rate: how many were due and not begun when time was over.
    pub queued: u64,
    /// By connection.
    pub connections: Vec<ConnectionRecord>,
    /// CPU time of all threads that ran them, and of the one that used most.
    pub client_cpu_s: f64,
    /// See `client_cpu_s`.
    pub client_cpu_most_s: f64,
    /// How long the thread that waited most was ready to run and had no processor.
    pub client_waited_s: f64,
}

impl SysbenchRecord {
    /// The record of a run of this length.
    ///
    /// # Errors
    /// When the histogram can't be written.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of up to 104 days are exact in a double.
    pub fn new(
        spec: &SysbenchSpec,
        books: &Books,
        elapsed_s: f64,
        failure: Option<Failure>,
    ) -> Result<Self, Failure> {
        let connection = |of: &super::books::OfConnection| ConnectionRecord {
            events: of.events,
            busy_s: of.busy_ns as f64 / 1e9,
        };
        Ok(Self {
            elapsed_s,
            events: books.latency.histogram.len(),
            queries: books.queries,
            errors: books.errors.clone(),
            reconnects: books.reconnects,
            failure,
            latency_ms: books.latency.figures(),
            latency_sum_ms: books.latency.sum_ns as f64 / 1e6,
            percentile_ms: books.latency.percentile_ms(spec.percentile).unwrap_or(0.0),
            histogram: serialise(&books.latency.histogram)?,
            places: if spec.wants_histogram {
                places(&books.latency)
            } else {
                Vec::new()
            },
            from_due_ms: spec.rate.map(|_| books.from_due.figures()),
            queued: books.queued,
            connections: books.connections.iter().map(connection).collect(),
            client_cpu_s: books.times_of_threads.cpu_ns as f64 / 1e9,
            client_cpu_most_s: books.times_of_threads.cpu_most_ns as f64 / 1e9,
            client_waited_s: books.times_of_threads.waited_most_ns as f64 / 1e9,
        })
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn places(timed: &Timed) -> Vec<(f64, u64)> {
    let scale = (PLACES - 1) as f64 / (MOST_MS.ln() - LEAST_MS.ln());
    let mut counts = vec![0; PLACES];
    for recorded in timed.histogram.iter_recorded() {
        let value_ms = (recorded.value_iterated_to() as f64 / 1e3).max(LEAST_MS);
        let place = ((value_ms.ln() - LEAST_MS.ln()) * scale).round() as usize;
        counts[place.min(PLACES - 1)] += recorded.count_since_last_iteration();
    }
    let value_ms = |place: usize| (place as f64 / scale + LEAST_MS.ln()).exp();
    let filled = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    filled.map(|(place, count)| (value_ms(place), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysbench_s_histogram_has_its_places() {
        let mut timed = Timed::default();
        for duration_ns in [500, 1_000_000, 1_000_000, 200_000_000_000] {
            timed.count(duration_ns);
        }
        let found = places(&timed);
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert!((found[0].0 - 0.001).abs() < 1e-12, "{found:?}");
        // The place of a millisecond is at most half a place beside it, which is 0.9 % here.
        assert!(found[1].1 == 2 && (found[1].0 - 1.0).abs() < 0.01, "{found:?}");
        assert!((found[2].0 - 1e5).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn a_percentile_is_never_above_the_longest() {
        let mut timed = Timed::default();
        timed.count(1_234_567);
        assert_eq!(timed.percentile_ms(95.0), Some(1.234_567));
        assert_eq!(Timed::default().percentile_ms(95.0), None);
    }
}
