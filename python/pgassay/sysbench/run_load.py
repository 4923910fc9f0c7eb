"""A run: what is told before it, the load, and what is told meanwhile."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pgassay.native.process import StatementError
from pgassay.native.sysbench_commands import Ended, SysbenchProgress, SysbenchRecord, run_sysbench
from pgassay.sysbench.connection import SysbenchServer
from pgassay.sysbench.options import Options, SysbenchError, document_of

Say = Callable[[str], None]
Show = Callable[[SysbenchProgress], None]


@dataclass(frozen=True)
class Run:
    """A run that is over."""

    chosen: Options
    server: SysbenchServer
    record: SysbenchRecord


def run(chosen: Options, server: SysbenchServer, say: Say, show: Show | None = None) -> Run:
    """Runs the script; raises SysbenchError for what keeps it from beginning.

    Args:
        say: called with each line that sysbench prints.
        show: called with each interval, in place of its lines.
    """
    for line in _mode(chosen):
        say(line)
    # Opened for what had to be known before the run.
    server.session.close()

    def tell(progress: SysbenchProgress) -> None:
        if show is not None:
            show(progress)
            return
        for line in progress_lines(chosen, progress):
            say(line)

    try:
        record = run_sysbench(_spec(chosen, server), lambda: say("Threads started!\n"), tell)
    except StatementError as error:
        raise SysbenchError(f"FATAL: {error}") from None
    return Run(chosen, server, record)


def ended_by(failure: Ended) -> str:
    """What ended a run before its time, in a sentence."""
    told = StatementError(failure["message"], failure["sqlstate"], failure["detail"], failure["hint"])
    return " ".join(str(told).split())


def _mode(chosen: Options) -> list[str]:
    lines = [
        "Running the test with following options:",
        f"Number of threads: {chosen.whole('threads')}",
    ]
    if chosen.whole("rate"):
        lines.append(f"Target transaction rate: {chosen.whole('rate')}/sec")
    if chosen.whole("report-interval"):
        seconds = chosen.whole("report-interval")
        lines.append(f"Report intermediate results every {seconds} second(s)")
    if chosen.whole("warmup-time"):
        lines.append(f"Warmup time: {chosen.whole('warmup-time')}s")
    seed = chosen.whole("rand-seed")
    if seed:
        lines.append(f"Initializing random number generator from seed ({seed}).")
    else:
        lines.append("Initializing random number generator from current time")
    return [*lines, "\n", "Initializing worker threads...\n"]


def _spec(chosen: Options, server: SysbenchServer) -> dict[str, object]:
    connections = chosen.whole("threads")
    return {
        "connect": dict(server.parameters),
        "sysbench": document_of(chosen),
        "connections": connections,
        "threads": min(connections, len(os.sched_getaffinity(0))),
        "protocol": "simple" if chosen.text("db-ps-mode") == "disable" else "prepared",
        "seed": chosen.whole("rand-seed") or time.time_ns() % 2**63,
        "events": chosen.whole("events") or None,
        "duration_s": chosen.whole("time") or None,
        "warmup_s": chosen.whole("warmup-time"),
        "rate": chosen.whole("rate") or None,
        # As in sysbench, whose other scripts don't look at it.
        "reconnect_after": chosen.whole("reconnect") if chosen.script.startswith("oltp_") else 0,
        "report_interval_s": chosen.whole("report-interval") or None,
        "percentile": chosen.whole("percentile"),
        "wants_histogram": chosen.switch("histogram"),
    }


def progress_lines(chosen: Options, progress: SysbenchProgress) -> list[str]:
    """The lines of one interval (db_report_intermediate in src/db_driver.c)."""
    queries, seconds = progress["queries"], progress["interval_s"]
    read, write, other = (queries[name] / seconds for name in ("read", "write", "other"))
    head = f"[ {progress['elapsed_s']:.0f}s ]"
    lines = [
        f"{head} thds: {progress['connections']} tps: {progress['events'] / seconds:.2f} "
        f"qps: {read + write + other:.2f} (r/w/o: {read:.2f}/{write:.2f}/{other:.2f}) "
        f"lat (ms,{chosen.whole('percentile')}%): {progress['percentile_ms']:.2f} "
        f"err/s: {progress['errors'] / seconds:.2f} reconn/s: {progress['reconnects'] / seconds:.2f}"
    ]
    if chosen.whole("rate"):
        lines.append(f"{head} queue length: {progress['queued']}, concurrency: {progress['running']}")
    return lines
