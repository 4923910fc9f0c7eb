"""What pgbench refuses is refused in its words and with its status; a failing client is told of as by it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from native_servers import NativeTestServer, started_server
from real_tools.pgbench import both, real, sampled

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
REFUSED = (
    "-c x",
    "-c 0",
    "-j 0",
    "-t 1 -T 1",
    "-T 5x",
    "-s 0",
    "-F 5",
    "-F 50",
    "-i -F 5",
    "-i -c 2",
    "-i -I dxt",
    "-i --partition-method=hash",
    "-i --partition-method=list --partitions 2",
    "--partitions=3",
    "-b foo",
    "-b s",
    "-b tpcb@x",
    "-b tpcb@-1",
    "-b tpcb@0",
    "-D a",
    "-D =1",
    "-D 1a=2",
    "-M binary",
    "-L 0",
    "-R -1",
    "--sampling-rate=0.5",
    "--sampling-rate=2 -l",
    "-l --sampling-rate=0.5 --aggregate-interval=1",
    "--aggregate-interval=1",
    "--log-prefix=x",
    "-l --aggregate-interval=5 -T 2",
    "-l --aggregate-interval=2 -T 5",
    "--progress-timestamp",
    "--max-tries=-1",
    "--max-tries=0",
    "--random-seed=abc",
    "-f /nowhere/x.sql",
    "-f /tmp",
    "-f /dev/null",
    "-n nodatabase",
    "-n postgres other",
    "-p 1 -n",
    "-U nobody_there -n",
    "-b list",
    "--show-script=tpcb",
    "--show-script=simple-update",
    "--show-script=x",
)
# The letters and names that getopt itself complains of begin with the program's path there.
WRONG_WORDS = ("-Z", "--nothing", "-c", "--client", "--connect=1", "--pro")
SCRIPTS = {
    "expression": "\\set a 1 +\nselect 1;\n",
    "indented": "select 1;\n   \\set a 1 +\n",
    "unknown function": "\\set a foo(1)\n",
    "invalid": "\\frobnicate\n",
    "no name": "\\set\n",
    "no expression": "\\set a\n",
    "sleep unit": "\\sleep 1 week\n",
    "if": "select 1;\n\\if true\nselect 2;\n",
    "else": "\\else\n",
    "elif": "\\if 1\n\\else\n\\elif 2\n\\endif\n",
    "gset": "\\gset\n",
}
FAILING = {
    "sql": "select 1;\nselect 1 \\; select foo, :x;\n",
    "no table": "INSERT INTO nowhere VALUES (1);\n",
    "division": "select 1;\n\\set a 1 / 0\n",
    "undefined": "\\set a :b + 1\n",
    "condition": "\\if :c\n\\endif\nselect 1;\n",
    "overflow": "\\set a 9223372036854775807 + 1\n",
    "open": "BEGIN;\n",
    "rows": "select 1 where false \\gset\n",
    "many rows": "select 1 as a union all select 2 \\gset\n",
    "name": 'select 1 as "x y" \\gset\n',
    "sleep": "\\sleep :u ms\nselect 1;\n",
    "setshell": "\\setshell a echo x\n",
    "shell": "\\shell exit 3\nselect 1;\n",
    "detail": "INSERT INTO one VALUES (1);\n",
    "raise": "DO $$ BEGIN RAISE EXCEPTION 'so' USING HINT = 'this', DETAIL = 'that'; END $$;\n",
    "fatal": "select pg_terminate_backend(pg_backend_pid());\n",
    "simple pipeline": "\\startpipeline\nselect 1;\n\\endpipeline\n",
}
PIPELINES = {
    "twice": "\\startpipeline\n\\startpipeline\n",
    "none": "\\endpipeline\n",
    "sync": "\\syncpipeline\n",
    "left open": "\\startpipeline\nselect 1;\n",
    "gset": "\\startpipeline\nselect 1 as a \\gset\n\\endpipeline\n",
}


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute("CREATE TABLE one (a int PRIMARY KEY)")
            connection.execute("INSERT INTO one VALUES (1)")
            connection.execute("CREATE DATABASE empty")
        yield server


@pytest.mark.parametrize("words", sampled(REFUSED, 6))
def test_what_is_refused_is_refused_in_its_words(server: NativeTestServer, words: str) -> None:
    theirs, mine = both(server, *words.split())
    assert mine.complaints == theirs.complaints
    assert (mine.status, mine.report) == (theirs.status, theirs.report)


@pytest.mark.parametrize("words", sampled(WRONG_WORDS, 3))
def test_a_word_that_is_no_option_is_told_as_getopt_does(server: NativeTestServer, words: str) -> None:
    theirs, mine = both(server, words)
    told = [re.sub(r"^\S*/pgbench:", "pgbench:", line) for line in theirs.complaints]
    assert (mine.status, mine.complaints[1:]) == (theirs.status, told[1:])
    assert mine.complaints[0].partition(";")[0] == told[0].partition(";")[0]


@pytest.mark.parametrize("name", sampled([*SCRIPTS], 4))
def test_a_script_that_is_none_is_shown_with_its_place(
    server: NativeTestServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "x.sql").write_text(SCRIPTS[name])
    theirs, mine = both(server, "-n", "-f", "x.sql", folder=tmp_path)
    if name == "unknown function":
        # The mark stands below the name's beginning, and not its end.
        assert (mine.status, mine.complaints[:-1]) == (theirs.status, theirs.complaints[:-1])
        return
    assert (mine.status, mine.complaints) == (theirs.status, theirs.complaints)


@pytest.mark.parametrize("name", sampled([*FAILING, *PIPELINES], 4))
def test_a_client_that_fails_is_told_of_as_by_pgbench(
    server: NativeTestServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "x.sql").write_text((FAILING | PIPELINES)[name])
    words = ["-n", "-t", "2", "-f", "x.sql", "-M", "extended" if name in PIPELINES else "simple"]
    theirs, mine = both(server, *words, folder=tmp_path)
    if name in ("setshell", "shell"):
        # pgbench names the shell's command there, and takes a failure for a missing program.
        assert mine.complaints[1:] == theirs.complaints[-2:]
    else:
        assert mine.complaints == theirs.complaints
    assert mine.status == theirs.status
    assert mine.shape == theirs.shape
    assert (mine.status == 2 and "pgbench: detail: in x.sql:" in mine.errors) or name in ("open", "left open")


def test_tables_that_are_missing_are_told_with_a_hint(server: NativeTestServer) -> None:
    theirs, mine = both(server, "-S", "-t", "1", "empty")
    assert (mine.status, mine.complaints, mine.report) == (theirs.status, theirs.complaints, theirs.report)
    assert "pgbench: hint: Perhaps you need to do initialization" in mine.errors
    # A custom script needs no tables, and only tells that there is nothing to vacuum.
    assert real(server, "--exit-on-abort", "-f", "x", "-t", "1").status == 1
