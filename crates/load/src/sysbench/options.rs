//! Which of sysbench's scripts is run, and its options by sysbench's names and defaults.

use serde::Deserialize;

use super::distribution::RandomOptions;

const TABLES_MAX: usize = 10_000;
/// `id` is a SERIAL, a 32-bit integer.
const TABLE_SIZE_MAX: i64 = i32::MAX as i64;
const STATEMENTS_MAX: usize = 10_000;
/// A message of the protocol has room for so many parameters, of which a range takes two.
const POINTS_MAX: usize = 30_000;

/// A script of sysbench's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SysbenchScript {
    /// Point selects and ranges.
    #[default]
    OltpReadOnly,
    /// The same, and updates, a delete and an insert.
    OltpReadWrite,
    /// The writing half of it.
    OltpWriteOnly,
    /// One point select, without BEGIN.
    OltpPointSelect,
    /// One update of the indexed column.
    OltpUpdateIndex,
    /// One update of another column.
    OltpUpdateNonIndex,
    /// One insert, always as a simple query.
    OltpInsert,
    /// One delete, of a row that may be gone already.
    OltpDelete,
    /// One select of an IN list.
    SelectRandomPoints,
    /// One select of several ranges.
    SelectRandomRanges,
    /// Rows of two numbers, half a megabyte a statement.
    BulkInsert,
    /// One of the series of micro-benchmarks.
    #[serde(untagged)]
    Micro(MicroScript),
}

/// One of the series of micro-benchmarks, each of one access path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // What each is stands where it is made up: micro.rs.
pub enum MicroScript {
    HotPoints,
    PointQuery,
    PointsCoveredPk,
    PointsCoveredSi,
    PointsNotcoveredPk,
    PointsNotcoveredSi,
    RandomPoints,
    #[serde(rename = "random-points-1000")]
    RandomPoints1000,
    RangeCoveredPk,
    RangeCoveredSi,
    RangeNotcoveredPk,
    RangeNotcoveredSi,
    Scan,
    ReadOnly,
    ReadOnlyCount,
    ReadOnlyDistinct,
    ReadOnlyOrder,
    ReadOnlySimple,
    ReadOnlySum,
    ReadWrite,
    WriteOnly,
    UpdateIndex,
    UpdateNonindex,
    UpdateInlist,
    UpdateOne,
    UpdateZipf,
    Delete,
    Insert,
}

/// Options of a script; those that it has no use for are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools)] // Each is one of sysbench's switches.
pub struct SysbenchOptions {
    /// Which of sysbench's scripts.
    pub script: SysbenchScript,
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
    /// Whether there are ranges at all.
    pub range_selects: bool,
    /// Updates of the indexed column.
    pub index_updates: usize,
    /// Updates of another column.
    pub non_index_updates: usize,
    /// Rows deleted and inserted again.
    pub delete_inserts: usize,
    /// Without BEGIN and COMMIT.
    pub skip_trx: bool,
    /// Whether the server chooses the `id` of an inserted row.
    pub auto_inc: bool,
    /// Numbers in the IN list of select_random_points.
    pub random_points: usize,
    /// Ranges of select_random_ranges.
    pub number_of_ranges: usize,
    /// By how much the end of each is above its beginning.
    pub delta: i64,
    /// How ids are drawn.
    pub random: RandomOptions,
}

impl Default for SysbenchOptions {
    fn default() -> Self {
        Self {
            script: SysbenchScript::default(),
            tables: 1,
            table_size: 10_000,
            range_size: 100,
            point_selects: 10,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            range_selects: true,
            index_updates: 1,
            non_index_updates: 1,
            delete_inserts: 1,
            skip_trx: false,
            auto_inc: true,
            random_points: 10,
            number_of_ranges: 10,
            delta: 5,
            random: RandomOptions::default(),
        }
    }
}

impl SysbenchOptions {
    /// A sentence that names the first field that can't be run; None when all can.
    pub fn fault(&self) -> Option<String> {
        let counts = [
            ("point_selects", self.point_selects),
            ("simple_ranges", self.simple_ranges),
            ("sum_ranges", self.sum_ranges),
            ("order_ranges", self.order_ranges),
            ("distinct_ranges", self.distinct_ranges),
            ("index_updates", self.index_updates),
            ("non_index_updates", self.non_index_updates),
            ("delete_inserts", self.delete_inserts),
        ];
        let too_many = counts.iter().find(|(_, count)| *count > STATEMENTS_MAX);
        let sizes = [
            ("table_size", self.table_size),
            ("range_size", self.range_size),
            ("delta", self.delta.max(1)),
        ];
        let points = [
            ("random_points", self.random_points),
            ("number_of_ranges", self.number_of_ranges),
        ];
        if !(1..=TABLES_MAX).contains(&self.tables) {
            let tables = self.tables;
            Some(format!("tables is {tables}, but must be from 1 to {TABLES_MAX}"))
        } else if let Some((name, size)) = sizes
            .iter()
            .find(|(_, size)| !(1..=TABLE_SIZE_MAX).contains(size))
        {
            Some(format!(
                "{name} is {size}, but must be from 1 to {TABLE_SIZE_MAX}"
            ))
        } else if let Some((name, count)) = too_many {
            Some(format!("{name} is {count}, but must be at most {STATEMENTS_MAX}"))
        } else if let Some((name, count)) = points.iter().find(|(_, count)| !(1..=POINTS_MAX).contains(count))
        {
            Some(format!("{name} is {count}, but must be from 1 to {POINTS_MAX}"))
        } else {
            self.random.fault().or_else(|| self.emptiness())
        }
    }

    fn emptiness(&self) -> Option<String> {
        let ranges = self.simple_ranges + self.sum_ranges + self.order_ranges + self.distinct_ranges;
        let reads = self.point_selects + if self.range_selects { ranges } else { 0 };
        let writes = self.index_updates + self.non_index_updates + self.delete_inserts;
        let (count, what) = match self.script {
            SysbenchScript::OltpReadOnly => (reads, "point_selects and all ranges are 0"),
            SysbenchScript::OltpReadWrite => (reads + writes, "all counts of statements are 0"),
            SysbenchScript::OltpWriteOnly => (writes, "all counts of writing statements are 0"),
            SysbenchScript::OltpUpdateIndex => (self.index_updates, "index_updates is 0"),
            SysbenchScript::OltpUpdateNonIndex => (self.non_index_updates, "non_index_updates is 0"),
            _ => return None,
        };
        (count == 0).then(|| format!("{what}, but a transaction must ask something"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_run_is_named() {
        type Change = fn(&mut SysbenchOptions);
        let cases: [(Change, &str); 9] = [
            (|o| o.tables = 0, "tables is 0"),
            (|o| o.table_size = 0, "table_size is 0"),
            (|o| o.table_size = 1 << 31, "table_size is 2147483648"),
            (|o| o.range_size = 0, "range_size is 0"),
            (|o| o.order_ranges = 10_001, "order_ranges is 10001"),
            (|o| o.random_points = 0, "random_points is 0"),
            (|o| o.random.spec_iter = 0, "spec_iter is 0"),
            (
                |o| (o.point_selects, o.range_selects) = (0, false),
                "point_selects and all ranges are 0",
            ),
            (
                |o| (o.script, o.index_updates) = (SysbenchScript::OltpUpdateIndex, 0),
                "index_updates is 0",
            ),
        ];
        for (change, sentence) in cases {
            let mut options = SysbenchOptions::default();
            change(&mut options);
            assert!(options.fault().unwrap().starts_with(sentence), "{sentence}");
        }
        assert_eq!(SysbenchOptions::default().fault(), None);
    }

    #[test]
    fn scripts_are_read_by_their_names() {
        use serde::de::value::{Error, StrDeserializer};
        let read = |text| SysbenchScript::deserialize(StrDeserializer::<Error>::new(text)).ok();
        assert_eq!(read("oltp_read_write"), Some(SysbenchScript::OltpReadWrite));
        assert_eq!(
            read("hot-points"),
            Some(SysbenchScript::Micro(MicroScript::HotPoints))
        );
        assert_eq!(read("oltp"), None);
    }
}
