"""`sysbench:micro`: micro-benchmarks, one access path each, as one workload with a verdict for each.

The names are those of the series that Mark Callaghan publishes of PostgreSQL's releases with sysbench; what
each sends stands in `crates/load/src/sysbench/micro.rs`.
"""

from pgassay.errors import UsageError
from pgassay.model.workload import Metric, Statement, SysbenchOptions, WorkloadSpec
from pgassay.value_syntax import option_lists as typed_options
from pgassay.workloads import holding, pace, pgbench_builtin
from pgassay.workloads.sql_files import shipped_statements

SCRIPT = "micro"
# The total of the means: what one execution of each takes.
ONE_OF_EACH = Metric(name="time of one of each", unit="s", better="lower")
_LOAD_OPTIONS = tuple(
    name for name in pgbench_builtin.OPTIONS if name not in (*pace.OPTIONS, *holding.OPTIONS)
)
OPTIONS = ("only", "tables", "table_size", "range_size", "rand_type", *_LOAD_OPTIONS)
PART_S_MIN = 0.1
DURATION_DEFAULT = "1m"
_WRITING = frozenset(
    {"update-index", "update-nonindex", "update-inlist", "update-one", "update-zipf", "read-write"}
    | {"write-only", "insert", "delete"}
)
# Numbers in a list, where there are more than one.
_LISTS = {
    **dict.fromkeys(("hot-points", "points-covered-pk", "points-covered-si"), 100),
    **dict.fromkeys(("points-notcovered-pk", "points-notcovered-si"), 100),
    **dict.fromkeys(("random-points", "update-inlist"), 10),
    "random-points-1000": 1000,
}


def names() -> tuple[str, ...]:
    """All of the series in the order in which they run: those that read, those that change rows, at last
    those that add and remove them."""
    return tuple(statement.name for statement in shipped_statements("sysbench_micro"))


def statements_of(options: SysbenchOptions) -> tuple[Statement, ...]:
    """One statement of each, to be explained: on the first table, from id 1."""
    found = []
    for statement in shipped_statements("sysbench_micro"):
        numbers = ", ".join(str(each) for each in range(1, _LISTS.get(statement.name, 1) + 1))
        sql = statement.sql.replace("IN (1)", f"IN ({numbers})")
        sql = sql.replace("BETWEEN 1 AND 100", f"BETWEEN 1 AND {options.range_size}")
        if statement.name in options.series:
            found.append(Statement(name=statement.name, sql=sql))
    return tuple(found)


def parse(family: str, text: str, given: dict[str, str], fields: dict[str, object]) -> WorkloadSpec:
    """`sysbench:micro,tables=…,only=scan+insert,clients=…,duration=…`; raises UsageError.

    given: the options as typed; fields: those of the script as fields of its options.
    """
    series = _series(given.get("only"))
    made = pgbench_builtin.load_of(family, {"duration": DURATION_DEFAULT} | given)
    part_s = made.duration_s / len(series)
    if part_s < PART_S_MIN:
        least_s = PART_S_MIN * len(series)
        raise UsageError(
            f"workload {family}:{SCRIPT}: {len(series)} benchmarks share the duration of {made.duration_s:g} "
            f"s: write duration={least_s:g}s at least, or choose some of them, as only=point-query+scan"
        )
    options = SysbenchOptions.model_validate({**fields, "script": SCRIPT, "series": series})
    return WorkloadSpec(
        text=f"{family}:{text}",
        family=family,
        kind="load",
        metric=ONE_OF_EACH,
        writes=not _WRITING.isdisjoint(series),
        statements=statements_of(options),
        load=made.model_copy(update={"sysbench": options}),
    )


def _series(only: str | None) -> tuple[str, ...]:
    known = names()
    if only is None:
        return known
    wanted = only.split("+")
    for name in wanted:
        if name not in known:
            raise UsageError(f"sysbench:micro has no benchmark '{name}': they are {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def given_of(parts: list[str], family: str) -> dict[str, str]:
    """The options as typed, checked by name; raises UsageError."""
    return typed_options.pairs(parts, f"workload {family}:{SCRIPT}", OPTIONS)
