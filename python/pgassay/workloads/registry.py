"""The table of workload families: a new one is one file and one line here.

A family's `parse(family, text)` turns what follows the colon into a WorkloadSpec, or raises
UsageError that says what to type instead.
"""

from collections.abc import Callable
from difflib import get_close_matches
from itertools import takewhile

from pgassay.errors import UsageError
from pgassay.model.workload import WorkloadSpec
from pgassay.value_syntax import option_lists
from pgassay.value_syntax.paths import typed_paths
from pgassay.workloads import maintenance, oltp, pgbench, pgbench_builtin, replay, statements, sysbench

FAMILIES: dict[str, Callable[[str, str], WorkloadSpec]] = {
    "full-scan": statements.parse_full_scan,
    "select-only": pgbench_builtin.parse,
    "tpcb": pgbench_builtin.parse,
    "simple-update": pgbench_builtin.parse,
    "oltp_read_only": oltp.parse,
    sysbench.FAMILY: sysbench.parse,
    pgbench.FAMILY: pgbench.parse,
    "sql": statements.parse_sql_file,
    "maintenance": maintenance.parse,
    replay.FAMILY: replay.parse,
}
# What pgbench and sysbench call these.
_OTHER_NAMES = {
    "tpcb_like": "tpcb",
    "tpc_b": "tpcb",
    **{name: f"sysbench:{name}" for name in sysbench.SCRIPTS},
}
# Options that are no factors, and those that have another name there (`factors/registry.py`).
_NO_FACTORS = frozenset(
    {"threads", "duration", "warmup", "protocol", "curve", "reconnect", "client", "writes", "executions"}
    | {*replay.OPTIONS}
)
_JOINED = frozenset({"only", "users"})
_FACTORS = {"distribution": "rand_type"}


def parse_workload(text: str) -> WorkloadSpec:
    """A workload as typed after --workload; raises UsageError."""
    text = typed_paths(text)
    family, _, rest = text.partition(":")
    parse = FAMILIES.get(family)
    if parse is None:
        raise UsageError(f"there is no workload '{family}': {_instead(text, family)}")
    _refuse_levels(family, rest)
    return parse(family, rest)


def _refuse_levels(family: str, text: str) -> None:
    """What is to be compared stands before the options, as every factor does."""
    parts = [part.strip() for part in option_lists.split(text)]
    for place, part in enumerate(parts):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        more = [*takewhile(lambda word: word and "=" not in word, parts[place + 1 :])]
        if not equals or name == "file" or not more:
            continue
        name = name.replace("-", "_")
        if name in _JOINED:
            raise UsageError(
                f"workload {family}: names of {name} are joined by +: write {name}={'+'.join((value, *more))}"
            )
        if name in _NO_FACTORS:
            raise UsageError(
                f"workload {family}: {name} has several values, and it can't be compared as a factor: write "
                f"one, {name}={value}, and measure the others one after the other"
            )
        factor = _FACTORS.get(name, name)
        raise UsageError(
            f"workload {family}: {name} has several values: compare them as a factor, "
            f"{','.join((f'{factor}={value}', *more))} before --workload, and leave it out of the workload"
        )


def _instead(text: str, family: str) -> str:
    """What to write: a file without its family before it, another spelling, a benchmark's own name."""
    if family.partition(",")[0].lower().endswith(".sql"):
        return f"statements of a file are sql:{text}, maintenance commands maintenance:{text}"
    name = family.lower().replace("-", "_").replace(" ", "_")
    if name in _OTHER_NAMES:
        return f"write {_OTHER_NAMES[name]}"
    close = get_close_matches(family.lower(), FAMILIES, n=1)
    if close:
        return f"did you mean {close[0]}?"
    files = {"sql": "sql:FILE", "maintenance": "maintenance:FILE", pgbench.FAMILY: "pgbench:file=FILE"}
    files |= {"sysbench": "sysbench:SCRIPT", replay.FAMILY: "replay:DIR"}
    families = (files.get(each, each) for each in FAMILIES)
    return f"write one of {', '.join(families)}"
