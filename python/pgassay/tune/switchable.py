"""Candidates that a running server can have and not have: indexes that are hidden, a session's settings."""

from collections.abc import Sequence

from pglast import ast, parse_sql
from pglast.parser import ParseError

from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.model.build import Build
from pgassay.tune.candidate import Candidate

# What stays when an index is hidden, and changes nothing by itself.
_BESIDE = (ast.CreateExtensionStmt, ast.VacuumStmt)


def indexes_of(candidate: Candidate) -> tuple[str, ...] | None:
    """The qualified names of the indexes that are all its SQL makes; None where it makes something else.

    A unique index is something else: it refuses rows. () for one without SQL.
    """
    found = []
    for sql in candidate.sql:
        try:
            statements: Sequence[ast.RawStmt] = parse_sql(sql)
        except ParseError:
            return None
        for statement in statements:
            made = statement.stmt
            if isinstance(made, ast.IndexStmt) and made.idxname and made.relation and not made.unique:
                schema = f"{_quoted(made.relation.schemaname)}." if made.relation.schemaname else ""
                found.append(f"{schema}{_quoted(made.idxname)}")
            elif not isinstance(made, _BESIDE) or getattr(made, "is_vacuumcmd", False):
                return None
    return tuple(found)


def is_switchable(candidate: Candidate, build: Build) -> bool:
    """Whether a session of one server of this build can have it while the next one does not."""
    if candidate.build is not None or candidate.storage is not None or candidate.restart:
        return False
    facts = build_settings(build)
    return indexes_of(candidate) is not None and all(
        classify(facts, name) == "session" for name in candidate.settings
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
