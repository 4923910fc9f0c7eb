"""A run: what is asked of the server before it, the load, and what is told meanwhile."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgassay.native.pgbench_command import PgbenchProgress, PgbenchRecord, Stats, run_pgbench
from pgassay.native.process import StatementError
from pgassay.native.scripts import ShownCommand, read_script_faults
from pgassay.pgbench.connection import (
    ChangedSetting,
    Server,
    changed_settings,
    connect,
    errors_told,
    server_text,
    try_to_execute,
)
from pgassay.pgbench.messages import PROGRAM, PgbenchError, say, write
from pgassay.pgbench.options import PgbenchOptions

LOG_PREFIX = "pgbench_log"
_COULD_NOT_CONNECT = "could not connect: "
_PARTITIONS = """\
select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace)
cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n)
left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid)
left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent)
where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc limit 1"""


Show = Callable[["Interval", PgbenchProgress], None]


@dataclass(frozen=True)
class Tables:
    """The scale, and how pgbench_accounts is partitioned ('' for not)."""

    scale: int
    partition_method: str = ""
    partitions: int = 0


@dataclass(frozen=True)
class Run:
    """A run that is over."""

    chosen: PgbenchOptions
    tables: Tables
    version: str
    settings: list[ChangedSetting]
    record: PgbenchRecord


def run(chosen: PgbenchOptions, on_server: Callable[[str], None], show: Show | None = None) -> Run:
    """Runs the scripts; on_server is called with the version of the server as soon as it is known, show with
    each interval in place of its line.

    Raises PgbenchError for what keeps the run from beginning.
    """
    if any(not script.is_builtin for script in chosen.scripts):
        _check_scripts(chosen)
    server = connect(chosen, "setup")
    with errors_told(), server.session:
        on_server(server.version)
        tables = _tables(server, chosen) if chosen.has_builtin else Tables(chosen.scale or 1)
        settings = changed_settings(server.session)
        if not chosen.no_vacuum:
            _vacuum(server, chosen)
    reporter = _Reporter(chosen, show)
    try:
        record = run_pgbench(
            _spec(chosen, server, tables), reporter.tell, lambda level, text: say(text, level)
        )
    except StatementError as error:
        raise _refused(error) from None
    return Run(chosen, tables, server.version, settings, record)


def _refused(error: StatementError) -> PgbenchError:
    client, found, message = error.message.partition(_COULD_NOT_CONNECT)
    if not found:
        return PgbenchError(error.message)
    say(message, "error")
    return PgbenchError(f"could not create connection for {client.strip()}")


def _check_scripts(chosen: PgbenchOptions) -> None:
    """Raises PgbenchError for the first script that is none, as pgbench shows it."""
    texts = [{"name": each.title, "text": each.text} for each in chosen.scripts]
    fault = read_script_faults(texts, chosen.protocol)
    if fault is None:
        return
    if fault["script"] is None:
        name, is_empty, _ = fault["message"].partition(": the script has no command")
        raise PgbenchError(f'empty command list for script "{name}"' if is_empty else fault["message"])
    if fault["message"].startswith("statement has too many arguments"):
        raise PgbenchError(fault["message"])
    if fault["message"].startswith("\\gset must"):
        raise PgbenchError(f"{fault['script']}:{fault['line']}: {fault['message']}")
    if fault["number"] is not None:
        condition = fault["message"].removeprefix("condition error in script: ")
        raise PgbenchError(
            f'condition error in script "{fault["script"]}" command {fault["number"]}: {condition}'
        )
    shown = fault["shown"]
    command = "" if fault["command"] is None else f' in command "{fault["command"]}"'
    line = fault["line"] if shown is None else shown["line"]
    message = f"{fault['script']}:{line}: {fault['message']}{command}"
    raise PgbenchError(message, below="" if shown is None else _marked(shown))


def _marked(shown: ShownCommand) -> str:
    """A backslash command with a mark below it; of \\set without a word pgbench shows nothing."""
    text, mark = shown["text"], shown["mark"]
    if mark is None:
        return "" if text.lower() == "\\set" else text
    return f"{text}\n{'^':>{mark + 1}} error found here"


def _tables(server: Server, chosen: PgbenchOptions) -> Tables:
    session = server.session
    hint = f'Perhaps you need to do initialization ("{PROGRAM} -i") in database "{server.dbname}".'
    try:
        row = session.execute("select count(*) from pgbench_branches").fetchone()
    except psycopg.Error as error:
        is_missing = isinstance(error, psycopg.errors.UndefinedTable)
        raise PgbenchError(
            f"could not count number of branches: {server_text(error)}", hint=hint if is_missing else ""
        ) from None
    scale = int(row[0]) if row else 0
    if chosen.scale is not None:
        say(f"scale option ignored, using count from pgbench_branches table ({scale})", "warning")
    found = session.execute(_PARTITIONS.encode()).fetchone()
    if found is None:
        raise PgbenchError('no pgbench_accounts table found in "search_path"', hint=hint)
    method = found[1].decode() if isinstance(found[1], bytes) else found[1]
    return Tables(scale, {"r": "range", "h": "hash"}.get(method or "", ""), int(found[2]))


def _vacuum(server: Server, chosen: PgbenchOptions) -> None:
    write("starting vacuum...", end="")
    for statement in ("vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"):
        try_to_execute(server.session, statement)
    write("end.")
    if chosen.vacuums_all:
        write("starting vacuum pgbench_accounts...", end="")
        try_to_execute(server.session, "vacuum analyze pgbench_accounts")
        write("end.")


def _spec(chosen: PgbenchOptions, server: Server, tables: Tables) -> dict[str, object]:
    log = None
    if chosen.has_log:
        path = Path(f"{chosen.log_prefix or LOG_PREFIX}.{os.getpid()}").absolute()
        log = {
            "path": str(path),
            "sampling_rate": chosen.sampling_rate,
            "aggregate_s": chosen.aggregate_s,
            "details_failures": chosen.details_failures,
        }
    scripts = [{"name": each.title, "text": each.text, "weight": each.weight} for each in chosen.scripts]
    return {
        "connect": dict(server.parameters),
        "scripts": scripts,
        "variables": chosen.variables,
        "scale": tables.scale,
        "clients": chosen.clients,
        "threads": chosen.threads,
        "protocol": chosen.protocol,
        "seed": chosen.seed,
        "transactions": chosen.transactions,
        "duration_s": chosen.seconds,
        "latency_limit_us": chosen.latency_limit_us,
        "rate": chosen.rate,
        "connects_each": chosen.connects_each,
        "max_tries": chosen.max_tries,
        "continues_on_error": chosen.continues_on_error,
        "exits_on_abort": chosen.exits_on_abort,
        "times_commands": chosen.reports_commands,
        "tells_errors": chosen.tells_errors,
        "is_traced": chosen.is_debug,
        "progress_s": chosen.progress_s,
        "log": log,
    }


def failures(stats: Stats) -> int:
    """Transactions that failed, of all kinds."""
    return stats["serialization_failures"] + stats["deadlock_failures"] + stats["other_failures"]


class _Reporter:
    """Tells of each interval what came to the counts since the last, as a line or to who asks for it."""

    def __init__(self, chosen: PgbenchOptions, show: Show | None) -> None:
        self._chosen = chosen
        self._show = show
        self._last: PgbenchProgress | None = None

    def tell(self, progress: PgbenchProgress) -> None:
        """One interval has ended."""
        interval = interval_of(self._last, progress)
        if self._show is None:
            write(progress_line(self._chosen, interval))
        else:
            self._show(interval, progress)
        self._last = progress


@dataclass(frozen=True)
class Interval:
    """What came to the counts in an interval; latencies are 0 where nothing was done."""

    elapsed_s: float
    length_s: float
    done: int
    failed: int
    skipped: int
    retried: int
    retries: int
    latency_ms: float
    stddev_ms: float
    lag_ms: float

    @property
    def tps(self) -> float:
        """Transactions done a second."""
        return self.done / self.length_s


def interval_of(last: PgbenchProgress | None, progress: PgbenchProgress) -> Interval:
    """The interval from `last` (None for the beginning) to `progress`."""
    now = progress["stats"]
    before = last["stats"] if last else None

    def since(count: Callable[[Stats], float]) -> float:
        return count(now) - (count(before) if before else 0)

    done = int(since(lambda stats: stats["done"]))
    latency_us = stddev_us = lag_us = 0.0
    if done:
        latency_us = since(lambda stats: stats["latency_us"]["sum"]) / done
        square = since(lambda stats: stats["latency_us"]["sum2"]) / done
        stddev_us = math.sqrt(max(square - latency_us**2, 0))
        lag_us = since(lambda stats: stats["lag_us"]["sum"]) / done
    return Interval(
        elapsed_s=progress["elapsed_s"],
        length_s=progress["elapsed_s"] - (last["elapsed_s"] if last else 0),
        done=done,
        failed=int(since(failures)),
        skipped=int(since(lambda stats: stats["skipped"])),
        retried=int(since(lambda stats: stats["retried"])),
        retries=int(since(lambda stats: stats["retries"])),
        latency_ms=latency_us / 1e3,
        stddev_ms=stddev_us / 1e3,
        lag_ms=lag_us / 1e3,
    )


def progress_line(chosen: PgbenchOptions, interval: Interval) -> str:
    """The line of an interval (printProgressReport)."""
    when = f"{time.time():.3f} s" if chosen.has_timestamps else f"{interval.elapsed_s:.1f} s"
    text = (
        f"progress: {when}, {interval.tps:.1f} tps, lat {interval.latency_ms:.3f} ms "
        f"stddev {interval.stddev_ms:.3f}, {interval.failed} failed"
    )
    if chosen.rate:
        text += f", lag {interval.lag_ms:.3f} ms"
        if chosen.latency_limit_us:
            text += f", {interval.skipped} skipped"
    if chosen.max_tries != 1:
        text += f", {interval.retried} retried, {interval.retries} retries"
    return text
