"""sysbench's oltp_read_only as a closed loop (sysbench 1.0.20, src/lua/oltp_read_only.lua)."""

from pgassay.errors import UsageError
from pgassay.model.workload import Distribution, ReadOnlyOptions, Statement, WorkloadSpec
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads import holding, pgbench_builtin
from pgassay.workloads.sql_files import shipped_statements

TABLES_MAX = 10_000
# A row's id is a 32-bit integer.
ROWS_MAX = 2**31 - 1
STATEMENTS_MAX = 10_000
# Whole numbers → the least and the largest.
NUMBERS: dict[str, tuple[int, int]] = {
    "tables": (1, TABLES_MAX),
    "table_size": (1, ROWS_MAX),
    "range_size": (1, ROWS_MAX),
    "point_selects": (0, STATEMENTS_MAX),
    "simple_ranges": (0, STATEMENTS_MAX),
    "sum_ranges": (0, STATEMENTS_MAX),
    "order_ranges": (0, STATEMENTS_MAX),
    "distinct_ranges": (0, STATEMENTS_MAX),
}
OPTIONS = (*NUMBERS, "skip_trx", "distribution", *pgbench_builtin.OPTIONS)
_COUNT_OF = {
    "point-select": "point_selects",
    "simple-range": "simple_ranges",
    "sum-range": "sum_ranges",
    "order-range": "order_ranges",
    "distinct-range": "distinct_ranges",
}
_RANGE_OF_THE_FILE = "BETWEEN 1 AND 100"


def with_options(workload: WorkloadSpec, options: ReadOnlyOptions) -> WorkloadSpec:
    """The workload with other options, and the statements that go with them; raises UsageError.

    Clients that are to be idle in a transaction need one.
    """
    if workload.load is None:
        raise AssertionError("oltp_read_only is a load")
    holding.check(workload.load, workload.family, has_transaction=not options.skip_trx)
    changed = workload.load.model_copy(update={"oltp_read_only": options})
    return workload.model_copy(update={"load": changed, "statements": statements_of(options)})


def statements_of(options: ReadOnlyOptions) -> tuple[Statement, ...]:
    """One statement of each kind in a transaction, to be explained: on the first table, from id 1."""
    wanted = f"BETWEEN 1 AND {options.range_size}"
    return tuple(
        Statement(name=statement.name, sql=statement.sql.replace(_RANGE_OF_THE_FILE, wanted))
        for statement in shipped_statements("oltp_read_only")
        if getattr(options, _COUNT_OF[statement.name]) > 0
    )


def parse_number(name: str, text: str, what: str) -> int:
    """A whole number within the limits of the option `name`; raises UsageError naming `what`."""
    low, high = NUMBERS[name]
    return quantities.whole(text, what, least=low, most=high)


def parse(family: str, text: str) -> WorkloadSpec:
    """`oltp_read_only:tables=4,table_size=10000,…` and the options of every load."""
    given = typed_options.of(text, f"workload {family}", OPTIONS)
    options = ReadOnlyOptions(
        skip_trx=_switch(given.get("skip_trx", "off")),
        distribution=_distribution(given.get("distribution", "uniform")),
        **{
            name: parse_number(name, given[name], f"workload option {name}")
            for name in NUMBERS
            if name in given
        },
    )
    if not statements_of(options):
        raise UsageError(
            f"workload {family}: point_selects and all ranges are 0, so a transaction runs no "
            "query: set one of them above 0"
        )
    made = pgbench_builtin.load_of(family, given)
    spec = WorkloadSpec(
        text=f"{family}:{text}" if text else family,
        family=family,
        kind="load",
        metric=pgbench_builtin.metric_of(made),
        writes=False,
        load=made,
    )
    return with_options(spec, options)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise UsageError(f"workload option skip_trx: '{text}' is not known: write on or off")
    return text == "on"


def _distribution(text: str) -> Distribution:
    if text == "uniform":
        return "uniform"
    if text == "special":
        return "special"
    raise UsageError(f"workload option distribution: '{text}' is not known: write uniform or special")
