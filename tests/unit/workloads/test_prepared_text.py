"""A load's statements as they are explained are those that the generator prepares, text for text."""

import re
from pathlib import Path

import pytest

from pgassay.model.workload import Statement
from pgassay.workloads.pgbench_builtin import with_parameters
from pgassay.workloads.registry import parse_workload

SCRIPTS = Path(__file__).resolve().parents[3] / "crates" / "load" / "src" / "script.rs"


def prepared_by_the_generator() -> set[str]:
    """The statements of script.rs, their variables as $1, $2, … in the order in which they occur."""
    source = SCRIPTS.read_text("utf-8")
    found = re.findall(r'const [A-Z_]+: &str =\s+"((?:[^"\\]|\\\s+)*)";', source)
    texts = set()
    for text in found:
        pieces = re.split(r":\w+", re.sub(r"\\\s+", "", text).rstrip(";"))
        texts.add("".join(f"${place}{piece}" if place else piece for place, piece in enumerate(pieces)))
    return texts


@pytest.mark.parametrize("family", ["select-only", "tpcb", "simple-update"])
def test_pgbench_s_statements_have_the_generator_s_parameters(family: str) -> None:
    known = prepared_by_the_generator()
    assert len(known) == 5
    for statement in parse_workload(family).statements:
        text, values = with_parameters(statement)
        # The file has `+ 1` where the generator has a variable, and white space of its own.
        assert " ".join(text.rstrip(";").split()) in known
        assert all(value.isdigit() for value in values)


def test_sysbench_s_ranges_have_two() -> None:
    prepared = {each.name: with_parameters(each) for each in parse_workload("oltp_read_only").statements}
    assert prepared["point-select"] == ("SELECT c FROM sbtest1 WHERE id=$1", ("1",))
    assert prepared["distinct-range"] == (
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c", ("1", "100"),
    )  # fmt: skip


def test_a_statement_without_variables_stays() -> None:
    assert with_parameters(Statement(name="x", sql="SELECT t1.c2 FROM t1")) == ("SELECT t1.c2 FROM t1", ())
