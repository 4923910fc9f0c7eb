"""`prepare=none,'CREATE INDEX …'` or `prepare=none,index.sql`: SQL run once on the arm's copy of the data."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, distinct
from pgassay.model.arm import ArmSpec
from pgassay.sql_text import split_at_commas, split_statements
from pgassay.value_syntax.paths import typed_path
from pgassay.workloads.sql_files import read_sql_file

NOTHING = "none"
FILE_SUFFIX = ".sql"


def split(name: str, text: str) -> tuple[str, ...]:
    """The levels: SQL, the names of SQL files, or nothing (written `none`, or left empty).

    A comma inside parentheses or quotes belongs to its statement; a level wholly in single quotes is
    taken as it is, with '' for a quote.
    """
    return distinct(name, tuple(_unquoted(part.strip()) for part in split_at_commas(text, f"factor {name}")))


def _unquoted(level: str) -> str:
    if len(level) > 1 and level[0] == level[-1] == "'":
        level = level[1:-1].replace("''", "'")
    return level or NOTHING


def parse_prepare(text: str, what: str) -> tuple[str, ...]:
    """The statements of SQL as typed, of a file whose name ends in .sql, or none for `none`.

    Raises UsageError naming `what` for a file that can't be read and for text without a statement.
    """
    if text == NOTHING:
        return ()
    if text.endswith(FILE_SUFFIX):
        text, what = read_sql_file(typed_path(text)), text
    statements = tuple(statement.strip() for statement in split_statements(text, what))
    if not statements:
        raise UsageError(f"{what} has no SQL statement: write one, or {NOTHING}")
    return statements


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose data are prepared by `level`, after what --prepare does to those of all arms."""
    return spec.model_copy(update={"prepare": spec.prepare + parse_prepare(level, f"factor {name}")})


KIND = FactorKind(split=split, apply=apply, fixed_by="--prepare ")
