"""A run's report, logs and drawn values are the real pgbench's; below the report is what that leaves out."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.model.running_server.pgbench_run import PgbenchResult
from pgassay.report import schema
from real_tools.pgbench import Answer, both, ours, real, sampled

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
DRAWING = (
    "\\set a random(1, 1000000)\n\\set b random_gaussian(1, 1000, 2.5)\n"
    "INSERT INTO draws VALUES (:which, :client_id, :a, :b, :scale, :default_seed, :random_seed);\n"
)
OTHER = "\\set a random_zipfian(1, 1000000, 1.1)\n" + DRAWING[DRAWING.index("INSERT") :].replace(":b", "0")
# Options with which both run the same two scripts, and must say the same but for figures. Of several scripts
# each must be drawn at least once.
RUNS = (
    "-t 5",
    "-t 5 -r",
    "-t 5 -c 3 -j 2 -M prepared",
    "-t 5 -c 3 -j 8 -M extended -r",
    "-t 30 -S -N",
    "-t 20 -r -b select-only@3 -b simple-update@1 -f SELF@2",
    "-t 3 -C -c 2",
    "-t 3 -v",
    "-t 5 -n",
    "-t 5 --max-tries=3 -r",
    "-t 30 -S -N --max-tries=3 -r --failures-detailed",
    "-t 5 --failures-detailed",
    "-t 5 -L 1000",
    "-t 20 -R 1000 -L 1000 -S",
    "-t 20 -R 1000 -S -N",
    "-t 5 -S -s 7",
    "-t 5 -f SELF -s 7 -D which=9",
    "-t 3 -S --random-seed=17",
    "-T 1 -S -c 2",
    "-T 1 -P 1 -S",
    "-T 2 -P 1 -R 50 -L 100 -S --max-tries=0",
    "-t 5 --exit-on-abort",
    "-t 2 -S --debug",
)


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        with server.query_connection() as connection:
            connection.execute(
                "CREATE TABLE draws (which int, client int, a bigint, b bigint, scale int, seed bigint, "
                "random_seed bigint, place bigserial)"
            )
            connection.execute("CREATE TABLE conflicts (a int PRIMARY KEY, b int)")
            connection.execute("INSERT INTO conflicts VALUES (1, 0), (2, 0)")
        yield server


def _figures_gone(report: Answer) -> list[str]:
    """The report's lines where a run's chance is in no whole number either."""
    chance = re.compile(
        r"(processed:|transactions \(|limit:|skipped:|above the|retries:|retried:) ?[\d/]+|\d+ transactions"
    )
    return [chance.sub(r"\1 C", line) for line in report.shape]


@pytest.mark.parametrize("words", sampled(RUNS, 5))
def test_a_report_has_the_lines_of_pgbench_s(server: NativeTestServer, tmp_path: Path, words: str) -> None:
    (tmp_path / "self.sql").write_text("SELECT :client_id, :scale \\; SELECT 2;\n\\sleep 1 ms\n")
    typed = words.replace("SELF", "self.sql").split()
    # Which script of several comes is drawn: one that never came would lack its lines.
    typed += [] if "--random-seed" in words else ["--random-seed=11"]
    theirs, mine = both(server, *typed, folder=tmp_path)
    assert mine.status == theirs.status == 0, mine.errors
    same_counts = "-T" not in typed and len([word for word in typed if word in ("-b", "-S", "-N")]) < 2
    shape = (lambda each: each.shape) if same_counts else _figures_gone
    assert shape(mine) == shape(theirs)
    told = [re.sub(r"\d+", "#", line) for line in theirs.complaints]
    mine_told = [re.sub(r"\d+", "#", line) for line in mine.complaints]
    if "--debug" in typed:
        # What is told of each step; how often something is read is the network's affair.
        kept = re.compile(r"executing|sending")
        told, mine_told = ([line for line in lines if kept.search(line)] for lines in (told, mine_told))
    # The last interval's line races with the end of the run.
    assert list(dict.fromkeys(mine_told)) == list(dict.fromkeys(told))


def test_the_same_seed_gives_the_same_values_in_every_client(
    server: NativeTestServer, tmp_path: Path
) -> None:
    (tmp_path / "one.sql").write_text(DRAWING.replace(":which", "1"))
    (tmp_path / "two.sql").write_text(OTHER.replace(":which", "2"))
    found = []
    # Clients of one thread share its stream of choices, which they take from as answers come.
    several = "-c 5 -j 5 -f one.sql@3 -f two.sql@1"
    for run in (real, ours):
        for more in (several, f"{several} -D default_seed=5", "-c 5 -j 2 -f one.sql -M prepared"):
            words = f"-n -t 25 --random-seed=777 -s 4 {more}".split()
            answered = run(server, *words, folder=tmp_path)
            assert answered.status == 0, answered.errors
            with server.query_connection() as connection:
                rows = connection.execute(
                    "SELECT client, "
                    "array_agg(row(which, a, b, scale, seed, random_seed)::text ORDER BY place) "
                    "FROM draws GROUP BY client ORDER BY client"
                ).fetchall()
                connection.execute("TRUNCATE draws")
            found.append(rows)
    assert found[:3] == found[3:]
    assert len(found[0]) == 5 and sum(len(values) for _, values in found[0]) == 125


def _logs(folder: Path, prefix: str) -> list[list[str]]:
    """The lines of all logs, in words; the process's number is in the names."""
    names = sorted(folder.glob(f"{prefix}.*"))
    lines = [line.split() for name in names for line in name.read_text().splitlines()]
    for name in names:
        name.unlink()
    return lines


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("-t 4 -c 3 -j 3 -S -N", 6),
        ("-t 4 -S --max-tries=2", 7),
        ("-t 4 -S -R 500", 7),
        ("-t 4 -S -R 500 -L 1000 --max-tries=2", 8),
        ("-T 2 -S --aggregate-interval=1", 15),
        pytest.param("-T 1 -S -c 2 -j 2 --sampling-rate=0.01", 6, marks=pytest.mark.slow),
    ],
)
def test_logs_have_pgbench_s_lines(
    server: NativeTestServer, tmp_path: Path, words: str, numbers: int
) -> None:
    found = []
    for run in (real, ours):
        answered = run(
            server, "-n", "-l", "--log-prefix=it", *words.split(), "--random-seed=3", folder=tmp_path
        )
        assert answered.status == 0, answered.errors
        names = sorted(re.sub(r"^it\.\d+", "it.P", path.name) for path in tmp_path.glob("it.*"))
        lines = _logs(tmp_path, "it")
        assert lines and {len(line) for line in lines} == {numbers}
        found.append((names, lines))
    (their_names, theirs), (my_names, mine) = found
    assert my_names == their_names
    if "-t" in words:
        # Client, transaction and script are drawn and counted alike; the rest is measured.
        assert sorted((line[0], line[1], line[3]) for line in mine) == sorted(
            (line[0], line[1], line[3]) for line in theirs
        )
    assert all(
        abs(int(line[4 if numbers < 15 else 0]) - int(theirs[0][4 if numbers < 15 else 0])) < 120
        for line in mine
    )


CONFLICT = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT b FROM conflicts WHERE a = 1;\n\\sleep 5 ms\n"
    "UPDATE conflicts SET b = b + 1 WHERE a = 1;\nEND;\n"
)


def _number(answered: Answer, what: str) -> int:
    found = re.search(rf"{what}: (\d+)", answered.output)
    assert found, answered.output
    return int(found[1])


def test_conflicts_are_tried_again_or_counted_by_their_kind(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(CONFLICT)
    words = ["-n", "-c", "4", "-t", "10", "-f", "x.sql", "--failures-detailed", "-r"]
    theirs, mine = both(server, *words, folder=tmp_path)
    assert mine.status == theirs.status == 0
    assert [line.split(":")[0] for line in _figures_gone(mine)] == [
        line.split(":")[0] for line in _figures_gone(theirs)
    ] or len(mine.report) == len(theirs.report)
    for each in (theirs, mine):
        failed = _number(each, "number of failed transactions")
        assert failed == _number(each, "number of serialization failures") > 0
        assert _number(each, "number of transactions actually processed") + failed == 40
    answered = ours(server, *words, "--max-tries=100", "--verbose-errors", folder=tmp_path)
    assert _number(answered, "number of failed transactions") == 0
    assert (
        _number(answered, "total number of retries")
        >= _number(answered, "number of transactions retried")
        > 0
    )
    assert "repeats the transaction after the error (try 1/100)" in answered.errors
    assert "pgbench: client" in answered.errors and "could not serialize access" in answered.errors
    with server.query_connection() as connection:
        connection.execute("UPDATE conflicts SET b = 0")


def test_an_error_of_a_statement_ends_a_client_or_counts(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("\\set a 3 + :client_id\nINSERT INTO conflicts VALUES (1, :a);\n")
    words = ["-n", "-c", "2", "-t", "3", "-f", "x.sql"]
    stopped = ours(server, *words, "--exit-on-abort", folder=tmp_path)
    theirs = real(server, *words, "--exit-on-abort", folder=tmp_path)
    assert stopped.status == theirs.status == 2
    assert stopped.report == theirs.report == [] or not stopped.report
    assert "Run was aborted due to an error in thread 0" in stopped.errors
    going = ours(server, *words, "--continue-on-error", "--failures-detailed", folder=tmp_path)
    assert going.status == 0
    assert "number of other failures: 6 (100.000%)" in going.report
    assert "latency average" in going.output and "(including failures)" in going.output


def test_what_pgbench_leaves_out_stands_below_its_report(server: NativeTestServer) -> None:
    answered = ours(server, "-n", "-T", "1", "-S", "-c", "2")
    below = answered.output.split("\n\n")[1]
    assert re.search(r"^latency percentiles: p50 [\d.]+ ms, p95 [\d.]+ ms", below, re.MULTILINE)
    assert re.search(r"^client: [\d.]+ processors, its busiest thread \d+% of one", below, re.MULTILINE)
    assert re.search(r"^server: PostgreSQL \d+", below, re.MULTILINE)
    assert "fsync=off" in below and "max_connections=30" in below and "listen_addresses" not in below
    few = ours(server, "-n", "-t", "1", "-S").output.split("\n\n")[1]
    assert "p50 and above: too few transactions (1); 40 are needed" in few


def test_json_is_one_document_and_nothing_else(server: NativeTestServer) -> None:
    answered = ours(server, "-n", "-t", "50", "-c", "2", "-S", "-N", "-r", "--json", "--random-seed=5")
    document = json.loads(answered.output)
    PgbenchResult.model_validate(document)
    counts = document["counts"]
    assert (counts["transactions"], document["random_seed"], counts["failed"]) == (100, 5, 0)
    assert [script["name"] for script in document["scripts"]] == [
        "<builtin: select only>",
        "<builtin: simple update>",
    ]
    assert sum(script["counts"]["transactions"] for script in document["scripts"]) == 100
    first = document["scripts"][0]["commands"][0]
    assert first["text"].startswith("\\set aid") and first["count"] > 0
    # Without -r nobody counted them.
    uncounted = json.loads(ours(server, "-n", "-t", "5", "-S", "--json").output)
    assert {each["count"] for each in uncounted["scripts"][0]["commands"]} == {None}
    assert document["percentiles_ms"]["p50"] <= counts["latency_max_ms"]
    assert list(document["percentiles_ms"]) == ["p50"], "of 100 transactions no more are figures"


def test_the_last_interval_that_the_run_ends_with_is_told(server: NativeTestServer) -> None:
    theirs, mine = both(server, "-n", "-S", "-T", "4", "-P", "2")
    assert mine.status == theirs.status == 0
    told = [line for line in mine.errors.splitlines() if line.startswith("progress: ")]
    assert len(told) == 2 and all(re.match(r"progress: \d\.\d s, \d+\.\d tps, lat ", line) for line in told)


def test_json_with_progress_is_a_document_for_each_interval_and_the_result(
    server: NativeTestServer, tmp_path: Path
) -> None:
    words = ("-n", "-T", "3", "-P", "1", "-S", "-R", "200000", "-c", "2", "--json")
    answered = ours(server, *words)
    *intervals, result = [json.loads(line) for line in answered.output.splitlines()]
    assert len(intervals) >= 2 and "progress:" not in answered.errors
    for interval in intervals:
        jsonschema.validate(interval, json.loads(schema.PGBENCH_PROGRESS.text()))
        assert interval["transactions"] > 0 and interval["p50_ms"] <= interval["p99_ms"]
        assert interval["latency_mean_ms"] > interval["lag_mean_ms"] > 0
    # No server here holds that rate: what is due waits, and more of it with each second.
    assert intervals[1]["queued"] > intervals[0]["queued"] > 0
    jsonschema.validate(result, json.loads(schema.PGBENCH.text()))
    done = sum(interval["transactions"] for interval in intervals)
    assert done <= result["counts"]["transactions"]
    (tmp_path / "sleeps.sql").write_text("\\sleep 1500 ms\n")
    idle = ours(server, "-n", "-t", "1", "-P", "1", "--json", "-f", "sleeps.sql", folder=tmp_path)
    first = json.loads(idle.output.splitlines()[0])
    assert (first["transactions"], first["p50_ms"], first["queued"]) == (0, None, None)


def test_a_script_around_pgbench_finds_its_lines(server: NativeTestServer) -> None:
    output = ours(server, "-n", "-T", "1", "-S").output
    tps = [line.split()[2] for line in output.splitlines() if line.startswith("tps =")]
    assert len(tps) == 1 and float(tps[0]) > 0
    assert re.search(r"^latency average = [\d.]+ ms$", output, re.MULTILINE)
