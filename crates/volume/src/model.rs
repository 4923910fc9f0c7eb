//! What a volume is, as data: the document that Python writes and [`crate::Volume`] is made from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
// No volume on sale comes near: they keep every product of the arithmetic within its type.
const RATE_MAX: u64 = 1_000_000_000_000;
const CAPACITY_MAX: u64 = 1_000_000_000_000_000_000;
const QUANTUM_MAX: u32 = 1 << 30;
const STRIPES_MAX: u32 = 64;
const WIDTH_MAX: u64 = 1 << 40;
const LIMITERS_MAX: usize = 32;
const LATENCY_MAX_NS: f64 = 1e12;
const SIGMA_MAX: f64 = 3.0;
const CHUNK_MIN: u32 = 1 << 16;
const CHUNK_MAX: u32 = 1 << 30;

/// A volume, or a stripe set of equal ones, on an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is called in answers.
    pub name: String,
    /// How requests are spread over equal volumes; one volume where it is left out.
    #[serde(default)]
    pub stripes: Stripes,
    /// What limits it; a request must be let through by all. None is a volume without limits.
    #[serde(default)]
    pub limiters: Vec<Limiter>,
    /// How long a request takes that meets no limit.
    pub latency: Latency,
    /// What the first request to each chunk takes longer; `None` where all of the volume is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_touch: Option<FirstTouch>,
}

/// A volume that was restored from a snapshot: each chunk is fetched when it is first asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstTouch {
    /// Bytes that are fetched at once.
    pub chunk_bytes: u32,
    /// How long that takes.
    pub latency: Distribution,
}

/// Equal volumes side by side (RAID 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripes {
    /// How many volumes.
    pub count: u32,
    /// Bytes on one volume before the next one's turn.
    pub width_bytes: u64,
}

impl Default for Stripes {
    fn default() -> Self {
        Self {
            count: 1,
            width_bytes: 1 << 18,
        }
    }
}

/// What a limiter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations: units of up to `quantum_bytes`.
    Operations,
    /// Bytes, in whole multiples of `quantum_bytes`.
    Bytes,
}

/// Where in the chain a limiter stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Each volume of the stripe set has one of its own, and counts its part of a request.
    #[default]
    Volume,
    /// One for the whole set.
    Stripes,
    /// The instance's; it counts whole requests, as one of the set does.
    Instance,
}

/// One limit, shared by reads and writes. Flushes cost nothing.
///
/// A request costs `⌈length / quantum_bytes⌉` units; for [`Unit::Bytes`] each unit counts `quantum_bytes`. With
/// `merging`, a request that begins where one before it ended, is of its kind, and arrives before that one is
/// done, first fills what was left of that one's last unit, which was paid already.
///
/// Two buckets of tokens let it through: the peak's (`peak` tokens a second, `window_ns` deep) and the credits'
/// (`rate` tokens a second, `capacity` deep, `fill` in it at time 0). Without `capacity` there is one, of `rate`
/// and `window_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limiter {
    /// What it is called in [`crate::Level`].
    pub name: String,
    /// Where in the chain it stands.
    #[serde(default)]
    pub scope: Scope,
    /// What it counts.
    pub unit: Unit,
    /// Operations or bytes per second that it lets through for ever.
    pub rate: u64,
    /// Operations or bytes per second while credits last; `rate` where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Credits that the bucket holds, in operations or bytes; 0 where it has none.
    #[serde(default)]
    pub capacity: u64,
    /// Credits at time 0; all that the bucket holds where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<u64>,
    /// Bytes of one unit.
    #[serde(default = "one_byte")]
    pub quantum_bytes: u32,
    /// Whether adjacent requests share units.
    #[serde(default)]
    pub merging: bool,
    /// Seconds after which credits are whole again, counted from time 0. With it, credits are no refilled bucket
    /// but an allowance: what goes beyond `rate` is taken from it, and nothing but the period brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_period_s: Option<u64>,
    /// How long a pause a limiter makes up for: the depth of the peak's bucket, in time.
    #[serde(default = "ten_milliseconds")]
    pub window_ns: u64,
}

fn one_byte() -> u32 {
    1
}

fn ten_milliseconds() -> u64 {
    10_000_000
}

/// How long requests take that meet no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Of reads.
    pub read: Distribution,
    /// Of writes.
    pub write: Distribution,
    /// Of flushes.
    pub flush: Distribution,
}

/// A lognormal distribution, and the time that bytes take.
///
/// A draw is `median_ns · exp(sigma · z) + length / bytes_per_second` with a standard normal `z`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The median, without the time of the bytes.
    pub median_ns: f64,
    /// The standard deviation of the logarithm.
    pub sigma: f64,
    /// The speed at which the bytes of one request are transferred; at once where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

/// Why a model can't be used: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl Model {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// A sentence that names the model and the first field at fault.
    pub fn check(&self) -> Result<(), Fault> {
        self.fault().map_or(Ok(()), |fault| {
            Err(Fault(format!("the model '{}': {fault}", self.name)))
        })
    }

    fn fault(&self) -> Option<String> {
        let stripes = &self.stripes;
        if !(1..=STRIPES_MAX).contains(&stripes.count) {
            return Some(format!(
                "stripes.count is {}, but must be from 1 to {STRIPES_MAX}",
                stripes.count
            ));
        }
        if !(1..=WIDTH_MAX).contains(&stripes.width_bytes) {
            let width = stripes.width_bytes;
            return Some(format!(
                "stripes.width_bytes is {width}, but must be from 1 to {WIDTH_MAX}"
            ));
        }
        if self.limiters.len() > LIMITERS_MAX {
            return Some(format!(
                "there are {} limiters, but at most {LIMITERS_MAX} can be",
                self.limiters.len()
            ));
        }
        let chunk_bytes = self.first_touch.map_or(CHUNK_MIN, |first| first.chunk_bytes);
        if !(CHUNK_MIN..=CHUNK_MAX).contains(&chunk_bytes) {
            return Some(format!(
                "first_touch.chunk_bytes is {chunk_bytes}, but must be from {CHUNK_MIN} to {CHUNK_MAX}"
            ));
        }
        let first_touch = self.first_touch.as_ref().map(|first| &first.latency);
        self.limiters.iter().find_map(Limiter::fault).or_else(|| {
            let Latency { read, write, flush } = &self.latency;
            [("read", read), ("write", write), ("flush", flush)]
                .into_iter()
                .chain(first_touch.map(|latency| ("first_touch", latency)))
                .find_map(|(kind, distribution)| distribution.fault(kind))
        })
    }
}

impl Limiter {
    /// Tokens per second while credits last.
    pub fn peak_rate(&self) -> u64 {
        self.peak.unwrap_or(self.rate)
    }

    fn fault(&self) -> Option<String> {
        let name = &self.name;
        let peak = self.peak_rate();
        let fault = if !(1..=RATE_MAX).contains(&self.rate) {
            format!("rate is {}, but must be from 1 to {RATE_MAX}", self.rate)
        } else if !(self.rate..=RATE_MAX).contains(&peak) {
            format!(
                "peak is {peak}, but must be from the rate ({}) to {RATE_MAX}",
                self.rate
            )
        } else if self.capacity > CAPACITY_MAX {
            format!("capacity is {}, but can be at most {CAPACITY_MAX}", self.capacity)
        } else if self.capacity == 0 && peak != self.rate {
            format!(
                "peak is {peak} above the rate {}, which needs a capacity",
                self.rate
            )
        } else if self.capacity > 0
            && u128::from(self.capacity) * u128::from(SECOND_NS) < u128::from(self.rate)
        {
            format!(
                "capacity is {}, but must hold what the rate brings in a nanosecond",
                self.capacity
            )
        } else if self.fill.is_some_and(|fill| fill > self.capacity) {
            format!("fill is more than the capacity {}", self.capacity)
        } else if !(1..=QUANTUM_MAX).contains(&self.quantum_bytes) {
            format!(
                "quantum_bytes is {}, but must be from 1 to {QUANTUM_MAX}",
                self.quantum_bytes
            )
        } else if !(1..=SECOND_NS).contains(&self.window_ns) {
            format!(
                "window_ns is {}, but must be from 1 to {SECOND_NS}",
                self.window_ns
            )
        } else if self
            .reset_period_s
            .is_some_and(|period| !(1..=SECOND_NS).contains(&period))
        {
            format!("reset_period_s must be from 1 to {SECOND_NS}")
        } else if self.reset_period_s.is_some() && self.capacity == 0 {
            "reset_period_s needs a capacity".to_owned()
        } else {
            return None;
        };
        Some(format!("the limiter '{name}': {fault}"))
    }
}

impl Distribution {
    fn fault(&self, kind: &str) -> Option<String> {
        let fault = if !(0.0..=LATENCY_MAX_NS).contains(&self.median_ns) {
            format!(
                "median_ns is {}, but must be from 0 to {LATENCY_MAX_NS}",
                self.median_ns
            )
        } else if !(0.0..=SIGMA_MAX).contains(&self.sigma) {
            format!("sigma is {}, but must be from 0 to {SIGMA_MAX}", self.sigma)
        } else if self.bytes_per_second == Some(0) {
            "bytes_per_second is 0, but must be at least 1".to_owned()
        } else {
            return None;
        };
        Some(format!("the latency of {kind}: {fault}"))
    }
}
