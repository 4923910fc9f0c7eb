"""Reads SQL text: the files that pgassay ships and the user's own."""

from importlib.resources import files
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import Statement
from pgassay.workloads.statement_names import named_statements

SQL_FILE_BYTES_MAX = 64 * 1024 * 1024


def shipped_statements(family: str) -> tuple[Statement, ...]:
    """The statements of a family that pgassay ships."""
    text = files("pgassay.workloads").joinpath("sql", f"{family}.sql").read_text("utf-8")
    return named_statements(text, f"{family}.sql")


def read_sql_file(path: Path) -> str:
    """The text of a user's SQL file; raises UsageError naming the file and the remedy."""
    try:
        is_large = path.stat().st_size > SQL_FILE_BYTES_MAX
        if not is_large:
            with path.open(encoding="utf-8-sig") as file:  # some editors begin with a mark of the byte order
                # A pipe and /dev/zero say no size, and the latter never ends.
                text = file.read(SQL_FILE_BYTES_MAX + 1)
            is_large = len(text) > SQL_FILE_BYTES_MAX
        if is_large:
            raise UsageError(f"{path} is larger than 64 MB: a workload file contains statements, not data")
    except OSError as error:
        raise UsageError(
            f"can't read the SQL file {path} ({error.strerror}): name a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    if "\0" in text:
        raise UsageError(f"{path} has a zero byte, which SQL does not allow: remove it")
    return text
