//! Which statements each script has, in the order in which sysbench prepares them.

use super::distribution::Sampler;
use super::options::{SysbenchOptions, SysbenchScript};
use crate::transaction::{Counter, Statement, VariableKind, Wire};

/// sysbench declares whole numbers as int8, texts as varchar, and asks for binary results.
const WIRE: Wire = Wire {
    parameter_type: 20,
    result_format: 1,
    is_simple: false,
};
const SIMPLE: Wire = Wire {
    is_simple: true,
    ..WIRE
};
const INTEGER: VariableKind = VariableKind::Integer;
const TEXT: VariableKind = VariableKind::Text;

/// What is drawn for a statement, which is what its variables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// `id`.
    Id,
    /// `id` and `last`, which is this far above it.
    Range(i64),
    /// `c` and `id`.
    TextAndId,
    /// `id` of the delete; `id`, `k`, `c` and `pad` of the insert, the statement of this number on sbtest1.
    DeleteAndInsert(usize),
    /// `p0`, `p1`, …: so many ids.
    List(usize),
    /// The same from the client's own part of the table.
    OwnPoints(usize),
    /// `p0`, `q0`, `p1`, …: so many pairs, the second so far above the first.
    OwnRanges(usize, i64),
    /// `k`, `c` and `pad`; `id` before them where the client chooses it.
    Row {
        /// Whether it does.
        has_id: bool,
    },
    /// `rows` of the client's own table, when there is half a megabyte of them.
    Bulk,
    /// Nothing.
    Nothing,
}

/// Statements of one kind in one transaction: all of them on one table, drawn anew for each transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The statement on sbtest1; those on the other tables follow it.
    pub first: usize,
    /// How many of them a transaction has.
    pub count: usize,
    /// What is drawn for each.
    pub draw: Draw,
    /// The largest id that is drawn.
    pub largest: i64,
    /// How ids are drawn.
    pub sampler: Sampler,
    /// Whether there is one for each table; else for all clients one, or one each.
    pub is_on_tables: bool,
}

/// A script as it is made up.
pub struct Script {
    /// All that transactions are made of.
    pub statements: Vec<Statement>,
    /// The kinds in their order.
    pub groups: Vec<Group>,
    /// BEGIN and COMMIT, unless they are skipped.
    pub begin_and_commit: Option<(usize, usize)>,
    options: SysbenchOptions,
    sampler: Sampler,
}

impl Script {
    /// One without a statement.
    pub fn empty(options: &SysbenchOptions) -> Self {
        Self {
            statements: Vec::new(),
            groups: Vec::new(),
            begin_and_commit: None,
            options: *options,
            sampler: Sampler::new(options.random),
        }
    }

    /// Adds what a script of sysbench's has, for so many clients.
    pub fn add_all(&mut self, clients: usize) {
        let options = self.options;
        match options.script {
            SysbenchScript::OltpReadOnly => {
                self.point_selects(options.point_selects);
                self.transaction();
                self.ranges();
            }
            SysbenchScript::OltpReadWrite => {
                self.transaction();
                self.point_selects(options.point_selects);
                self.ranges();
                self.writes();
            }
            SysbenchScript::OltpWriteOnly => {
                self.transaction();
                self.writes();
            }
            SysbenchScript::OltpPointSelect => self.point_selects(1),
            SysbenchScript::OltpUpdateIndex => self.index_updates(options.index_updates),
            SysbenchScript::OltpUpdateNonIndex => self.non_index_updates(options.non_index_updates),
            SysbenchScript::OltpInsert => self.insert(),
            SysbenchScript::OltpDelete => self.delete(),
            SysbenchScript::SelectRandomPoints => self.random_points(),
            SysbenchScript::SelectRandomRanges => self.random_ranges(),
            SysbenchScript::BulkInsert => self.bulk_insert(clients),
            // Not of sysbench's: micro.rs.
            SysbenchScript::Micro(_) => {}
        }
    }

    /// The options.
    pub fn options(&self) -> &SysbenchOptions {
        &self.options
    }

    /// BEGIN and COMMIT, unless they are skipped.
    pub fn transaction(&mut self) {
        if !self.options.skip_trx {
            let mut one = |text| self.add::<&str>(text, &[], WIRE, Counter::Other);
            self.begin_and_commit = Some((one("BEGIN"), one("COMMIT")));
        }
    }

    /// So many selects of one row.
    pub fn point_selects(&mut self, count: usize) {
        self.reading(count, "SELECT c FROM sbtest{} WHERE id=:id", Draw::Id);
    }

    /// The ranges of all four kinds.
    pub fn ranges(&mut self) {
        if self.options.range_selects {
            let options = self.options;
            self.range(options.simple_ranges, "c", "");
            self.range(options.sum_ranges, "SUM(k)", "");
            self.range(options.order_ranges, "c", " ORDER BY c");
            self.range(options.distinct_ranges, "DISTINCT c", " ORDER BY c");
        }
    }

    /// So many ranges of one kind.
    pub fn range(&mut self, count: usize, columns: &str, end: &str) {
        let text = format!("SELECT {columns} FROM sbtest{{}} WHERE id BETWEEN :id AND :last{end}");
        self.reading(count, &text, Draw::Range(self.options.range_size - 1));
    }

    /// All that write.
    pub fn writes(&mut self) {
        let options = self.options;
        self.index_updates(options.index_updates);
        self.non_index_updates(options.non_index_updates);
        self.delete_inserts(options.delete_inserts);
    }

    /// So many updates of the indexed column.
    pub fn index_updates(&mut self, count: usize) {
        let text = "UPDATE sbtest{} SET k=k+1 WHERE id=:id";
        self.group(count, text, Draw::Id, WIRE, Counter::Write);
    }

    /// So many updates of another column.
    pub fn non_index_updates(&mut self, count: usize) {
        let text = "UPDATE sbtest{} SET c=:c WHERE id=:id";
        self.group(count, text, Draw::TextAndId, WIRE, Counter::Write);
    }

    fn delete_inserts(&mut self, count: usize) {
        let deletes = self.on_tables("DELETE FROM sbtest{} WHERE id=:id", &[("id", INTEGER)], WIRE);
        let row = [("id", INTEGER), ("k", INTEGER), ("c", TEXT), ("pad", TEXT)];
        let insert = "INSERT INTO sbtest{} (id, k, c, pad) VALUES (:id, :k, :c, :pad)";
        let inserts = self.on_tables(insert, &row, WIRE);
        self.push(deletes, count, Draw::DeleteAndInsert(inserts), true);
    }

    /// One delete.
    pub fn delete(&mut self) {
        let text = "DELETE FROM sbtest{} WHERE id=:id";
        self.group(1, text, Draw::Id, WIRE, Counter::Write);
    }

    /// One insert.
    pub fn insert(&mut self) {
        let has_id = !self.options.auto_inc;
        let text = if has_id {
            "INSERT INTO sbtest{} (id, k, c, pad) VALUES (:id, :k, :c, :pad)"
        } else {
            "INSERT INTO sbtest{} (k, c, pad) VALUES (:k, :c, :pad)"
        };
        self.group(1, text, Draw::Row { has_id }, SIMPLE, Counter::Write);
    }

    fn random_points(&mut self) {
        let count = self.options.random_points;
        let text = format!(
            "        SELECT id, k, c, pad\n          FROM sbtest1\n          WHERE k IN ({})\n        ",
            list(count)
        );
        let draw = Draw::OwnPoints(count);
        let first = self.add(&text, &variables(draw), WIRE, Counter::Read);
        self.push(first, 1, draw, false);
    }

    fn random_ranges(&mut self) {
        let count = self.options.number_of_ranges;
        let ranges: Vec<String> = (0..count)
            .map(|place| format!("k BETWEEN :p{place} AND :q{place}"))
            .collect();
        let text = format!(
            "        SELECT count(k)\n          FROM sbtest1\n          WHERE {}",
            ranges.join(" OR ")
        );
        let draw = Draw::OwnRanges(count, self.options.delta);
        let first = self.add(&text, &variables(draw), WIRE, Counter::Read);
        self.push(first, 1, draw, false);
    }

    fn bulk_insert(&mut self, clients: usize) {
        let first = self.statements.len();
        for client in 1..=clients {
            let text = format!("INSERT INTO sbtest{client} VALUES:rows");
            self.add(&text, &variables(Draw::Bulk), SIMPLE, Counter::Write);
        }
        self.push(first, 1, Draw::Bulk, false);
    }

    /// So many reading statements on each table.
    pub fn reading(&mut self, count: usize, text: &str, draw: Draw) {
        self.group(count, text, draw, WIRE, Counter::Read);
    }

    /// So many writing statements on each table.
    pub fn writing(&mut self, count: usize, text: &str, draw: Draw) {
        self.group(count, text, draw, WIRE, Counter::Write);
    }

    /// The kind that was added last.
    pub fn last_group(&mut self) -> Option<&mut Group> {
        self.groups.last_mut()
    }

    fn group(&mut self, count: usize, text: &str, draw: Draw, wire: Wire, counter: Counter) {
        let first = self.on_tables_counted(text, &variables(draw), wire, counter);
        self.push(first, count, draw, true);
    }

    fn push(&mut self, first: usize, count: usize, draw: Draw, is_on_tables: bool) {
        self.groups.push(Group {
            first,
            count,
            draw,
            largest: self.options.table_size,
            sampler: self.sampler,
            is_on_tables,
        });
    }

    fn on_tables(&mut self, text: &str, names: &[(&str, VariableKind)], wire: Wire) -> usize {
        self.on_tables_counted(text, names, wire, Counter::Write)
    }

    /// Appends one statement for each table, whose number is where the braces are, and returns that of the first.
    fn on_tables_counted<N: AsRef<str>>(
        &mut self,
        text: &str,
        names: &[(N, VariableKind)],
        wire: Wire,
        counter: Counter,
    ) -> usize {
        let first = self.statements.len();
        for table in 1..=self.options.tables {
            self.add(&text.replace("{}", &table.to_string()), names, wire, counter);
        }
        first
    }

    /// Appends a statement and returns its number.
    fn add<N: AsRef<str>>(
        &mut self,
        text: &str,
        names: &[(N, VariableKind)],
        wire: Wire,
        counter: Counter,
    ) -> usize {
        let number = self.statements.len();
        let statement = Statement::with_kinds(number, text, names, wire).counted_as(counter);
        self.statements.push(statement);
        number
    }
}

/// `:p0, :p1, …`.
pub fn list(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|place| format!(":p{place}")).collect();
    names.join(", ")
}

/// The variables that are drawn, in the order of their values.
fn variables(draw: Draw) -> Vec<(String, VariableKind)> {
    let fixed = |names: &[(&str, VariableKind)]| {
        names
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect()
    };
    match draw {
        Draw::Id | Draw::DeleteAndInsert(_) => fixed(&[("id", INTEGER)]),
        Draw::Range(_) => fixed(&[("id", INTEGER), ("last", INTEGER)]),
        Draw::TextAndId => fixed(&[("c", TEXT), ("id", INTEGER)]),
        Draw::List(count) | Draw::OwnPoints(count) => {
            (0..count).map(|place| (format!("p{place}"), INTEGER)).collect()
        }
        Draw::OwnRanges(count, _) => (0..count)
            .flat_map(|place| [(format!("p{place}"), INTEGER), (format!("q{place}"), INTEGER)])
            .collect(),
        Draw::Row { has_id: true } => fixed(&[("id", INTEGER), ("k", INTEGER), ("c", TEXT), ("pad", TEXT)]),
        Draw::Row { has_id: false } => fixed(&[("k", INTEGER), ("c", TEXT), ("pad", TEXT)]),
        Draw::Bulk => fixed(&[("rows", VariableKind::Raw)]),
        Draw::Nothing => Vec::new(),
    }
}
