//! What is sent when, what each step waits for, and what came back then: worked out by one reading of the capture.

mod batches;
mod early;
pub mod forms;
mod links;
mod makers;
mod messages;
mod order;
mod parts;
mod reading;
mod requests;
mod sequences;
mod session;
mod shared;
mod texts;
pub mod values;

pub use batches::{Shares, is_together};
pub use parts::{
    Column, Expected, Family, Form, Kind, Mark, Place, Plan, Returned, Session, Span, Step, Touch, Wait,
    Wanted,
};
pub use reading::read;
