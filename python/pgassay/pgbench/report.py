"""What pgbench prints of a run, line by line (printResults in pgbench.c)."""

import math
from collections.abc import Iterator

from pgassay.native.pgbench_command import CommandRecord, Stats, Sums
from pgassay.pgbench.options import PgbenchOptions
from pgassay.pgbench.run_load import Run, failures


def lines(run: Run) -> Iterator[str]:
    """pgbench's own lines."""
    yield from _asked(run)
    record, chosen = run.record, run.chosen
    stats, elapsed_s = record["stats"], record["elapsed_s"]
    failed = failures(stats)
    total = stats["done"] + stats["skipped"] + failed
    if total == 0:
        return
    yield from _failures(chosen, stats, total, "number of")
    if chosen.rate and chosen.latency_limit_us:
        yield f"number of transactions skipped: {_share(stats['skipped'], total)}"
    if chosen.latency_limit_us:
        yield (
            f"number of transactions above the {chosen.latency_limit_us / 1000:.1f} ms latency limit: "
            f"{record['late']}/{stats['done']} ({_percent(record['late'], stats['done'])}%)"
        )
    if chosen.rate or chosen.progress_s or chosen.latency_limit_us:
        yield from _latency("latency", stats["latency_us"])
    else:
        # Not measured there: what the length of the run gives.
        average_ms = 1000 * elapsed_s * chosen.clients / total
        yield f"latency average = {average_ms:.3f} ms{' (including failures)' if failed else ''}"
    if chosen.rate:
        lag = stats["lag_us"]
        average_ms = lag["sum"] / max(stats["done"], 1) / 1000
        yield f"rate limit schedule lag: avg {average_ms:.3f} (max {lag['max'] / 1000:.3f}) ms"
    if chosen.connects_each:
        average_ms = 1000 * record["connections_s"] / (stats["done"] + failed or 1)
        yield f"average connection time = {average_ms:.3f} ms"
        yield f"tps = {stats['done'] / elapsed_s:.6f} (including reconnection times)"
    else:
        yield f"initial connection time = {1000 * record['connection_s']:.3f} ms"
        yield f"tps = {stats['done'] / elapsed_s:.6f} (without initial connection time)"
    yield from _scripts(run, total)


def _asked(run: Run) -> Iterator[str]:
    chosen, tables, stats = run.chosen, run.tables, run.record["stats"]
    is_one = len(chosen.scripts) == 1
    yield f"transaction type: {chosen.scripts[0].title if is_one else 'multiple scripts'}"
    yield f"scaling factor: {tables.scale}"
    if tables.partition_method:
        yield f"partition method: {tables.partition_method}"
        yield f"partitions: {tables.partitions}"
    yield f"query mode: {chosen.protocol}"
    yield f"number of clients: {chosen.clients}"
    yield f"number of threads: {chosen.threads}"
    if chosen.max_tries:
        yield f"maximum number of tries: {chosen.max_tries}"
    if chosen.transactions is not None:
        yield f"number of transactions per client: {chosen.transactions}"
        wanted = chosen.transactions * chosen.clients
        yield f"number of transactions actually processed: {stats['done']}/{wanted}"
    else:
        yield f"duration: {chosen.seconds} s"
        yield f"number of transactions actually processed: {stats['done']}"


def _failures(chosen: PgbenchOptions, stats: Stats, total: int, number: str) -> Iterator[str]:
    yield f"{number} failed transactions: {_share(failures(stats), total)}"
    if chosen.details_failures:
        yield f"{number} serialization failures: {_share(stats['serialization_failures'], total)}"
        yield f"{number} deadlock failures: {_share(stats['deadlock_failures'], total)}"
        if chosen.continues_on_error:
            yield f"{number} other failures: {_share(stats['other_failures'], total)}"
    if chosen.max_tries != 1:
        yield f"{number} transactions retried: {_share(stats['retried'], total)}"
        yield f"{number.replace('number', 'total number')} retries: {stats['retries']}"


def _scripts(run: Run, total: int) -> Iterator[str]:
    chosen, several = run.chosen, len(run.chosen.scripts) > 1
    weights = sum(script.weight for script in chosen.scripts)
    for number, (script, record) in enumerate(
        zip(chosen.scripts, run.record["scripts"], strict=True), start=1
    ):
        if several:
            stats = record["stats"]
            count = stats["done"] + stats["skipped"] + failures(stats)
            yield f"SQL script {number}: {script.title}"
            yield f" - weight: {script.weight} (targets {100 * script.weight / weights:.1f}% of total)"
            yield f" - {count} transactions ({100 * count / total:.1f}% of total)"
            if count:
                tps = stats["done"] / run.record["elapsed_s"]
                yield f" - number of transactions actually processed: {stats['done']} (tps = {tps:.6f})"
                yield from _failures(chosen, stats, count, " - number of")
                if chosen.rate and chosen.latency_limit_us:
                    yield f" - number of transactions skipped: {_share(stats['skipped'], count)}"
            yield from _latency(" - latency", stats["latency_us"])
        if chosen.reports_commands:
            what = "and failures" if chosen.max_tries == 1 else ", failures and retries"
            between = " " if chosen.max_tries == 1 else ""
            yield f"{' - ' if several else ''}statement latencies in milliseconds{between}{what}:"
            yield from (_command(command, chosen) for command in record["commands"])


def _command(command: CommandRecord, chosen: PgbenchOptions) -> str:
    average_ms = 1000 * command["total_s"] / command["count"] if command["count"] else 0.0
    retries = "" if chosen.max_tries == 1 else f" {command['retries']:10d}"
    return f"   {average_ms:11.3f}  {command['failures']:10d}{retries} {command['text']}"


def _latency(prefix: str, sums: Sums) -> Iterator[str]:
    if sums["count"]:
        average = sums["sum"] / sums["count"]
        deviation = math.sqrt(max(sums["sum2"] / sums["count"] - average**2, 0))
        yield f"{prefix} average = {average / 1000:.3f} ms"
        yield f"{prefix} stddev = {deviation / 1000:.3f} ms"


def _share(count: int, total: int) -> str:
    return f"{count} ({_percent(count, total)}%)"


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total if total else 0:.3f}"
