//! The statements of a load's transactions: which they are, and what each took.

use pgassay_protocol::Failure;
use serde::Serialize;

use crate::timed::{Latency, Timed, serialise};

/// Which statement it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The script; '' of a transaction of pgassay's own.
    pub script: String,
    /// Its line there, from 1; 0 where there is no script.
    pub line: usize,
    /// Its first line.
    pub text: String,
}

impl Label {
    /// Of a script's line.
    pub fn new(script: &str, line: usize, text: &str) -> Self {
        Self {
            script: script.to_owned(),
            line,
            text: text.to_owned(),
        }
    }
}

/// What one statement took, from its send to its answer.
#[derive(Clone, Debug, Serialize)]
pub struct StatementRecord {
    /// Which it is.
    #[serde(flatten)]
    pub label: Label,
    /// How often it was executed.
    pub count: u64,
    /// In milliseconds.
    pub latency_ms: Latency,
    /// The histogram.
    pub histogram: String,
}

/// The statements that were executed, in their order.
///
/// # Errors
/// When a histogram can't be serialised.
pub fn records(timed: &[Timed], labels: &[Label]) -> Result<Vec<StatementRecord>, Failure> {
    timed
        .iter()
        .zip(labels)
        .filter(|(timed, _)| !timed.histogram.is_empty())
        .map(|(timed, label)| {
            Ok(StatementRecord {
                label: label.clone(),
                count: timed.histogram.len(),
                latency_ms: timed.figures(),
                histogram: serialise(&timed.histogram)?,
            })
        })
        .collect()
}
