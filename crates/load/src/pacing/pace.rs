//! What is asked of an open loop: a rate, or a curve of rates, and how arrivals lie in time.

use serde::Deserialize;

const RATE_MAX: f64 = 1e9;
const POINTS_MAX: usize = 1_000_000;
/// How long a queue is worked off after the measured interval, if nothing else is said: half as long as that, and so
/// long at most.
const DRAIN_S_MAX: f64 = 10.0;

/// How arrivals lie in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independent of each other, as those of many users: they bunch.
    #[default]
    Poisson,
    /// As even as can be, over all threads.
    Constant,
    /// Poisson, drawn in whole microseconds by each thread as pgbench's `-R` draws them.
    Pgbench,
}

/// Arrivals at a rate of their own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// How they lie in time.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Points of a curve: seconds of the measured interval, and the rate in transactions a second that is due then.
    /// Between two points the rate goes in a straight line; two points of one time are a step. Before the first, in
    /// the warm-up too, and after the last it stays as it is there.
    pub rates: Vec<(f64, f64)>,
    /// How long what is due is worked off after the measured interval. What is queued then stays undone.
    #[serde(default)]
    pub drain_s: Option<f64>,
}

impl Pace {
    /// One rate from beginning to end.
    pub fn steady(arrivals: Arrivals, rate: f64) -> Self {
        Self {
            arrivals,
            rates: vec![(0.0, rate)],
            drain_s: None,
        }
    }

    /// Why it can't be kept; None when it can.
    pub fn fault(&self) -> Option<String> {
        let is_ordered = self.rates.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        if self.rates.is_empty() || self.rates.len() > POINTS_MAX {
            Some(format!("pace needs 1 to {POINTS_MAX} rates"))
        } else if !is_ordered || self.rates.iter().any(|point| !point.0.is_finite()) {
            Some("the seconds of pace's rates must not fall".to_owned())
        } else if let Some(point) = self
            .rates
            .iter()
            .find(|point| !(0.0..=RATE_MAX).contains(&point.1))
        {
            Some(format!("a rate is {}, but must be from 0 to {RATE_MAX}", point.1))
        } else if self.rates.iter().all(|point| point.1 == 0.0) {
            Some("every rate is 0: no transaction would ever be due".to_owned())
        } else if self.arrivals == Arrivals::Pgbench && self.rates.len() > 1 {
            Some("pgbench's arrivals have one rate".to_owned())
        } else if self
            .drain_s
            .is_some_and(|seconds| !(0.0..=1e7).contains(&seconds))
        {
            Some("drain_s must be from 0 to 1e7".to_owned())
        } else {
            None
        }
    }

    /// Whether what is never begun has a latency; by pgbench's rules it has none.
    pub fn counts_undone(&self) -> bool {
        self.arrivals != Arrivals::Pgbench
    }

    /// How long the queue of an interval of this length is worked off, in seconds.
    pub fn drain_s(&self, duration_s: f64) -> f64 {
        self.drain_s.unwrap_or_else(|| drain_s(duration_s))
    }
}

/// How long what is queued after an interval of this length is worked off, if nothing else is said.
pub fn drain_s(duration_s: f64) -> f64 {
    (duration_s / 2.0).min(DRAIN_S_MAX)
}
