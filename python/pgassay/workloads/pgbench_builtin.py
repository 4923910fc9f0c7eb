"""The pgbench built-in transactions as loads: select-only, tpcb, simple-update."""

from pgassay.errors import UsageError
from pgassay.model.workload import LoadSpec, Metric, QueryProtocol, Statement, WorkloadSpec
from pgassay.sql_text import literals
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads import holding, pace
from pgassay.workloads.sql_files import shipped_statements

THROUGHPUT = Metric(name="throughput", unit="transactions/s", better="higher")
OPTIONS = ("clients", "threads", "duration", "warmup", "protocol", *pace.OPTIONS, *holding.OPTIONS)
_WRITES = {"select-only": False, "tpcb": True, "simple-update": True}
# A trial that is longer is a slip of the keyboard, and the native binary takes none.
_LONGEST_S = 100 * 86_400.0


def with_clients(load: LoadSpec, clients: int) -> LoadSpec:
    """The same load with another number of clients (never fewer than its threads)."""
    return load.model_copy(update={"clients": clients, "threads": min(load.threads, clients)})


def _query_protocol(text: str) -> QueryProtocol:
    if text == "prepared":
        return "prepared"
    if text == "simple":
        return "simple"
    if text == "extended":
        return "extended"
    raise UsageError(f"workload option protocol: '{text}' is not known: write prepared, extended or simple")


def load_of(family: str, options: dict[str, str]) -> LoadSpec:
    """The load that the options in OPTIONS describe; raises UsageError."""
    clients = quantities.whole(
        options.get("clients", "1"), "workload option clients", least=1, most=quantities.CLIENTS_MAX
    )
    threads = quantities.whole(options.get("threads", "1"), "workload option threads", least=1, most=256)
    lasts = options.get("duration") or pace.curve_duration(options) or "10s"
    duration = quantities.seconds(lasts, "workload option duration", most=_LONGEST_S)
    warmup = quantities.seconds(options.get("warmup", "2s"), "workload option warmup", most=_LONGEST_S)
    if threads > clients:
        raise UsageError(
            f"workload {family}: {threads} threads for {clients} clients: use at most one thread for each "
            "client"
        )
    if duration < 0.1:
        raise UsageError(f"workload {family}: a duration of {duration} s is too short: write at least 100ms")
    load = LoadSpec(
        script=family,
        clients=clients,
        threads=threads,
        duration_s=duration,
        warmup_s=warmup,
        protocol=_query_protocol(options.get("protocol", "prepared")),
    )
    return holding.with_connections(pace.with_pace(load, options), options)


def metric_of(load: LoadSpec) -> Metric:
    """What is compared where nothing else is named: at a fixed rate the same is done whatever it takes."""
    return THROUGHPUT if load.pace is None else pace.MEAN_LATENCY


def with_parameters(statement: Statement) -> tuple[str, tuple[str, ...]]:
    """A load's statement as it is prepared, $1, $2, … for its variables, and an example of their values.

    In the statements that are shipped every number stands for a variable.
    """
    numbers = [each for each in literals(statement.sql) if each.kind == "number"]
    parts, done = [], 0
    for place, each in enumerate(numbers, start=1):
        parts += [statement.sql[done : each.begin], f"${place}"]
        done = each.end
    text = "".join([*parts, statement.sql[done:]])
    return text, tuple(statement.sql[each.begin : each.end] for each in numbers)


def parse(family: str, text: str) -> WorkloadSpec:
    """`FAMILY:clients=8,threads=2,duration=10s,warmup=2s,protocol=prepared|simple,rate=2000`."""
    load = load_of(family, typed_options.of(text, f"workload {family}", OPTIONS))
    holding.check(load, family, has_transaction=holding.has_transaction(family))
    return WorkloadSpec(
        text=f"{family}:{text}" if text else family,
        family=family,
        kind="load",
        metric=metric_of(load),
        writes=_WRITES[family],
        statements=shipped_statements(family),
        load=load,
    )
