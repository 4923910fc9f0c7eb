"""Runs of the command line in processes of their own that need not import the libraries each time.

`WarmTool` starts this file as a program, which imports what pgassay imports and then forks a child for each
run. The child is the tool as its user has it: own arguments, environment, outputs, exit status. Only the
engine that turns charts into pictures is not its own: it can't be forked, so a process that stays has it. Nor
does it draw where no test looks: the nine pictures of a page take as long as some trials, so a run has blank
ones unless it asks for `pictures`. Runs that this file does not start draw theirs. The child waits for what
other programs write as long as the test does (`pytest_runtest_setup` of conftest.py).
Two seconds of processor time for each of a hundred runs is what all this saves.
"""

import atexit
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import ModuleType
from typing import Any

from beside_others import shared_machine

# What compare, resume and report come to import; none of it starts a thread or looks at the environment.
MODULES = (
    "pgassay.cli.main",
    "pgassay.cli.outcome",
    "pgassay.experiment.running.run_experiment",
    "pgassay.report.compare.page",
    "hdrh.histogram",
    "psycopg",
    "pyarrow.parquet",
    "rich.console",
    "scipy.special",
)
# What two commands import besides, half as much again: once in a worker whose tests run them.
OF_COMMANDS = {"tune": "pgassay.tune.run_tune", "upgrade": "pgassay.upgrade.run_upgrade"}


class WarmTool:
    """The client's side; `run` starts the program when it is needed, and again when it was lost."""

    def __init__(self, source: Path) -> None:
        """`source` is the folder that holds the package pgassay."""
        self._source = source
        self._process: subprocess.Popen[str] | None = None

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float,
        *,
        pictures: bool,
        group: Path | None = None,
        constants: Mapping[str, float] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """As `subprocess.run` of `pgassay words…`, its outputs as text; killed after `timeout_s`.

        `group`: the control group that a shell has joined which starts it. `constants`: values of the
        modules' constants in this run alone, by their full names.
        """
        with tempfile.TemporaryDirectory(prefix="pgassay-outputs-") as folder:
            outputs = [Path(folder) / name for name in ("stdout", "stderr")]
            request = {
                "words": list(words),
                "environment": dict(environment),
                "folder": str(Path.cwd()),
                "outputs": [str(path) for path in outputs],
                "timeout_s": timeout_s,
                "pictures": pictures,
                "group": str(group) if group else None,
                "constants": dict(constants or {}),
                "shares_machine": shared_machine.is_shared(),
                "flushes": shared_machine.flushes(),
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


class _Drawer(ModuleType):
    """Stands where vl_convert would: pictures come from the process that stays, all else from the library.

    Without the address of that process they are blank.
    """

    def __init__(self, address: str | None) -> None:
        super().__init__("vl_convert")
        self._address = address
        self._connection: Connection | None = None

    def vegalite_to_svg(self, chart: str) -> str:
        if self._address is None:
            return "<svg></svg>"
        if self._connection is None:
            self._connection = Client(self._address)
        self._connection.send(chart)
        drawn = self._connection.recv()
        if isinstance(drawn, Exception):
            raise drawn
        return str(drawn)

    def __getattr__(self, name: str) -> Any:
        sys.modules.pop("vl_convert", None)
        return getattr(importlib.import_module("vl_convert"), name)


def _draw(address: str) -> None:
    """The process that stays: answers one connection after the other until it is ended."""
    library = importlib.import_module("vl_convert")
    with Listener(address) as listener:
        print("ready", flush=True)
        while True:
            with listener.accept() as connection, contextlib.suppress(EOFError, OSError):
                while True:
                    chart = connection.recv()
                    try:
                        connection.send(library.vegalite_to_svg(chart))
                    except ValueError as error:
                        connection.send(error)


@contextlib.contextmanager
def _drawing() -> Iterator[str]:
    """The address of a process that draws, for as long as the block lasts."""
    # Not a TemporaryDirectory: each forked child would remove it at its exit.
    folder = tempfile.mkdtemp(prefix="pgassay-drawer-")
    address = f"{folder}/socket"
    words = [sys.executable, __file__, address]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield address
        finally:
            process.kill()
            shutil.rmtree(folder)


def _serve() -> None:
    for name in MODULES:
        importlib.import_module(name)
    page = importlib.import_module("pgassay.report.html.page")
    page.environment().get_template("page.html.jinja")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with _drawing() as address:
        _answer(address)


def _answer(address: str) -> None:
    """Fork a child for each request on standard input."""
    for line in sys.stdin:
        request = json.loads(line)
        # One that can't be imported is told by the run itself.
        with contextlib.suppress(ImportError):
            importlib.import_module(OF_COMMANDS.get("".join(request["words"][:1]), MODULES[0]))
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sys.modules["vl_convert"] = _Drawer(address if request["pictures"] else None)
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
        if request["group"]:
            Path(request["group"], "cgroup.procs").write_text(str(os.getpid()))
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        shared_machine.set_shared(is_shared=request["shares_machine"])
        shared_machine.set_flushing(flushes=request["flushes"])
        for constant, value in request["constants"].items():
            module, _, name = constant.rpartition(".")
            # One that the module does not have would be of no effect.
            assert hasattr(importlib.import_module(module), name), constant
            setattr(sys.modules[module], name, value)
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
    if len(sys.argv) > 1:
        _draw(sys.argv[1])
    else:
        _serve()
