"""What pgbench leaves out of its report: percentiles, the client's share, the server that was measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgassay.model.percentiles import solid, transactions_min
from pgassay.native.pgbench_command import CommandRecord, PgbenchProgress, Stats
from pgassay.native.process import ErrorsOfState
from pgassay.pgbench.connection import ChangedSetting
from pgassay.pgbench.options import PgbenchOptions
from pgassay.pgbench.run_load import Interval, Run, failures

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.running_server.load_progress import PgbenchProgressSample
    from pgassay.model.running_server.pgbench_run import PgbenchResult

# A thread that is busy for so much of the time sends later than it could.
BUSY_SHARE = 0.9
_SHOWN = ("p50", "p95", "p99", "p99.9")
_WIDTH = 110


@dataclass(frozen=True)
class ClientShare:
    """What the client's threads took, as shares of the time that passed.

    `processors`: processor time of all together; `busiest`: of the one that used most; `waited`: how long
    one was ready to run and had no processor.
    """

    processors: float
    busiest: float
    waited: float

    @property
    def is_limit(self) -> bool:
        """Whether a thread of the client had no time left, or did not get the processor that it needed."""
        return self.busiest + self.waited >= BUSY_SHARE


def client_share(run: Run) -> ClientShare:
    """Of a run."""
    record, elapsed_s = run.record, run.record["elapsed_s"] or 1.0
    return ClientShare(
        record["client_cpu_s"] / elapsed_s,
        record["client_cpu_most_s"] / elapsed_s,
        record["client_waited_s"] / elapsed_s,
    )


def _client_line(share: ClientShare) -> str:
    text = (
        f"client: {share.processors:.2f} processors, its busiest thread {100 * share.busiest:.0f}% of one, "
        f"waiting for one {100 * share.waited:.0f}% of the time; "
    )
    if not share.is_limit:
        return f"{text}the client was not the limit"
    if share.busiest >= BUSY_SHARE:
        return f"{text}the client was the limit: use more threads (-j)"
    return f"{text}the client was the limit: run it where processors are free"


def _percentiles_ms(run: Run) -> dict[str, float]:
    """By name, those that the run has transactions enough for."""
    named = {f"p{percent:g}": value for percent, value in run.record["percentiles_ms"]}
    return solid(named, run.record["stats"]["done"])


def lines(run: Run) -> Iterator[str]:
    """Below pgbench's own."""
    done = run.record["stats"]["done"]
    if done:
        found = _percentiles_ms(run)
        shown = [name for name in _SHOWN if name in found]
        if shown:
            yield f"latency percentiles: {', '.join(f'{name} {found[name]:.3f} ms' for name in shown)}"
        if len(shown) < len(_SHOWN):
            first = _SHOWN[len(shown)]
            yield f"{first} and above: too few transactions ({done}); {transactions_min(first)} are needed"
        yield _client_line(client_share(run))
    yield from error_lines("errors with", run.record["errors"])
    yield f"server: PostgreSQL {run.version}"
    yield from settings_lines(run.settings)


def error_lines(what: str, errors: Mapping[str, ErrorsOfState]) -> Iterator[str]:
    """A line for each SQLSTATE, the most frequent first."""
    for sqlstate, found in sorted(errors.items(), key=lambda pair: -pair[1]["count"]):
        message = "".join(letter if letter.isprintable() else " " for letter in found["example"])
        yield f"{what} SQLSTATE {sqlstate}: {found['count']}, the first: {message}"


def settings_lines(settings: Sequence[ChangedSetting]) -> Iterator[str]:
    """The settings that differ from the defaults, in lines of a terminal's width."""
    if not settings:
        yield "settings: all as PostgreSQL's defaults"
        return
    text = "settings that differ from the defaults:"
    for setting in settings:
        word = f" {setting['name']}={setting['value'] or repr('')}"
        if len(text) + len(word) > _WIDTH:
            yield text
            text = " "
        text += word
    yield text


def progress_document(
    chosen: PgbenchOptions, interval: Interval, progress: PgbenchProgress
) -> "PgbenchProgressSample":
    """One interval, as --json prints it with --progress."""
    from pgassay.model.running_server.load_progress import PgbenchProgressSample

    return PgbenchProgressSample.model_validate(
        {
            "elapsed_s": interval.elapsed_s,
            "interval_s": interval.length_s,
            "tps": interval.tps,
            "transactions": interval.done,
            "failed": interval.failed,
            "retried": interval.retried,
            "retries": interval.retries,
            "skipped": interval.skipped,
            "latency_mean_ms": interval.latency_ms if interval.done else None,
            "latency_stddev_ms": interval.stddev_ms if interval.done else None,
            "lag_mean_ms": interval.lag_ms if interval.done else None,
            **progress["percentiles"],
            "queued": progress["queued"] if chosen.rate else None,
        }
    )


def document(run: Run) -> "PgbenchResult":
    """The one document of --json."""
    from pgassay.model.running_server import pgbench_run as model

    chosen, record = run.chosen, run.record
    share, elapsed_s = client_share(run), record["elapsed_s"]
    return model.PgbenchResult.model_validate(
        {
            "scale": run.tables.scale,
            "partition_method": run.tables.partition_method or None,
            "partitions": run.tables.partitions,
            "protocol": chosen.protocol,
            "clients": chosen.clients,
            "threads": chosen.threads,
            "max_tries": chosen.max_tries,
            "transactions_per_client": chosen.transactions,
            "duration_s": chosen.seconds,
            "rate": chosen.rate,
            "latency_limit_ms": None if chosen.latency_limit_us is None else chosen.latency_limit_us / 1000,
            "random_seed": chosen.seed,
            "elapsed_s": elapsed_s,
            "connection_s": record["connections_s"] if chosen.connects_each else record["connection_s"],
            "counts": _counts(record["stats"], elapsed_s),
            "late": record["late"],
            "percentiles_ms": _percentiles_ms(run),
            "histogram": record["histogram"],
            "aborted_clients": record["aborted"],
            "errors": {state: found["count"] for state, found in record["errors"].items()},
            "error_examples": {state: found["example"] for state, found in record["errors"].items()},
            "client": {
                "processors": share.processors,
                "busiest_thread": share.busiest,
                "waited": share.waited,
                "is_limit": share.is_limit,
            },
            "server": {"version": run.version, "settings": run.settings},
            "scripts": [
                {
                    "name": script.title,
                    "weight": script.weight,
                    "counts": _counts(each["stats"], elapsed_s),
                    "commands": [_command(command, chosen) for command in each["commands"]],
                }
                for script, each in zip(chosen.scripts, record["scripts"], strict=True)
            ],
        }
    )


def _counts(stats: Stats, elapsed_s: float) -> dict[str, object]:
    latency, lag = stats["latency_us"], stats["lag_us"]
    return {
        "tps": stats["done"] / elapsed_s if elapsed_s else 0.0,
        "transactions": stats["done"],
        "failed": failures(stats),
        "serialization_failures": stats["serialization_failures"],
        "deadlock_failures": stats["deadlock_failures"],
        "other_failures": stats["other_failures"],
        "retried": stats["retried"],
        "retries": stats["retries"],
        "skipped": stats["skipped"],
        "latency_mean_ms": latency["sum"] / latency["count"] / 1000 if latency["count"] else None,
        "latency_min_ms": latency["min"] / 1000 if latency["count"] else None,
        "latency_max_ms": latency["max"] / 1000 if latency["count"] else None,
        "lag_mean_ms": lag["sum"] / lag["count"] / 1000 if lag["count"] else None,
    }


def _command(command: CommandRecord, chosen: PgbenchOptions) -> dict[str, object]:
    count = command["count"] if chosen.reports_commands else None
    return {
        "text": command["text"],
        "line": command["line"],
        "count": count,
        "mean_ms": 1000 * command["total_s"] / count if count else None,
        "failures": command["failures"],
        "retries": command["retries"],
    }
