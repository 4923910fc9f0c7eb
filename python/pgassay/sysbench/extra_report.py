"""What sysbench leaves out of its report: percentiles, errors by SQLSTATE, the client's share, the server."""

from collections.abc import Iterator

from pgassay.model.percentiles import PERCENTILES, solid, transactions_min
from pgassay.model.running_server.load_progress import SysbenchProgressSample
from pgassay.model.running_server.sysbench_run import SYSBENCH_SCHEMA, SysbenchResult
from pgassay.native.sysbench_commands import SysbenchProgress
from pgassay.pgbench.extra_report import error_lines, settings_lines
from pgassay.sysbench.options import PROFILES, Options
from pgassay.sysbench.run_load import Run, ended_by

# A thread that is busy for so much of the time sends later than it could.
BUSY_SHARE = 0.9


def client(run: Run) -> dict[str, float | bool]:
    """The client's own part, as shares of the time that passed.

    `processors`: processor time of all its threads together; `busiest_thread`: of the one that used most;
    `waited`: how long one was ready to run and had no processor.
    """
    record = run.record
    # What the threads took is that of the warm-up too, which `elapsed_s` is without.
    seconds = record["elapsed_s"] + run.chosen.whole("warmup-time") or 1.0
    busiest, waited = record["client_cpu_most_s"] / seconds, record["client_waited_s"] / seconds
    return {
        "processors": record["client_cpu_s"] / seconds,
        "busiest_thread": busiest,
        "waited": waited,
        "is_limit": busiest + waited >= BUSY_SHARE,
    }


def lines(run: Run) -> Iterator[str]:
    """Below sysbench's own."""
    record = run.record
    events = record["events"]
    if events:
        yield from _percentiles("latency percentiles", record["latency_ms"], events)
    if record["from_due_ms"] is not None and events:
        yield from _percentiles("from when events were due", record["from_due_ms"], events)
        yield f"due and not begun when time was over: {record['queued']}"
    yield from error_lines("begun again after", record["errors"])
    if record["failure"] is not None:
        yield f"ended early: {ended_by(record['failure'])}"
    if events:
        yield _client_line(run)
    yield f"distribution of ids: {run.chosen.distribution}{_usual(run)}"
    yield f"server: PostgreSQL {run.server.version}"
    yield from settings_lines(run.server.settings)


def _percentiles(what: str, latency_ms: dict[str, float], events: int) -> Iterator[str]:
    found = solid(latency_ms, events)
    if found:
        yield f"{what}: {', '.join(f'{name} {value:.3f} ms' for name, value in found.items())}"
    if len(found) < len(PERCENTILES):
        first = list(PERCENTILES)[len(found)]
        yield f"{first} and above: too few events ({events}); {transactions_min(first)} are needed"


def _figures(latency_ms: dict[str, float], events: int) -> dict[str, float]:
    """All but the percentiles that so few events don't carry."""
    others = {name: value for name, value in latency_ms.items() if name not in PERCENTILES}
    return others | solid(latency_ms, events)


def _client_line(run: Run) -> str:
    share = client(run)
    text = (
        f"client: {share['processors']:.2f} processors, its busiest thread "
        f"{100 * share['busiest_thread']:.0f}% of one, "
        f"waiting for one {100 * share['waited']:.0f}% of the time; "
    )
    if not share["is_limit"]:
        return f"{text}the client was not the limit"
    return f"{text}the client was the limit: run it where processors are free"


def _usual(run: Run) -> str:
    """Whose default it is."""
    profile = run.chosen.text("profile")
    is_usual = run.chosen.distribution == PROFILES[profile]
    return f", the default of sysbench {'after 1.0.20' if profile == 'head' else profile}" if is_usual else ""


def progress_document(chosen: Options, progress: SysbenchProgress) -> SysbenchProgressSample:
    """One interval, as --json prints it with --report-interval."""
    has_rate = bool(chosen.whole("rate"))
    return SysbenchProgressSample.model_validate(
        {
            "elapsed_s": progress["elapsed_s"],
            "interval_s": progress["interval_s"],
            "threads": progress["connections"],
            "tps": progress["events"] / progress["interval_s"],
            "events": progress["events"],
            "queries": sum(progress["queries"][kind] for kind in ("read", "write", "other")),
            "errors": progress["errors"],
            "reconnects": progress["reconnects"],
            **progress["percentiles"],
            "queued": progress["queued"] if has_rate else None,
            "running": progress["running"] if has_rate else None,
        }
    )


def document(run: Run) -> SysbenchResult:
    """The one document of --json."""
    record, chosen = run.record, run.chosen
    return SysbenchResult.model_validate(
        {
            "schema": SYSBENCH_SCHEMA,
            "script": chosen.script,
            "profile": chosen.text("profile"),
            "distribution": chosen.distribution,
            "threads": chosen.whole("threads"),
            "elapsed_s": record["elapsed_s"],
            "events": record["events"],
            "tps": record["events"] / (record["elapsed_s"] or 1.0),
            "queries": dict(record["queries"]),
            "errors": {state: found["count"] for state, found in record["errors"].items()},
            "error_examples": {state: found["example"] for state, found in record["errors"].items()},
            "ended_by": "" if record["failure"] is None else ended_by(record["failure"]),
            "reconnects": record["reconnects"],
            "latency_ms": _figures(record["latency_ms"], record["events"]),
            "from_due_ms": record["from_due_ms"] and _figures(record["from_due_ms"], record["events"]),
            "queued": record["queued"],
            "histogram": record["histogram"],
            "client": client(run),
            "server": {"version": run.server.version, "settings": run.server.settings},
        }
    )
