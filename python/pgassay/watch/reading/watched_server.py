"""A running server, interval by interval: what `pgassay watch DSN` shows."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Self

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.model.running_server.watch import Connections, ServerSample, WatchSample
from pgassay.running_server.open_server import OpenServer, open_target
from pgassay.watch.reading import command_progress, counters
from pgassay.watch.reading.machine_rates import MachineWatch
from pgassay.watch.reading.thread_windows import ProcessWatch
from pgassay.watch.reading.waiting_statements import StatementTally

SESSION_NAME = "pgassay watch"
# Samples of threads and wait events per second, and of statements: few enough to cost next to nothing.
RATE_HZ = 10.0
_STATEMENTS_S = 0.25
NOT_SHOWN = "not shown"
NO_BYTES = "the bytes of each thread: run pgassay as root or as the server's account"


class ServerWatch:
    """A context manager around one server; `sample` says what happened since the last call.

    `connection_string` as libpq knows it, `what` names it in messages. Entering raises UsageError when the
    server can't be reached. When it goes away later, samples say so, and it is looked for again.
    """

    def __init__(self, connection_string: str, what: str) -> None:
        self._connection_string = connection_string
        self._what = what
        self._server: _OpenServer | None = None
        self._lost = ""

    def __enter__(self) -> Self:
        self._target = open_target(self._connection_string, self._what, SESSION_NAME)
        self._server = _OpenServer(self._target)
        self._sampled_s = time.monotonic()
        return self

    def __exit__(self, *details: object) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for: never of a server."""
        return False

    def wait(self, until_s: float) -> None:
        """Sample statements now and then until the clock (time.monotonic) says `until_s`."""
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STATEMENTS_S))
            self._attempt(_OpenServer.sample_statements)

    def sample(self) -> WatchSample:
        """What happened since the last call, or since the beginning."""
        if self._server is None:
            self._find_again()
        now_s = time.monotonic()
        interval_s, self._sampled_s = now_s - self._sampled_s, now_s
        sample = self._attempt(_OpenServer.sample)
        if sample is None:
            missing = (f"everything: the server is gone ({self._lost}); pgassay tries again each time",)
            sample = WatchSample(
                time=_now(), clock_ns=time.monotonic_ns(), interval_s=interval_s, experiment=None,
                server=ServerSample(
                    name=self._target.name, version=None, pid=None, connections=None, waits=None,
                    threads=None, throughput=None, aios=None, statements=None,
                ),
                device=None, host=None, missing=missing,
            )  # fmt: skip
        return sample

    def finish(self) -> WatchSample:
        """The last sample: nothing comes after it."""
        return self.sample()

    def _attempt(self, work: "Callable[[_OpenServer], WatchSample | None]") -> WatchSample | None:
        """Do it with what is open; when the server has gone, close that and remember why."""
        if self._server is None:
            return None
        try:
            return work(self._server)
        except (psycopg.Error, MeasurementError) as error:
            self._lost = first_line(error).rstrip(".")
            self._server.close()
            self._server = None
            return None

    def _find_again(self) -> None:
        try:
            self._target = open_target(self._connection_string, self._what, SESSION_NAME)
            self._server = _OpenServer(self._target)
        except (UsageError, MeasurementError, psycopg.Error):
            # Why it went is more worth knowing than that it is not back yet.
            return


class _OpenServer:
    """All that is open on a server: a session, the observer, this machine's samplers."""

    def __init__(self, target: OpenServer) -> None:
        self._target = target
        self._stack = ExitStack()
        try:
            self._session = self._stack.enter_context(target.session(SESSION_NAME))
            row = self._session.execute("SELECT current_setting('max_connections')::int").fetchone()
            self._limit = int(row[0]) if row else None
            observed = target.observed(f"{SESSION_NAME} observer")
            self._processes = self._stack.enter_context(ProcessWatch(observed, RATE_HZ))
            self._machine = MachineWatch(target.local.device) if target.local else None
            self._statements = StatementTally()
            self._counters = counters.read(self._session, target.major)
            self._clock_ns = time.monotonic_ns()
        except BaseException:
            self._stack.close()
            raise
        sees = self._processes.sees
        self._missing = (*target.missing, *(f"threads and waits: {reason}" for reason in sees.reasons))
        if sees.threads and not sees.io:
            self._missing += (NO_BYTES,)

    def close(self) -> None:
        """Close all of it; a server that has gone is no error."""
        self._stack.close()

    def sample_statements(self) -> None:
        """Sample the statements that run now; raises psycopg.Error."""
        self._statements.sample(self._session)

    def sample(self) -> WatchSample:
        """What happened since the last call; raises psycopg.Error, MeasurementError."""
        self.sample_statements()
        before, before_ns = self._counters, self._clock_ns
        self._counters, self._clock_ns = counters.read(self._session, self._target.major), time.monotonic_ns()
        seconds = (self._clock_ns - before_ns) / 1e9
        self._processes.read()
        device, host = self._machine.sample() if self._machine else (None, None)
        target, processes = self._target, self._processes
        server = ServerSample(
            name=target.name,
            version=target.version,
            pid=target.local.postmaster_pid if target.local else None,
            connections=self._connections(processes.states),
            waits=processes.waits,
            threads=processes.threads,
            throughput=counters.throughput(before, self._counters, seconds),
            aios=processes.aios(target.major),
            statements=self._statements.take(),
            progress=command_progress.read(self._session, target.major),
        )
        return WatchSample(
            time=_now(), clock_ns=self._clock_ns, interval_s=seconds, experiment=None, server=server,
            device=device, host=host, missing=self._missing,
        )  # fmt: skip

    def _connections(self, states: dict[str, float] | None) -> Connections | None:
        """The states of connections; of those whose state this role may not see, their number alone."""
        if states is None:
            return None
        if not self._target.reads_all_stats:
            states = {state: count for state, count in states.items() if state}
            own = counters.OWN_BACKENDS + sum(states.values())
            states[NOT_SHOWN] = max(0.0, self._counters.get("backends", 0.0) - own)
        return Connections(by_state=states, limit=self._limit)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
