"""Runs of the command line in processes of their own that need not import the libraries each time.

`WarmTool` starts this file as a program, which imports what pgassay imports and then forks a child for every
run. The child is the tool as its user has it: own arguments, environment, outputs, exit status. A second of
processor time for each of a hundred runs is what it saves.
"""

import atexit
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# What compare, resume and report come to import; none of it starts a thread or looks at the environment.
MODULES = (
    "pgassay.cli.main",
    "pgassay.cli.outcome",
    "pgassay.experiment.session",
    "pgassay.report.html",
    "pgassay.report.terminal",
    "hdrh.histogram",
    "psycopg",
    "pyarrow.parquet",
    "rich.console",
    "scipy.special",
)


class WarmTool:
    """The client's side; `run` starts the program when it is needed, and again when it was lost."""

    def __init__(self, source: Path) -> None:
        """`source` is the folder that holds the package pgassay."""
        self._source = source
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], timeout_s: float
    ) -> "subprocess.CompletedProcess[str]":
        """As `subprocess.run` of `pgassay words…`, its outputs as text; killed after `timeout_s`."""
        with tempfile.TemporaryDirectory(prefix="pgassay-outputs-") as folder:
            outputs = [Path(folder) / name for name in ("stdout", "stderr")]
            request = {
                "words": list(words),
                "environment": dict(environment),
                "folder": str(Path.cwd()),
                "outputs": [str(path) for path in outputs],
                "timeout_s": timeout_s,
            }
            status = self._ask(request)
            return subprocess.CompletedProcess(words, status, *(path.read_text() for path in outputs))

    def _ask(self, request: dict[str, Any]) -> int:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
        except BaseException:
            # Its answer may still come, and would be taken for the next one's.
            self.end()
            raise
        return status

    def _start(self) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(self._source)},
            text=True,
        )
        return self._process

    def end(self) -> None:
        """End the program and a run that it waits for."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None


def _serve() -> None:
    for name in MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        print(_status_of(child, request["timeout_s"]), flush=True)


def _status_of(child: int, timeout_s: float) -> int:
    """Wait for it as `subprocess.run` does: killed after the time, or when this program is to end."""

    def kill(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, kill), signal.signal(signal.SIGTERM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before[0])
    signal.signal(signal.SIGTERM, before[1])
    return status


def _become(request: dict[str, Any]) -> None:
    """The child: never returns."""
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDONLY)
        opened = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in request["outputs"]]
        for number, descriptor in enumerate((nowhere, *opened)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        sys.argv = ["pgassay", *request["words"]]
        status = importlib.import_module("pgassay.cli.main").main(request["words"])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter itself would
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
