"""A user's Lua script, which is not run: what is nearest to it, and its statements for pgbench."""

import re
from difflib import get_close_matches
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.sysbench.options import SCRIPTS

BYTES_MAX = 1024 * 1024
STATEMENTS_MAX = 20
# What the scripts are made of, and which of sysbench's own has it.
_CALLS = {
    "execute_point_selects": "oltp_point_select",
    "execute_simple_ranges": "oltp_read_only",
    "execute_sum_ranges": "oltp_read_only",
    "execute_order_ranges": "oltp_read_only",
    "execute_distinct_ranges": "oltp_read_only",
    "execute_index_updates": "oltp_update_index",
    "execute_non_index_updates": "oltp_update_non_index",
    "execute_delete_inserts": "oltp_write_only",
    "bulk_insert_next": "bulk_insert",
}
_SHIPPED = re.compile(r"(^|/)sysbench/[^/]+\.lua$")
_STATEMENT = re.compile(
    r"\"((?:select|insert|update|delete|with)\b[^\"]*)\"|'((?:select|insert|update|delete|with)\b[^']*)'|"
    r"\[\[\s*((?:select|insert|update|delete|with)\b.*?)\]\]",
    re.IGNORECASE | re.DOTALL,
)
_PLACE = re.compile(r"'?%s'?|%u|%d|%i|\?")


def name_of(typed: str) -> str:
    """The script that is meant; raises UsageError for a user's Lua file, and for a name that is none."""
    if typed in SCRIPTS:
        return typed
    if not typed:
        raise UsageError(
            f"a script is missing: write one of {', '.join(SCRIPTS)}, and after it prepare, run, warmup or "
            "cleanup; pgassay sysbench --help says more"
        )
    path = Path(typed)
    if path.suffix != ".lua":
        close = get_close_matches(typed, SCRIPTS, n=1)
        instead = f"did you mean {close[0]}?" if close else f"write one of {', '.join(SCRIPTS)}"
        raise UsageError(f"there is no script '{typed}': {instead}")
    # Where packages put sysbench's own.
    if path.stem in SCRIPTS and (_SHIPPED.search(typed) or not path.exists()):
        return path.stem
    raise UsageError(_refusal(path))


def _refusal(path: Path) -> str:
    text = _read(path)
    nearest = nearest_script(path.stem, text)
    found = as_pgbench_script(text)
    script = found or "\\set id random(1, 10000)\nSELECT c FROM sbtest1 WHERE id = :id;\n"
    whose = "its statements" if found else "for example"
    return (
        f"{path} is Lua, which pgassay does not run: use the nearest of its own, pgassay sysbench {nearest} "
        f"run, or write a pgbench script, as {path.stem}.sql, and type pgassay pgbench -n -M prepared -T 60 "
        f"-f {path.stem}.sql; {whose}:\n\n{script}"
    )


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def nearest_script(stem: str, text: str) -> str:
    """The script of sysbench's that has most of what this one has; by its name where it says nothing."""
    calls = {call for call in _CALLS if call in text}
    if calls:
        kinds = {_CALLS[call] for call in calls}
        reads = kinds & {"oltp_point_select", "oltp_read_only"}
        if len(kinds) == 1:
            return kinds.pop()
        if not reads:
            return "oltp_write_only"
        return "oltp_read_only" if reads == kinds else "oltp_read_write"
    words = {statement.split()[0].lower() for statement in statements_of(text)}
    if words:
        has_reads, has_writes = bool(words & {"select", "with"}), bool(words - {"select", "with"})
        if has_reads and has_writes:
            return "oltp_read_write"
        single = {"insert": "oltp_insert", "delete": "oltp_delete", "update": "oltp_update_non_index"}
        if has_writes:
            return single[words.pop()] if len(words) == 1 else "oltp_write_only"
        return "oltp_point_select"
    close = get_close_matches(stem.lower(), SCRIPTS, n=1)
    return close[0] if close else "oltp_read_write"


def statements_of(text: str) -> list[str]:
    """The SQL statements among a script's texts, in their order and each once."""
    found = (next(filter(None, match.groups())) for match in _STATEMENT.finditer(_without_comments(text)))
    return list(dict.fromkeys(" ".join(statement.split()) for statement in found))[:STATEMENTS_MAX]


def _without_comments(text: str) -> str:
    return re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", text, flags=re.DOTALL)


def as_pgbench_script(text: str) -> str:
    """A draft of the same statements in pgbench's language; '' where there are none.

    Each place of a value becomes a variable that is drawn anew; what it is to be, its writer knows.
    """
    settings: list[str] = []
    statements: list[str] = []
    for statement in statements_of(text):
        # A number behind a name is a table's.
        named = re.sub(r"(?<=[A-Za-z_])(?:%u|%d|%s)", "1", statement)

        def variable(_match: re.Match[str]) -> str:
            settings.append(f"\\set v{len(settings) + 1} random(1, 10000)")
            return f":v{len(settings)}"

        statements.append(f"{_PLACE.sub(variable, named).rstrip(';')};")
    return "".join(f"{line}\n" for line in [*settings, *statements])
