"""Workloads that are lists of statements, timed one by one: full-scan and sql:FILE."""

import re
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import Metric, Statement, WorkloadSpec
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads.row_variables import kept_before, pieces
from pgassay.workloads.sql_files import read_sql_file, shipped_statements
from pgassay.workloads.statement_names import strip_comments, without_literals
from pgassay.workloads.transactions import controls, with_transactions

ELAPSED = Metric(name="total elapsed time", unit="s", better="lower")
_READING = re.compile(r"\s*\(*\s*(select|with|values|table|show|explain)\b", re.IGNORECASE)
_CHANGING = re.compile(
    r"\b(insert|update|delete|merge|into|nextval|setval|analyze|for\s+(?:key\s+)?share)\b", re.IGNORECASE
)
_BACKSLASH = re.compile(r"(?:^|\s)\\(\w+)", re.MULTILINE)
# What stands before a value; behind anything else a colon may be of another thing, such as a slice.
_BEFORE_VALUE = re.compile(r"(?:^|[\s(=,<>+*/-])\Z")
_TRANSACTION = re.compile(r"\s*(begin|start\s+transaction|commit|end|rollback|abort)\b", re.IGNORECASE)
EXECUTIONS_MAX = 1_000_000
OPTIONS = ("writes", "clients", "executions")
# A trial's reason: of a transaction's statement that can't be understood (SQLSTATE 42…: no such table, a slip
# in the syntax, no right), and of a statement by itself, which is planned first.
_REFUSED_PART = re.compile(
    r'statement "(?P<name>.+?)": its statement "(?P<part>.+?)": (?P<said>.+) \(42\w{3}\)', re.DOTALL
)
_REFUSED_PLAN = re.compile(
    r"statement (?P<name>.+?) can't be planned \((?P<said>.+)\): correct its SQL", re.DOTALL
)
# What stands behind the file's name, whose own name may hold commas.
_OPTIONS = re.compile(rf"(?:,\s*(?:{'|'.join(OPTIONS)})\s*=[^,]*)+$")
_LIKE_OPTION = re.compile(r",\s*[A-Za-z_-]+\s*=")


def changes_data(statement: str) -> bool:
    """Whether a statement's words say that it may write (`FOR UPDATE` and `SHARE` count: they mark rows)."""
    words = strip_comments(statement)
    return _READING.match(words) is None or _CHANGING.search(words) is not None


def begins_or_ends_transaction(statement: str) -> bool:
    """Whether a statement is BEGIN, COMMIT or one of their kind."""
    return _TRANSACTION.match(strip_comments(statement)) is not None


def parse_full_scan(family: str, text: str) -> WorkloadSpec:
    """`full-scan[:only=NAME+NAME]`: the published statements, or some of them."""
    options = typed_options.of(text, f"workload {family}", ("only",))
    statements = shipped_statements(family)
    if "only" in options:
        wanted = options["only"].split("+")
        known = {statement.name: statement for statement in statements}
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"full-scan has no statement '{name}': its statements are {', '.join(known)}"
                )
        statements = tuple(statement for statement in statements if statement.name in wanted)
    return _spec(family, f"{family}:{text}" if text else family, statements, writes=False)


def parse_sql_file(family: str, text: str) -> WorkloadSpec:
    """`sql:FILE[,writes=yes|no][,clients=N[,executions=N]]`: a user's statements.

    Without `writes` their words decide. `clients`: so many sessions execute them at once, each so many times.
    """
    name = _file_alone(file_of(text))
    options = typed_options.of(text.removeprefix(name), f"workload {family}", OPTIONS)
    if not name:
        raise UsageError("workload sql needs a file: write --workload sql:FILE")
    if options.get("writes", "yes") not in ("yes", "no"):
        raise UsageError(
            f"workload sql: writes={options['writes']} is not known: write writes=yes or writes=no"
        )
    at_once = {
        option: quantities.whole(options[option], f"workload option {option}", least=1, most=most)
        for option, most in (("clients", quantities.CLIENTS_MAX), ("executions", EXECUTIONS_MAX))
        if option in options
    }
    source = Path(name)
    content = read_sql_file(source)
    statements = with_transactions(content, str(source))
    texts = [part.sql for each in statements for part in each.parts or (each,)]
    for each in statements:
        parts = [part.sql for part in each.parts] or [each.sql]
        for sql, kept in zip(parts, kept_before(each) or (False,), strict=True):
            _refuse_psql(sql, str(source), has_variables=kept)
    writes = any(changes_data(sql) for sql in texts if not controls(sql))
    if "writes" in options:
        writes = options["writes"] == "yes"
    spec = _spec(family, f"{family}:{text}", statements, writes=writes)
    return spec.model_copy(update=at_once)


def file_of(text: str) -> str:
    """The file's name of what follows `sql:`, without the options behind it."""
    return _OPTIONS.sub("", text)


def _file_alone(name: str) -> str:
    """Without what looks like an option that there is none of, behind the name of a file."""
    option = _LIKE_OPTION.search(name)
    if option is None or Path(name).exists():
        return name
    file = name[: option.start()]
    return file if file.endswith(".sql") or Path(file).exists() else name


def refused_sql(workload: WorkloadSpec, reason: str) -> str:
    """What a user can correct where a trial failed by a statement of `sql:FILE`, with file and line.

    reason: the trial's. '' for all other reasons, and where the file is not there any more.
    """
    found = _REFUSED_PART.match(reason) or _REFUSED_PLAN.match(reason)
    file = Path(file_of(workload.text.removeprefix("sql:")))
    if workload.family != "sql" or found is None or not file.is_file():
        return ""
    text, position = read_sql_file(file), 0
    for statement in workload.statements:
        for part in statement.parts or (statement,):
            at = text.find(part.sql, position)
            position = at + len(part.sql) if at >= 0 else position
            wanted = found.groupdict()
            if at >= 0 and statement.name == wanted["name"] and wanted.get("part", part.name) == part.name:
                line = text.count("\n", 0, at) + 1
                return f"{file}, line {line}: {found['said']}: correct the SQL of {statement.name}"
    return ""


def refuse_psql_commands(statements: tuple[Statement, ...], source: str) -> None:
    """Raises UsageError for a command of psql, and for one that begins or ends a transaction."""
    for statement in statements:
        _refuse_psql(statement.sql, source)
        if begins_or_ends_transaction(statement.sql):
            raise UsageError(
                f"{source}: each command is timed on its own, so "
                f"'{strip_comments(statement.sql).split()[0]}' can't be used: leave transaction commands out"
            )


def _refuse_psql(sql: str, source: str, *, has_variables: bool = False) -> None:
    words = strip_comments(sql)
    command = _BACKSLASH.search(words)
    if command:
        raise UsageError(
            f"{source}: \\{command.group(1)} is a psql command, not SQL: leave it out, or run a "
            f"script with \\set and variables as --workload pgbench:file={source}"
        )
    if has_variables or "[" in without_literals(sql):  # where it may be the end of an array's slice
        return
    text = pieces(sql)
    for before, variable in zip(text[::2], text[1::2], strict=False):
        if _BEFORE_VALUE.search(before.text) and not variable.text[0].isdigit():
            raise UsageError(
                f"{source}: {variable.as_written} is a psql variable, which no \\gset before it in its "
                f"transaction sets: write its value, or run a script with \\set as --workload "
                f"pgbench:file={source}"
            )


def _spec(family: str, text: str, statements: tuple[Statement, ...], *, writes: bool) -> WorkloadSpec:
    return WorkloadSpec(
        text=text, family=family, kind="statements", metric=ELAPSED, writes=writes, statements=statements
    )
