//! The model of a cloud volume: what it lets through, and when. No I/O and no clock.
//!
//! A [`Model`] is data (JSON): limiters, latency and stripes. A [`Volume`] is its state. It is asked about one
//! request at a time, in the order of their arrival, and answers when each is done:
//!
//! ```text
//! done = max(arrival + latency, the time at which every limiter has let it through)
//! ```
//!
//! - A **limiter** counts operations or bytes. It has a rate, and where it can burst a higher peak and a bucket
//!   of credits. A request that finds too little waits until its cost has flowed in, behind those before it.
//! - Limiters form a **chain**: those of each volume of a stripe set, those of the set, those of the instance.
//!   A request is done when the last of them has let it through. Several volumes on one instance share its
//!   limits: [`Volume::submit_through`].
//! - **Latency** is drawn from a lognormal distribution by the kind of request, plus its bytes over the speed at
//!   which one request is transferred. The seed decides every draw. Of a volume that was restored from a
//!   snapshot ([`FirstTouch`]), the first request to each chunk waits for that chunk beside its latency.
//!
//! [`recording`] is what a block device did, and [`simulate::Dependencies`] what it would have done on another volume.
//!
//! Time is in nanoseconds from an origin that the caller chooses; at 0 every bucket has its fill. All arithmetic
//! of limiters is in integers: nothing drifts, however long a volume is used. Latency alone is floating point.
//!
//! ```
//! use pgassay_volume::{Kind, Model, Request, Volume};
//!
//! let model: Model = serde_json::from_str(
//!     r#"{"name": "one operation a millisecond",
//!         "limiters": [{"name": "operations", "unit": "operations", "rate": 1000, "quantum_bytes": 262144}],
//!         "latency": {"read": {"median_ns": 600000, "sigma": 0.0}, "write": {"median_ns": 600000, "sigma": 0.0},
//!                     "flush": {"median_ns": 0, "sigma": 0.0}}}"#,
//! )
//! .unwrap();
//! let mut volume = Volume::new(&model, 1).unwrap();
//! let read = Request { arrival_ns: 5_000_000, kind: Kind::Read, offset: 0, length: 8192 };
//! let completion = volume.submit(&read);
//! assert_eq!((completion.done_ns, completion.queued_ns, completion.operations), (5_600_000, 0, 1));
//! ```

mod bucket;
mod first_touch;
mod latency;
mod limiter;
pub mod model;
pub mod recording;
mod request;
pub mod simulate;
mod stripes;
mod units;
mod volume;

pub use model::{Distribution, Fault, FirstTouch, Latency, Limiter, Model, Scope, Stripes, Unit};
pub use request::{Kind, Request};
pub use volume::{Completion, Level, Volume};
