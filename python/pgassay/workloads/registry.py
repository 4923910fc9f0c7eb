"""The table of workload families: a new one is one file and one line here.

A family's `parse(family, text)` turns what follows the colon into a WorkloadSpec, or raises
UsageError that says what to type instead.
"""

from collections.abc import Callable
from difflib import get_close_matches

from pgassay.errors import UsageError
from pgassay.model.workload import WorkloadSpec
from pgassay.workloads import load, maintenance, oltp, statements

FAMILIES: dict[str, Callable[[str, str], WorkloadSpec]] = {
    "full-scan": statements.parse_full_scan,
    "select-only": load.parse,
    "tpcb": load.parse,
    "simple-update": load.parse,
    "oltp_read_only": oltp.parse,
    "sql": statements.parse_sql_file,
    "maintenance": maintenance.parse,
}


def parse_workload(text: str) -> WorkloadSpec:
    """A workload as typed after --workload; raises UsageError."""
    family, _, rest = text.partition(":")
    parse = FAMILIES.get(family)
    if parse is None:
        close = get_close_matches(family, FAMILIES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"write one of {', '.join(FAMILIES)}"
        raise UsageError(f"there is no workload '{family}': {hint}")
    return parse(family, rest)
