//! The series of micro-benchmarks that hunters of regressions run with sysbench, one access path each. The names are
//! those of the series that Mark Callaghan publishes of PostgreSQL's releases.

use super::distribution::{Distribution, RandomOptions, Sampler};
use super::options::MicroScript;
use super::scripts::{Draw, Script, list};

/// Numbers in a list of ids.
const LIST: usize = 100;
/// Numbers in a long one, and in a short one.
const LONG_LIST: usize = 1000;
const SHORT_LIST: usize = 10;
/// Rows that are read again and again.
const HOT_ROWS: i64 = 100;

impl MicroScript {
    /// Adds its statements to a script.
    pub fn add_to(self, script: &mut Script) {
        let options = *script.options();
        match self {
            Self::HotPoints => {
                self.points(script, "id, k, c, pad", "id", LIST);
                if let Some(group) = script.last_group() {
                    group.largest = group.largest.min(HOT_ROWS);
                }
            }
            Self::PointQuery => script.point_selects(1),
            Self::PointsCoveredPk => self.points(script, "id", "id", LIST),
            Self::PointsCoveredSi => self.points(script, "k", "k", LIST),
            Self::PointsNotcoveredPk => self.points(script, "c", "id", LIST),
            Self::PointsNotcoveredSi => self.points(script, "c", "k", LIST),
            Self::RandomPoints => self.points(script, "id, k, c, pad", "id", SHORT_LIST),
            Self::RandomPoints1000 => self.points(script, "id, k, c, pad", "id", LONG_LIST),
            Self::RangeCoveredPk => self.span(script, "id", "id"),
            Self::RangeCoveredSi => self.span(script, "k", "k"),
            Self::RangeNotcoveredPk => self.span(script, "c", "id"),
            Self::RangeNotcoveredSi => self.span(script, "c", "k"),
            // No row is that short: all are read and none is sent.
            Self::Scan => script.reading(1, "SELECT * FROM sbtest{} WHERE length(c) < 0", Draw::Nothing),
            Self::ReadOnly => {
                script.transaction();
                script.point_selects(options.point_selects);
                script.ranges();
            }
            Self::ReadOnlyCount => script.range(1, "count(c)", ""),
            Self::ReadOnlyDistinct => script.range(1, "DISTINCT c", " ORDER BY c"),
            Self::ReadOnlyOrder => script.range(1, "c", " ORDER BY c"),
            Self::ReadOnlySimple => script.range(1, "c", ""),
            Self::ReadOnlySum => script.range(1, "SUM(k)", ""),
            Self::ReadWrite => {
                script.transaction();
                script.point_selects(options.point_selects);
                script.ranges();
                script.writes();
            }
            Self::WriteOnly => {
                script.transaction();
                script.writes();
            }
            Self::UpdateIndex => script.index_updates(1),
            Self::UpdateNonindex => script.non_index_updates(1),
            Self::UpdateInlist => {
                let ids = list(SHORT_LIST);
                let text = format!("UPDATE sbtest{{}} SET k=k+1 WHERE id IN ({ids})");
                script.writing(1, &text, Draw::List(SHORT_LIST));
            }
            Self::UpdateOne => {
                script.non_index_updates(1);
                if let Some(group) = script.last_group() {
                    group.largest = 1;
                }
            }
            Self::UpdateZipf => {
                script.non_index_updates(1);
                let zipfian = RandomOptions {
                    distribution: Distribution::Zipfian,
                    ..options.random
                };
                if let Some(group) = script.last_group() {
                    group.sampler = Sampler::new(zipfian);
                }
            }
            Self::Delete => script.delete(),
            Self::Insert => script.insert(),
        }
    }

    /// One select of a list of ids, by the primary key or the index on `k`.
    fn points(self, script: &mut Script, columns: &str, key: &str, count: usize) {
        let ids = list(count);
        let text = format!("SELECT {columns} FROM sbtest{{}} WHERE {key} IN ({ids})");
        script.reading(1, &text, Draw::List(count));
    }

    /// One range by the primary key or the index on `k`.
    fn span(self, script: &mut Script, columns: &str, key: &str) {
        let text = format!("SELECT {columns} FROM sbtest{{}} WHERE {key} BETWEEN :id AND :last");
        let above = script.options().range_size - 1;
        script.reading(1, &text, Draw::Range(above));
    }
}
