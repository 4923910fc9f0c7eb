"""sysbench's words: options, refusals, and what is said of a script in Lua."""

from pathlib import Path
from typing import Any

import pytest

from pgassay.cli.main import main
from pgassay.errors import UsageError
from pgassay.native.sysbench_commands import SysbenchProgress
from pgassay.sysbench.connection import SysbenchServer
from pgassay.sysbench.lua import as_pgbench_script, name_of, nearest_script, statements_of
from pgassay.sysbench.options import (
    Options,
    SysbenchError,
    document_of,
    parse,
    refuse_options_of_others,
)
from pgassay.sysbench.run_load import progress_lines
from pgassay.sysbench.tables import warm_up


def test_words_stand_in_any_order_and_dashes_are_underscores() -> None:
    chosen = parse(["--table_size=500", "oltp_read_only", "--skip-trx", "run", "--auto-inc=off"])
    assert (chosen.script, chosen.command, chosen.table_size) == ("oltp_read_only", "run", 500)
    document = document_of(chosen)
    assert (document["skip_trx"], document["auto_inc"], document["point_selects"]) == (True, False, 10)
    assert "secondary" not in document


@pytest.mark.parametrize(
    ("words", "distribution"),
    [
        ([], "special"),
        (["--profile=head"], "uniform"),
        (["--profile=head", "--rand-type=pareto"], "pareto"),
        (["--rand-type=zipfian"], "zipfian"),
    ],
)
def test_the_profile_decides_where_no_distribution_is_typed(words: list[str], distribution: str) -> None:
    assert parse(words).distribution == distribution


def test_old_names_are_taken_with_sysbench_s_warning() -> None:
    chosen = parse(["--num-threads=3", "--max-time=7", "--random-ranges=2"])
    assert [chosen.whole(name) for name in ("threads", "time", "number-of-ranges")] == [3, 7, 2]
    assert chosen.warnings[0] == "WARNING: --num-threads is deprecated, use --threads instead"


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("--foo=1", "invalid option: --foo=1"),
        ("--threads=0", "Invalid value for --threads: '0': write a whole number from 1 to 100000"),
        (
            "--threads",
            "--threads has no value behind =: write a whole number from 1 to 100000, as --threads=VALUE",
        ),
        ("--rand-type=normal", "write uniform or gaussian or special or pareto or zipfian"),
        ("--rand-pareto-h=1", "Invalid value for --rand-pareto-h: '1'"),
        ("--rand-zipfian-exp=nan", "Invalid value for --rand-zipfian-exp"),
        ("--skip-trx=maybe", "write on or off"),
        ("--db-driver=mysql", "write pgsql"),
        ("--mysql-host=h", "--mysql-host is an option for MySQL: leave it out"),
        ("--report-checkpoints=5", "--report-checkpoints is not possible: there is one report"),
        ("--validate", "--validate is not possible"),
        ("--thread-init-timeout=9", "--thread-init-timeout is not possible: the time limit of a connection"),
        ("--create_table_options=x", "--create-table-options is not possible: tables are made as sysbench"),
        ("--pgsql-sslmode=on", "write disable or allow or prefer or require or verify-ca or verify-full"),
    ],
)
def test_what_is_refused_says_what_to_write(word: str, complaint: str) -> None:
    with pytest.raises(SysbenchError) as caught:
        parse(["oltp_read_only", "run", word])
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("script", "option", "is_taken"),
    [
        ("oltp_read_only", "--random-points=3", False),
        ("select_random_points", "--random-points=3", True),
        ("select_random_points", "--delta=3", False),
        ("select_random_ranges", "--delta=3", True),
        ("oltp_insert", "--number_of_ranges=3", False),
        ("bulk_insert", "--delta=3", True),
    ],
)
def test_an_option_of_another_script_is_refused_as_by_sysbench(
    script: str, option: str, is_taken: bool
) -> None:
    chosen = parse([script, "run", option])
    if is_taken:
        refuse_options_of_others(chosen)
        return
    with pytest.raises(SysbenchError, match=f"^invalid option: --.* has it, {script} has not$"):
        refuse_options_of_others(chosen)


@pytest.mark.parametrize("command", ["run", "prepare"])
def test_a_run_without_an_end_is_warned_of(command: str) -> None:
    chosen = parse(["oltp_read_only", command, "--time=0"])
    endless = "WARNING: Both event and time limits are disabled, running an endless test"
    assert chosen.warnings == ([endless] if command == "run" else [])
    assert parse(["oltp_read_only", "run", "--time=0", "--events=1"]).warnings == []


@pytest.mark.parametrize(
    ("script", "first", "others"),
    [
        ("oltp_read_only", "oltp_read_only options:", ["--point-selects=N", "--skip-trx[=on|off]"]),
        ("select_random_ranges", "select_random_ranges options:", ["--number-of-ranges=N", "--delta=N"]),
        ("bulk_insert", "bulk_insert has no options of its own", []),
    ],
)
def test_help_of_a_script_names_its_options_and_asks_no_server(
    capsys: pytest.CaptureFixture[str], script: str, first: str, others: list[str]
) -> None:
    assert main(["sysbench", script, "help", "--pgsql-host=/nowhere"]) == 0
    assert main(["sysbench", f"/usr/share/sysbench/{script}.lua", "help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{first}\n") and said.count(first) == 2
    words = [line.split()[0] for line in said.splitlines() if line.startswith("  --")]
    assert set(others) <= set(words) and ("--random-points=N" in words) is False


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sysbench"]) == 2
    assert "a script is missing: write one of oltp_read_only" in capsys.readouterr().err
    assert main(["sysbench", "oltp_delete"]) == 1
    assert "A command is missing: write prepare, run" in capsys.readouterr().err


def test_what_is_refused_can_be_switched_off() -> None:
    assert not parse(["--debug=off", "--forced-shutdown=off"]).values


def test_a_third_word_and_a_histogram_without_a_percentile_are_refused() -> None:
    with pytest.raises(SysbenchError, match="Unrecognized command line argument: now"):
        parse(["oltp_read_only", "run", "now"])
    with pytest.raises(SysbenchError, match="--histogram cannot be used with --percentile=0"):
        parse(["--histogram", "--percentile=0"])


def test_the_line_of_an_interval_is_sysbench_s() -> None:
    progress: SysbenchProgress = {
        "elapsed_s": 2.0004,
        "interval_s": 2.0,
        "connections": 3,
        "events": 10,
        "queries": {"read": 140, "write": 40, "other": 20},
        "errors": 1,
        "reconnects": 5,
        "percentile_ms": 1.234,
        "queued": 4,
        "running": 3,
    }
    assert progress_lines(Options(values={"rate": "9", "percentile": "99"}), progress) == [
        "[ 2s ] thds: 3 tps: 5.00 qps: 100.00 (r/w/o: 70.00/20.00/10.00) lat (ms,99%): 1.23 "
        "err/s: 0.50 reconn/s: 2.50",
        "[ 2s ] queue length: 4, concurrency: 3",
    ]


LUA = """
-- con:query("SELECT commented")
function event()
   con:query("BEGIN")
   con:query(string.format("SELECT c FROM sbtest%d WHERE id = %d", t, i))
   con:query([[ UPDATE sbtest1 SET c = '%s'
      WHERE id = ? ]])
   con:query("SELECT c FROM sbtest%d WHERE id = %d")
end
"""


def test_the_statements_of_a_lua_script_are_drafted_for_pgbench() -> None:
    assert statements_of(LUA) == [
        "SELECT c FROM sbtest%d WHERE id = %d",
        "UPDATE sbtest1 SET c = '%s' WHERE id = ?",
    ]
    assert as_pgbench_script(LUA) == (
        "\\set v1 random(1, 10000)\n\\set v2 random(1, 10000)\n\\set v3 random(1, 10000)\n"
        "SELECT c FROM sbtest1 WHERE id = :v1;\nUPDATE sbtest1 SET c = :v2 WHERE id = :v3;\n"
    )


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        (LUA, "oltp_read_write"),
        ("execute_point_selects()", "oltp_point_select"),
        ("execute_point_selects() execute_sum_ranges()", "oltp_read_only"),
        ("execute_index_updates() execute_delete_inserts()", "oltp_write_only"),
        ("execute_index_updates() execute_point_selects()", "oltp_read_write"),
        ("con:query('INSERT INTO t VALUES (1)')", "oltp_insert"),
        ("con:query('DELETE FROM t') con:query('UPDATE t SET a = 1')", "oltp_write_only"),
        ("", "oltp_read_write"),
    ],
)
def test_the_nearest_script_is_named(text: str, nearest: str) -> None:
    assert nearest_script("mine", text) == nearest


@pytest.mark.parametrize(("found", "called"), [(("extensions",), "extensions.pg_prewarm("), (None, "")])
def test_tables_are_read_by_pg_prewarm_in_whatever_schema_it_is(
    found: tuple[str] | None, called: str
) -> None:
    sent: list[str] = []

    class Session:
        def execute(self, statement: bytes) -> "Session":
            sent.append(statement.decode())
            return self

        def fetchone(self) -> tuple[str] | None:
            return found

    session: Any = Session()
    server = SysbenchServer(session, "18.6", [], {})
    warm_up(parse(["oltp_insert", "warmup", "--tables=2"]), server, lambda _line: None)
    reading = sent[1:]
    assert len(reading) == (2 if called else 6)
    assert all(("pg_prewarm" in each) == bool(called) and called in each for each in reading)


def test_the_scripts_that_packages_ship_are_the_built_in_ones(tmp_path: Path) -> None:
    assert name_of("/usr/share/sysbench/oltp_read_write.lua") == "oltp_read_write"
    assert name_of("oltp_insert.lua") == "oltp_insert"
    (changed := tmp_path / "oltp_insert.lua").write_text(LUA)
    with pytest.raises(UsageError, match=r"oltp_insert\.lua is Lua, which pgassay does not run"):
        name_of(str(changed))
    with pytest.raises(UsageError, match="did you mean oltp_read_write"):
        name_of("oltp_readwrite")
