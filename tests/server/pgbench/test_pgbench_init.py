"""`-i` leaves the schema and the rows that the real pgbench leaves, and says what it says."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from native_servers import NativeTestServer, started_server
from real_tools.pgbench import Answer, both, ours, real, sampled

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
STEPS = (
    "-s 3",
    "-s 1 -q",
    "-s 1 -F 70 --unlogged-tables",
    "-s 1 --foreign-keys -n",
    "-s 2 --partitions=3",
    "-s 1 --partitions=4 --partition-method=hash --foreign-keys --unlogged-tables",
    "-s 1 -I dtGvpf",
    "-s 1 -I dtp",
    "-s 1 --tablespace=elsewhere --index-tablespace=elsewhere",
)
CHECKED = (
    "SELECT count(*), min(bid), max(bid), sum(bbalance), count(filler) FROM pgbench_branches",
    "SELECT count(*), sum(tid), sum(bid), sum(tbalance), count(filler) FROM pgbench_tellers",
    "SELECT count(*), sum(hashtextextended(a::text, 0)) FROM pgbench_accounts a",
    "SELECT count(*) FROM pgbench_history",
    # Row by row in the same place, where there is one place.
    "SELECT sum(hashtextextended(ctid::text || aid, 0)) FROM ONLY pgbench_accounts",
    "SELECT relname, relpersistence, relpages, relallvisible, reltuples FROM pg_class "
    "WHERE relname LIKE 'pgbench%' ORDER BY 1",
)


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute("SET allow_in_place_tablespaces = on")
            connection.execute("CREATE TABLESPACE elsewhere LOCATION ''")
        yield server


def _left(server: NativeTestServer) -> tuple[str, list[object]]:
    dumped = subprocess.run(
        [
            server.bin / "pg_dump",
            "-s",
            "-t",
            "pgbench*",
            "-h",
            server.folder,
            "-p",
            str(server.port),
            "-U",
            "postgres",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    schema = re.sub(r"^(--.*|\\\w*restrict .*)$", "", dumped, flags=re.MULTILINE)
    with server.query_connection() as connection:
        return schema, [connection.execute(query.encode()).fetchall() for query in CHECKED]


def _told(answered: Answer) -> list[str]:
    return [line for line in answered.complaints if not line.startswith("NOTICE")]


@pytest.mark.parametrize("words", sampled(STEPS, 3))
def test_schema_rows_and_messages_are_pgbench_s(server: NativeTestServer, words: str) -> None:
    theirs = real(server, "-i", *words.split())
    expected = _left(server)
    mine = ours(server, "-i", *words.split())
    assert mine.status == theirs.status == 0, mine.errors
    assert _told(mine) == _told(theirs)
    found = _left(server)
    assert found[0] == expected[0]
    assert found[1] == expected[1]


def test_a_step_that_fails_is_told_with_its_statement(server: NativeTestServer) -> None:
    ours(server, "-i", "-s", "1", "-I", "dt")
    for words in (["-I", "t"], ["-I", "ff"], ["-I", "dg"], ["--tablespace=nowhere"]):
        theirs, mine = both(server, "-i", *words)
        assert (mine.status, _told(mine)) == (theirs.status, _told(theirs)), words
