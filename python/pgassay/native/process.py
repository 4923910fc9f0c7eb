"""The native binary as a child process that speaks JSON, one document a line.

The native binary is the measuring process: it runs and times every measured statement. What travels
between it and Python is data, and connection parameters, passwords included, go through its standard input
alone. It ends when its standard input closes, so it never outlives the process that started it.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, Self, TypedDict

from pgassay.errors import MeasurementError, UsageError
from pgassay.native.binary import binary
from pgassay.native.other_host import command_on

_EXIT_TIMEOUT_S = 5.0


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


class ErrorsOfState(TypedDict):
    """How many errors a load met with one SQLSTATE, and the first one's message."""

    count: int
    example: str


class NativeProcess:
    """One running command of the native binary; its standard error is kept to explain a crash.

    Args:
        command: "sql", "load", "pgbench", "observe", "probe", "simulate", "volume" or "capture".
        cpu_affinity: the CPUs it may run on; all when None.
        passes_errors: let its standard error be ours, for what the user's scripts write there.
        host: where it runs, as ssh knows it; '' for here.

    Raises:
        UsageError: there is no native binary of this version, or the CPUs can't be used.
    """

    def __init__(
        self,
        command: str,
        cpu_affinity: Iterable[int] | None = None,
        *,
        passes_errors: bool = False,
        host: str = "",
    ):
        words = command_on(host, command) if host else [str(binary()), command]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        try:
            with _affinity(cpu_affinity):
                # A process group of its own: Ctrl-C in a terminal reaches pgassay alone, which ends this.
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if passes_errors else self._errors,
                    process_group=0,
                )
        except BaseException:
            self._errors.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        """Ends it, at once where the conversation broke off."""
        if kind is None:
            self.end()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        """The process's number, e.g. to account for its CPU time."""
        return self._process.pid

    def send(self, document: Mapping[str, object]) -> None:
        """Writes one line; raises MeasurementError when the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._crashed() from error

    def send_lines(self, lines: Iterable[bytes]) -> None:
        """Writes many lines at once, each a document; raises MeasurementError when the process has ended."""
        assert self._process.stdin is not None
        try:
            for line in lines:
                self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._crashed() from error

    def receive(self) -> dict[str, Any]:
        """Waits for one line and reads it.

        Raises:
            StatementError: the line says what the server or the connection refused.
            MeasurementError: the process has ended.
        """
        document = self.receive_line()
        if "error" in document:
            failure = document["error"]
            raise StatementError(
                failure["message"], failure.get("sqlstate"), failure.get("detail"), failure.get("hint")
            )
        return document

    def receive_line(self) -> dict[str, Any]:
        """Waits for one line and reads it, an error's too; raises MeasurementError."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            document = json.loads(line)
        except ValueError as error:
            raise self._crashed() from error
        assert isinstance(document, dict)
        return document

    def last_words(self) -> list[dict[str, Any]]:
        """Closes standard input and reads what the process has yet to say until it ends.

        A line of which the beginning was read already, before an interruption, is left out.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        found = []
        for line in self._process.stdout:
            with suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if isinstance(each, dict)]

    def _crashed(self) -> MeasurementError:
        status = self._wait()
        if status == -signal.SIGKILL:
            return MeasurementError(
                "The native binary was killed, by the kernel when memory ran out, unless you did it: give "
                "the machine, or the container or control group that pgassay runs in, more memory."
            )
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace").strip()
        message = f"The native binary ended unexpectedly (exit status {status})"
        return MeasurementError(f"{message}: {errors}" if errors else f"{message}.")

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
