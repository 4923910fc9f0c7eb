"""The workload maintenance:FILE: VACUUM, ANALYZE, CREATE INDEX, REINDEX, CLUSTER, REPACK, each timed."""

import re
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.maintenance import MaintenanceCommand
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.workloads.sql_files import read_sql_file
from pgassay.workloads.statement_names import headed_statements, name_of
from pgassay.workloads.statements import ELAPSED, refuse_psql_commands

FAMILY = "maintenance"
_UNTIMED = re.compile(r"^[ \t]*--[ \t]*untimed[ \t]*$", re.MULTILINE | re.IGNORECASE)
# White space and comments, as they may stand between two words.
_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
# The first that matches counts.
_COMMANDS: dict[MaintenanceCommand, str] = {
    "vacuum full": rf"vacuum{_GAP}*\([^)]*\bfull\b(?!\s+(false|off|0))[^)]*\)|vacuum{_GAP}+full\b",
    "vacuum": r"vacuum\b",
    "analyze": r"analy[sz]e\b",
    "create index": rf"create{_GAP}+(unique{_GAP}+)?index\b",
    "reindex": r"reindex\b",
    "cluster": r"cluster\b",
    "repack": r"repack\b",
}
_LEADING = re.compile(rf"{_GAP}*", re.DOTALL)
_OPTIONS = re.compile(rf"\w+{_GAP}*\((?P<options>.*?)\)", re.DOTALL)
_VERBOSE = re.compile(r"\bverbose\b", re.IGNORECASE)
# The options that VACUUM takes without parentheses (src/backend/parser/gram.y, VacuumStmt).
_OLD_OPTIONS = re.compile(
    rf"\w+(?P<options>(?:{_GAP}+(?:full|freeze|verbose|analy[sz]e)\b)*)", re.IGNORECASE | re.DOTALL
)


def command_of(sql: str) -> MaintenanceCommand | None:
    """Which maintenance command a statement is; None when it is none."""
    words = _words(sql)
    for command, pattern in _COMMANDS.items():
        if re.match(pattern, words, re.IGNORECASE | re.DOTALL):
            return command
    return None


def _words(sql: str) -> str:
    """The statement from its first word."""
    return _LEADING.sub("", sql, count=1)


def with_verbose(sql: str) -> str:
    """The statement with VERBOSE where it can say what it did: VACUUM, ANALYZE, CLUSTER, REPACK.

    A statement that mentions VERBOSE among its options, also to turn it off, stays as it is.
    """
    command, words = command_of(sql), _words(sql)
    if command in (None, "create index", "reindex"):
        return sql
    options = _OPTIONS.match(words)
    old = _OLD_OPTIONS.match(words)
    given = options or old
    if given is None or _VERBOSE.search(given.group("options")):
        return sql
    keyword = re.split(r"\W", words, maxsplit=1)[0]
    if options:
        return f"{keyword} (VERBOSE, {options.group('options').strip()}){words[options.end() :]}"
    if command in ("vacuum", "vacuum full"):
        named = re.findall(r"\b(?:full|freeze|analy[sz]e)\b", given.group("options"), re.IGNORECASE)
        every = ", ".join(["VERBOSE", *(name.upper() for name in named)])
        return f"{keyword} ({every}){words[given.end() :]}"
    verbose = "(VERBOSE)" if command == "repack" else "VERBOSE"
    return f"{keyword} {verbose}{words[len(keyword) :]}"


def parse(family: str, text: str) -> WorkloadSpec:
    """`maintenance:FILE`; raises UsageError for a file with statements that are no maintenance commands."""
    if not text:
        raise UsageError("workload maintenance needs a file: write --workload maintenance:FILE")
    source = Path(text)
    statements = _statements(read_sql_file(source), str(source))
    refuse_psql_commands(statements, str(source))
    return WorkloadSpec(
        text=f"{family}:{text}",
        family=family,
        kind="statements",
        metric=ELAPSED,
        writes=True,
        statements=statements,
    )


def _statements(text: str, source: str) -> tuple[Statement, ...]:
    timed: list[Statement] = []
    before: list[str] = []
    for number, (heading, sql) in enumerate(headed_statements(text, source), start=1):
        name = name_of(heading, number)
        if _UNTIMED.search(heading):
            refuse_psql_commands((Statement(name=name, sql=sql),), source)
            before.append(sql)
            continue
        if command_of(sql) is None:
            raise UsageError(
                f"{source}: '{_beginning(sql)}' is not a maintenance command (VACUUM, ANALYZE, CREATE INDEX, "
                "REINDEX, CLUSTER, REPACK): write '-- untimed' on a line before it, or use sql:FILE"
            )
        if any(other.name == name for other in timed):
            raise UsageError(f"{source}: two statements are named '{name}': give each its own name")
        timed.append(Statement(name=name, sql=with_verbose(sql), before=tuple(before)))
        before = []
    if not timed:
        raise UsageError(f"{source} has no maintenance command: write at least one, such as VACUUM")
    if before:
        raise UsageError(
            f"{source}: the untimed statement '{_beginning(before[0])}' is after the last command: "
            "write it before the command that it prepares"
        )
    return tuple(timed)


def _beginning(sql: str) -> str:
    words = " ".join(sql.split())
    return words if len(words) <= 40 else words[:39] + "…"
