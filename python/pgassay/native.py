"""Finds the native binary, checks its version, and speaks to it.

The native binary is the measuring process: it runs and times every measured statement. What travels
between it and Python is data (JSON documents, one a line), and its connection parameters, passwords
included, go through its standard input alone. It ends when its standard input closes, so it never
outlives the process that started it.
"""

import functools
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pgassay import __version__
from pgassay.errors import MeasurementError, UsageError
from pgassay.native_sources import source_id

_PROGRAM = "pgassay-native"
_CHECKOUT = Path(__file__).resolve().parents[2]
_EXIT_TIMEOUT_S = 5.0
_REMEDY = "type `make setup` in pgassay's folder"


class StatementError(MeasurementError):
    """The server or the connection refused a statement, a connection or a load.

    `sqlstate` is the server's five-character code, None where the connection itself failed; `detail` and
    `hint` are the server's, None where it gave none.
    """

    def __init__(
        self, message: str, sqlstate: str | None, detail: str | None = None, hint: str | None = None
    ):
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint
        extras = [f"({sqlstate})" if sqlstate else "", f"DETAIL: {detail}" if detail else ""]
        extras.append(f"HINT: {hint}" if hint else "")
        super().__init__(" ".join([message, *filter(None, extras)]))


@dataclass(frozen=True)
class Connected:
    """A server that answered: its process for this session, and its version ("18.4")."""

    pid: int
    server_version: str


@dataclass(frozen=True)
class Notice:
    """A message of the server that is no error; `severity`: INFO, NOTICE, WARNING, DEBUG or LOG."""

    severity: str
    message: str
    detail: str | None = None
    sqlstate: str | None = None


@dataclass(frozen=True)
class Executed:
    """One timed statement.

    From just before it was sent to the server's ReadyForQuery, in nanoseconds of CLOCK_MONOTONIC (which
    `time.monotonic_ns` reads as well); `rows` and `bytes` are what the server sent back. `notices` are in the
    order in which they came, 16 MB of them at most; `notices_dropped` counts those that came later.
    """

    name: str
    elapsed_ns: int
    start_ns: int
    end_ns: int
    rows: int
    bytes: int
    notices: tuple[Notice, ...] = ()
    notices_dropped: int = 0

    @property
    def elapsed_s(self) -> float:
        """The same time in seconds."""
        return self.elapsed_ns / 1e9


def binary() -> Path:
    """The native binary of this very version of pgassay, built from the Rust sources beside it.

    Looked for at $PGASSAY_NATIVE, in the checkout's target/release, and beside the package in pgassay/bin.

    Raises:
        UsageError: there is none, or it is of another version or of other sources.
    """
    given = os.environ.get("PGASSAY_NATIVE")
    if given:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"$PGASSAY_NATIVE names {given}, where there is no file; correct or unset it.")
    else:
        package = Path(__file__).resolve().parent
        places = [package.parent.parent / "target" / "release" / _PROGRAM, package / "bin" / _PROGRAM]
        found = [place for place in places if place.is_file()]
        if not found:
            raise UsageError(f"The native binary {_PROGRAM} has not been built; {_REMEDY}.")
        path = found[0]
    _check_version(path, path.stat().st_mtime_ns)
    return path


@functools.lru_cache(maxsize=8)
def _check_version(path: Path, _modified_ns: int) -> None:
    # Once per file: a rebuilt binary has another time of modification.
    try:
        finished = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"The native binary {path} can't be run ({error}); {_REMEDY}.") from error
    answer = finished.stdout.strip()
    if answer.split()[:2] != [_PROGRAM, __version__]:
        raise UsageError(
            f"The native binary {path} answers {answer!r}, not version {__version__}; {_REMEDY}."
        )
    # A build of the same version may still speak documents of yesterday.
    sources = source_id(_CHECKOUT)
    if sources is not None and answer.split()[2:] != [sources]:
        raise UsageError(f"The native binary {path} was not built from the Rust sources here; {_REMEDY}.")


class Child:
    """The native binary and a conversation in JSON lines; standard error is kept to explain a crash."""

    def __init__(self, command: str, cpu_affinity: Iterable[int] | None):
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        try:
            with _affinity(cpu_affinity):
                # A process group of its own: Ctrl-C in a terminal reaches pgassay alone, which ends this.
                self._process = subprocess.Popen(
                    [binary(), command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    process_group=0,
                )
        except BaseException:
            self._errors.close()
            raise

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def send(self, document: Mapping[str, Any]) -> None:
        """Writes one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._crashed() from error

    def receive(self) -> dict[str, Any]:
        """Reads one line; an error in it is raised as StatementError."""
        document = self.receive_line()
        if "error" in document:
            failure = document["error"]
            raise StatementError(
                failure["message"], failure.get("sqlstate"), failure.get("detail"), failure.get("hint")
            )
        return document

    def receive_line(self) -> dict[str, Any]:
        """Reads one line, an error's too."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            document = json.loads(line)
        except ValueError as error:
            raise self._crashed() from error
        assert isinstance(document, dict)
        return document

    def _crashed(self) -> MeasurementError:
        status = self._wait()
        if status == -signal.SIGKILL:
            return MeasurementError(
                "The native binary was killed, by the kernel for want of memory unless you did it: give the "
                "machine, or the container or control group that pgassay runs in, more memory."
            )
        self._errors.seek(0)
        last_words = self._errors.read().decode(errors="replace").strip()
        message = f"The native binary ended unexpectedly (exit status {status})"
        return MeasurementError(f"{message}: {last_words}" if last_words else f"{message}.")

    def _wait(self) -> int:
        try:
            return self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def end(self) -> None:
        """Closes standard input, which ends the process, and makes sure that it has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._wait()
        self._process.stdout.close()
        self._errors.close()

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self.end()


@contextmanager
def _affinity(cpus: Iterable[int] | None) -> Iterator[None]:
    """Lets processes started meanwhile run on these CPUs only.

    The calling thread takes the CPUs for a moment and its child inherits them: no code runs between fork
    and exec.
    """
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        wanted = ",".join(map(str, cpus))
        raise UsageError(
            f"CPUs {wanted} can't be used here ({error.strerror}); allowed: {sorted(before)}."
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class SqlSession:
    """A conversation with one server, statement by statement, each timed by the native binary.

    A context manager: leaving it ends the native process. After a lost connection `connect` works again.

    Args:
        cpu_affinity: the CPUs the native process may run on; all when None.

    Raises:
        UsageError: there is no native binary of this version.
    """

    def __init__(self, cpu_affinity: Iterable[int] | None = None):
        self._child: Child | None = Child("sql", cpu_affinity)

    @property
    def process_id(self) -> int:
        """The native process, e.g. to account for its CPU time."""
        return self._open_child().pid

    def connect(self, parameters: Mapping[str, Any]) -> Connected:
        """Opens a connection, closing the one before.

        Args:
            parameters: host (a name, or the folder of a Unix socket), port, user, password, dbname, options,
                application_name.

        Raises:
            StatementError: the server can't be reached or refuses.
        """
        answer = self._ask({"connect": dict(parameters)})["connected"]
        return Connected(**answer)

    def execute(self, name: str, sql: str) -> Executed:
        """Runs a statement, or several in one string, as a simple query; rows are read and dropped.

        Raises:
            StatementError: the server reports an error (the session goes on), or the connection was lost.
        """
        answer = self._ask({"execute": {"name": name, "sql": sql}})["executed"]
        notices = tuple(Notice(**notice) for notice in answer.pop("notices"))
        return Executed(**answer, notices=notices)

    def disconnect(self) -> None:
        """Closes the connection, if there is one; the native process stays."""
        self._ask({"disconnect": {}})

    def close(self) -> None:
        """Ends the native process; the second time does nothing."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_child(self) -> Child:
        if self._child is None:
            raise MeasurementError("The session with the native binary is closed; open a new SqlSession.")
        return self._child

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        child = self._open_child()
        try:
            child.send(command)
            return child.receive()
        except StatementError:
            raise
        except BaseException:
            # An answer may still be on its way, which the next command would take for its own. Closing
            # standard input also cancels the statement that is running.
            self.close()
            raise


def run_load(
    spec: Mapping[str, Any],
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    cpu_affinity: Iterable[int] | None = None,
) -> dict[str, Any]:
    """Runs a load to its end.

    Args:
        spec: connect (as for `SqlSession.connect`), script ("select-only", "tpcb", "simple-update" with
            scale, or "oltp_read_only" with a document of that name: the fields of ReadOnlyOptions),
            clients, threads, protocol ("prepared", "simple"), duration_s, warmup_s, seed.
        on_progress: called each second with second (from the start, warm-up included, from 1), warmup (bool)
            and transactions (of that second). When it raises, the load is ended.
        cpu_affinity: the CPUs the load generator may run on; all when None.

    Returns:
        transactions, elapsed_s, start_ns, end_ns, errors, client_cpu_s, per_second,
        per_second_latency_ms (mean and p99 of each second), latency_ms, histogram (base64 of a compressed V2
        HdrHistogram of microseconds), warmup_transactions, late_transactions
        (begun before the end of the measured interval, ended after it, not counted in it).

    Raises:
        StatementError: a server that can't be reached or refuses, or a statement that fails for good.
        UsageError: there is no native binary of this version.
    """
    child = Child("load", cpu_affinity)
    try:
        child.send(spec)
        while True:
            document = child.receive()
            if "record" in document:
                record: dict[str, Any] = document["record"]
                break
            if on_progress is not None:
                on_progress(document["progress"])
    except BaseException:
        child.kill()
        raise
    child.end()
    return record
