//! The options of oltp_read_only alone, as loads without other scripts have them.

use serde::Deserialize;

use super::distribution::{Distribution, RandomOptions};
use super::options::{SysbenchOptions, SysbenchScript};

/// Options of the transaction, with sysbench's names and defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadOnlyOptions {
    /// Tables sbtest1, sbtest2, …
    pub tables: usize,
    /// Rows of each.
    pub table_size: i64,
    /// Rows of a range.
    pub range_size: i64,
    /// Statements of each kind in a transaction.
    pub point_selects: usize,
    /// Ranges read as they are.
    pub simple_ranges: usize,
    /// Ranges summed up.
    pub sum_ranges: usize,
    /// Ranges sorted.
    pub order_ranges: usize,
    /// Ranges sorted without duplicates.
    pub distinct_ranges: usize,
    /// Without BEGIN and COMMIT.
    pub skip_trx: bool,
    /// How ids are drawn.
    pub distribution: Distribution,
}

impl Default for ReadOnlyOptions {
    fn default() -> Self {
        let usual = SysbenchOptions::default();
        Self {
            tables: usual.tables,
            table_size: usual.table_size,
            range_size: usual.range_size,
            point_selects: usual.point_selects,
            simple_ranges: usual.simple_ranges,
            sum_ranges: usual.sum_ranges,
            order_ranges: usual.order_ranges,
            distinct_ranges: usual.distinct_ranges,
            skip_trx: usual.skip_trx,
            distribution: Distribution::Uniform,
        }
    }
}

impl From<&ReadOnlyOptions> for SysbenchOptions {
    fn from(given: &ReadOnlyOptions) -> Self {
        Self {
            script: SysbenchScript::OltpReadOnly,
            tables: given.tables,
            table_size: given.table_size,
            range_size: given.range_size,
            point_selects: given.point_selects,
            simple_ranges: given.simple_ranges,
            sum_ranges: given.sum_ranges,
            order_ranges: given.order_ranges,
            distinct_ranges: given.distinct_ranges,
            skip_trx: given.skip_trx,
            random: RandomOptions::of(given.distribution),
            ..Self::default()
        }
    }
}
