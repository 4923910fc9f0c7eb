"""Entries of logs as services and settings write them."""

import argparse
import json
from pathlib import Path

import pytest
from captures_for_tests import captured

from pgassay.cli.commands.traffic import capture
from pgassay.errors import UsageError
from pgassay.traffic.capturing import make_folder
from pgassay.traffic.events import events
from pgassay.traffic.logs.convert_log import convert
from pgassay.traffic.logs.entries import Log, LogEntry, prefix_pattern, unix_ns
from pgassay.traffic.logs.logged_statements import Edge, Logged, Reader, parameters
from pgassay.traffic.statement_executions import statements

SECOND_NS = 1_000_000_000
RDS = "2026-11-27 18:32:25 UTC:10.0.0.1(5432):app@shop:[4711]:LOG:  duration: 1.5 ms  statement: SELECT 1"
CLOUD_SQL = (
    "2026-11-27 18:32:25.535 UTC [4711]: [3-1] db=shop,user=app LOG:  "
    "duration: 1.5 ms  execute <unnamed>: SELECT $1\n"
    "2026-11-27 18:32:25.535 UTC [4711]: [4-1] db=shop,user=app DETAIL:  Parameters: $1 = 'x'"
)
DEBIAN = "2026-11-27 18:32:25.535 UTC [4711] app@shop LOG:  duration: 1.5 ms  statement: SELECT 1\n\t, 2"
PLAIN = "2026-11-27 18:32:25.535 UTC [4711] LOG:  duration: 1.5 ms  statement: SELECT 1"


def read(entries: list[LogEntry]) -> list[Logged]:
    return [each for each in Reader().read(entries) if isinstance(each, Logged)]


def entry(message: str, at_s: float = 1.0, level: str = "LOG", **fields: str) -> LogEntry:
    return LogEntry(int(at_s * SECOND_NS), "s", level, message, user="app", **fields)


@pytest.mark.parametrize(
    ("line", "user", "text"),
    [
        (RDS, "app", "SELECT 1"),
        (CLOUD_SQL, "app", "SELECT $1"),
        (DEBIAN, "app", "SELECT 1\n, 2"),
        (PLAIN, "", "SELECT 1"),
    ],
)
def test_the_usual_prefixes_are_known(tmp_path: Path, line: str, user: str, text: str) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(line + "\n")
    log = Log([path])
    begun, logged = Reader().read(log.entries())
    assert isinstance(begun, Edge) and isinstance(logged, Logged)
    assert dict(begun.parameters or ()).get("user", "") == user
    assert (logged.text, logged.session, log.cut) == (text, "4711", 0)
    assert logged.end_ns - logged.start_ns == 1_500_000
    assert logged.values == (("x",) if "$1" in text else ())


def test_what_log_statement_wrote_at_the_start_gets_its_duration() -> None:
    found = read(
        [entry("statement: SELECT 1", 1.0), entry("duration: 500.0 ms", 1.5), entry("statement: B", 2.0)]
    )
    assert [(each.text, each.start_ns, each.end_ns, each.has_duration) for each in found] == [
        ("SELECT 1", SECOND_NS, 3 * SECOND_NS // 2, True),
        ("B", 2 * SECOND_NS, 2 * SECOND_NS, False),
    ]


def test_what_was_logged_at_its_start_and_was_fast_is_not_lost() -> None:
    """With log_statement = mod and log_min_duration_statement = 100ms it has no duration."""
    plan = "duration: 200.0 ms  plan:\nQuery Text: SELECT 1\nResult  (cost=0.00..0.01 rows=1)"
    found = read(
        [
            entry("statement: INSERT INTO t VALUES (1)", 1.0),
            entry(plan, 2.0),
            entry("duration: 200.0 ms  statement: SELECT 1", 2.0),
            entry("execute s1: DELETE FROM t WHERE a = $1", 3.0, detail="Parameters: $1 = '7'"),
            entry("duration: 0.1 ms  parse s2: SELECT 2", 4.0),
            entry("duration: 300.0 ms  execute s2: SELECT 2", 5.0),
        ]
    )
    assert [(each.text, each.has_duration) for each in found] == [
        ("INSERT INTO t VALUES (1)", False),
        ("SELECT 1", True),
        ("DELETE FROM t WHERE a = $1", False),
        ("SELECT 2", True),
    ]


def test_an_error_is_that_of_the_statement_that_it_names() -> None:
    # Without durations nothing says that the first has ended; one that can't be parsed is not logged itself.
    found = read(
        [
            entry("statement: UPDATE t SET a = 1", 1.0),
            entry("syntax error", 2.0, "ERROR", sqlstate="42601", statement="SELEC 1"),
            entry("execute <unnamed>: SELECT 1/$1", 3.0, detail="Parameters: $1 = '0'"),
            entry("division by zero", 3.5, "ERROR", sqlstate="22012", statement="SELECT 1/$1"),
        ]
    )
    assert [(each.text, each.sqlstate, each.end_ns - each.start_ns) for each in found] == [
        ("UPDATE t SET a = 1", "", 0),
        ("SELEC 1", "42601", 0),
        ("SELECT 1/$1", "22012", SECOND_NS // 2),
    ]
    assert found[2].values == ("0",)


def test_a_session_that_is_ended_while_it_is_idle_fails_no_statement() -> None:
    ended = "terminating connection due to idle-in-transaction timeout"
    last = entry("statement: UPDATE t SET a = 1", 1.0)
    (found,) = read([last, entry(ended, 61.0, "FATAL", sqlstate="25P03")])
    assert (found.sqlstate, found.end_ns - found.start_ns) == ("", 0)
    ended = "terminating connection due to administrator command"
    (found,) = read([last, entry(ended, 3.0, "FATAL", sqlstate="57P01", statement="UPDATE t SET a = 1")])
    assert (found.sqlstate, found.end_ns - found.start_ns) == ("57P01", 2 * SECOND_NS)


def test_a_plan_of_auto_explain_counts_once() -> None:
    plan = "duration: 250.000 ms  plan:\nQuery Text: SELECT 1\nResult  (cost=0.00..0.01 rows=1)"
    alone = read([entry(plan, 1.0)])
    assert [(each.text, each.end_ns - each.start_ns) for each in alone] == [("SELECT 1", SECOND_NS // 4)]
    both = read([entry(plan, 1.0), entry("duration: 251.000 ms  statement: SELECT 1", 1.001)])
    assert [(each.text, each.end_ns - each.start_ns) for each in both] == [("SELECT 1", 251_000_000)]


def test_a_plan_of_what_a_function_executed_is_no_client_s_statement(tmp_path: Path) -> None:
    """With auto_explain.log_nested_statements they stand before the plan of the client's own statement."""
    at = "2026-11-27 18:32:25.535 UTC [7] app@shop "
    plan, end = f"{at}LOG:  duration: 1.5 ms  plan:\n\tQuery Text: ", "\n\tResult  (cost=0.00..0.01 rows=1)\n"
    (tmp_path / "postgresql.log").write_text(
        f'{plan}SELECT 2{end}{at}CONTEXT:  SQL statement "SELECT 2"\n'
        f"\tPL/pgSQL function f() line 3 at PERFORM\n{plan}SELECT f(){end}"
        # A portal with values has a context too.
        f"{at}CONTEXT:  unnamed portal with parameters: $1 = '1'\n"
    )
    log = Log([tmp_path / "postgresql.log"])
    assert [each.text for each in read(list(log.entries()))] == ["SELECT f()"] and log.cut == 0


@pytest.mark.parametrize("prefix", ["%m [%p] %q%u@%d %q", "%t %m [%p] ", "%m [%p] %p ", "%m [%p] %"])
def test_what_a_prefix_says_twice_is_read_once(prefix: str) -> None:
    line = prefix.replace("%m", "2026-11-27 18:32:25.535 UTC").replace("%t", "2026-11-27 18:32:25 UTC")
    for escape, value in (("%p", "7"), ("%q", ""), ("%u@%d", "app@shop"), ("%", "")):
        line = line.replace(escape, value)
    found = prefix_pattern(prefix).match(f"{line}LOG:  duration: 1 ms  statement: SELECT 1")
    assert found is not None and found["pid"] == "7" and found["message"].endswith("SELECT 1")


def test_a_plan_before_an_error_is_of_the_statement_before() -> None:
    plan = "duration: 250.000 ms  plan:\nQuery Text: {}\nResult  (cost=0.00..0.01 rows=1)"
    failed = entry("division by zero", 2.0, level="ERROR", sqlstate="22012", statement="SELECT 1/0")
    found = read([entry(plan.format("SELECT 1")), failed])
    assert [(each.text, each.sqlstate) for each in found] == [("SELECT 1", ""), ("SELECT 1/0", "22012")]
    # Of several statements in one text the first may have a plan.
    found = read([entry(plan.format("SELECT 1/0")), failed])
    assert [(each.text, each.sqlstate) for each in found] == [("SELECT 1/0", "22012")]


@pytest.mark.parametrize(
    "plan",
    [
        "plan:\nQuery Text: SELECT $1,\n  2\nQuery Parameters: $1 = 'x'\nResult  (cost=0.00..0.01 rows=1)",
        'plan:\n{"Query Text": "SELECT $1,\\n  2", "Query Parameters": "$1 = \'x\'", "Plan": {}}',
        'plan:\nQuery Text: "SELECT $1,\\n  2"\nQuery Parameters: "$1 = \'x\'"\nPlan: \n  Node: "A"',
        "plan:\n<explain>\n  <Query-Text>SELECT $1,\n  2</Query-Text>\n"
        "  <Query-Parameters>$1 = &apos;x&apos;</Query-Parameters>\n  <Plan>\n</explain>",
    ],
)
def test_a_plan_s_text_may_have_several_lines_and_parameters(plan: str) -> None:
    found = read([entry(f"duration: 1.000 ms  {plan}")])
    assert [(each.text, each.values) for each in found] == [("SELECT $1,\n  2", ("x",))]


def test_an_export_of_cloud_logging_holds_lines_of_stderr(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    lines = [{"textPayload": each, "insertId": "1"} for each in (*CLOUD_SQL.split("\n"), DEBIAN)]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines) + '{"textPayload": "cut')
    log = Log([path])
    found = read(list(log.entries()))
    assert [each.values for each in found] == [("x",)] and log.cut == 2


@pytest.mark.parametrize("end", ["", "cut"])
def test_a_list_that_logs_explorer_wrote_is_read_in_the_order_of_time(tmp_path: Path, end: str) -> None:
    """Its entries have several lines each, the latest comes first, and some hold no text."""
    path = tmp_path / "downloaded.json"
    head, detail = CLOUD_SQL.split("\n")
    payloads = [head, detail, head.replace("execute <unnamed>: SELECT $1", "statement: SELECT 9\n, 2")]
    entries: list[dict[str, object]] = [
        {"insertId": str(number), "textPayload": text, "timestamp": f"2026-11-27T18:32:2{5 + number // 2}.5Z"}
        for number, text in enumerate(payloads)
    ]
    entries.append({"jsonPayload": {}, "timestamp": "2026-11-27T18:32:29Z"})
    text = json.dumps(entries[::-1], indent=2)
    path.write_text(text[:-60] if end else text)
    log = Log([path])
    found = read(list(log.entries()))
    # Cut off at its end it lacks the earliest entry, whose DETAIL then belongs to nothing.
    assert [each.text for each in found] == ([] if end else ["SELECT $1"]) + ["SELECT 9\n, 2"]
    assert [each.values for each in found][:1] == ([()] if end else [("x",)])
    assert log.cut == (2 if end else 1)


def test_the_phases_of_the_extended_protocol_are_one_execution() -> None:
    found = read(
        [
            entry("duration: 0.1 ms  parse s1: SELECT $1"),
            entry("duration: 0.1 ms  bind s1: SELECT $1"),
            entry("duration: 0.5 ms  execute s1: SELECT $1", detail="parameters: $1 = 'a'"),
            entry("duration: 0.5 ms  execute s1/c1: SELECT $1"),
        ]
    )
    assert [(each.name, each.values) for each in found] == [("s1", ("a",)), ("s1", ())]


def test_only_the_chosen_sessions_of_a_log_are_written(tmp_path: Path) -> None:
    parts = [(1, "app", "shop", "SELECT 'mine'"), (2, "web", "shop", "SELECT 'theirs'")]
    captured(tmp_path, *parts)
    for number, (only, kept) in enumerate([({"users": ("app",)}, "mine"), ({"users": ("web",)}, "theirs")]):
        folder = tmp_path / str(number)
        make_folder(folder)
        found = convert([tmp_path / "postgresql.log"], folder, None, only)
        assert (found.sessions, found.statements, found.not_selected) == (1, 1, 1)
        texts = [each.text for each in statements(events(folder)) if each.protocol != "sync"]
        assert texts == [f"SELECT '{kept}'"]
    make_folder(tmp_path / "none")
    with pytest.raises(UsageError, match="names 2 other sessions"):
        convert([tmp_path / "postgresql.log"], tmp_path / "none", None, {"databases": ("stock",)})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--log", "a.csv", "--out", "x", "--no-copy-data"), "--no-copy-data does nothing with --log"),
        (("show", "monday", "--only", "users=app"), "--only does nothing with show"),
        (("redact", "monday", "--out", "x", "--max-time", "5m"), "--max-time does nothing with redact"),
        (("host=db", "--out", "x", "--log-prefix", "%m "), "--log-prefix is for --log FILE"),
    ],
)
def test_options_that_would_do_nothing_are_refused(words: tuple[str, ...], said: str) -> None:
    parser = argparse.ArgumentParser()
    capture.register(parser.add_subparsers())
    arguments = parser.parse_args(["capture", *words])
    with pytest.raises(UsageError, match=said):
        arguments.run(arguments)


def test_transactions_follow_from_their_words() -> None:
    def done(text: str) -> LogEntry:
        return entry(f"duration: 0.1 ms  statement: {text}")

    failed = entry("relation does not exist", level="ERROR", sqlstate="42P01", statement="SELECT 2")
    found = read([done("begin"), done("SELECT 1"), failed, done("ROLLBACK TO SAVEPOINT a"), done("rollback")])
    assert [each.status for each in found] == ["T", "T", "E", "T", "I"]
    assert [each.sqlstate for each in found] == ["", "", "42P01", "", ""]


@pytest.mark.parametrize(
    ("detail", "values", "is_cut"),
    [
        ("Parameters: $1 = 'it''s', $2 = NULL, $3 = ''", ("it's", None, ""), False),
        ("Parameter: $1 = 'a, $2 = b', $2 = 'c'", ("a, $2 = b", "c"), False),
        ("parameters: $1 = 'abc...'", ("abc...",), True),
        ("", (), False),
    ],
)
def test_values_are_read_in_any_language(detail: str, values: tuple[str | None, ...], is_cut: bool) -> None:
    assert parameters(detail) == (values, is_cut)


def test_times_have_their_zones_and_prefixes_their_limits() -> None:
    assert unix_ns("1970-01-01 00:00:01.5 UTC") == 1_500_000_000
    assert unix_ns("1970-01-01 02:00:01 +02") == SECOND_NS
    with pytest.raises(ValueError, match="no time"):
        unix_ns("no time")
    with pytest.raises(UsageError, match="%Z"):
        prefix_pattern("%Z %p")
    assert prefix_pattern("%n [%p] %-10u").match("1.5 [7] app        LOG:  x")
