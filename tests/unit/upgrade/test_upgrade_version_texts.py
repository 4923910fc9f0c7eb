"""Statements that ask for the server's version answer otherwise after an upgrade, and break nothing."""

import pytest

from pgassay.model.workload import Statement
from pgassay.upgrade.both_versions import ComparedStatement
from pgassay.upgrade.upgrade_answer import single_statements
from pgassay.upgrade.version_texts import tells_version


@pytest.mark.parametrize(
    ("sql", "tells"),
    [
        ("select pg_catalog.version()", True),
        ("SELECT version ( )", True),
        ("SHOW server_version_num;", True),
        ("SELECT current_setting('server_version_num')::int", True),
        ("SELECT app.version()", False),
        ("SELECT version FROM release", False),
        ("SELECT subversion()", False),
        ("SELECT current_setting('work_mem')", False),
    ],
)
def test_what_asks_for_the_version_is_known(sql: str, tells: bool) -> None:
    assert tells_version(sql) is tells


def test_another_version_is_not_told_as_other_rows() -> None:
    differs = ComparedStatement("", "", False, (1, 1), ())
    fewer = ComparedStatement("", "", False, (1, 0), ())
    statements = [Statement(name=name, sql="SELECT version()") for name in ("asks", "fewer")]
    statements.append(Statement(name="reads", sql="SELECT 1"))
    found = {"asks": differs, "fewer": fewer, "reads": differs}
    made = {each.name: each for each in single_statements(statements, {}, (), found, None)}
    assert made["asks"].verdict == "not decided"
    assert made["fewer"].verdict == made["reads"].verdict == "other rows"
