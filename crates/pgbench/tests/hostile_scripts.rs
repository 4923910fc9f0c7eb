//! Whatever a file holds, it is a script or refused with a place in it; whatever an expression is, it has a value or
//! a message: never a panic, never a loop.

use pgassay_pgbench::command::Action;
use pgassay_pgbench::expression::{Evaluation, parse};
use pgassay_pgbench::random::seeded;
use pgassay_pgbench::script::Program;
use pgassay_pgbench::value::Value;
use pgassay_pgbench::variables::{Names, Variables};
use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const SCRIPTS: [&str; 4] = [
    "-- a comment\n\\set aid random(1, \\\n  10 * :scale)\nBEGIN;\nSELECT abalance\n  FROM t WHERE aid = :aid;\n\
     SELECT 1 AS one \\gset p_\n\\sleep :aid us\nEND;\n",
    "\\if :a > 5 and not (:b is null)\nSELECT ':x', E'\\'', $a$;$a$ /* ; */;\n\\elif case when 1 then 2 else 3 end = 2\n\
     SELECT 1\\; SELECT 2 \\aset\n\\else\n\\endif\n",
    "\\startpipeline\nSELECT :größe::int;\n\\syncpipeline\nSELECT \"a;b\";\n\\endpipeline\n\\shell echo :a ::b\n\
     \\setshell c expr 1 + 2\n",
    "\\set x -(1 << 3) | ~:y # 7 % -2 + 1.5e3 * abs(hash_fnv1a(:z, 5)) / pow(2, .5) - permute(3, 10) <> null\n\
     CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END;\n\\sleep 5 ms\n",
];
const OPERATORS: [&str; 21] = [
    "+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>", "<", "<=", ">", ">=", "=", "<>", "!=", "and", "or",
    "is", "~",
];
const FUNCTIONS: [&str; 28] = [
    "abs",
    "least",
    "greatest",
    "debug",
    "pi",
    "sqrt",
    "ln",
    "exp",
    "int",
    "double",
    "mod",
    "pow",
    "power",
    "random",
    "random_gaussian",
    "random_exponential",
    "random_zipfian",
    "hash",
    "hash_murmur2",
    "hash_fnv1a",
    "permute",
    "case when",
    "not",
    "(",
    "-",
    "nosuch",
    "isnull",
    "::",
];
const OPERANDS: [&str; 15] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "1.5",
    "-0.0",
    "1e300",
    "9223372036854775807",
    "-9223372036854775808",
    "null",
    "true",
    "false",
    ":a",
    ":nobody",
];

fn pick<'a>(random: &mut Xoroshiro128StarStar, from: &[&'a str]) -> &'a str {
    from[below(random, from.len())]
}

fn below(random: &mut Xoroshiro128StarStar, count: usize) -> usize {
    usize::try_from(random.next_u64() % count as u64).unwrap()
}

fn mutated(random: &mut Xoroshiro128StarStar, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.next_u64() % 6 {
        let place = below(random, bytes.len());
        match random.next_u64() % 4 {
            0 => bytes[place] = random.next_u64().to_le_bytes()[0],
            1 => bytes.truncate(place.max(1)),
            2 => bytes.insert(place, b"\\;'\"$()\n:\0"[below(random, 10)]),
            _ => {
                let from = below(random, bytes.len());
                let piece = bytes[from.min(place)..from.max(place)].to_vec();
                bytes.splice(place..place, piece);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn value(text: &str, random: &mut Xoroshiro128StarStar) -> Option<Result<Value, String>> {
    let mut names = Names::default();
    let a = names.place("a");
    let expression = parse(text, &mut names).ok()?;
    let mut variables = Variables::new(names.len());
    variables.set(a, Value::Integer(42));
    let mut evaluation = Evaluation {
        variables: &variables,
        names: &names,
        random,
        debug: &mut |_| {},
    };
    Some(evaluation.value(&expression))
}

#[test]
fn mutated_scripts_are_read_or_refused_with_a_place() {
    let mut random = Xoroshiro128StarStar::seed_from_u64(36);
    let (mut refused, mut read) = (0, 0);
    for round in 0..40_000 {
        let text = mutated(&mut random, SCRIPTS[round % SCRIPTS.len()]);
        let lines = 1..=text.matches('\n').count() + 1;
        let mut names = Names::default();
        match Program::parse("x.sql", &text, &mut names) {
            Ok(program) => {
                read += 1;
                let has_place = program
                    .commands
                    .iter()
                    .all(|command| lines.contains(&command.line));
                assert!(has_place, "{text:?}");
                let _ = program.check_parameters();
                evaluate_all(&program, &names, &mut random);
            }
            Err(fault) => {
                refused += 1;
                assert!(lines.contains(&fault.line), "{text:?}");
                assert!(fault.column.is_none_or(|column| column >= 1), "{text:?}");
                if let Some(shown) = fault.shown {
                    let room = shown.text.chars().count() + 40;
                    assert!(shown.mark.is_none_or(|mark| mark <= room), "{text:?}: {shown:?}");
                }
            }
        }
    }
    assert!(refused > 5_000 && read > 5_000, "{refused} refused, {read} read");
}

fn evaluate_all(program: &Program, names: &Names, random: &mut Xoroshiro128StarStar) {
    let mut variables = Variables::new(names.len());
    for command in &program.commands {
        let (Action::Set(_, expression) | Action::If(expression, _) | Action::Elif(expression, _, _)) =
            &command.action
        else {
            continue;
        };
        let mut evaluation = Evaluation {
            variables: &variables,
            names,
            random,
            debug: &mut |_| {},
        };
        let found = evaluation.value(expression);
        if let (Action::Set(place, _), Ok(found)) = (&command.action, found) {
            variables.set(*place, found);
        }
    }
}

fn drawn(random: &mut Xoroshiro128StarStar) -> String {
    let mut text = String::new();
    for _ in 0..=below(random, 4) {
        let (operand, other) = (pick(random, &OPERANDS), pick(random, &OPERANDS));
        let (operator, function) = (pick(random, &OPERATORS), pick(random, &FUNCTIONS));
        text.push_str(&match random.next_u64() % 4 {
            0 => format!("{operand} {operator} "),
            1 => format!("{function}({operand}, {other}) {operator} "),
            2 => format!("{function}({operand}) {operator} "),
            _ => format!("case when {operand} is not null then {other} end {operator} "),
        });
    }
    text.push_str(pick(random, &OPERANDS));
    text
}

#[test]
fn drawn_expressions_have_a_value_or_a_message() {
    let mut random = Xoroshiro128StarStar::seed_from_u64(63);
    let mut stream = seeded(5);
    let (mut values, mut messages) = (0, 0);
    for _ in 0..60_000 {
        let text = drawn(&mut random);
        match value(&text, &mut stream) {
            Some(Ok(_)) => values += 1,
            Some(Err(message)) => {
                messages += 1;
                assert!(!message.is_empty(), "{text}");
            }
            None => {}
        }
    }
    assert!(
        values > 2_000 && messages > 2_000,
        "{values} values, {messages} messages"
    );
}

#[test]
fn arithmetic_is_that_of_64_bits_or_an_error() {
    let mut random = Xoroshiro128StarStar::seed_from_u64(7);
    let edges = [
        0,
        1,
        -1,
        2,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        i64::MIN + 1,
        1 << 32,
    ];
    let mut draw = || match random.next_u64() % 3 {
        0 => edges[below(&mut random, edges.len())],
        1 => i64::from_le_bytes(random.next_u64().to_le_bytes()) >> 33,
        _ => i64::from_le_bytes(random.next_u64().to_le_bytes()),
    };
    let of = |text: String| value(&text, &mut seeded(1)).unwrap();
    for _ in 0..5_000 {
        let (a, b) = (draw(), draw());
        for (operator, word, expected) in [
            ("+", "add", a.checked_add(b)),
            ("-", "sub", a.checked_sub(b)),
            ("*", "mul", a.checked_mul(b)),
        ] {
            let wanted = expected
                .map(Value::Integer)
                .ok_or(format!("bigint {word} out of range"));
            assert_eq!(
                of(format!("({a}) {operator} ({b})")),
                wanted,
                "{a} {operator} {b}"
            );
        }
        let wanted = match b {
            0 => Err("division by zero".to_owned()),
            _ => a
                .checked_div(b)
                .map(Value::Integer)
                .ok_or("bigint div out of range".to_owned()),
        };
        assert_eq!(of(format!("({a}) / ({b})")), wanted, "{a} / {b}");
        for (operator, expected) in [
            ("<", a < b),
            ("<=", a <= b),
            ("=", a == b),
            ("<>", a != b),
            (">", a > b),
        ] {
            let found = of(format!("({a}) {operator} ({b})"));
            assert_eq!(found, Ok(Value::Boolean(expected)), "{a} {operator} {b}");
        }
    }
}

#[test]
fn draws_stay_in_their_range_and_a_permutation_hits_each_number_once() {
    let mut random = Xoroshiro128StarStar::seed_from_u64(8);
    let mut stream = seeded(9);
    for _ in 0..2_000 {
        let low = i64::from_le_bytes(random.next_u64().to_le_bytes()) >> 2;
        let high = low + i64::try_from(random.next_u64() >> 2).unwrap();
        for call in [
            format!("random({low}, {high})"),
            format!("random_gaussian({low}, {high}, 2.0)"),
            format!("random_exponential({low}, {high}, 0.5)"),
            format!("random_zipfian({low}, {high}, 1.001)"),
        ] {
            let Ok(Value::Integer(found)) = value(&call, &mut stream).unwrap() else {
                panic!("{call} has no value");
            };
            assert!((low..=high).contains(&found), "{call}: {found}");
        }
    }
    for size in [1_i64, 2, 3, 7, 64, 1000] {
        let mut found: Vec<i64> = (0..size)
            .map(
                |place| match value(&format!("permute({place}, {size}, 5)"), &mut stream) {
                    Some(Ok(Value::Integer(number))) => number,
                    other => panic!("{place} of {size}: {other:?}"),
                },
            )
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..size).collect::<Vec<_>>());
    }
}

/// Ten megabytes, whose lines would be counted for minutes if each command counted them anew.
#[test]
fn a_long_script_takes_as_long_as_its_text() {
    let text = "\\set a 1\nSELECT :a;\n".repeat(550_000);
    let program = Program::parse("long.sql", &text, &mut Names::default()).unwrap();
    assert_eq!(program.commands.len(), 1_100_000);
    assert_eq!(program.commands.last().unwrap().line, 1_100_000);
    let wide = format!("SELECT '{}', :a;", "x".repeat(10_000_000));
    let program = Program::parse("wide.sql", &wide, &mut Names::default()).unwrap();
    assert_eq!(program.commands.len(), 1);
}

#[test]
fn nesting_of_a_thousand_is_read_and_evaluated() {
    let room = std::thread::Builder::new().stack_size(64 << 20);
    let deep = room.spawn(|| {
        let depth = 1000;
        for (before, middle, after) in [
            ("(", "1", ")"),
            ("abs(", "1", ")"),
            ("- ", "1", ""),
            ("not ", "true", ""),
        ] {
            let text = format!("{}{middle}{}", before.repeat(depth), after.repeat(depth));
            assert!(matches!(value(&text, &mut seeded(1)), Some(Ok(_))), "{before}");
        }
        let text = format!(
            "{}1{}",
            "case when true then ".repeat(depth),
            " end".repeat(depth)
        );
        assert_eq!(value(&text, &mut seeded(1)), Some(Ok(Value::Integer(1))));
    });
    deep.unwrap().join().unwrap();
}
