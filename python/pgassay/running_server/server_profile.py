"""perf samples a server that runs already, while somebody else works on it."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import psycopg

from pgassay.analysis.profile.flame import FlameNode
from pgassay.analysis.profile.one_server import Sampled, flame_of, profile_of
from pgassay.environment.linux.perf import SWITCH_PERIOD, Perf, PerfRecording, Stacks, find_perf
from pgassay.environment.linux.perf_counters import PerfCounting, has_counters
from pgassay.environment.linux.processes import children_of, process_stat
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.profile.result import ServerProfile
from pgassay.running_server.open_server import open_target
from pgassay.trial.profile.perf_sampling import FRAME_POINTERS
from pgassay.trial.profile.script_text import ScriptReader, fold, fold_waits

RATE_HZ = 997
# Sessions come and go.
ATTEMPTS = 10
_APPLICATION = "pgassay profile"
# Superusers may read it; for others each sample has a copy of its stack.
_FLAGS = "SELECT setting FROM pg_config() WHERE name = 'CFLAGS'"


@dataclass(frozen=True)
class ProfiledServer:
    """A server on this machine that perf can sample: its first process, and how its stacks are followed."""

    perf: Perf
    postmaster_pid: int
    stacks: Stacks

    @property
    def has_waits(self) -> bool:
        """Whether it is also noted where sessions wait: only frame pointers tell it at a bearable price."""
        return self.perf.has_waits and self.stacks == "frame pointers"

    @contextmanager
    def sampled(self) -> Iterator["ServerSamples"]:
        """perf samples all of the server's processes meanwhile; the samples are there once it has ended.

        Raises MeasurementError where perf fails.
        """
        samples = ServerSamples(self)
        recording = self._begun()
        try:
            with self._counting() as counting:
                began_ns = time.monotonic_ns()
                yield samples
                ended_ns = time.monotonic_ns()
            samples.counted = None if counting is None else counting.counts(began_ns, ended_ns)
            recording.stop()
            reader = ScriptReader(recording.lines())
            ran = fold_waits(
                reader, first_ns=began_ns, last_ns=ended_ns, period=SWITCH_PERIOD, waits=samples.waits
            )
            samples.stacks.update(
                fold(ran, callers=True, keep=lambda sample: began_ns <= sample.clock_ns <= ended_ns)
            )
            samples.lost = reader.lost
        finally:
            recording.close()

    def _counting(self) -> "AbstractContextManager[PerfCounting | None]":
        if not has_counters(self.perf):
            return nullcontext()
        return PerfCounting(self.perf, [self.postmaster_pid, *children_of(self.postmaster_pid)])

    def _begun(self) -> PerfRecording:
        """A recording that runs: of a list with a process that has just ended perf samples none."""
        left = ATTEMPTS
        while True:
            pids = [self.postmaster_pid, *children_of(self.postmaster_pid)]
            try:
                return PerfRecording(self.perf, pids, RATE_HZ, self.stacks, waits=self.has_waits).__enter__()
            except MeasurementError:
                left -= 1
                if not left or process_stat(self.postmaster_pid) is None:
                    raise


class ServerSamples:
    """What perf has sampled of a server, by folded stack."""

    def __init__(self, server: ProfiledServer) -> None:
        self._server = server
        self.stacks: dict[str, int] = {}
        self.waits: Counter[str] = Counter()
        self.lost = 0
        self.counted: dict[str, float] | None = None

    def profile(self, units: int, unit: str) -> tuple[ServerProfile, FlameNode]:
        """The functions by their time per unit, of which there were so many, and the stacks as a tree.

        Raises MeasurementError without any sample, or without any unit.
        """
        if not self.stacks or not units:
            raise MeasurementError(
                "--profile: perf has no sample of the server for what was played: play more of it, or leave "
                "--profile out"
            )
        perf, stacks = self._server.perf, self._server.stacks
        period = SWITCH_PERIOD if self._server.has_waits else 0
        sampled = Sampled(
            self.stacks, self.lost, RATE_HZ, perf.event, stacks, self.counted, self.waits, period
        )
        return profile_of(sampled, units, unit), flame_of(sampled, units)


def profiled_server(connection: str) -> ProfiledServer:
    """The server of a connection string, as perf can sample it.

    Raises UsageError where perf is not here or may not sample, and for a server on another machine.
    """
    perf = find_perf()
    opened = open_target(connection, "DSN", _APPLICATION)
    if opened.local is None:
        raise UsageError(
            f"--profile samples the processes of the server, and those of {opened.name} can't be seen "
            "here: it runs on another machine, in a container, or hidden from this account; run pgassay "
            "where the server runs, or leave --profile out"
        )
    with opened.session(_APPLICATION) as session:
        stacks: Stacks = "frame pointers" if FRAME_POINTERS in _flags(session) else "unwound"
    return ProfiledServer(perf, opened.local.postmaster_pid, stacks)


def _flags(session: psycopg.Connection) -> str:
    try:
        row = session.execute(_FLAGS).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return ""
    return str(row[0]) if row else ""
