"""`pooler=none,pgbouncer:mode=transaction`: whether the clients of a load share connections by PgBouncer."""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, distinct, split_kinds
from pgassay.model.arm import ArmSpec, PoolerSpec
from pgassay.value_syntax import option_lists
from pgassay.value_syntax.quantities import CLIENTS_MAX, whole

NAME = "pooler"
NONE, PGBOUNCER = "none", "pgbouncer"


def split(name: str, text: str) -> tuple[str, ...]:
    """The levels, each with its own options; raises UsageError for what is no pooler."""
    levels = split_kinds(text)
    for level in levels:
        _parse(level)
    return distinct(name, levels)


def _parse(level: str) -> PoolerSpec | None:
    kind, colon, typed = level.partition(":")
    if kind == NONE and not colon:
        return None
    if kind != PGBOUNCER:
        raise UsageError(
            f"{NAME}={level}: '{kind}' is not known: write {NONE}, {PGBOUNCER}:mode=transaction or "
            f"{PGBOUNCER}:mode=session,size=50"
        )
    given = option_lists.of(typed, f"{NAME}={PGBOUNCER}", ("mode", "size"))
    mode = given.get("mode")
    size = given.get("size")
    most = None if size is None else whole(size, f"{NAME} option size", least=1, most=CLIENTS_MAX)
    if mode == "transaction":
        return PoolerSpec(text=level, mode="transaction", size=most)
    if mode == "session":
        return PoolerSpec(text=level, mode="session", size=most)
    raise UsageError(
        f"{NAME}={level}: say when a connection goes back to the pool: write {PGBOUNCER}:mode=transaction or "
        f"{PGBOUNCER}:mode=session"
    )


def apply(_name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose clients connect to this pooler; raises UsageError where there is nothing to share."""
    workload, pooler = spec.workload, _parse(level)
    if spec.server is not None:
        raise UsageError(
            f"{NAME}= starts PgBouncer in front of servers that pgassay starts: for a running server, "
            "compare two connection strings, of the server and of its pooler, with server="
        )
    if workload.load is None or workload.is_replay:
        raise UsageError(
            f"{NAME}= is between the clients of a load and the server, but {workload.family} is "
            "not a load: use select-only, tpcb, simple-update, pgbench:file=FILE or sysbench:SCRIPT"
        )
    return spec.model_copy(update={"pooler": pooler})


KIND = FactorKind(split=split, apply=apply)
