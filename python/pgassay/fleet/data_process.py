"""The process of an agent that answers about an experiment's data, one question after the other."""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue

from pgassay.errors import UsageError
from pgassay.fleet.agent_requests import Document

_END_S = 30.0


class DataProcess:
    """`pgassay.cli.fleet_worker data`, from the first question until it is ended, or nobody asks for long.

    From any thread; a second question waits for the answer to the first.
    """

    def __init__(
        self,
        program: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        spawner: ThreadPoolExecutor,
    ) -> None:
        """folder: in which it looks for files. spawner: has the one thread that lives as long as this."""
        self._lock = threading.Lock()
        self._log = folder / "data.log"
        self._process = spawner.submit(self._spawn, program, folder, environment).result()

    def _spawn(
        self, program: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*program, "data", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        """Whether it answers no more."""
        return self._process.poll() is not None

    def ask(self, document: Document) -> dict[str, JsonValue]:
        """The answer; raises UsageError where it has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(dict(document)).encode() + b"\n")
                self._process.stdin.flush()
                answer: dict[str, JsonValue] = json.loads(self._process.stdout.readline())
            except (OSError, ValueError) as error:
                said = self._log.read_text("utf-8", "replace").strip().splitlines()[-1:]
                raise UsageError(f"its data can't be read: {''.join(said) or 'it has ended'}") from error
        return answer

    def end(self) -> None:
        """Let it end: it removes what did not arrive, and gives the host's lock back."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # It makes data, which takes as long as it takes, and nobody wants them any more.
            self._process.terminate()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
