"""sysbench and `pgassay sysbench` with the same words on one server: the same tables, and the same report."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.report import schema
from pgassay.sysbench import options

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
OURS = (sys.executable, "-m", "pgassay.cli.main", "sysbench")
THEIRS = ("sysbench", "--db-driver=pgsql")
TABLES = ("--tables=2", "--table-size=1500")
COLUMNS = """
select attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
where attrelid = 'sbtest2'::regclass and attnum > 0 order by attnum"""
INDEXES = (
    "select pg_get_indexdef(indexrelid), indisprimary from pg_index where indrelid = 'sbtest2'::regclass"
)
ROWS = """
select count(*), min(id), max(id), bool_and(k between 1 and 1500), count(distinct k) > 300,
  bool_and(c ~ '^([0-9]{11}-){9}[0-9]{11} $'), bool_and(pad ~ '^([0-9]{11}-){4}[0-9]{11} $'),
  count(distinct c), (select last_value from sbtest2_id_seq) from sbtest2"""


@dataclass(frozen=True)
class Answer:
    """What one of them said."""

    status: int
    output: str
    errors: str

    @property
    def shape(self) -> list[str]:
        """Lines without the first one and with a word for each number, as far as sysbench's own go."""
        lines = [re.sub(r"\d+(\.\d+)?", "N", line).rstrip() for line in self.output.splitlines()[1:]]
        ends = [place for place, line in enumerate(lines) if line.startswith("latency percentiles")]
        own = lines[: ends[0]] if ends else lines
        while own and not own[-1]:
            own.pop()
        return [" ".join(line.split()) for line in own]

    @property
    def columns(self) -> list[str]:
        """The lines of latencies with an N where each number ends: awk and cut read both programs' alike."""
        found = re.findall(r"^ +[a-z0-9 ]+: +(?:\d+\.\d\d|disabled)$", self.output, re.MULTILINE)
        return [re.sub(r"\d+\.\d\d$", lambda number: "N".rjust(len(number[0])), line) for line in found]


@pytest.fixture(scope="module")
def server(require: Callable[..., None]) -> Iterator[NativeTestServer]:
    require("server", "sysbench")
    with started_server() as server:
        yield server


@pytest.fixture
def say(server: NativeTestServer) -> Iterator[Callable[..., Answer]]:
    """Runs one of them on the server; no table is left of it."""

    def run(program: tuple[str, ...], *words: str) -> Answer:
        place = [f"--pgsql-host={server.folder}", f"--pgsql-port={server.port}"]
        place += ["--pgsql-user=postgres", "--pgsql-db=postgres"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("PGASSAY")}
        done = subprocess.run(
            [*program, *words, *place], env=environment, capture_output=True, text=True, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    yield run
    with server.query_connection() as connection:
        connection.execute("drop table if exists sbtest1, sbtest2, sbtest3")


def all_rows(server: NativeTestServer, sql: str) -> list[tuple[Any, ...]]:
    with server.query_connection() as connection:
        return sorted(connection.execute(sql.encode()).fetchall(), key=str)


SCRIPTS_WITH_HELP = sorted(set(options.SCRIPTS) - {"bulk_insert"})


@pytest.mark.parametrize("words", [["--help"], *([name, "help"] for name in SCRIPTS_WITH_HELP)], ids="-".join)
def test_each_option_of_its_help_is_taken_or_refused_with_a_reason(
    require: Callable[..., None], words: list[str]
) -> None:
    require("sysbench")
    said = subprocess.run(["sysbench", *words], capture_output=True, text=True, check=False).stdout
    line = r"^  --([a-z0-9_-]+)(?:\[=on\|off\]|=\S+)? .*?(?:\[([^\[\]]*)\])?$"
    found = re.findall(line, said, re.MULTILINE)
    assert len(found) >= 10
    for typed, default in found:
        name = typed.replace("_", "-")
        if name in ("help", "version", *options.DEPRECATED):
            continue
        name = options.ALIASES.get(name, name)
        if name in options.BY_NAME:
            option = options.BY_NAME[name]
            ours = options.parse([]).distribution if name == "rand-type" else option.default
            assert name == "db-driver" or ours == default, f"{name}: {ours} here, {default} there"
            continue
        reason = f"--{name} is (?:not possible: |an option for MySQL: )."
        with pytest.raises(options.SysbenchError, match=reason):
            options.parse([f"--{typed}=1"])


@pytest.mark.parametrize(
    "words",
    [(), ("--auto_inc=off",), ("--create-secondary=off",)],
    ids=["usual", "own ids", "without an index on k"],
)
def test_the_tables_are_the_same(
    server: NativeTestServer, say: Callable[..., Answer], words: tuple[str, ...]
) -> None:
    found = []
    for program in (THEIRS, OURS):
        made = say(program, "oltp_read_write", "prepare", *TABLES, *words)
        assert made.status == 0, made.errors
        has_sequence = "--auto_inc=off" not in words
        query = ROWS if has_sequence else ROWS.replace("(select last_value from sbtest2_id_seq)", "0")
        found.append([all_rows(server, sql) for sql in (COLUMNS, INDEXES, query)])
        assert "Creating table 'sbtestN'..." in made.shape
        assert say(program, "oltp_read_write", "cleanup", *TABLES).status == 0
    assert found[0] == found[1]
    assert found[0][2][0][:3] == (1500, 1, 1500)


def test_k_has_the_distribution_that_is_asked_for(
    server: NativeTestServer, say: Callable[..., Answer]
) -> None:
    """Of the special one three quarters are in the central hundredth, of the uniform one a hundredth."""
    shares = {}
    for profile in ("1.0.20", "head"):
        say(OURS, "oltp_read_write", "prepare", "--table-size=10000", f"--profile={profile}")
        (row,) = all_rows(server, "select avg((k between 4950 and 5051)::int) from sbtest1")
        shares[profile] = float(row[0])
        say(OURS, "oltp_read_write", "cleanup")
    assert 0.7 < shares["1.0.20"] < 0.85 and shares["head"] < 0.02


def test_connections_are_opened_anew_after_so_many_events(say: Callable[..., Answer]) -> None:
    """The last event before it has that in its latency. 1.0.20 has no such option, HEAD has."""
    say(OURS, "oltp_read_only", "prepare", *TABLES)
    words = ("oltp_read_only", "run", *TABLES, "--threads=2", "--events=90", "--time=0", "--reconnect=10")
    said = say(OURS, *words)
    assert said.status == 0, said.errors
    match = re.search(r"reconnects: +(\d+) ", said.output)
    # Each connection counts its own events: which has how many is chance.
    assert match is not None and 7 <= int(match[1]) <= 9


def test_rows_are_frozen_as_they_come(server: NativeTestServer, say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_write", "prepare", "--table-size=2000")
    with server.query_connection() as connection:
        # Nothing is left to freeze: the pages are marked all-visible and all-frozen by the load itself.
        connection.execute("create extension if not exists pg_visibility")
        row = connection.execute("select all_visible, all_frozen from pg_visibility_map_summary('sbtest1')")
        found = row.fetchone()
    assert found is not None and found[0] == found[1] > 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("oltp_read_write", "--report-interval=1", "--threads=2"), id="at intervals"),
        pytest.param(
            ("oltp_point_select", "--rate=200", "--report-interval=1"),
            id="at a rate",
            marks=pytest.mark.slow,
        ),
        pytest.param(("oltp_read_only", "--percentile=0"), id="without a percentile"),
    ],
)
def test_the_report_has_sysbench_s_lines(say: Callable[..., Answer], words: tuple[str, ...]) -> None:
    say(OURS, "oltp_read_write", "prepare", *TABLES)
    seconds = "2" if "--report-interval=1" in words else "1"
    theirs, ours = (say(program, *words, "run", *TABLES, f"--time={seconds}") for program in (THEIRS, OURS))
    assert ours.status == theirs.status == 0, ours.errors

    def lines(answer: Answer) -> list[str]:
        # How many intervals end before the run does is chance.
        kept = [line for line in answer.shape if not line.startswith("[")]
        intervals = {line for line in answer.shape if line.startswith("[")}
        return [*kept, *sorted(intervals)]

    assert lines(ours) == lines(theirs)
    assert ours.columns == theirs.columns and len(ours.columns) == 5


def test_a_histogram_is_printed_as_sysbench_s(say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_write", "prepare", *TABLES)
    ours = say(OURS, "oltp_read_only", "run", *TABLES, "--events=300", "--time=0", "--histogram")
    places = re.findall(r"^ +\d+\.\d{3} \|(\**) *(\d+)$", ours.output, re.MULTILINE)
    assert "       value  ------------- distribution ------------- count\n" in ours.output
    assert sum(int(count) for _, count in places) == 300
    assert max(len(stars) for stars, _ in places) == 40


def test_below_the_report_stands_what_sysbench_leaves_out(say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_write", "prepare", *TABLES)
    ours = say(OURS, "oltp_point_select", "run", *TABLES, "--events=3000", "--time=0", "--profile=head")
    beyond = ours.output[ours.output.index("latency percentiles: ") :].splitlines()
    assert re.match(r"latency percentiles: p50 [\d.]+ ms, .*p99 [\d.]+ ms$", beyond[0])
    assert beyond[1] == "p99.9 and above: too few events (3000); 20000 are needed"
    assert beyond[2].startswith("client: ") and beyond[3] == (
        "distribution of ids: uniform, the default of sysbench after 1.0.20"
    )
    assert beyond[4].startswith("server: PostgreSQL ") and "shared_buffers=64MB" in ours.output
    assert "Throughput:\n    events/s (eps): " in ours.output


def test_json_is_one_document(say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_write", "prepare", *TABLES)
    ours = say(OURS, "oltp_write_only", "run", *TABLES, "--events=50", "--time=0", "--skip_trx", "--json")
    document = json.loads(ours.output)
    jsonschema.validate(document, schema.SYSBENCH.schema(), cls=jsonschema.Draft202012Validator)
    assert (document["schema"], document["events"], document["errors"]) == (1, 50, {})
    assert sum(document["queries"].values()) == 50 * 4
    latency_ms = document["latency_ms"]
    assert latency_ms["p50"] > 0 and "max" in latency_ms and document["histogram"]
    assert "p75" not in latency_ms, "50 events carry no more"


def test_json_with_intervals_is_a_line_for_each_and_the_result(say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_point_select", "prepare", *TABLES)
    words = (
        "oltp_point_select",
        "run",
        *TABLES,
        "--time=3",
        "--report-interval=1",
        "--rate=200000",
        "--json",
    )
    *intervals, result = [json.loads(line) for line in say(OURS, *words).output.splitlines()]
    # The last one is over as the run is.
    assert len(intervals) == 3
    for interval in intervals:
        jsonschema.validate(interval, schema.SYSBENCH_PROGRESS.schema(), cls=jsonschema.Draft202012Validator)
        assert interval["events"] > 0 and interval["p50_ms"] <= interval["p99_ms"]
    assert intervals[1]["queued"] > intervals[0]["queued"] > 0
    jsonschema.validate(result, schema.SYSBENCH.schema(), cls=jsonschema.Draft202012Validator)
    assert sum(interval["events"] for interval in intervals) == result["events"]


def test_cleanup_drops_the_tables_alone(server: NativeTestServer, say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_write", "prepare", "--tables=3", "--table-size=10")
    assert say(OURS, "oltp_read_write", "cleanup", *TABLES).status == 0
    (kept,) = all_rows(server, "select to_regclass('sbtest2'), to_regclass('sbtest3')::text")
    assert kept == (None, "sbtest3")
    assert server.query("select count(*) from pgbench_branches")[0] > 0


def test_what_can_not_be_done_says_so(say: Callable[..., Answer], tmp_path: Path) -> None:
    missing = say(OURS, "oltp_read_only", "run", "--time=1")
    assert missing.status == 1 and 'relation "sbtest1" does not exist (42P01)' in missing.errors
    say(OURS, "oltp_read_only", "prepare", "--table-size=10")
    again = say(OURS, "oltp_read_only", "prepare", "--table-size=10")
    assert again.status == 1 and 'FATAL: relation "sbtest1" already exists (42P07)' in again.errors
    (script := tmp_path / "my.lua").write_text('con:query("SELECT c FROM sbtest1 WHERE id=?")')
    lua = say(OURS, str(script), "run")
    assert lua.status == 2 and "pgassay sysbench oltp_point_select run" in lua.errors
    assert "\\set v1 random(1, 10000)\nSELECT c FROM sbtest1 WHERE id=:v1;\n" in lua.errors


def test_warmup_reads_tables_and_indexes(server: NativeTestServer, say: Callable[..., Answer]) -> None:
    say(OURS, "oltp_read_only", "prepare", "--table-size=2000")
    with server.query_connection() as connection:
        connection.execute("create extension if not exists pg_prewarm")
    server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "fast", "stop")
    server.start_again()
    warmed = say(OURS, "oltp_read_only", "warmup")
    assert warmed.status == 0, warmed.errors
    with server.query_connection() as connection:
        connection.execute("create extension if not exists pg_buffercache")
        found = connection.execute(
            "select count(*) filter (where c.relname = 'sbtest1'), count(*) filter (where c.relname = 'k_1') "
            "from pg_buffercache b join pg_class c on b.relfilenode = pg_relation_filenode(c.oid)"
        ).fetchone()
    assert found is not None and found[0] > 40 and found[1] > 3


def test_rows_that_are_there_end_a_bulk_insert(server: NativeTestServer, say: Callable[..., Answer]) -> None:
    """A statement has the rows of many events: begun again, it would count rows that nobody inserted."""
    for program in (THEIRS, OURS):
        assert say(program, "bulk_insert", "--threads=1", "prepare").status == 0
        with server.query_connection() as connection:
            connection.execute("INSERT INTO sbtest1 VALUES (1, 1)")
        done = say(program, "bulk_insert", "--threads=1", "--time=2", "run")
        assert done.status == 1 and "FATAL: " in done.output + done.errors
        assert all_rows(server, "SELECT count(*) FROM sbtest1") == [(1,)]
        assert say(program, "bulk_insert", "--threads=1", "cleanup").status == 0
