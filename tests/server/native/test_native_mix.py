"""`pgassay-native mix` against a real server: several sessions execute one queue of statements."""

import random
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.errors import UsageError
from pgassay.native.mix import MixStatement, run_mix
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from pgassay.sql_text import constant, split_statements, strip_comments
from pgassay.workloads.row_variables import bound, documents, pieces
from pgassay.workloads.transactions import with_transactions

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SLEEP = MixStatement("sleep", "SELECT pg_sleep(0.2)")
ACTIVE = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%{}%' AND pid <> pg_backend_pid() "
    "AND state = 'active'"
)


def run(server: NativeTestServer, sql: str) -> None:
    run_mix(server.parameters(), [MixStatement("made", sql)], [0], sessions=1)


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


def test_every_execution_is_done_once_and_sessions_work_at_once(server: NativeTestServer) -> None:
    one = MixStatement("one", "SELECT generate_series(1, 3)")
    executed, _ = run_mix(server.parameters(), [SLEEP, one], [0, 1, 0, 1, 0, 1, 0], sessions=4)
    assert sorted(each.statement for each in executed) == [0, 0, 0, 0, 1, 1, 1]
    assert all(each.rows == 3 for each in executed if each.statement == 1)
    assert all(each.end_ns - each.start_ns >= 2e8 for each in executed if each.statement == 0)
    # Four sleeps of 0.2 s by four sessions: the last begins before the first ends.
    sleeps = [each for each in executed if each.statement == 0]
    assert max(each.start_ns for each in sleeps) < min(each.end_ns for each in sleeps)


def test_one_session_takes_one_after_the_other_in_their_order(server: NativeTestServer) -> None:
    texts = [MixStatement(f"{number}", f"SELECT {number}") for number in range(5)]
    executed, _ = run_mix(server.parameters(), texts, [3, 1, 4, 1, 0], sessions=1)
    assert [each.statement for each in executed] == [3, 1, 4, 1, 0]
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(executed))


def test_what_is_rolled_back_finds_the_same_rows_each_time(server: NativeTestServer) -> None:
    run(server, "CREATE TABLE kept (x int PRIMARY KEY)")
    insert = MixStatement("insert", "INSERT INTO kept VALUES (1)", rolled_back=True)
    executed, _ = run_mix(server.parameters(), [insert], [0] * 12, sessions=3)
    assert [each.outcome for each in executed] == ["ended"] * 12
    assert server.query("SELECT count(*) FROM kept") == (0,)
    # The first one stays, and the others find its key; where it always was there, they fail for good.
    plain = MixStatement("insert", insert.sql)
    executed, failures = run_mix(server.parameters(), [plain], [0] * 3, sessions=1)
    assert [(each.outcome, each.sqlstate) for each in executed] == [
        ("ended", None),
        *[("failed", "23505")] * 2,
    ]
    assert [(each.statement, each.sqlstate) for each in failures] == [(0, "23505")]
    with pytest.raises(StatementError, match='statement "insert": duplicate key') as caught:
        run_mix(server.parameters(), [plain], [0] * 50, sessions=2)
    assert caught.value.sqlstate == "23505"


def test_a_transaction_is_executed_as_it_is_written(server: NativeTestServer) -> None:
    run(
        server, "DROP TABLE IF EXISTS account; CREATE TABLE account (i int PRIMARY KEY, x int CHECK (x > -5))"
    )
    run(server, "INSERT INTO account VALUES (1, 0), (2, 0)")
    text = (
        "BEGIN; -- name: take\nUPDATE account SET x = x - 1 WHERE i = 1;"
        "-- name: give\nUPDATE account SET x = x + 1 WHERE i = 2; COMMIT"
    )
    (written,) = with_transactions(text, "file")
    transfer = MixStatement("transfer", "", parts=documents(written))
    executed, failures = run_mix(server.parameters(), [transfer], [0] * 10, sessions=3)
    ended = [each for each in executed if each.outcome == "ended"]
    # What the server refused is rolled back whole; the others are there.
    assert server.query("SELECT array_agg(x ORDER BY i) FROM account") == ([-4, 4],)
    assert len(ended) == 4 and {each.sqlstate for each in executed if each not in ended} == {"23514"}
    assert all(len(each.parts_ns) == 4 for each in ended)
    assert all(sum(each.parts_ns) <= each.end_ns - each.start_ns for each in ended)
    (failure,) = failures
    assert 'its statement "take": new row for relation "account"' in failure.message
    with pytest.raises(StatementError, match='statement "transfer": its statement "take"'):
        run_mix(server.parameters(), [transfer], [0] * 50, sessions=2)


KEPT = r"""
BEGIN;
SELECT few[:id] FROM (SELECT ARRAY[1, 2] AS few, 1 AS id) line;
INSERT INTO orders (buyer) VALUES ('O''Neill \\ Sons') RETURNING id, buyer \gset
SELECT count(*) AS "rows", 'lines' AS name, NULL AS nothing FROM orders \gset all_
SAVEPOINT before;
INSERT INTO :"all_name" VALUES (:id, :'buyer' || ' :id', (ARRAY[1,2,3])[:2], :id::text || :all_rows);
UPDATE lines SET counted = counted || :{?id} || :{?nothing} WHERE few[few[1]:few[2]] IS NOT NULL AND id = :id;
COMMIT;
"""


def test_what_gset_keeps_is_what_psql_keeps(server: NativeTestServer) -> None:
    """The same file by psql, by one session and by several leaves the same rows, but for their keys."""
    made = (
        "DROP TABLE IF EXISTS orders, lines; CREATE TABLE orders (id serial PRIMARY KEY, buyer text);"
        "CREATE TABLE lines (id int REFERENCES orders, buyer text, few int[], counted text)"
    )
    found = "SELECT json_agg(l ORDER BY id) FROM lines l"
    (written,) = with_transactions(KEPT, "file")
    run(server, made)
    file = server.folder / "kept.sql"
    file.write_text(KEPT * 2)
    address = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres")
    server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *address, "-d", "postgres", "-f", str(file))
    expected = server.query(found)
    line = {"buyer": r"O'Neill \\ Sons :id", "few": [1, 2]}
    assert expected == (
        [{"id": 1, "counted": "11truefalse"} | line, {"id": 2, "counted": "22truefalse"} | line],
    )
    run(server, made)
    with SqlSession() as session:
        session.connect(server.parameters())
        for _ in range(2):
            assert len(session.execute_transaction("order", documents(written)).parts_ns) == 8
    assert server.query(found) == expected
    run(server, made)
    order = MixStatement("order", "", parts=documents(written))
    executed, _ = run_mix(server.parameters(), [order], [0] * 20, sessions=4)
    assert {each.outcome for each in executed} == {"ended"}
    assert server.query("SELECT count(DISTINCT id), max(id) FROM lines") == (20, 20)


VALUES = {"n": "7", "q": r"O'N\eill", "1": "one", "col": 'a "b'}
FRAGMENTS = [
    *(":n", ":q", ":1", ":'q'", ":'col'", ':"q"', ':"col"', ":x", ":'x'", ':"x"', ":{?n}", ":{?x}"),
    *(":{n}", ":'n x'", ":'", "'n'", "''", "E'\\':n'", "'a\\'", '":n"', "$$:n$$", "$a$:n$a$", "$1", "1"),
    *("1.5", "0x1", "a", "n", "$", ":", "::", ":=", "[", "]", "-", "+", "/", ".", ",", " ", "\n", "é"),
    *("N", "U&", "x", "/*:n/*:n*/:n*/", "--:n\n", "\\"),
]


def test_a_variable_is_where_psql_has_one(server: NativeTestServer) -> None:
    draw = random.Random(36)
    columns = ", ".join(f'{constant(value)} AS "{name}"' for name, value in VALUES.items())
    texts = []
    for _ in range(1000):
        text = "SELECT " + "".join(draw.choices(FRAGMENTS, k=draw.randint(1, 12)))
        with suppress(UsageError):
            # For psql all of it is to be closed, and a value that stands as it is has a quote that is not.
            closed = "".join(each.text if each.quote is None else " v " for each in pieces(text))
            is_whole = split_statements(text, "") == [text] and split_statements(closed, "") == [closed]
            if is_whole and ":q" not in text and "\\" not in strip_comments(closed):
                texts.append(text)
    file = server.folder / "variables.sql"
    file.write_text(f"SELECT {columns} \\gset\n" + "".join(f"\\echo ==\n{text}\n;\n" for text in texts))
    address = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres", "-d", "postgres")
    said = server.run("psql", "-X", "-q", "-e", "-f", str(file), *address)
    assert len(texts) > 500
    for text, answer in zip(texts, said.split("==\n")[1:], strict=True):
        # psql leaves empty lines out.
        ours, theirs = (re.sub(r"\n+", "\n", each) for each in (bound(pieces(text), VALUES), answer))
        assert theirs.startswith(f"{ours}\n;\n".replace("\n\n", "\n")), text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1 AS a WHERE false \\gset\n", "wants one row, and 0 came"),
        ("SELECT generate_series(1, 2) AS a \\gset\n", "wants one row, and 2 came"),
        ("SELECT NULL AS a \\gset\nSELECT :a;", r'at or near ":" \(no \\gset has set :a, or to null\)'),
        ("SELECT 1 AS b \\gset\nSELECT :'a';", r'at or near ":" \(no \\gset has set :\'a\''),
        ("SELECT 1 AS b \\gset\nSELECT 1 FROM nowhere;", r'relation "nowhere" does not exist \(42P01\)$'),
    ],
)
def test_a_row_that_can_not_be_kept_ends_the_transaction(
    server: NativeTestServer, text: str, said: str
) -> None:
    (written,) = with_transactions(f"BEGIN; {text} COMMIT;", "file")
    with SqlSession() as session:
        session.connect(server.parameters())
        with pytest.raises(StatementError, match=said):
            session.execute_transaction("order", documents(written))
        # It was rolled back, and the session goes on.
        assert session.execute("after", "BEGIN; SELECT 1; COMMIT").rows == 1


def test_a_limit_stops_one_statement_and_no_other(server: NativeTestServer) -> None:
    slow = MixStatement("slow", "SELECT pg_sleep(30)", limit_ms=100)
    executed, _ = run_mix(server.parameters(), [slow, SLEEP], [0, 1, 0, 1], sessions=2)
    outcomes = {(each.statement, each.outcome) for each in executed}
    assert outcomes == {(0, "stopped"), (1, "ended")}


def test_a_deadlock_is_given_up_and_the_rest_goes_on(server: NativeTestServer) -> None:
    run(server, "CREATE TABLE locked AS SELECT i FROM generate_series(1, 2) i")
    run(server, "ALTER SYSTEM SET deadlock_timeout = '10ms'")
    server.query("SELECT pg_reload_conf()")

    def locking(first: int, second: int) -> MixStatement:
        rows = (f"UPDATE locked SET i = i WHERE i = {each}" for each in (first, second))
        wait = "PERFORM pg_sleep(0.3)"
        return MixStatement(f"{first}", f"DO $$BEGIN {f'; {wait}; '.join(rows)}; END$$", rolled_back=True)

    executed, _ = run_mix(server.parameters(), [locking(1, 2), locking(2, 1)], [0, 1], sessions=2)
    assert sorted(each.outcome for each in executed) == ["ended", "given-up"]


def test_before_is_run_by_each_session(server: NativeTestServer) -> None:
    shown = MixStatement("shown", "SELECT 1 / (current_setting('work_mem') = '77kB')::int")
    executed, _ = run_mix(
        server.parameters(), [shown], [0] * 6, sessions=3, before=["SET work_mem = '77kB'", "SELECT 1"]
    )
    assert len(executed) == 6


def test_a_failure_ends_what_the_other_sessions_run(server: NativeTestServer) -> None:
    slow = MixStatement("slow", "SELECT pg_sleep(60) AS ended_by_failure")
    wrong = MixStatement("wrong", "SELECT pg_sleep(0.3), 1 / (extract(epoch FROM now())::int * 0)")
    begun = time.monotonic()
    with pytest.raises(StatementError, match=r'session \d+: statement "wrong": division by zero'):
        run_mix(server.parameters(), [slow, wrong], [0, 1, 0], sessions=3)
    assert time.monotonic() - begun < 30
    assert server.query(ACTIVE.format("ended_by_failure")) == (0,)


def test_sessions_that_the_server_refuses_are_one_error(server: NativeTestServer) -> None:
    with pytest.raises(StatementError, match=r"too many clients|remaining connection slots"):
        run_mix(server.parameters(), [SLEEP], [0], sessions=200)
    with pytest.raises(StatementError, match="sessions is 0"):
        run_mix(server.parameters(), [SLEEP], [0], sessions=0)
    with pytest.raises(StatementError, match="order names statement 7"):
        run_mix(server.parameters(), [SLEEP], [7], sessions=1)


def test_an_interruption_cancels_what_runs(server: NativeTestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgassay.native import mix
    from pgassay.native.process import NativeProcess

    class Interrupted(NativeProcess):
        def receive(self) -> dict:
            deadline = time.monotonic() + 30
            while server.query(ACTIVE.format("interrupted_mix")) != (2,):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            raise KeyboardInterrupt

    monkeypatch.setattr(mix, "NativeProcess", Interrupted)
    slow = MixStatement("slow", "SELECT pg_sleep(60) AS interrupted_mix")
    with pytest.raises(KeyboardInterrupt):
        run_mix(server.parameters(), [slow], [0, 0], sessions=2)
    deadline = time.monotonic() + 30
    while server.query(ACTIVE.format("interrupted_mix")) != (0,):
        assert time.monotonic() < deadline, "what the sessions ran goes on"
        time.sleep(0.02)
