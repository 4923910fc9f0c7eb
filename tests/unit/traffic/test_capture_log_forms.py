"""What servers and services write otherwise than the usual: names, times, texts, parts of an execution."""

import bz2
import gzip
import itertools
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from captures_for_tests import captured

from pgassay.errors import UsageError
from pgassay.traffic.capturing import make_folder
from pgassay.traffic.events import events
from pgassay.traffic.logs.convert_log import convert
from pgassay.traffic.logs.entries import Log, LogEntry, prefix_pattern
from pgassay.traffic.logs.logged_statements import Edge, Logged, Reader, Transaction, parameters
from pgassay.traffic.statement_executions import statements

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000
AT = "2026-11-27 18:32:25"
DONE = "LOG:  duration: 1.5 ms  statement: "


def read(*entries: LogEntry) -> list[Logged]:
    return [each for each in Reader().read(entries) if isinstance(each, Logged)]


def entry(message: str, at_ms: float = 1.0, level: str = "LOG", **fields: str) -> LogEntry:
    return LogEntry(int(at_ms * MS_NS), "s", level, message, user="app", **fields)


@pytest.mark.parametrize(
    ("line", "user"),
    [
        (f"{AT}.535 UTC [4711]: [3-1] db=shop,user=jo@example.com {DONE}SELECT 1", "jo@example.com"),
        (f"{AT}.535 UTC [4711] jo@example.com@shop {DONE}SELECT 1", "jo@example.com"),
        (f"{AT} UTC:2001:db8::1(5432):app@shop:[4711]:{DONE}SELECT 1", "app"),
        (f"{AT} UTC:[local]:app@shop:[4711]:{DONE}SELECT 1", "app"),
    ],
)
def test_users_may_be_addresses_and_hosts_may_have_colons(tmp_path: Path, line: str, user: str) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(f"{line}\n")
    log = Log([path])
    (found,) = log.entries()
    assert (found.user, found.database, found.session, log.cut) == (user, "shop", "4711", 0)


def test_a_background_process_has_no_user_whatever_the_prefix_is(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(f"{AT} UTC::@:[12]:LOG:  checkpoint starting: time\n")
    (found,) = Log([path]).entries()
    assert (found.user, found.database, found.session) == ("", "", "12")


def test_the_server_s_own_address_is_part_of_a_prefix() -> None:
    assert prefix_pattern("%m [%p] %L %u ").match(f"{AT}.5 UTC [7] ::1 app LOG:  x")


def test_carriage_returns_are_a_statement_s_own_unless_all_lines_have_them(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    begin = f"{AT}.535 UTC [4711] {DONE}"
    path.write_bytes(f"{begin}SELECT 'a\rb'\n{begin}SELECT 'a\r\n\tb'\n".encode())
    log = Log([path])
    assert [each.text for each in read(*log.entries())] == ["SELECT 'a\rb'", "SELECT 'a\r\nb'"]
    assert log.cut == 0
    path.write_bytes(f"{begin}SELECT 'a\r\n\tb'\r\n{begin}SELECT 2\r\n".encode())
    assert [each.text for each in read(*Log([path]).entries())] == ["SELECT 'a\nb'", "SELECT 2"]


def test_a_csvlog_is_known_by_its_lines_where_its_name_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.csv.1"
    columns = [f"{AT}.535 UTC", '"app"', '"shop"', "7", "", "6a.7", "1", "", "", "", "", "LOG", "00000"]
    path.write_text(",".join([*columns, '"duration: 1.5 ms  statement: SELECT 1"', *[""] * 9]) + "\n")
    assert [each.text for each in read(*Log([path]).entries())] == ["SELECT 1"]


def test_an_error_of_a_parallel_worker_is_its_leader_s(tmp_path: Path) -> None:
    def csv(pid: str, backend: str) -> str:
        columns = [
            f"{AT}.535 UTC",
            '"app"',
            '"shop"',
            pid,
            "",
            f"6a.{pid}",
            "1",
            "",
            "",
            "",
            "",
            "ERROR",
            "22012",
        ]
        return ",".join([*columns, "division by zero", *[""] * 5, "SELECT 1/n FROM t", "", "", "", backend])

    def json_of(pid: int, backend: str) -> str:
        at = {"timestamp": f"{AT}.535 UTC", "pid": pid, "error_severity": "ERROR", "backend_type": backend}
        return json.dumps({**at, "message": "division by zero", "statement": "SELECT 1/n FROM t"})

    def stderr(pid: str, backend: str) -> str:
        at = f"{AT}.535 UTC [{pid}] {backend} "
        return f"{at}ERROR:  division by zero\n{at}STATEMENT:  SELECT 1/n FROM t"

    who = ((8, "parallel worker"), (9, "walsender"), (7, "client backend"))
    for name, lines in (
        ("a.csv", [csv(str(pid), backend) for pid, backend in who]),
        ("a.json", [json_of(pid, backend) for pid, backend in who]),
        ("a.log", [stderr(str(pid), backend) for pid, backend in who]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        found = read(*Log([tmp_path / name], "%m [%p] %b " if name == "a.log" else None).entries())
        assert [(each.session[-1], each.sqlstate[:2]) for each in found] == [
            ("7", "22" if name == "a.csv" else "XX")
        ]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_log_is_refused_as_that(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "postgresql.log.1.gz"
    path.write_bytes(pack(f"{AT}.535 UTC [7] {DONE}SELECT 1\n".encode()))
    with pytest.raises(UsageError, match="is compressed: unpack it first"):
        list(Log([path]).entries())


def test_more_rows_of_a_portal_are_no_other_execution() -> None:
    found = read(
        entry("duration: 0.5 ms  execute S_1/C_2: SELECT 1", 1),
        entry("duration: 0.5 ms  execute fetch from S_1/C_2: SELECT 1", 2),
        entry("execute fetch from S_1/C_2: SELECT 1", 3),
        entry("duration: 0.5 ms", 4),
        entry("duration: 0.5 ms  statement: SELECT 2", 5),
    )
    assert [(each.name, each.text) for each in found] == [("S_1", "SELECT 1"), (None, "SELECT 2")]


def test_of_several_statements_within_one_tick_each_keeps_its_duration() -> None:
    found = read(*(entry("duration: 0.4 ms  statement: SELECT 1", 7) for _ in range(3)))
    assert [each.end_ns - each.start_ns for each in found] == [400_000, 400_000, 400_000]
    assert all(one.end_ns <= two.start_ns for one, two in itertools.pairwise(found))
    # No more than the tick is long.
    found = read(*(entry("duration: 0.4 ms  statement: SELECT 1", 7) for _ in range(9)))
    assert found[-1].end_ns < 8 * MS_NS


def test_a_statement_is_not_lost_where_its_duration_reaches_behind_its_session(tmp_path: Path) -> None:
    begin = f"{AT} UTC:10.0.0.1(5432):app@shop:[4711]:LOG:  "
    (tmp_path / "rds.log").write_text(
        f"{begin}connection authorized: user=app database=shop\n"
        f"{begin}duration: 900.5 ms  statement: SELECT 1\n"
    )
    make_folder(tmp_path / "c")
    convert([tmp_path / "rds.log"], tmp_path / "c")
    (found,) = (each for each in statements(events(tmp_path / "c")) if each.protocol != "sync")
    assert found.text == "SELECT 1" and found.end_ns is not None
    assert found.end_ns - found.start_ns == 900_500_000


def test_a_session_ends_behind_its_statements_though_the_clock_went_back() -> None:
    done = [
        entry("connection authorized: user=app database=shop", 9000),
        entry("duration: 1.0 ms  statement: SELECT 1", 9500),
        entry("disconnection: session time: 0:00:01", 6500),
    ]
    last = list(Reader().read(done))[-1]
    assert isinstance(last, Edge) and last.parameters is None and last.at_ns == 9500 * MS_NS


def test_a_process_s_number_that_comes_again_is_another_session(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    lines = [
        ("app@shop", 1, f"{DONE}SELECT 1"),
        # Before it is let in, nobody knows who it is.
        ("[unknown]@[unknown]", 2, "LOG:  connection received: host=10.0.0.1 port=5"),
        ("app@shop", 3, f"{DONE}SELECT 2"),
        ("batch@stock", 4, f"{DONE}SELECT 3"),
    ]
    path.write_text("".join(f"{AT}.{at}00 UTC [4711] {who} {said}\n" for who, at, said in lines))
    parts = list(Reader().read(Log([path]).entries()))
    edges = [dict(each.parameters or ()) for each in parts if isinstance(each, Edge)]
    assert edges == [
        {"user": "app", "database": "shop"},
        {},
        {"user": "batch", "database": "stock"},
    ]
    last = [each.end_ns for each in parts if isinstance(each, Logged)][1]
    assert [each.at_ns for each in parts if isinstance(each, Edge)][1] == last


def test_a_failed_statement_without_its_values_says_that_they_are_missing() -> None:
    failed = entry("duplicate key", level="ERROR", sqlstate="23505", statement="INSERT INTO t VALUES ($1)")
    (found,) = read(failed)
    assert (found.name, found.values, found.sqlstate) == ("", (), "23505")


@pytest.mark.parametrize(
    "detail", ["Parameters: $1 = 'a', $2 = 'cut", "Parameters: $1 = 'a', $2", "Parameters: $1 = 'a', "]
)
def test_a_line_that_ends_within_the_values_is_told(detail: str) -> None:
    assert parameters(detail) == (("a",), True)


@pytest.mark.parametrize(
    ("forgetting", "times"),
    [
        ("DISCARD ALL", 2),
        ("ROLLBACK; discard all;", 2),
        ("DEALLOCATE PREPARE ALL", 2),
        ('DEALLOCATE "S_1"', 2),
        ("DEALLOCATE S_1", 1),
        ("SELECT 'discard all'", 1),
    ],
)
def test_a_statement_that_the_session_forgot_is_prepared_again(
    tmp_path: Path, forgetting: str, times: int
) -> None:
    begin = f"{AT}.{{}} UTC [4711] app@shop LOG:  duration: 0.5 ms  "
    path = tmp_path / "postgresql.log"
    executed = "execute S_1: SELECT 1"
    lines = [executed, executed, f"statement: {forgetting}", executed, executed]
    path.write_text("".join(f"{begin.format(100 + at)}{line}\n" for at, line in enumerate(lines)))
    make_folder(tmp_path / "c")
    convert([path], tmp_path / "c")
    sent = [message.tag for event in events(tmp_path / "c") for message in event.messages]
    assert (sent.count("P"), sent.count("E")) == (times, 4)


@pytest.mark.parametrize(
    ("kind", "tags"), [("statement: ", ["Q", "c"]), ("execute <unnamed>: ", ["P", "B", "D", "E", "c", "S"])]
)
def test_a_copy_whose_data_no_log_has_gets_their_end(tmp_path: Path, kind: str, tags: list[str]) -> None:
    path = tmp_path / "postgresql.log"
    begin = f"{AT}.535 UTC [4711] app@shop LOG:  duration: 1.5 ms  "
    path.write_text(f"{begin}{kind}COPY t (a) FROM stdin WITH (FORMAT csv)\n")
    make_folder(tmp_path / "c")
    convert([path], tmp_path / "c")
    assert [message.tag for event in events(tmp_path / "c") for message in event.messages] == tags


def test_a_name_that_is_used_for_another_statement_is_closed_before(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.log"
    begin = f"{AT}.{{}} UTC [4711] app@shop LOG:  duration: 0.5 ms  execute "
    # What stands behind the / may be a portal, or belong to the name.
    lines = ["users/get: SELECT 1", "users/list: SELECT 2", "users/get: SELECT 1"]
    path.write_text("".join(f"{begin.format(100 + at)}{line}\n" for at, line in enumerate(lines)))
    make_folder(tmp_path / "c")
    convert([path], tmp_path / "c")
    sent = [message for event in events(tmp_path / "c") for message in event.messages]
    assert [each.tag for each in sent] == ["C", "P", "B", "D", "E", "S"] * 3
    assert {each.body for each in sent if each.tag == "C"} == {b"Susers\0"}


def test_what_sql_prepares_has_no_values_in_its_detail() -> None:
    detail = "prepare: PREPARE p AS SELECT $1 = 'x'"
    (found,) = read(entry("duration: 1.0 ms  statement: EXECUTE p ('x')", detail=detail))
    assert (found.values, found.has_cut_value) == ((), False)


@pytest.mark.parametrize(
    ("text", "parameters_"),
    [
        ("INSERT INTO t\n  (a, b)\nVALUES (1,  (2))", ""),
        ("SELECT $1", "$1 = 'a\nb', $2 = NULL"),
    ],
)
def test_a_plan_s_text_ends_where_the_plan_begins(text: str, parameters_: str) -> None:
    behind = f"\nQuery Parameters: {parameters_}" if parameters_ else ""
    plan = f"plan:\nQuery Text: {text}{behind}\nResult  (cost=0.00..0.01 rows=1 width=4)\n  ->  A  (cost=1)"
    (found,) = read(entry(f"duration: 1.000 ms  {plan}"))
    assert (found.text, found.values) == (text, ("a\nb", None) if parameters_ else ())


@pytest.mark.parametrize(
    ("texts", "states"),
    [
        (("/* shop */ BEGIN", "SELECT 1", "-- done\ncommit"), "TTI"),
        (("BEGIN; INSERT INTO t VALUES (1); COMMIT", "SELECT 1"), "II"),
        (("SELECT 'commit'; begin", "SELECT 'rollback; x'", "END"), "TTI"),
        (("BEGIN", "COMMIT AND CHAIN", "ROLLBACK AND NO CHAIN"), "TTI"),
        (("BEGIN", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'"), "TII"),
        (("BEGIN", "!SELECT 1", "ROLLBACK TO a", "COMMIT"), "TETI"),
        (("!BEGIN; SELECT 1; COMMIT", "ROLLBACK"), "EI"),
        (("!SELECT 1", "SELECT 2"), "II"),
        (("BEGIN", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "COMMIT"), "TTI"),
    ],
)
def test_transactions_are_followed_through_comments_and_several_statements(
    texts: tuple[str, ...], states: str
) -> None:
    """`!` stands before what fails."""
    transaction = Transaction()
    found = [transaction.after(each.lstrip("!"), "42P01" if each[0] == "!" else "") for each in texts]
    assert "".join(found) == states


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("COPY t FROM STDIN", "Qc"),
        ("/* orders.py:17 */ copy t from stdin", "Qc"),
        ("-- load\n\tCOPY t FROM STDIN", "Qc"),
        ("BEGIN; COPY t FROM STDIN", "Qc"),
        ("COPY t TO STDOUT", "Q"),
        ("SELECT 'COPY t FROM STDIN'", "Q"),
        ("SELECT 1 FROM stdin", "Q"),
    ],
)
def test_a_copy_has_an_end_of_its_data_whatever_stands_before_it(
    tmp_path: Path, text: str, tags: str
) -> None:
    folder = captured(tmp_path, (1, "app", "shop", text))
    sent = "".join(message.tag for event in events(folder) for message in event.messages)
    assert sent == tags
