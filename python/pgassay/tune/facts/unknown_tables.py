"""Statements that name a table which their data don't have, found before the data are loaded.

The names that a dump or a script creates are read from its text. Where other things than these may make
tables (an extension, code that runs SQL), nothing is said, and the copy tells.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pglast import ast

from pgassay.environment.datasets.dump_header import read_header
from pgassay.environment.server.programs import run_program
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.rewrites.tree import RefusedError, read, walk

# A longer text is read by whoever loads it.
_BYTES_MAX = 256 * 1024**2
_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)'
_CREATED = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+|LOCAL\s+|TEMP\s+|TEMPORARY\s+|UNLOGGED\s+|FOREIGN\s+|"
    r"RECURSIVE\s+|MATERIALIZED\s+)*(?:TABLE|VIEW|SEQUENCE)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?:{_NAME}\s*\.\s*)?({_NAME})",
    re.IGNORECASE,
)
# Extensions that bring no table or view, or none whose name does not begin with pg_.
_WITHOUT_TABLES = (
    r"plpgsql|btree_gin|btree_gist|pgcrypto|uuid-ossp|hstore|citext|ltree|intarray|unaccent|fuzzystrmatch|"
    r"cube|pg_(?:stat_statements|trgm|buffercache|prewarm|freespacemap|visibility|walinspect|surgery|"
    r"stat_kcache|wait_sampling|qualstats|logicalinspect|overexplain|plan_advice)"
)
_EXTENSION = re.compile(
    rf"\bCREATE\s+EXTENSION\s+(?:IF\s+NOT\s+EXISTS\s+)?(?!\"?(?:{_WITHOUT_TABLES})\b)", re.IGNORECASE
)
# What may make tables whose names stand nowhere: code that runs, and what other files hold.
_HIDDEN = re.compile(
    r"\bDO\b|\bEXECUTE\b|(?<!\bINSERT )(?<!\bMERGE )\bINTO\s|\bIMPORT\s+FOREIGN\b|\bRENAME\b|\bCALL\b"
    r"|\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\b|^\s*\\",
    re.IGNORECASE | re.MULTILINE,
)
_SYSTEM_SCHEMAS = ("pg_catalog", "information_schema")


def refuse_unknown_tables(spec: ArmSpec, statements: Iterable[TunedStatement], workload: str) -> None:
    """Raise UsageError for a table that no statement of the data creates, with the nearest that one does.

    workload: what the statements are called in the message.
    """
    source = Path(spec.dataset.source)
    text = _definitions(spec.build, spec.dataset.kind, source)
    if not text:
        return
    found = unknown_table(text, statements, is_dump=spec.dataset.kind == "dump")
    if found is not None:
        statement, name, near = found
        raise UsageError(
            f"{workload}, {statement}: {source.name} creates no table {name}: {near} Correct the name and "
            "run again"
        )


def unknown_table(
    text: str, statements: Iterable[TunedStatement], *, is_dump: bool
) -> tuple[str, str, str] | None:
    """(the statement, the table that no text creates, what it may mean); None where all are known.

    None, too, where the text may make tables whose names are not in it; a dump holds code and runs none.
    """
    if _EXTENSION.search(text) or (not is_dump and _HIDDEN.search(text)):
        return None
    known = {_folded(match) for match in _CREATED.findall(text)}
    for statement in statements:
        for name in _tables(statement):
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), 1)
                like = f"is it {near[0]}?" if near else f"it creates {', '.join(sorted(known)[:5])}."
                return statement.name, name, like
    return None


def _definitions(build: Build, kind: str, path: Path) -> str:
    """The text that creates the tables; '' where it can't be read at once."""
    if kind not in ("dump", "script") or not path.exists():
        return ""
    try:
        if kind == "dump" and read_header(path).format != "plain":
            program = Path(build.bin_directory) / "pg_restore"
            words: list[Path] = [path] if path.is_dir() else []
            return run_program(
                [program, "--schema-only", "--file", "-", *words],
                f"reading {path}",
                input_path=None if words else path,
                sees=words,
            )
        return path.read_text("utf-8", "replace") if path.stat().st_size <= _BYTES_MAX else ""
    except (OSError, MeasurementError):
        return ""


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _tables(statement: TunedStatement) -> Iterator[str]:
    try:
        tree = read(statement.sql)
    except RefusedError:
        return
    named = {str(node.ctename) for node in walk(tree) if isinstance(node, ast.CommonTableExpr)}
    # FOR UPDATE OF names what is in FROM once more, where it has an alias by that.
    locked = {
        id(table)
        for node in walk(tree)
        if isinstance(node, ast.LockingClause)
        for table in node.lockedRels or ()
    }
    for node in walk(tree):
        if id(node) in locked:
            continue
        if isinstance(node, ast.RangeVar) and node.schemaname not in _SYSTEM_SCHEMAS:
            name = str(node.relname)
            if name not in named and not name.startswith("pg_"):
                yield name
