use std::collections::BTreeSet;

use pgassay_pgbench::random::seeded;

use super::*;

fn options(script: SysbenchScript, change: impl FnOnce(&mut SysbenchOptions)) -> SysbenchOptions {
    let mut options = SysbenchOptions {
        script,
        ..SysbenchOptions::default()
    };
    change(&mut options);
    options
}

fn read_only(change: impl FnOnce(&mut SysbenchOptions)) -> SysbenchOptions {
    options(SysbenchScript::OltpReadOnly, change)
}

/// Transactions as simple queries, of one client of so many.
fn texts_of(
    options: &SysbenchOptions,
    transactions: usize,
    (client, clients): (usize, usize),
) -> Vec<Vec<String>> {
    let (plan, statements) = Plan::new(options, clients, 9);
    let mut random = seeded(3);
    let (mut place, mut transaction) = (Place::new(client), Transaction::default());
    let mut drawn = Vec::new();
    for _ in 0..transactions {
        plan.draw(&mut random, &mut place, &mut transaction);
        let text = |step: usize| {
            let (number, values) = transaction.step(step);
            let mut text = String::new();
            statements[number].interpolate(values, transaction.texts(), &mut text);
            text
        };
        drawn.push((0..transaction.len()).map(text).collect());
    }
    drawn
}

fn texts(options: &SysbenchOptions, transactions: usize) -> Vec<Vec<String>> {
    texts_of(options, transactions, (0, 1))
}

#[test]
fn a_transaction_has_sixteen_statements_in_order() {
    let drawn = texts(&read_only(|o| (o.table_size, o.range_size) = (1, 5)), 1).remove(0);
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
    let few = read_only(|o| {
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
    let none = read_only(|o| o.range_selects = false);
    assert_eq!(texts(&none, 1)[0].len(), 12);
}

#[test]
fn each_group_stays_on_one_table_and_all_tables_are_used() {
    let drawn = texts(&read_only(|o| o.tables = 7), 400);
    let table = |text: &String| text.split_whitespace().nth(3).unwrap().to_owned();
    let mut seen = BTreeSet::new();
    let mut differing = 0;
    for transaction in &drawn {
        let points: BTreeSet<String> = transaction[1..11].iter().map(table).collect();
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
    let prepared = |script| {
        let (_, statements) = Plan::new(&options(script, |o| o.tables = 2), 1, 0);
        statements
    };
    let statements = prepared(SysbenchScript::OltpReadOnly);
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
    let written = prepared(SysbenchScript::OltpReadWrite);
    let last = written.last().unwrap();
    assert_eq!(
        last.prepared_text(),
        "INSERT INTO sbtest2 (id, k, c, pad) VALUES ($1, $2, $3, $4)"
    );
    assert_eq!(last.parameter_types().collect::<Vec<_>>(), [20, 20, 1043, 1043]);
}

#[test]
fn a_row_that_is_deleted_is_inserted_again_in_the_same_table() {
    let drawn = texts(&options(SysbenchScript::OltpWriteOnly, |o| o.tables = 4), 50);
    for transaction in drawn {
        assert_eq!(transaction.len(), 6);
        let words: Vec<&str> = transaction[3].split([' ', '=']).collect();
        let (table, id) = (words[2], words[5]);
        let beginning = format!("INSERT INTO {table} (id, k, c, pad) VALUES ({id}, ");
        assert!(transaction[4].starts_with(&beginning), "{transaction:?}");
        let quoted: Vec<&str> = transaction[4].split('\'').collect();
        assert_eq!((quoted[1].len(), quoted[3].len()), (119, 59));
    }
}

#[test]
fn points_and_ranges_are_of_the_client_s_own_part() {
    let points = options(SysbenchScript::SelectRandomPoints, |o| o.table_size = 1000);
    for (client, part) in [(0, 0..=250), (3, 750..=1000)] {
        for transaction in texts_of(&points, 100, (client, 4)) {
            let list = transaction[0].split(['(', ')']).nth(1).unwrap();
            let found: Vec<i64> = list.split(", ").map(|each| each.parse().unwrap()).collect();
            assert_eq!(found.len(), 10);
            assert!(found.iter().all(|each| part.contains(each)), "{found:?}");
        }
    }
    let ranges = options(SysbenchScript::SelectRandomRanges, |o| {
        (o.number_of_ranges, o.delta, o.table_size) = (2, 7, 1);
    });
    let text = texts_of(&ranges, 1, (1, 2)).remove(0).remove(0);
    assert!(
        text.contains("k BETWEEN 0 AND 7 OR k BETWEEN") || text.contains("k BETWEEN 1 AND 8 OR"),
        "{text}"
    );
}

#[test]
fn rows_are_gathered_until_half_a_megabyte_is_full() {
    let bulk = options(SysbenchScript::BulkInsert, |_| ());
    let (plan, statements) = Plan::new(&bulk, 2, 0);
    let mut random = seeded(1);
    let (mut place, mut transaction) = (Place::new(1), Transaction::default());
    let mut sent = Vec::new();
    for row in 1..=80_000 {
        plan.draw(&mut random, &mut place, &mut transaction);
        if !transaction.is_empty() {
            let (number, values) = transaction.step(0);
            let mut text = String::new();
            statements[number].interpolate(values, transaction.texts(), &mut text);
            sent.push((row, text));
        }
    }
    let (row, text) = &sent[0];
    assert!(text.starts_with("INSERT INTO sbtest2 VALUES(1,1),(2,2),(3,3)"));
    assert!(text.ends_with(&format!("({0},{0})", row - 1)));
    assert!(
        text.len() < BULK_BYTES && text.len() > BULK_BYTES - 20,
        "{}",
        text.len()
    );
    plan.finish(&mut place, &mut transaction);
    assert_eq!(transaction.len(), 1);
    assert!(transaction.texts().ends_with(",(80000,80000)"));
    plan.finish(&mut place, &mut transaction);
    assert!(transaction.is_empty());
}

#[test]
fn ids_of_inserted_rows_are_the_client_s_where_it_chooses_them() {
    let own = options(SysbenchScript::OltpInsert, |o| o.auto_inc = false);
    let drawn = texts(&own, 2);
    assert!(drawn[0][0].starts_with("INSERT INTO sbtest1 (id, k, c, pad) VALUES ("));
    assert_ne!(drawn[0][0], drawn[1][0]);
    let server = options(SysbenchScript::OltpInsert, |_| ());
    assert!(texts(&server, 1)[0][0].starts_with("INSERT INTO sbtest1 (k, c, pad) VALUES ("));
}
