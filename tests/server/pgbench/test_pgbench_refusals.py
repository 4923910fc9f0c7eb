"""What pgbench refuses is refused in its words and with its status; a failing client is told of as by it."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.pgbench import options
from real_tools.pgbench import both, ours, real, sampled

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
    "long name": "\\set a 1 + foo + 2\n",
    "wrong call": "\\set a abs(1, 2) + 4\n",
    "overflow": "\\set a 99999999999999999999 + 1\n",
    "several lines": "select 1;\n  \\set a 1 + \\\n  2 + \\\n  foo(3)\n",
    "sleep on": "\\sleep 1 \\\n week\n",
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
# Each is run by the protocol that its name ends with.
BY_PROTOCOL = {
    "unprepared prepared": "select 1;\nselect foo from nowhere where a = :client_id;\n",
    "syntax prepared": "begin;\nselec 1;\nend;\n",
    "two commands prepared": "select 1 \\; select 2;\n",
    "bound prepared": "select 1/:client_id;\n",
    "copy out simple": "copy one to stdout;\n",
    "copy out prepared": "copy one to stdout;\n",
    "copy in simple": "copy one from stdin;\n",
    "batch extended": "\\startpipeline\nselect 1;\nselect 1/:client_id;\nselect 3;\n\\endpipeline\n",
    "batch prepared": "\\startpipeline\nselect 1;\nselect foo;\nselect 3;\n\\endpipeline\n",
    "second batch prepared": "\\startpipeline\nselect 1;\n\\syncpipeline\n"
    "select 1/:client_id;\n\\endpipeline\n",
    "third batch extended": "\\startpipeline\nselect 1;\n\\syncpipeline\n\\syncpipeline\nselect 1;\n"
    "select nothing;\n\\endpipeline\n",
    "aset extended": "select 1 as a \\; select 2 as b \\aset\n",
    "many arguments extended": f"select {'+'.join([':client_id'] * 256)};\n",
    "function simple": "do $$ begin perform nothing; end $$;\n",
    "notice prepared": "do $$ begin raise notice 'so' using hint = 'this'; end $$;\nselect 1/0;\n",
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


def test_each_option_of_its_help_is_taken(server: NativeTestServer) -> None:
    said = real(server, "--help").output
    found = re.findall(r"^  (?:-(\S), )?--([a-z-]+)(=?)", said, re.MULTILINE)
    known = {(option.letter, option.name, bool(option.value)) for option in options.ALL}
    known |= {("V", "version", False), ("?", "help", False)}
    assert len(found) > 45
    assert {(letter, name, bool(value)) for letter, name, value in found} - known == set()
    mine = ours(server, "--help")
    assert mine.status == 0
    assert {name for _, name, _ in found} - set(re.findall(r"--([a-z-]+)", mine.output)) == set()


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
    assert (mine.status, mine.complaints) == (theirs.status, theirs.complaints)


@pytest.mark.parametrize("name", ["copy out simple", "copy in simple", "notice prepared"])
def test_a_connection_for_each_transaction_tells_the_same(
    server: NativeTestServer, tmp_path: Path, name: str
) -> None:
    """With -C the server's notices and what is said of COPY are those of a connection that is kept."""
    (tmp_path / "x.sql").write_text(BY_PROTOCOL[name])
    words = ["-n", "-C", "-t", "2", "-f", "x.sql", "-M", name.rpartition(" ")[2]]
    theirs, mine = both(server, *words, folder=tmp_path)
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


@pytest.mark.parametrize("name", sampled([*BY_PROTOCOL], 5))
def test_what_fails_by_one_protocol_is_told_as_by_pgbench(
    server: NativeTestServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "x.sql").write_text(BY_PROTOCOL[name])
    words = ["-n", "-t", "2", "-f", "x.sql", "-M", name.split()[-1]]
    theirs, mine = both(server, *words, folder=tmp_path)
    assert (mine.status, mine.complaints, mine.shape) == (theirs.status, theirs.complaints, theirs.shape)


def test_a_simple_statement_has_any_number_of_variables(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(f"select {'+'.join([':client_id'] * 1000)};\n")
    theirs, mine = both(server, "-n", "-t", "1", "-f", "x.sql", folder=tmp_path)
    assert mine.status == theirs.status == 0


def test_an_answer_that_comes_while_a_pipeline_sleeps_is_counted(
    server: NativeTestServer, tmp_path: Path
) -> None:
    synced = "\\startpipeline\nselect 1;\n\\syncpipeline\n\\sleep 20 ms\nselect 2;\n\\endpipeline\n"
    (tmp_path / "x.sql").write_text(f"{synced}select 3;\n{synced}")
    theirs, mine = both(server, "-n", "-t", "3", "-M", "prepared", "-f", "x.sql", folder=tmp_path)
    assert (mine.status, mine.shape) == (theirs.status, theirs.shape) and mine.status == 0
    (tmp_path / "x.sql").write_text(synced.replace("select 1", "select 1 / :client_id"))
    theirs, mine = both(server, "-n", "-t", "3", "-M", "extended", "-f", "x.sql", folder=tmp_path)
    assert (mine.status, mine.complaints) == (theirs.status, theirs.complaints)


def test_statements_that_fail_are_prepared_once(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(
        "insert into one values (1 + (select count(*) from pg_prepared_statements where name ~ '_2'));\n"
    )
    words = ("-n", "-t", "5", "-M", "prepared", "-f", "x.sql", "--continue-on-error")
    mine = ours(server, *words, folder=tmp_path)
    assert mine.status == 0 and "number of failed transactions: 5 (100.000%)" in mine.output


def test_a_script_is_read_in_the_encoding_of_the_client(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_bytes("select 1;\nselect 1 / (length('é') - 1);\n".encode("latin-1"))
    words = ("-n", "-t", "1", "-f", "x.sql")
    theirs, mine = both(server, *words, folder=tmp_path, environment={"PGCLIENTENCODING": "LATIN1"})
    assert (mine.status, mine.complaints) == (theirs.status, theirs.complaints)
    assert "division by zero" in mine.errors
    refused = ours(server, *words, folder=tmp_path)
    assert refused.status == 1 and "x.sql:2: a byte of the script is not UTF-8" in refused.errors
    unknown = ours(server, *words, folder=tmp_path, environment={"PGCLIENTENCODING": "klingon"})
    assert unknown.status == 1 and 'invalid client encoding name "klingon"' in unknown.errors


def test_connections_that_the_server_has_no_room_for_are_told_of_once(server: NativeTestServer) -> None:
    theirs, mine = both(server, "-n", "-S", "-t", "1", "-c", "1000", "-j", "2")
    told = [[re.sub(r"client \d+", "client N", line) for line in each.complaints] for each in (theirs, mine)]
    assert told[0] == told[1] and mine.status == theirs.status == 1


@pytest.mark.slow
def test_a_thousand_clients_that_are_refused_are_told_of_one_by_one(
    server: NativeTestServer, tmp_path: Path
) -> None:
    """With -C each opens a connection of its own: one takes the last that the server has."""
    (tmp_path / "x.sql").write_text("select pg_sleep(1);\n")
    words = ("-n", "-C", "-t", "1", "-c", "1000", "-f", "x.sql")
    with ExitStack() as held:
        with suppress(psycopg.OperationalError):
            while True:
                last = held.enter_context(server.query_connection())
        last.close()
        theirs, mine = both(server, *words, folder=tmp_path)
    for each in (theirs, mine):
        done = re.findall(r"processed: (\d+)/1000", each.output)
        refused = [line for line in each.complaints if "too many clients already" in line]
        assert each.status == 2 and done == [str(1000 - len(refused))] and len(refused) >= 990
    told = [{re.sub(r"client \d+", "client N", line) for line in each.complaints} for each in (theirs, mine)]
    assert told[0] == told[1]
    assert ours(server, "-n", "-S", "-t", "1").status == 0


def test_tables_that_are_missing_are_told_with_a_hint(server: NativeTestServer) -> None:
    theirs, mine = both(server, "-S", "-t", "1", "empty")
    assert (mine.status, mine.complaints, mine.report) == (theirs.status, theirs.complaints, theirs.report)
    assert "pgbench: hint: Perhaps you need to do initialization" in mine.errors
    # A custom script needs no tables, and only tells that there is nothing to vacuum.
    assert real(server, "--exit-on-abort", "-f", "x", "-t", "1").status == 1
