//! The transactions that can be run, and how the variables of their statements are drawn.
//!
//! The built-in transactions are pgbench's own, statement for statement and draw for draw
//! (src/bin/pgbench/pgbench.c, builtin_script), so that results can be set beside pgbench's.

use std::collections::HashMap;

use rand_xoshiro::Xoroshiro128StarStar;
use serde::Deserialize;

use crate::sysbench::options::SysbenchOptions;
use crate::sysbench::plan::{Place, Plan};
use crate::sysbench::read_only::ReadOnlyOptions;
use crate::transaction::{Statement, Transaction, Wire};
use pgassay_pgbench::random::uniform;

/// The transactions that can be run: pgbench's built-in ones, and sysbench's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltinScript {
    /// One SELECT of an account.
    SelectOnly,
    /// The TPC-B-like transaction: seven statements.
    Tpcb,
    /// The same without tellers and branches: five statements.
    SimpleUpdate,
    /// sysbench's read-only transaction: `BEGIN`, point selects, ranges, `COMMIT`.
    #[serde(rename = "oltp_read_only")]
    OltpReadOnly,
    /// Any of sysbench's, which its options name.
    Sysbench,
}

const ACCOUNTS_PER_BRANCH: i64 = 100_000;
const TELLERS_PER_BRANCH: i64 = 10;
const SELECT_ACCOUNT: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;";
const UPDATE_ACCOUNT: &str = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;";
const UPDATE_TELLER: &str = "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;";
const UPDATE_BRANCH: &str = "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;";
const INSERT_HISTORY: &str = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
     VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);";

/// A variable and the inclusive range it is drawn from, uniformly, at the start of each transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: &'static str,
    min: i64,
    max: i64,
}

/// Where transactions come from.
#[derive(Clone, Debug)]
enum Source {
    /// All statements in their order, on one set of variables.
    Variables(Vec<Variable>),
    Sysbench(Plan),
}

/// Transactions that can be run for ever.
#[derive(Clone, Debug)]
pub struct Script {
    source: Source,
    /// All that transactions are made of; in a transaction each waits for the answer to the one before.
    pub statements: Vec<Statement>,
    /// By statement which kind it is of: those that differ by sysbench's table alone are of one.
    pub kinds: Vec<usize>,
    /// By kind the text of its first statement.
    pub kind_texts: Vec<String>,
}

impl Script {
    /// pgbench's transactions on a data set of this scale, or sysbench's read-only one with its defaults.
    pub fn builtin(script: BuiltinScript, scale: i64) -> Self {
        let aid = Variable {
            name: "aid",
            min: 1,
            max: ACCOUNTS_PER_BRANCH * scale,
        };
        let bid = Variable {
            name: "bid",
            min: 1,
            max: scale,
        };
        let tid = Variable {
            name: "tid",
            min: 1,
            max: TELLERS_PER_BRANCH * scale,
        };
        let delta = Variable {
            name: "delta",
            min: -5000,
            max: 5000,
        };
        match script {
            BuiltinScript::SelectOnly => Self::new(vec![aid], &[SELECT_ACCOUNT]),
            BuiltinScript::Tpcb => Self::new(
                vec![aid, bid, tid, delta],
                &[
                    "BEGIN;",
                    UPDATE_ACCOUNT,
                    SELECT_ACCOUNT,
                    UPDATE_TELLER,
                    UPDATE_BRANCH,
                    INSERT_HISTORY,
                    "END;",
                ],
            ),
            BuiltinScript::SimpleUpdate => Self::new(
                vec![aid, bid, tid, delta],
                &["BEGIN;", UPDATE_ACCOUNT, SELECT_ACCOUNT, INSERT_HISTORY, "END;"],
            ),
            BuiltinScript::OltpReadOnly | BuiltinScript::Sysbench => {
                Self::sysbench(&SysbenchOptions::from(&ReadOnlyOptions::default()), 1, 0)
            }
        }
    }

    /// A script of sysbench's, for so many clients.
    pub fn sysbench(options: &SysbenchOptions, clients: usize, seed: u64) -> Self {
        let (plan, statements) = Plan::new(options, clients, seed);
        Self::of(Source::Sysbench(plan), statements)
    }

    fn of(source: Source, statements: Vec<Statement>) -> Self {
        let (mut kinds, mut kind_texts) = (Vec::with_capacity(statements.len()), Vec::new());
        let mut places = HashMap::new();
        for statement in &statements {
            let text = on_first_table(&statement.text);
            let kind = *places.entry(text.clone()).or_insert(kind_texts.len());
            if kind == kind_texts.len() {
                kind_texts.push(text);
            }
            kinds.push(kind);
        }
        Self {
            source,
            statements,
            kinds,
            kind_texts,
        }
    }

    /// Whether a row that is there already ends a transaction and nothing else, as in sysbench's driver.
    pub fn tolerates_duplicates(&self) -> bool {
        matches!(&self.source, Source::Sysbench(plan) if !plan.gathers_rows())
    }

    /// Whether a failed statement loses transactions that were counted: then no error is tolerated.
    pub fn loses_what_was_counted(&self) -> bool {
        matches!(&self.source, Source::Sysbench(plan) if plan.gathers_rows())
    }

    /// What a client has left to send at its end.
    pub fn finish(&self, place: &mut Place, transaction: &mut Transaction) {
        transaction.clear();
        if let Source::Sysbench(plan) = &self.source {
            plan.finish(place, transaction);
        }
    }

    fn new(variables: Vec<Variable>, texts: &[&str]) -> Self {
        let names: Vec<&str> = variables.iter().map(|variable| variable.name).collect();
        let statement =
            |(number, text): (usize, &&str)| Statement::parse(number, text, &names, Wire::default());
        let statements = texts.iter().enumerate().map(statement).collect();
        Self::of(Source::Variables(variables), statements)
    }

    /// Draws one transaction; variables in the order of their declaration.
    #[inline]
    pub fn draw(&self, random: &mut Xoroshiro128StarStar, place: &mut Place, transaction: &mut Transaction) {
        match &self.source {
            Source::Variables(variables) => {
                let drawn = variables
                    .iter()
                    .map(|variable| uniform(random, variable.min, variable.max));
                transaction.set_all(self.statements.len(), drawn);
            }
            Source::Sysbench(plan) => plan.draw(random, place, transaction),
        }
    }
}

/// The text with the first of sysbench's tables in place of any.
fn on_first_table(text: &str) -> String {
    let Some((before, after)) = text.split_once("sbtest") else {
        return text.to_owned();
    };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.len() < after.len() {
        true => format!("{before}sbtest1{rest}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_pgbench::random::seeded;
    use pgassay_protocol::requests::Argument;

    #[test]
    fn statements_are_written_both_ways() {
        let script = Script::builtin(BuiltinScript::Tpcb, 3);
        let update = &script.statements[1];
        assert_eq!(
            update.prepared_text(),
            "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;"
        );
        let mut text = String::new();
        update.interpolate(&[7, 1, 1, -30], "", &mut text);
        assert_eq!(
            text,
            "UPDATE pgbench_accounts SET abalance = abalance + -30 WHERE aid = 7;"
        );
        assert_eq!(
            update.arguments(&[7, 1, 1, -30], "").collect::<Vec<_>>(),
            [Argument::Integer(-30), Argument::Integer(7)]
        );
        assert_eq!(script.statements.len(), 7);
        assert_eq!(script.statements[6].prepared_text(), "END;");
    }

    #[test]
    fn statements_of_sysbench_are_of_one_kind_on_all_tables() {
        let options = SysbenchOptions {
            tables: 3,
            ..SysbenchOptions::from(&ReadOnlyOptions::default())
        };
        let script = Script::sysbench(&options, 1, 0);
        // BEGIN, COMMIT, the point select, four ranges.
        assert_eq!(script.kind_texts.len(), 7);
        assert_eq!(script.statements.len(), 2 + 3 * 5);
        let point = "SELECT c FROM sbtest1 WHERE id=";
        assert!(
            script.kind_texts.iter().any(|text| text.starts_with(point)),
            "{:?}",
            script.kind_texts
        );
    }

    #[test]
    fn draws_fill_their_ranges_evenly() {
        let script = Script::builtin(BuiltinScript::Tpcb, 2);
        let mut random = seeded(42);
        let mut transaction = Transaction::default();
        let mut tellers = [0_u32; 20];
        let (mut delta_min, mut delta_max) = (i64::MAX, i64::MIN);
        for _ in 0..200_000 {
            script.draw(&mut random, &mut Place::default(), &mut transaction);
            let [aid, bid, tid, delta] = *transaction.step(0).1 else {
                panic!("four variables")
            };
            assert!((1..=200_000).contains(&aid) && (1..=2).contains(&bid) && (1..=20).contains(&tid));
            tellers[usize::try_from(tid - 1).unwrap()] += 1;
            delta_min = delta_min.min(delta);
            delta_max = delta_max.max(delta);
        }
        assert_eq!((delta_min, delta_max), (-5000, 5000));
        // 10,000 expected in each, standard deviation 97: six of them.
        assert!(
            tellers.iter().all(|&count| count.abs_diff(10_000) < 600),
            "{tellers:?}"
        );
    }
}
