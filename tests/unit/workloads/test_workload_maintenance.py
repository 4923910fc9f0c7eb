"""maintenance:FILE: which commands it takes, what stands untimed before them, where VERBOSE is added."""

from pathlib import Path

import pytest

from pgassay.errors import UsageError
from pgassay.workloads.maintenance import command_of, with_verbose
from pgassay.workloads.registry import parse_workload

VERBOSE = {
    "VACUUM": "VACUUM (VERBOSE)",
    "vacuum t": "vacuum (VERBOSE) t",
    "VACUUM (FREEZE, INDEX_CLEANUP on) t": "VACUUM (VERBOSE, FREEZE, INDEX_CLEANUP on) t",
    "VACUUM FULL FREEZE t": "VACUUM (VERBOSE, FULL, FREEZE) t",
    'VACUUM "full"': 'VACUUM (VERBOSE) "full"',
    "ANALYZE t (a, b)": "ANALYZE VERBOSE t (a, b)",
    "CLUSTER t USING i": "CLUSTER VERBOSE t USING i",
    "REPACK t": "REPACK (VERBOSE) t",
    "/* all */ VACUUM -- quickly\n t": "VACUUM (VERBOSE) -- quickly\n t",
    'VACUUM (PARALLEL 2) "a (b)"': 'VACUUM (VERBOSE, PARALLEL 2) "a (b)"',
    'ANALYZE "verbose"': 'ANALYZE VERBOSE "verbose"',
}
KEPT = (
    "VACUUM (VERBOSE) t",
    "VACUUM (verbose false) t",
    "VACUUM FREEZE VERBOSE t",
    "ANALYZE verbose t",
    "CLUSTER (VERBOSE) t",
    "CREATE INDEX ON t (a)",
    "REINDEX TABLE t",
)


@pytest.mark.parametrize(("given", "expected"), VERBOSE.items())
def test_verbose_is_added(given: str, expected: str) -> None:
    assert with_verbose(given) == expected


@pytest.mark.parametrize("given", KEPT)
def test_a_statement_that_has_it_or_gains_nothing_stays(given: str) -> None:
    assert with_verbose(given) == given


def test_commands_are_told_apart() -> None:
    commands = {
        "VACUUM (FULL) t": "vacuum full",
        "VACUUM (FULL off) t": "vacuum",
        "vacuum full t": "vacuum full",
        "ANALYSE": "analyze",
        "create unique index concurrently i on t(a)": "create index",
        "/* why */ REINDEX INDEX i": "reindex",
        "SELECT 1": None,
        "CREATE TABLE t()": None,
    }
    assert {sql: command_of(sql) for sql in commands} == commands


def test_what_is_untimed_goes_before_the_next_command(tmp_path: Path) -> None:
    file = tmp_path / "m.sql"
    file.write_text(
        "-- untimed\nDELETE FROM t;\n-- Untimed\nUPDATE t SET a = 1;\n"
        "-- name: first\nVACUUM t;\n-- name: second\nREINDEX TABLE t;\n"
    )
    workload = parse_workload(f"maintenance:{file}")
    assert [statement.name for statement in workload.statements] == ["first", "second"]
    assert workload.statements[0].before == ("DELETE FROM t", "UPDATE t SET a = 1")
    assert workload.statements[1].before == ()
    assert workload.writes and workload.is_maintenance and not workload.wants_autovacuum


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT 1;", "'SELECT 1' is not a maintenance command"),
        ("-- untimed\nDELETE FROM t;", "has no maintenance command"),
        ("VACUUM;\n-- untimed\nDELETE FROM t;", "is after the last command"),
        ("-- untimed\nBEGIN;\nVACUUM;", "leave transaction commands out"),
        ("-- name: a\nVACUUM;\n-- name: a\nANALYZE;", "two statements are named 'a'"),
    ],
)
def test_a_file_that_can_not_be_timed_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "m.sql"
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        parse_workload(f"maintenance:{file}")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match="needs a file"):
        parse_workload("maintenance")
    with pytest.raises(UsageError, match=r"can't read the SQL file /nowhere\.sql"):
        parse_workload("maintenance:/nowhere.sql")
