"""The scripts of a run: pgbench's own and files, with their weights."""

import codecs
import errno
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from pgassay.pgbench.messages import PgbenchError
from pgassay.pgbench.typed_numbers import whole_number

WEIGHT_MAX = 2**31 - 1
SCRIPTS_MAX = 128
_ACCOUNT = "\\set aid random(1, 100000 * :scale)\n"
_VARIABLES = (
    f"{_ACCOUNT}\\set bid random(1, 1 * :scale)\n\\set tid random(1, 10 * :scale)\n"
    "\\set delta random(-5000, 5000)\n"
)
_UPDATE = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
_SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
_INSERT = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
    "VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n"
)


@dataclass(frozen=True)
class Builtin:
    """One of pgbench's own scripts."""

    name: str
    title: str
    text: str


BUILTINS = (
    Builtin(
        "tpcb-like",
        "<builtin: TPC-B (sort of)>",
        f"{_VARIABLES}BEGIN;\n{_UPDATE}{_SELECT}"
        "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n"
        f"UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n{_INSERT}END;\n",
    ),
    Builtin(
        "simple-update",
        "<builtin: simple update>",
        f"{_VARIABLES}BEGIN;\n{_UPDATE}{_SELECT}{_INSERT}END;\n",
    ),
    Builtin("select-only", "<builtin: select only>", f"{_ACCOUNT}{_SELECT}"),
)


@dataclass(frozen=True)
class Script:
    """A script of a run; `title` is what reports call it, the name of its file."""

    title: str
    text: str
    weight: int
    is_builtin: bool = False


def builtins_listed() -> str:
    """What `-b list` prints."""
    lines = [f"  {each.name:>13}: {each.title}" for each in BUILTINS]
    return "\n".join(["Available builtin scripts:", *lines, ""])


def find_builtin(name: str) -> Builtin:
    """The script whose name begins so. Raises PgbenchError for none and for several."""
    found = [each for each in BUILTINS if each.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise PgbenchError(f'no builtin script found for name "{name}"', below=builtins_listed())
    raise PgbenchError(
        f'ambiguous builtin name: {len(found)} builtin scripts found for prefix "{name}"',
        below=builtins_listed(),
    )


def builtin(typed: str) -> Script:
    """`NAME[@W]` of -b."""
    name, weight = _name_and_weight(typed)
    found = find_builtin(name)
    return Script(found.title, found.text, weight, is_builtin=True)


def from_file(typed: str) -> Script:
    """`FILE[@W]` of -f; `-` is standard input. Raises PgbenchError for one that can't be read."""
    name, weight = _name_and_weight(typed)
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        what = "read" if error.errno == errno.EISDIR else "open"
        raise PgbenchError(f'could not {what} file "{name}": {os.strerror(error.errno or 0)}') from error
    return Script(name, _decoded(name, content).partition("\0")[0], weight)


def _decoded(name: str, content: bytes) -> str:
    """The text of a script, written in $PGCLIENTENCODING as for libpq, else in UTF-8."""
    typed = os.environ.get("PGCLIENTENCODING", "")
    encoding = "utf-8" if typed.lower() in ("", "auto", "sql_ascii") else _python_encoding(typed)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PgbenchError(
            f"{name}:{line}: a byte of the script is not {typed or 'UTF-8'}",
            hint="Name the file's encoding with PGCLIENTENCODING, or convert it to UTF-8, as by iconv.",
        ) from error


def _python_encoding(typed: str) -> str:
    """Python's name of an encoding that PostgreSQL knows. Raises PgbenchError for another."""
    plain = re.sub(r"[^a-z0-9]", "", typed.lower())
    name = re.sub(r"^win(?:dows)?(?=\d)", "cp", plain)
    name = re.sub(r"^iso8859(?=\d)", "iso8859-", name)
    name = re.sub(r"^koi8(?=[ru]?$)", "koi8-", name)
    name = {"unicode": "utf-8", "koi8-": "koi8-r", "mskanji": "cp932"}.get(name, name)
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise PgbenchError(f'invalid client encoding name "{typed}" in PGCLIENTENCODING') from None


def _name_and_weight(typed: str) -> tuple[str, int]:
    name, at, digits = typed.rpartition("@")
    if not at:
        return typed, 1
    weight = whole_number(digits)
    if weight is None:
        raise PgbenchError(f"invalid weight specification: @{digits}")
    if not 0 <= weight <= WEIGHT_MAX:
        raise PgbenchError(f"weight specification out of range (0 .. {WEIGHT_MAX}): {weight}")
    return name, weight
