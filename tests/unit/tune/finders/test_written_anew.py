"""Tables that are to be written anew: by which command, and what it locks, by the server's version."""

import pytest

from finder_samples import facts, index, plan, symptom
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import IndexFacts
from pgassay.tune.finders.registry import find

PRIMARY = index("t_pkey", "id", unique=True, primary=True)


def found(version: int, *indexes: IndexFacts, pages: int = 20_000) -> list[Candidate]:
    known = facts(*indexes, pages=pages).model_copy(update={"version": version})
    return [each for each in find(symptom(plan(ms=200.0), known=known)) if each.id.startswith("rewrite:")]


@pytest.mark.parametrize(
    ("version", "command"), [(170000, "VACUUM (FULL, ANALYZE)"), (190000, "REPACK (ANALYZE)")]
)
def test_the_command_is_the_version_s(version: int, command: str) -> None:
    (rewrite,) = found(version, PRIMARY)
    assert rewrite.sql[0].startswith(command)
    assert "it is locked against reads and writes meanwhile" in rewrite.reason
    assert ("REPACK (CONCURRENTLY)" in rewrite.reason) is (version >= 190000)


def test_without_a_primary_key_no_row_is_found_that_changes_meanwhile() -> None:
    (rewrite,) = found(190000)
    assert "CONCURRENTLY" not in rewrite.reason


def test_a_packed_table_stays() -> None:
    assert not found(190000, PRIMARY, pages=600)
