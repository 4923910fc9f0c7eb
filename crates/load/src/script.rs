//! Transactions: statements with variables, and how the variables are drawn.
//!
//! The built-in transactions are pgbench's own, statement for statement and draw for draw
//! (src/bin/pgbench/pgbench.c, builtin_script), so that results can be set beside pgbench's.

use std::fmt::Write;

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use crate::distribution::uniform;
use crate::read_only::{ReadOnly, ReadOnlyOptions};

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

/// How a prepared statement is declared and its result asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// The type of every parameter; 0 leaves it to the server, as pgbench does.
    pub parameter_type: u32,
    /// 0 for text, 1 for binary.
    pub result_format: i16,
}

/// One statement: the text around its variables, and which variables they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The name it is prepared under.
    pub name: String,
    /// The text as written, with `:name` for variables.
    pub text: String,
    /// How it travels when it is prepared.
    pub wire: Wire,
    pieces: Vec<String>,
    parameters: Vec<usize>,
}

/// One transaction as drawn: its statements in the order they are sent, each with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    values: Vec<i64>,
    /// The number of a statement, and where its values begin.
    steps: Vec<(usize, usize)>,
}

impl Transaction {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.values.clear();
        self.steps.clear();
    }

    /// Appends a statement with values of its own.
    #[inline]
    pub fn push(&mut self, statement: usize, values: &[i64]) {
        self.steps.push((statement, self.values.len()));
        self.values.extend_from_slice(values);
    }

    /// How many statements it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The number of the statement at a place, and the values it is given.
    #[inline]
    pub fn step(&self, place: usize) -> (usize, &[i64]) {
        let (statement, first_value) = self.steps[place];
        (statement, &self.values[first_value..])
    }
}

/// Where transactions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// All statements in their order, on one set of variables.
    Variables(Vec<Variable>),
    ReadOnly(ReadOnly),
}

/// Transactions that can be run for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    source: Source,
    /// All that transactions are made of; in a transaction each waits for the answer to the one before.
    pub statements: Vec<Statement>,
}

impl Script {
    /// pgbench's transactions on a data set of this scale, or sysbench's with these options.
    pub fn builtin(script: BuiltinScript, scale: i64, read_only: &ReadOnlyOptions) -> Self {
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
            BuiltinScript::OltpReadOnly => {
                let (plan, statements) = ReadOnly::new(read_only);
                Self {
                    source: Source::ReadOnly(plan),
                    statements,
                }
            }
        }
    }

    fn new(variables: Vec<Variable>, texts: &[&str]) -> Self {
        let names: Vec<&str> = variables.iter().map(|variable| variable.name).collect();
        let statement =
            |(number, text): (usize, &&str)| Statement::parse(number, text, &names, Wire::default());
        let statements = texts.iter().enumerate().map(statement).collect();
        Self {
            source: Source::Variables(variables),
            statements,
        }
    }

    /// Draws one transaction; variables in the order of their declaration.
    #[inline]
    pub fn draw(&self, random: &mut Xoroshiro128StarStar, transaction: &mut Transaction) {
        match &self.source {
            Source::Variables(variables) => {
                transaction.clear();
                let drawn = variables
                    .iter()
                    .map(|variable| uniform(random, variable.min, variable.max));
                transaction.values.extend(drawn);
                let steps = (0..self.statements.len()).map(|statement| (statement, 0));
                transaction.steps.extend(steps);
            }
            Source::ReadOnly(plan) => plan.draw(random, transaction),
        }
    }
}

impl Statement {
    /// A statement from its text; `names` are the variables that may occur in it, in the order of its values.
    pub fn parse(number: usize, text: &str, names: &[&str], wire: Wire) -> Self {
        let mut pieces = Vec::new();
        let mut parameters = Vec::new();
        let mut rest = text;
        while let Some(colon) = rest.find(':') {
            let after = &rest[colon + 1..];
            let end = after
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(after.len());
            let variable = names
                .iter()
                .position(|name| *name == &after[..end])
                .expect("a built-in statement's variable");
            pieces.push(rest[..colon].to_owned());
            parameters.push(variable);
            rest = &after[end..];
        }
        pieces.push(rest.to_owned());
        Self {
            name: format!("pgassay_{number}"),
            text: text.to_owned(),
            wire,
            pieces,
            parameters,
        }
    }

    /// The text to prepare: variables become $1, $2, … in the order they occur, a repeated one once more.
    pub fn prepared_text(&self) -> String {
        let mut text = self.pieces[0].clone();
        for (index, piece) in self.pieces[1..].iter().enumerate() {
            text.push_str(&format!("${}{piece}", index + 1));
        }
        text
    }

    /// The values of the parameters, in the order of `prepared_text`.
    #[inline]
    pub fn arguments<'a>(&'a self, values: &'a [i64]) -> impl Iterator<Item = i64> + 'a {
        self.parameters.iter().map(|&variable| values[variable])
    }

    /// The type of each parameter, where they are declared at all.
    pub fn parameter_types(&self) -> impl Iterator<Item = u32> + '_ {
        let declared = if self.wire.parameter_type == 0 {
            0
        } else {
            self.parameters.len()
        };
        std::iter::repeat_n(self.wire.parameter_type, declared)
    }

    /// Writes the text with the values in place.
    pub fn interpolate(&self, values: &[i64], text: &mut String) {
        text.clear();
        text.push_str(&self.pieces[0]);
        for (&variable, piece) in self.parameters.iter().zip(&self.pieces[1..]) {
            // Writing to a String can't fail.
            let _ = write!(text, "{}", values[variable]);
            text.push_str(piece);
        }
    }
}

/// The random streams of the clients: one generator seeds one more for each client in turn, so that a client's
/// transactions depend on the seed and its number alone, and are those of pgbench with that `--random-seed`.
pub fn client_streams(seed: u64, clients: usize) -> Vec<Xoroshiro128StarStar> {
    let mut base = Xoroshiro128StarStar::seed_from_u64(seed);
    (0..clients)
        .map(|_| Xoroshiro128StarStar::seed_from_u64(base.next_u64()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_written_both_ways() {
        let script = Script::builtin(BuiltinScript::Tpcb, 3, &ReadOnlyOptions::default());
        let update = &script.statements[1];
        assert_eq!(
            update.prepared_text(),
            "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;"
        );
        let mut text = String::new();
        update.interpolate(&[7, 1, 1, -30], &mut text);
        assert_eq!(
            text,
            "UPDATE pgbench_accounts SET abalance = abalance + -30 WHERE aid = 7;"
        );
        assert_eq!(update.arguments(&[7, 1, 1, -30]).collect::<Vec<_>>(), [-30, 7]);
        assert_eq!(script.statements.len(), 7);
        assert_eq!(script.statements[6].prepared_text(), "END;");
    }

    #[test]
    fn draws_fill_their_ranges_evenly() {
        let script = Script::builtin(BuiltinScript::Tpcb, 2, &ReadOnlyOptions::default());
        let mut random = client_streams(42, 1).remove(0);
        let mut transaction = Transaction::default();
        let mut tellers = [0_u32; 20];
        let (mut delta_min, mut delta_max) = (i64::MAX, i64::MIN);
        for _ in 0..200_000 {
            script.draw(&mut random, &mut transaction);
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

    #[test]
    fn a_client_keeps_its_stream_whatever_the_number_of_clients() {
        let mut few = client_streams(1, 2);
        let mut many = client_streams(1, 9);
        assert_eq!(few[1].next_u64(), many[1].next_u64());
        assert_ne!(few[0].next_u64(), many[2].next_u64());
    }
}
