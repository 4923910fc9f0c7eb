//! The plan by which transactions of a script are drawn.

use std::fmt::Write;
use std::sync::Arc;

use pgassay_pgbench::random::uniform;
use rand_xoshiro::Xoroshiro128StarStar;

use super::digits::{C_GROUPS, PAD_GROUPS, append};
use super::options::{SysbenchOptions, SysbenchScript};
use super::scripts::{Draw, Group, Script};
use super::unique::Unique;
use crate::transaction::{Statement, Transaction};

/// So long is a statement of bulk_insert at most (BULK_PACKET_SIZE in src/db_driver.c).
const BULK_BYTES: usize = 512 * 1024;

/// What a client is to its plan: which of how many, and the rows that it has not sent yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    client: usize,
    rows: String,
    row: u64,
}

impl Place {
    /// Of the client of this number, counted from 0.
    pub fn new(client: usize) -> Self {
        Self {
            client,
            ..Self::default()
        }
    }
}

/// A script with its options.
#[derive(Clone, Debug)]
pub struct Plan {
    tables: usize,
    table_size: i64,
    clients: usize,
    groups: Vec<Group>,
    begin_and_commit: Option<(usize, usize)>,
    gathers_rows: bool,
    unique: Arc<Unique>,
}

impl Plan {
    /// Whether one statement has the rows of many events, so that its failure loses events that were counted.
    pub fn gathers_rows(&self) -> bool {
        self.gathers_rows
    }

    /// The plan, and the statements it refers to, in the order in which sysbench prepares them.
    pub fn new(options: &SysbenchOptions, clients: usize, seed: u64) -> (Self, Vec<Statement>) {
        let mut script = Script::empty(options);
        match options.script {
            SysbenchScript::Micro(micro) => micro.add_to(&mut script),
            _ => script.add_all(clients),
        }
        let plan = Self {
            tables: options.tables,
            table_size: options.table_size,
            clients,
            groups: script.groups,
            begin_and_commit: script.begin_and_commit,
            gathers_rows: options.script == SysbenchScript::BulkInsert,
            unique: Arc::new(Unique::new(seed)),
        };
        (plan, script.statements)
    }

    /// Draws the statements of one transaction and their values; none where rows are only gathered.
    #[inline]
    pub fn draw(&self, random: &mut Xoroshiro128StarStar, place: &mut Place, transaction: &mut Transaction) {
        transaction.clear();
        if let Some((begin, _)) = self.begin_and_commit {
            transaction.push(begin, &[]);
        }
        for group in &self.groups {
            let table = if group.is_on_tables {
                draw_table(random, self.tables)
            } else {
                0
            };
            for _ in 0..group.count {
                self.draw_statement(group, table, random, place, transaction);
            }
        }
        if let Some((_, commit)) = self.begin_and_commit {
            transaction.push(commit, &[]);
        }
    }

    /// What a client has left to send at its end.
    pub fn finish(&self, place: &mut Place, transaction: &mut Transaction) {
        transaction.clear();
        for group in &self.groups {
            if group.draw == Draw::Bulk && !place.rows.is_empty() {
                send_rows(group, place, transaction);
            }
        }
    }

    #[inline]
    fn draw_statement(
        &self,
        group: &Group,
        table: usize,
        random: &mut Xoroshiro128StarStar,
        place: &mut Place,
        transaction: &mut Transaction,
    ) {
        let statement = group.first + table;
        let mut id = || group.sampler.draw(random, 1, group.largest);
        match group.draw {
            Draw::Id => transaction.push(statement, &[id()]),
            Draw::Range(above) => {
                let id = id();
                transaction.push(statement, &[id, id + above]);
            }
            Draw::TextAndId => {
                let id = id();
                let c = transaction.text(|text| append(random, C_GROUPS, text));
                transaction.push(statement, &[c, id]);
            }
            Draw::DeleteAndInsert(inserts) => {
                let (id, k) = (id(), id());
                let (c, pad) = row_texts(random, transaction);
                transaction.push(statement, &[id]);
                transaction.push(inserts + table, &[id, k, c, pad]);
            }
            Draw::List(count) => transaction.push_all(statement, (0..count).map(|_| id())),
            Draw::OwnPoints(count) => {
                let (low, high) = self.own_part(place.client);
                let points = (0..count).map(|_| group.sampler.draw(random, low, high));
                transaction.push_all(statement, points);
            }
            Draw::OwnRanges(count, delta) => {
                let (low, high) = self.own_part(place.client);
                let pairs = (0..count).flat_map(|_| {
                    let first = group.sampler.draw(random, low, high);
                    [first, first + delta]
                });
                transaction.push_all(statement, pairs);
            }
            Draw::Row { has_id } => {
                let k = id();
                let (c, pad) = row_texts(random, transaction);
                if has_id {
                    transaction.push(statement, &[self.unique.next(), k, c, pad]);
                } else {
                    transaction.push(statement, &[k, c, pad]);
                }
            }
            Draw::Bulk => gather_row(group, place, transaction),
            Draw::Nothing => transaction.push(statement, &[]),
        }
    }

    /// The segment of the table that a client has for itself, both ends included, as sysbench cuts it.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // at most 2^31
    fn own_part(&self, client: usize) -> (i64, i64) {
        let length = self.table_size as f64 / self.clients.max(1) as f64;
        let low = length * client as f64;
        (low as i64, (low + length) as i64)
    }
}

fn row_texts(random: &mut Xoroshiro128StarStar, transaction: &mut Transaction) -> (i64, i64) {
    let c = transaction.text(|text| append(random, C_GROUPS, text));
    let pad = transaction.text(|text| append(random, PAD_GROUPS, text));
    (c, pad)
}

fn gather_row(group: &Group, place: &mut Place, transaction: &mut Transaction) {
    place.row += 1;
    let row = place.row;
    let digits = row.checked_ilog10().unwrap_or(0) as usize + 1;
    let begin = "INSERT INTO sbtest VALUES".len() + (place.client + 1).to_string().len();
    let needed = 2 * digits + "(,)".len() + 1 + usize::from(!place.rows.is_empty());
    if begin + place.rows.len() + needed > BULK_BYTES {
        send_rows(group, place, transaction);
    }
    let comma = if place.rows.is_empty() { "" } else { "," };
    // Writing to a String can't fail.
    let _ = write!(place.rows, "{comma}({row},{row})");
}

fn send_rows(group: &Group, place: &mut Place, transaction: &mut Transaction) {
    let rows = transaction.text(|text| text.push_str(&place.rows));
    transaction.push(group.first + place.client, &[rows]);
    place.rows.clear();
}

/// A table's number, counted from 0.
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation
)] // at most 10,000 tables
fn draw_table(random: &mut Xoroshiro128StarStar, tables: usize) -> usize {
    uniform(random, 0, tables as i64 - 1) as usize
}

#[cfg(test)]
mod tests;
