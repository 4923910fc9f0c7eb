"""The table of kinds of factor: a new one is one file and one line here; any other name is a setting."""

import re

from pgassay.errors import UsageError
from pgassay.factors import (
    build,
    caps,
    clients,
    config,
    copy,
    initdb_option,
    load_option,
    pooler,
    prepare,
    read_ahead,
    server,
    settle,
    sql,
    storage,
    sysbench_option,
    version,
)
from pgassay.factors.base import Factor, FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads.pgbench import VARIABLE


def with_setting(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm with the setting `name` at `level`; the server itself judges the value later."""
    return spec.model_copy(update={"settings": {**spec.settings, name: level}})


# Any name that is not in the table.
SETTING = FactorKind(split=split_levels, apply=with_setting)
KINDS: dict[str, FactorKind] = {
    "version": version.KIND,
    "build": build.KIND,
    server.NAME: server.KIND,
    "storage": storage.KIND,
    sql.NAME: sql.KIND,
    clients.NAME: clients.KIND,
    pooler.NAME: pooler.KIND,
    "read_ahead": read_ahead.KIND,
    "rate": load_option.PACE,
    "arrivals": load_option.PACE,
    "latency_limit": load_option.PACE,
    "think": load_option.PACE,
    "pool": load_option.CONNECTIONS,
    "lifetime": load_option.CONNECTIONS,
    "idle_in_transaction": load_option.CONNECTIONS,
    "range_size": sysbench_option.KIND,
    "tables": sysbench_option.KIND,
    "table_size": sysbench_option.KIND,
    "point_selects": sysbench_option.KIND,
    "simple_ranges": sysbench_option.KIND,
    "sum_ranges": sysbench_option.KIND,
    "order_ranges": sysbench_option.KIND,
    "distinct_ranges": sysbench_option.KIND,
    "range_selects": sysbench_option.KIND,
    "index_updates": sysbench_option.KIND,
    "non_index_updates": sysbench_option.KIND,
    "delete_inserts": sysbench_option.KIND,
    "skip_trx": sysbench_option.KIND,
    "random_points": sysbench_option.KIND,
    "number_of_ranges": sysbench_option.KIND,
    "delta": sysbench_option.KIND,
    "rand_type": sysbench_option.KIND,
    "memory": caps.MEMORY,
    "cpus": caps.CPUS,
    "prepare": prepare.KIND,
    initdb_option.CHECKSUMS: initdb_option.KIND,
    initdb_option.WAL_SEGSIZE: initdb_option.KIND,
    "settle": settle.KIND,
    "analyze": settle.STATISTICS,
    copy.NAME: copy.KIND,
    config.NAME: config.KIND,
}
# A storage's own options are part of its level, so the storage is patched before its read-ahead; the
# build decides what else makes sense, and so does the workload that `sql` brings.
ORDER = tuple(name for name, kind in KINDS.items() if kind.is_base)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def parse_factor(text: str) -> Factor:
    """`NAME=LEVEL,LEVEL` → a factor with at least two levels; raises UsageError."""
    name, equals, rest = text.partition("=")
    name = name.strip()
    # Names of variables differ by case, all others don't.
    name = name if name.startswith(VARIABLE) else name.lower()
    if not equals and name.endswith(".toml"):
        raise UsageError(f"'{text}' is a file, not a factor: write pgassay run {text}")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"'{text}' is not a factor: write NAME=LEVEL,LEVEL, like io_method=sync,worker")
    kind = kind_named(name)
    levels = kind.split(name, rest)
    if len(levels) < 2:
        option = f"--set {name}=" if kind is SETTING else kind.fixed_by
        fixed = f", or fix it for all arms with {option}{levels[0]}" if option else ""
        raise UsageError(
            f"factor {name} has one level, '{levels[0]}', so there is nothing to compare: "
            f"add a second level{fixed}"
        )
    if name == config.NAME:
        kind = config.kind_of(levels, kind_named)
    return Factor(name=name, levels=levels, kind=kind)


def kind_named(name: str) -> FactorKind:
    """The kind of a factor by its name: any that is not in the table is a setting."""
    return load_option.VARIABLE_OF_SCRIPTS if name.startswith(VARIABLE) else KINDS.get(name, SETTING)


def parse_factors(texts: list[str]) -> tuple[Factor, ...]:
    """All factors, in the order typed; raises UsageError for none, or one named twice."""
    factors = tuple(parse_factor(text) for text in texts)
    if not factors:
        raise UsageError("nothing to compare: name a factor and its levels, like io_method=sync,worker")
    names = [factor.name for factor in factors]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"factor {name} is given twice: give all its levels at once")
    for factor in factors:
        if factor.name == config.NAME:
            config.check_beside(factor.levels, names)
    return factors
