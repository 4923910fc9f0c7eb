"""What the server counted for each statement: differences, means per arm, tables."""

from dataclasses import replace
from pathlib import Path

import pytest

import pgassay
import report_examples as examples
from pgassay.analysis.descriptive.server_statements import STATEMENTS_MAX
from pgassay.analysis.verdicts.compare import analyse
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare import page as comparison
from pgassay.report.compare.server_statements import statement_table
from pgassay.trial.snapshots.server_statements import COLUMNS, FILE, ServerStatements

NAMES = {column: names[0] for column, names in COLUMNS.items()}
STATEMENTS = ServerStatements("public", NAMES)


def values(calls: float, exec_ms: float, **others: float) -> tuple[float, ...]:
    known = {"calls": calls, "total_exec_time": exec_ms, **others}
    return tuple(known.get(name, 0.0) for name in COLUMNS)


def stored_with(folder: Path, contents: list[bytes | None]) -> StoredExperiment:
    """Two arms whose trials have these files in turn."""
    stored = examples.stored(levels=["sync", "worker"], blocks=2)
    trials = []
    for trial, content in zip(stored.trials, contents, strict=True):
        where = folder / str(trial.record.number)
        (where / "observations").mkdir(parents=True)
        if content is not None:
            (where / "observations" / FILE).write_bytes(content)
        trials.append(replace(trial, folder=where))
    return replace(stored, trials=tuple(trials))


def test_a_file_holds_what_moved_and_nothing_of_pgassay_s_own(tmp_path: Path) -> None:
    before = {"1": ("", values(10, 100.0)), "2": ("", values(5, 5.0)), "3": ("", values(900, 9.0))}
    after = {
        "1": ("SELECT $1", values(13, 160.0, wal_bytes=8192)),
        "2": ("SELECT 2", values(5, 5.0)),
        "3": ("SELECT 3", values(2, 7.0)),
        "4": ("SELECT pg_stat_force_next_flush()", values(6, 1.0)),
        "5": ("SELECT queryid FROM public.pg_stat_statements($1)", values(1, 1.0)),
    }
    content = STATEMENTS.content(before, after)
    stored = stored_with(tmp_path, [content] * 6)
    arm = analyse(stored).server_statements[0]
    assert [(each.query, each.calls, each.exec_ms, each.wal_bytes) for each in arm.statements] == [
        ("SELECT $1", 3.0, 60.0, 8192.0),
        ("SELECT 3", 2.0, 7.0, 0.0),
    ]
    assert (arm.trials, arm.statements_total, arm.exec_ms) == (2, 2, 67.0)
    assert STATEMENTS.content(before, before) is None


def test_arms_have_means_over_the_trials_that_ran_a_statement(tmp_path: Path) -> None:
    def content(*rows: tuple[str, str, float]) -> bytes | None:
        return STATEMENTS.content({}, {name: (query, values(2, spent)) for name, query, spent in rows})

    hostile = f"SELECT | `x` {examples.HOSTILE} \x1b[2J FROM\n\ttable_with_a_long_name" + " + 1" * 400
    stored = examples.stored(levels=["sync", "worker"], blocks=2)
    contents = [
        {
            "control": content(("7", hostile, 100.0 * (1 + trial.record.block)), ("8", "SELECT 8", 1.0)),
            "twin": content(("9", "only the twin's", 5.0)),
            "arm": content(("70", hostile, 40.0)) if trial.record.block == 0 else None,
        }[next(arm.role for arm in stored.experiment.arms if arm.id == trial.record.arm_id)]
        for trial in stored.trials
    ]
    stored = stored_with(tmp_path, contents)
    result = analyse(stored)
    control, arm = result.server_statements
    assert [(each.query_id, each.trials, each.exec_ms) for each in control.statements] == [
        ("7", 2, 150.0),
        ("8", 2, 1.0),
    ]
    assert (arm.trials, arm.statements[0].exec_ms) == (1, 40.0)
    table = statement_table(result)
    assert table is not None
    assert table.heads == ("calls", "time", "per call"), "all else is 0 everywhere"
    first, second = table.statements
    assert [row.arm for row in first.rows] == ["io_method=sync", "io_method=worker"], "by its text"
    assert first.rows[0].cells[:3] == ("2", "150 ms", "75.0 ms")
    assert second.query == "SELECT 8"
    page, text = comparison.page_of(result, stored).html(), comparison.page_of(result, stored).markdown()
    assert 'id="server-statements"' in page
    for shown in (page, text):
        assert "only the twin" not in shown
        assert "<script>alert" not in shown.replace("compare io_method", "")
        assert "\x1b" not in shown
    assert "Statements from pg_stat_statements" in text


def test_only_the_longest_are_kept_and_none_is_no_table(tmp_path: Path) -> None:
    after = {str(number): (f"SELECT {number}", values(1, float(number))) for number in range(1, 31)}
    many = stored_with(tmp_path / "many", [STATEMENTS.content({}, after)] * 6)
    arm = analyse(many).server_statements[0]
    assert len(arm.statements) == STATEMENTS_MAX
    assert arm.statements[0].query == "SELECT 30"
    assert arm.statements_total == 30
    none = stored_with(tmp_path / "none", [None] * 6)
    result = analyse(none)
    assert result.server_statements == ()
    assert 'id="server-statements"' not in comparison.page_of(result, none).html()
    assert "Server counters" not in comparison.page_of(result, none).markdown()


def test_an_older_version_of_the_extension_lacks_columns_and_damage_costs_the_table(tmp_path: Path) -> None:
    few = ServerStatements("public", {"calls": "calls", "total_exec_time": "total_exec_time", "rows": "rows"})
    content = few.content({}, {"1": ("SELECT 1", (2.0, 3.0, 4.0))})
    stored = stored_with(tmp_path, [content] * 5 + [b"no columns"])
    (statement,) = analyse(stored).server_statements[0].statements
    assert (statement.wal_bytes, statement.read_ms, statement.rows) == (None, None, 4.0)
    table = statement_table(analyse(stored))
    assert table is not None
    assert (table.heads, table.statements[0].rows[0].cells) == (
        ("calls", "time", "per call", "rows"),
        ("2", "3.00 ms", "1.50 ms", "4"),
    )


def test_a_notebook_reads_them_as_a_series(tmp_path: Path) -> None:
    from load_records import write_load
    from pgassay.record.observations import observation_path

    stored = write_load(tmp_path / "load", strata=[""], blocks=1)
    content = STATEMENTS.content({}, {"1": ("SELECT 1", values(4, 8.0))})
    assert content is not None
    for trial in stored.trials:
        observation_path(trial.folder, "pg_stat_statements").write_bytes(content)
    table = pgassay.open(tmp_path / "load").series("pg_stat_statements")
    assert table.num_rows == 3
    assert set(table.column("query").to_pylist()) == {"SELECT 1"}
    assert table.column("total_exec_time").to_pylist() == pytest.approx([8.0] * 3)
