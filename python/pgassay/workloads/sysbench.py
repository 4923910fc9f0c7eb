"""`sysbench:SCRIPT,…`: any of sysbench's OLTP scripts as a load (sysbench 1.0.20, src/lua)."""

from difflib import get_close_matches

from pgassay.errors import UsageError
from pgassay.model.workload import Distribution, Statement, SysbenchOptions, WorkloadSpec
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads import holding, pgbench_builtin, sysbench_micro
from pgassay.workloads.oltp import NUMBERS as NUMBERS_OF_READING
from pgassay.workloads.oltp import STATEMENTS_MAX
from pgassay.workloads.sql_files import shipped_statements

FAMILY = "sysbench"
POINTS_MAX = 30_000
# Scripts, and whether they write.
SCRIPTS = {
    "oltp_read_only": False,
    "oltp_read_write": True,
    "oltp_write_only": True,
    "oltp_point_select": False,
    "oltp_update_index": True,
    "oltp_update_non_index": True,
    "oltp_insert": True,
    "oltp_delete": True,
    "select_random_points": False,
    "select_random_ranges": False,
}
# Whole numbers → the least and the largest.
NUMBERS: dict[str, tuple[int, int]] = {
    **NUMBERS_OF_READING,
    "index_updates": (0, STATEMENTS_MAX),
    "non_index_updates": (0, STATEMENTS_MAX),
    "delete_inserts": (0, STATEMENTS_MAX),
    "random_points": (1, POINTS_MAX),
    "number_of_ranges": (1, POINTS_MAX),
    "delta": (0, 2**31 - 1),
}
SWITCHES = ("skip_trx", "range_selects")
DISTRIBUTIONS: dict[str, Distribution] = {
    "uniform": "uniform",
    "special": "special",
    "gaussian": "gaussian",
    "pareto": "pareto",
    "zipfian": "zipfian",
}
OPTIONS = (*NUMBERS, *SWITCHES, "rand_type", *pgbench_builtin.OPTIONS)
_READS = {
    "point-select": "point_selects",
    "simple-range": "simple_ranges",
    "sum-range": "sum_ranges",
    "order-range": "order_ranges",
    "distinct-range": "distinct_ranges",
}
_WRITES = {
    "update-index": "index_updates",
    "update-non-index": "non_index_updates",
    "delete-row": "delete_inserts",
    "insert-row": "delete_inserts",
}
_RANGES = _READS.keys() - {"point-select"}
_FIELDS = {
    "oltp_read_only": _READS,
    "oltp_read_write": _READS | _WRITES,
    "oltp_write_only": _WRITES,
    "oltp_update_index": {"update-index": "index_updates"},
    "oltp_update_non_index": {"update-non-index": "non_index_updates"},
}
# Scripts of one statement.
_SINGLE = {
    "oltp_point_select": "point-select",
    "oltp_insert": "insert-row",
    "oltp_delete": "delete-row",
    "select_random_points": "random-points",
    "select_random_ranges": "random-ranges",
}


def has_transaction(options: SysbenchOptions) -> bool:
    """Whether BEGIN and COMMIT are sent."""
    is_long = options.script in ("oltp_read_only", "oltp_read_write", "oltp_write_only")
    return is_long and not options.skip_trx


def uses(options: SysbenchOptions, name: str) -> bool:
    """Whether another value of an option can change what a script does, as far as the others are."""
    if name in ("tables", "table_size", "rand_type"):
        return True
    if options.series:
        return name == "range_size"
    if name in ("skip_trx", "range_selects"):
        is_reading = options.script in ("oltp_read_only", "oltp_read_write")
        return is_reading or (name == "skip_trx" and options.script == "oltp_write_only")
    of_lists = {
        "random_points": "random-points",
        "number_of_ranges": "random-ranges",
        "delta": "random-ranges",
    }
    if name in of_lists:
        return _SINGLE.get(options.script) == of_lists[name]
    fields = set(_FIELDS.get(options.script, {}).values())
    return name in fields or (name == "range_size" and "simple_ranges" in fields)


def calls_of(options: SysbenchOptions) -> dict[str, int]:
    """How often a transaction has each of its statements, by their names in `statements_of`."""
    if options.series:
        return dict.fromkeys(options.series, 1)
    if options.script in _SINGLE:
        return {_SINGLE[options.script]: 1}
    fields = dict(_FIELDS[options.script])
    if not options.range_selects:
        fields = {name: field for name, field in fields.items() if name not in _RANGES}
    found = {name: int(getattr(options, field)) for name, field in fields.items()}
    return {name: count for name, count in found.items() if count > 0}


def statements_of(options: SysbenchOptions) -> tuple[Statement, ...]:
    """One statement of each kind in a transaction, to be explained: on the first table, from id 1."""
    if options.series:
        return sysbench_micro.statements_of(options)
    points = ", ".join(str(each) for each in range(1, options.random_points + 1))
    ranges = " OR ".join([f"k BETWEEN 1 AND {1 + options.delta}"] * options.number_of_ranges)
    wanted = {
        "BETWEEN 1 AND 100": f"BETWEEN 1 AND {options.range_size}",
        "IN (1)": f"IN ({points})",
        "k BETWEEN 1 AND 6": ranges,
    }
    calls, found = calls_of(options), []
    for statement in shipped_statements(FAMILY):
        sql = statement.sql
        for shipped, text in wanted.items():
            sql = sql.replace(shipped, text)
        if statement.name in calls:
            found.append(Statement(name=statement.name, sql=sql))
    return tuple(found)


def with_options(workload: WorkloadSpec, options: SysbenchOptions) -> WorkloadSpec:
    """The workload with other options, and the statements that go with them.

    Raises UsageError for none, and where clients are to be idle in a transaction that there is not.
    """
    if workload.load is None:
        raise AssertionError("a script of sysbench's is a load")
    statements = statements_of(options)
    if not statements:
        raise UsageError(
            f"workload {FAMILY}: with these counts a transaction of {options.script} runs no statement: "
            "set one of them above 0"
        )
    name = f"{workload.family}:{options.script}"
    holding.check(workload.load, name, has_transaction=has_transaction(options))
    changed = workload.load.model_copy(update={"sysbench": options})
    return workload.model_copy(update={"load": changed, "statements": statements})


def option(name: str, text: str, what: str) -> dict[str, object]:
    """An option's field with its value; raises UsageError naming `what`."""
    if name in NUMBERS:
        least, most = NUMBERS[name]
        return {name: quantities.whole(text, what, least=least, most=most)}
    if name == "rand_type":
        if text not in DISTRIBUTIONS:
            raise UsageError(f"{what}: '{text}' is not known: write {' or '.join(DISTRIBUTIONS)}")
        return {"distribution": DISTRIBUTIONS[text]}
    if text not in ("on", "off"):
        raise UsageError(f"{what}: '{text}' is not known: write on or off")
    return {name: text == "on"}


def parse(family: str, text: str) -> WorkloadSpec:
    """`sysbench:oltp_read_write,tables=4,table-size=100000,…` and the options of every load."""
    typed, *parts = typed_options.split(text)
    script = typed.strip()
    if script != sysbench_micro.SCRIPT:
        _check(script)
    # sysbench takes dashes and underscores for the same.
    as_field = (
        "=".join([part.partition("=")[0].replace("-", "_"), part.partition("=")[2]]) for part in parts
    )
    named = [part for part in as_field if part != "="]
    if script == sysbench_micro.SCRIPT:
        given = sysbench_micro.given_of(named, family)
        return sysbench_micro.parse(family, text, given, _fields(given))
    given = typed_options.pairs(named, f"workload {family}", OPTIONS)
    made = pgbench_builtin.load_of(family, given)
    spec = WorkloadSpec(
        text=f"{family}:{text}",
        family=family,
        kind="load",
        metric=pgbench_builtin.metric_of(made),
        writes=SCRIPTS[script],
        load=made,
    )
    options = SysbenchOptions.model_validate({**_fields(given), "script": script})
    return with_options(spec, options)


def _fields(given: dict[str, str]) -> dict[str, object]:
    """The options of the script among those that were typed."""
    values: dict[str, object] = {}
    for name in given.keys() - set(pgbench_builtin.OPTIONS) - {"only"}:
        values |= option(name, given[name], f"workload option {name}")
    return values


def _check(script: str) -> None:
    if script in SCRIPTS:
        return
    names = ", ".join([*SCRIPTS, sysbench_micro.SCRIPT])
    if not script or "=" in script:
        raise UsageError(
            f"workload sysbench needs a script first: write sysbench:oltp_read_write, or {names}"
        )
    if script == "bulk_insert":
        raise UsageError(
            "workload sysbench: bulk_insert has its own tables and no "
            "steady rate: write sysbench:oltp_insert, or run it with pgassay sysbench bulk_insert"
        )
    close = get_close_matches(script, [*SCRIPTS, sysbench_micro.SCRIPT], n=1)
    instead = f"did you mean sysbench:{close[0]}?" if close else f"write one of {names}"
    raise UsageError(f"workload sysbench has no script '{script}': {instead}")
