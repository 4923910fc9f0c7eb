//! sysbench's read-only transaction: what it asks, of which tables, and how its keys are drawn
//! (sysbench 1.0.20, src/lua/oltp_read_only.lua and src/lua/oltp_common.lua).

use pgassay_pgbench::random::uniform;
use rand_xoshiro::Xoroshiro128StarStar;
use serde::Deserialize;

pub mod distribution;

use crate::transaction::{Statement, Transaction, Wire};
use distribution::{Distribution, special};

/// sysbench declares whole numbers as int8 and asks for binary results.
const WIRE: Wire = Wire {
    parameter_type: 20,
    result_format: 1,
};
const TABLES_MAX: usize = 10_000;
/// `id` is a SERIAL, a 32-bit integer.
const TABLE_SIZE_MAX: i64 = i32::MAX as i64;
const STATEMENTS_MAX: usize = 10_000;

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
        Self {
            tables: 1,
            table_size: 10_000,
            range_size: 100,
            point_selects: 10,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            skip_trx: false,
            distribution: Distribution::Uniform,
        }
    }
}

impl ReadOnlyOptions {
    /// A sentence that names the first field that can't be run; None when all can.
    pub fn fault(&self) -> Option<String> {
        let counts = [
            ("point_selects", self.point_selects),
            ("simple_ranges", self.simple_ranges),
            ("sum_ranges", self.sum_ranges),
            ("order_ranges", self.order_ranges),
            ("distinct_ranges", self.distinct_ranges),
        ];
        let too_many = counts.iter().find(|(_, count)| *count > STATEMENTS_MAX);
        if !(1..=TABLES_MAX).contains(&self.tables) {
            Some(format!(
                "tables is {}, but must be from 1 to {TABLES_MAX}",
                self.tables
            ))
        } else if !(1..=TABLE_SIZE_MAX).contains(&self.table_size) {
            Some(format!(
                "table_size is {}, but must be from 1 to {TABLE_SIZE_MAX}",
                self.table_size
            ))
        } else if !(1..=TABLE_SIZE_MAX).contains(&self.range_size) {
            Some(format!(
                "range_size is {}, but must be from 1 to {TABLE_SIZE_MAX}",
                self.range_size
            ))
        } else if let Some((name, count)) = too_many {
            Some(format!("{name} is {count}, but must be at most {STATEMENTS_MAX}"))
        } else if counts.iter().all(|(_, count)| *count == 0) {
            Some("point_selects and all ranges are 0, but a transaction must ask something".to_owned())
        } else {
            None
        }
    }
}

/// Statements of one kind in one transaction: all of them on one table, drawn anew for each transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// The statement on sbtest1; those on the other tables follow it.
    first: usize,
    count: usize,
    is_range: bool,
}

/// The plan by which transactions are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnly {
    options: ReadOnlyOptions,
    groups: Vec<Group>,
    /// BEGIN and COMMIT, unless they are skipped.
    begin_and_commit: Option<(usize, usize)>,
}

impl ReadOnly {
    /// The plan, and the statements it refers to, in the order in which sysbench prepares them.
    pub fn new(options: &ReadOnlyOptions) -> (Self, Vec<Statement>) {
        let mut statements = Vec::new();
        let range = " BETWEEN :id AND :last";
        let sorted = " BETWEEN :id AND :last ORDER BY c";
        let group = |statements: &mut Vec<Statement>, count: usize, select: &str, condition: &str| Group {
            first: add_for_each_table(statements, options.tables, select, condition),
            count,
            is_range: condition != "=:id",
        };
        let points = group(&mut statements, options.point_selects, "c", "=:id");
        let begin_and_commit =
            (!options.skip_trx).then(|| (add(&mut statements, "BEGIN"), add(&mut statements, "COMMIT")));
        let groups = vec![
            points,
            group(&mut statements, options.simple_ranges, "c", range),
            group(&mut statements, options.sum_ranges, "SUM(k)", range),
            group(&mut statements, options.order_ranges, "c", sorted),
            group(&mut statements, options.distinct_ranges, "DISTINCT c", sorted),
        ];
        let plan = Self {
            options: options.clone(),
            groups,
            begin_and_commit,
        };
        (plan, statements)
    }

    /// Draws the statements of one transaction and their values.
    #[inline]
    pub fn draw(&self, random: &mut Xoroshiro128StarStar, transaction: &mut Transaction) {
        transaction.clear();
        if let Some((begin, _)) = self.begin_and_commit {
            transaction.push(begin, &[]);
        }
        for group in &self.groups {
            let table = draw_table(random, self.options.tables);
            for _ in 0..group.count {
                let id = self.draw_id(random);
                let last = id + self.options.range_size - 1;
                let values = [id, last];
                let used = if group.is_range { 2 } else { 1 };
                transaction.push(group.first + table, &values[..used]);
            }
        }
        if let Some((_, commit)) = self.begin_and_commit {
            transaction.push(commit, &[]);
        }
    }

    fn draw_id(&self, random: &mut Xoroshiro128StarStar) -> i64 {
        match self.options.distribution {
            Distribution::Uniform => uniform(random, 1, self.options.table_size),
            Distribution::Special => special(random, self.options.table_size),
        }
    }
}

/// Appends a statement and returns its number.
fn add(statements: &mut Vec<Statement>, text: &str) -> usize {
    let number = statements.len();
    statements.push(Statement::parse(number, text, &["id", "last"], WIRE));
    number
}

/// Appends one statement for each table and returns the number of the first.
fn add_for_each_table(
    statements: &mut Vec<Statement>,
    tables: usize,
    select: &str,
    condition: &str,
) -> usize {
    let first = statements.len();
    for table in 1..=tables {
        add(
            statements,
            &format!("SELECT {select} FROM sbtest{table} WHERE id{condition}"),
        );
    }
    first
}

/// A table's number, counted from 0.
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation
)] // at most TABLES_MAX
fn draw_table(random: &mut Xoroshiro128StarStar, tables: usize) -> usize {
    uniform(random, 0, tables as i64 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_pgbench::random::seeded;

    fn options(change: impl FnOnce(&mut ReadOnlyOptions)) -> ReadOnlyOptions {
        let mut options = ReadOnlyOptions::default();
        change(&mut options);
        options
    }

    fn texts(options: &ReadOnlyOptions, transactions: usize) -> Vec<Vec<String>> {
        let (plan, statements) = ReadOnly::new(options);
        let mut random = seeded(3);
        let mut transaction = Transaction::default();
        let mut drawn = Vec::new();
        for _ in 0..transactions {
            plan.draw(&mut random, &mut transaction);
            let text = |place: usize| {
                let (number, values) = transaction.step(place);
                let mut text = String::new();
                statements[number].interpolate(values, &mut text);
                text
            };
            drawn.push((0..transaction.len()).map(text).collect());
        }
        drawn
    }

    #[test]
    fn a_transaction_has_sixteen_statements_in_order() {
        let drawn = texts(&options(|o| (o.table_size, o.range_size) = (1, 5)), 1).remove(0);
        let mut expected = vec!["BEGIN"];
        expected.extend(["SELECT c FROM sbtest1 WHERE id=1"; 10]);
        expected.extend([
            "SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 5",
            "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND 5",
            "SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 5 ORDER BY c",
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 5 ORDER BY c",
            "COMMIT",
        ]);
        assert_eq!(drawn, expected);
    }

    #[test]
    fn options_change_the_counts_and_leave_out_the_transaction() {
        let few = options(|o| {
            (o.point_selects, o.sum_ranges, o.order_ranges, o.skip_trx) = (0, 2, 0, true);
        });
        let kinds: Vec<String> = texts(&few, 1)[0]
            .iter()
            .map(|text| text.split(" FROM").next().unwrap().to_owned())
            .collect();
        assert_eq!(
            kinds,
            ["SELECT c", "SELECT SUM(k)", "SELECT SUM(k)", "SELECT DISTINCT c"]
        );
    }

    #[test]
    fn each_group_stays_on_one_table_and_all_tables_are_used() {
        let drawn = texts(&options(|o| o.tables = 7), 400);
        let table = |text: &String| text.split_whitespace().nth(3).unwrap().to_owned();
        let mut seen = std::collections::BTreeSet::new();
        let mut differing = 0;
        for transaction in &drawn {
            let points: std::collections::BTreeSet<String> = transaction[1..11].iter().map(table).collect();
            assert_eq!(points.len(), 1, "{transaction:?}");
            differing += usize::from(!points.contains(&table(&transaction[11])));
            seen.extend(points);
        }
        assert_eq!(seen.len(), 7);
        // Six of seven: a standard deviation of 7 around 343.
        assert!((300..386).contains(&differing), "{differing}");
    }

    #[test]
    fn statements_are_prepared_in_sysbench_s_order_with_its_types() {
        let (_, statements) = ReadOnly::new(&options(|o| o.tables = 2));
        let texts: Vec<String> = statements.iter().map(Statement::prepared_text).collect();
        assert_eq!(texts[0], "SELECT c FROM sbtest1 WHERE id=$1");
        assert_eq!(texts[1], "SELECT c FROM sbtest2 WHERE id=$1");
        assert_eq!(texts[2..4], ["BEGIN", "COMMIT"]);
        assert_eq!(
            texts[11],
            "SELECT DISTINCT c FROM sbtest2 WHERE id BETWEEN $1 AND $2 ORDER BY c"
        );
        assert_eq!(statements[0].parameter_types().collect::<Vec<_>>(), [20]);
        assert_eq!(statements[11].parameter_types().collect::<Vec<_>>(), [20, 20]);
        assert_eq!(statements[2].parameter_types().count(), 0);
    }

    #[test]
    fn what_can_not_be_run_is_named() {
        type Change = fn(&mut ReadOnlyOptions);
        let cases: [(Change, &str); 6] = [
            (|o| o.tables = 0, "tables is 0"),
            (|o| o.table_size = 0, "table_size is 0"),
            (|o| o.table_size = 1 << 31, "table_size is 2147483648"),
            (|o| o.range_size = 0, "range_size is 0"),
            (|o| o.order_ranges = 10_001, "order_ranges is 10001"),
            (
                |o| {
                    (o.point_selects, o.simple_ranges, o.sum_ranges) = (0, 0, 0);
                    (o.order_ranges, o.distinct_ranges) = (0, 0);
                },
                "point_selects and all ranges are 0",
            ),
        ];
        for (change, sentence) in cases {
            assert!(
                options(change).fault().unwrap().starts_with(sentence),
                "{sentence}"
            );
        }
        assert_eq!(ReadOnlyOptions::default().fault(), None);
    }
}
