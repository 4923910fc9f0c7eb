"""The server waits for its client, or for the pooler between both: nothing of it works meanwhile."""

from pgassay.analysis.causes.base import Answer, Found, Missing, OnRunningServer, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence, Load
from pgassay.analysis.causes.rules.processors import is_machine_full, is_saturated

_SHARE_MIN = 0.5
# A client's thread that computes less than this could have been kept from it.
_BUSY_THREAD_MIN = 0.5


def _client(evidence: Evidence) -> Answer:
    """Wait event Client:ClientRead, as the account tells it from the network's, in a closed loop of no
    think time; sessions of a replay have their pauses and wait for each other."""
    if evidence.is_live:
        return _open_transactions(evidence)
    load, times = evidence.work.load, evidence.times
    if load is None or load.has_pauses or is_saturated(evidence) or times.share(times.client_s) < _SHARE_MIN:
        return None
    if load.pooler is not None and load.pooler.is_full:
        return None
    per_thread = load.client_cpu_s / ((load.threads or 1) * evidence.server.elapsed_s)
    if per_thread < _BUSY_THREAD_MIN and is_machine_full(evidence) and _may_be_starved(evidence, load):
        return Missing("whether the client waited for a processor that others used")
    figures: dict[str, float | str] = {"client_s": times.client_s, "client_cpu_s": load.client_cpu_s}
    if load.connections is not None and load.threads is not None:
        figures |= {"connections": float(load.connections), "client_threads": float(load.threads)}
        figures["client_cpu_per_thread"] = per_thread
    return lifted(evidence, times.client_s, figures)


def _offered(evidence: Evidence) -> Answer:
    """The same wait of clients that had nothing to ask for: held by a rate, pauses or recorded times."""
    load, times = evidence.work.load, evidence.times
    if evidence.is_live or load is None or not load.has_pauses or is_saturated(evidence):
        return None
    if times.share(times.client_s) < _SHARE_MIN or (load.pooler is not None and load.pooler.is_full):
        return None
    return Found(times.client_s, {"client_s": times.client_s, "client_cpu_s": load.client_cpu_s})


def _may_be_starved(evidence: Evidence, load: Load) -> bool:
    """Whether a want of processors can be what kept the client: as far as is known it waited for one for at
    least half of the time in which the server's connections waited for the client."""
    if load.client_waited_s is None or not load.connections:
        return True
    per_thread_s = load.client_waited_s / (load.threads or 1)
    return per_thread_s >= evidence.times.client_s / load.connections / 2


def _pooler(evidence: Evidence) -> Answer:
    """PgBouncer's one thread had work all the time, so the server waited for it (event Client:ClientRead)."""
    load = evidence.work.load
    use = load.pooler if load is not None else None
    if use is None or not use.is_full:
        return None
    # What keeps it from a processor is then the limit, and not its thread.
    if use.waited_s > use.cpu_s / 2 and is_machine_full(evidence):
        return None
    figures: dict[str, float | str] = {
        "pooler_busy": use.busy,
        "pooler_cpu_s": use.cpu_s,
        "pooler_waited_for_processor_s": use.waited_s,
        "pooler_connections": float(use.server_connections_max),
    }
    return lifted(evidence, evidence.times.client_s, figures)


def _open_transactions(evidence: Evidence) -> Answer:
    """Of a server that runs already, whose idle connections are nobody's wait: transactions that are open."""
    times = evidence.times
    if times.share(times.client_s) < _SHARE_MIN:
        return None
    figures: dict[str, float | str] = {"idle_in_transaction_s": times.client_s}
    if "backend" in evidence.server.accounts:
        figures["connections_busy"] = evidence.server.accounts["backend"].threads
    return lifted(evidence, times.client_s, figures)


POOLER = Rule(
    cause="pooler-core",
    kind="limit",
    layer="infrastructure",
    phrase="PgBouncer's single core",
    remedy=(
        "Run several PgBouncers on one port (so_reuseport=1), each on a core of its own, or let clients with "
        "permanent connections connect directly to the server."
    ),
    next_step="Check PgBouncer's processor time: it has one thread.",
    find=_pooler,
)
OFFERED = Rule(
    cause="offered-load",
    kind="limit",
    layer="measurement",
    phrase="the load that was offered, which it kept up with",
    remedy=(
        "Compare latencies: the rate or the pauses of the load decide its throughput. To find what the "
        "server can do, offer more, or use --metric throughput-at."
    ),
    next_step="Check what the applications ask for: the server keeps up.",
    find=_offered,
)
CLIENT = Rule(
    cause="client-bound",
    kind="limit",
    layer="measurement",
    phrase="its client",
    remedy="Give the client more threads, connections or its own machine: the client is what was measured.",
    next_step=(
        "Check what the applications of the busy statements do between the statements of one transaction."
    ),
    on_running_server=OnRunningServer(
        phrase="transactions that stayed open while their clients did something else",
        layer="design",
        remedy=(
            "End transactions before the client does anything else, and send their statements "
            "together: an open transaction keeps its locks and its snapshot."
        ),
    ),
    find=_client,
)
