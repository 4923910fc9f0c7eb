"""One experiment on this machine: its folder, its process, how far it is."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from pgassay.durable import replace_file
from pgassay.errors import UsageError
from pgassay.fleet import records
from pgassay.fleet.agent_requests import Document
from pgassay.fleet.data_process import DataProcess
from pgassay.model.base import Frozen
from pgassay.record import layout
from pgassay.record.experiment import load_state
from pgassay.record.experiment_lock import is_held

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REQUEST_FILE, _PROGRESS_FILE, _OUTPUT_FILE = "request.json", "progress.txt", "output.json"
_RESULTS, _FILES = "results", "files"
_TAIL_BYTES = 4096
_PLAN_TIMEOUT_S = 240.0
_NAMED = "pgassay: "
PROGRAM = ("-m", "pgassay.cli.fleet_worker")
State = Literal["unknown", "running", "ended", "failed", "interrupted"]


class RunRequest(Frozen):
    """What is to be run: the words of `pgassay compare` without those that the machine adds itself.

    files: the checksums of files by the path, below the folder in which the command runs, where it looks for
    them. blocks, max_time_s: when the machine stops by itself; also before, as soon as all is decided, where
    `until_decided`. strata: of a grid those that it runs, all where there are none. decided_rest: arms that
    are decided take no part in further blocks, which is so where no number of blocks is named.
    """

    words: tuple[str, ...]
    seed: int
    blocks: int
    max_time_s: float
    files: dict[str, str] = Field(default_factory=dict)
    strata: tuple[str, ...] = ()
    until_decided: bool = False
    decided_rest: bool = False


@dataclass
class MachineRun:
    """One experiment below `home`; `python` begins every command that is run for it."""

    home: Path
    id: str
    python: Sequence[str] = (sys.executable,)
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _data: DataProcess | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises UsageError for an id that is no name of a folder."""
        if not _ID.fullmatch(self.id):
            raise UsageError(
                f"{self.id!r} is not a name of an experiment: use lower-case letters, digits and '-'"
            )

    @property
    def folder(self) -> Path:
        """Where everything of it lies."""
        return self.home / "fleet" / "runs" / self.id

    @property
    def results(self) -> Path:
        """The experiment's own folder."""
        return self.folder / _RESULTS

    def start(self, request: RunRequest, spawner: ThreadPoolExecutor) -> None:
        """Begin it, or go on with it where it was interrupted; nothing where it runs, or has used its limits.

        spawner: has the one thread that lives as long as this process. Raises UsageError where a file has not
        been put here before.
        """
        with self._lock:
            if self._is_running() or (
                self._stopped() in ("blocks", "max-time") and not self._has_more(request)
            ):
                return
            self._end_data()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._place_files(request)
            replace_file(self.folder / _REQUEST_FILE, request.model_dump_json().encode())
            self._process = spawner.submit(self._spawn, self._words(request)).result()

    def plan(self, request: RunRequest, spawner: ThreadPoolExecutor) -> JsonValue:
        """What the experiment would take here, the document of `--plan --json`; nothing is measured.

        Raises UsageError where a file is missing, and with the sentence of a refusal.
        """
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._place_files(request)
            words = ["compare", *request.words, *_limits(request), "--plan", "--json"]
            process = spawner.submit(self._spawn, words).result()
        try:
            process.wait(_PLAN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            raise UsageError(
                f"its plan took over {_PLAN_TIMEOUT_S:g} s: is another experiment running there?"
            ) from None
        try:
            document: JsonValue = json.loads((self.folder / _OUTPUT_FILE).read_bytes())
        except ValueError:
            said = _last_line(self.folder / _PROGRESS_FILE).removeprefix(_NAMED)
            raise UsageError(said or f"its plan ended with exit status {process.returncode}") from None
        return document

    def ask_about_data(self, document: Document, spawner: ThreadPoolExecutor) -> dict[str, JsonValue]:
        """The answer of `pgassay.fleet.experiment_data`; a `survey` begins its process, `end` ends it.

        Raises UsageError as `start`, and where nothing was surveyed.
        """
        ask = document.get("ask")
        with self._lock:
            if ask in ("survey", "end"):
                self._end_data()
            if ask == "end":
                return {}
            if ask == "survey":
                request = RunRequest.model_validate(document.get("request"))
                self.folder.mkdir(parents=True, exist_ok=True)
                self._place_files(request)
                program = [*self.python, *PROGRAM]
                self._data = DataProcess(program, self.folder, self._environment(), spawner)
                document = {"ask": "survey", "words": [*request.words, *_strata(request)]}
            if self._data is None:
                raise UsageError("nobody asked this machine before which data it has: ask for a survey")
            data = self._data
        return data.ask(document)

    def stop(self) -> None:
        """Ask it to end; it stops its server, which takes seconds, and keeps its records."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the processes that were started here have ended."""
        with self._lock:
            self._end_data()
        if self._process is not None:
            self._process.wait()

    def forget(self) -> None:
        """Remove all that it left here; raises UsageError while it runs."""
        with self._lock:
            if self._is_running():
                raise UsageError(f"{self.id} is running: stop it first")
            self._end_data()
            shutil.rmtree(self.folder, ignore_errors=True)

    def state(self) -> dict[str, JsonValue]:
        """How far it is: `state`, `stopped` as its own folder says, `sentence`, `progress`, `records`."""
        with self._lock:
            state, sentence = self._state()
            return {
                "state": state,
                "stopped": self._stopped(),
                "sentence": sentence,
                "progress": _last_line(self.folder / _PROGRESS_FILE),
                "records": list(records.pieces(self.results)) if self.results.is_dir() else [],
            }

    def _end_data(self) -> None:
        """Let the process that answers about its data end."""
        if self._data is not None:
            self._data.end()
            self._data = None

    def _state(self) -> tuple[State, str]:
        if not (self.folder / _REQUEST_FILE).is_file():
            return "unknown", ""
        if self._is_running():
            return "running", ""
        stopped = self._stopped()
        status = self._process.poll() if self._process is not None else None
        if stopped in ("blocks", "max-time", "decided") and not status:
            return "ended", ""
        if stopped != "failed" and status in (None, 0, 130, -signal.SIGTERM, -signal.SIGKILL):
            return "interrupted", ""
        said = _last_line(self.folder / _PROGRESS_FILE)
        if stopped == "failed" and not said.startswith(_NAMED):
            return "failed", f"its blocks could not be completed; at the end: {said}"
        return "failed", said.removeprefix(_NAMED) or f"pgassay ended with exit status {status}"

    def _is_running(self) -> bool:
        if self._process is not None and self._process.poll() is None:
            return True
        # One that an earlier worker started may still be stopping its servers.
        return self.results.is_dir() and is_held(self.results)

    def _stopped(self) -> str:
        if not (self.results / layout.EXPERIMENT_FILE).is_file():
            return ""
        return load_state(self.results)[0]

    def _has_more(self, request: RunRequest) -> bool:
        """Whether the limits are wider than those that it ran with."""
        try:
            earlier = RunRequest.model_validate_json((self.folder / _REQUEST_FILE).read_bytes())
        except (OSError, ValidationError):
            return True
        return request.blocks > earlier.blocks or request.max_time_s > earlier.max_time_s

    def _place_files(self, request: RunRequest) -> None:
        for name, sha256 in request.files.items():
            place = self.folder / name
            stored = file_place(self.home, sha256)
            if Path(name).is_absolute() or ".." in Path(name).parts or name.split("/")[0] == _RESULTS:
                raise UsageError(f"{name} is not a path below the experiment's folder: name it without '..'")
            if not stored.is_file():
                raise UsageError(f"{name} has not been sent to this machine: put it there first")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(stored)

    def _words(self, request: RunRequest) -> list[str]:
        limits = _limits(request)
        if (self.results / layout.EXPERIMENT_FILE).is_file():
            return ["resume", str(self.results), *limits, "--json"]
        added = ["--seed", str(request.seed), "--out", str(self.results), "--json"]
        added += [] if request.until_decided else ["--all-blocks"]
        return ["compare", *request.words, *limits, *added, *_strata(request)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PGASSAY_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}

    def _spawn(self, words: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (
            (self.folder / _OUTPUT_FILE).open("wb") as output,
            (self.folder / _PROGRESS_FILE).open("wb") as progress,
        ):
            return subprocess.Popen(
                [*self.python, *PROGRAM, "run", str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=progress,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
            )


def _strata(request: RunRequest) -> list[str]:
    return [f"--stratum={name}" for name in request.strata]


def _limits(request: RunRequest) -> list[str]:
    blocks = [] if request.decided_rest else ["--blocks", str(request.blocks)]
    return [*blocks, "--max-time", f"{request.max_time_s:.3f}s"]


def file_place(home: Path, sha256: str) -> Path:
    """Where a file of this checksum is kept; raises UsageError for what is no checksum."""
    if not _SHA256.fullmatch(sha256):
        raise UsageError(f"{sha256!r} is not a SHA-256: write 64 hexadecimal digits")
    return home / "fleet" / _FILES / sha256


def runs_below(home: Path) -> list[str]:
    """The ids of all experiments that left something here."""
    parent = home / "fleet" / "runs"
    return (
        sorted(path.name for path in parent.iterdir() if _ID.fullmatch(path.name)) if parent.is_dir() else []
    )


def files_used(home: Path) -> set[str]:
    """The checksums of the files that experiments here were given."""
    used: set[str] = set()
    for name in runs_below(home):
        try:
            request = json.loads((home / "fleet" / "runs" / name / _REQUEST_FILE).read_bytes())
        except (OSError, ValueError):
            continue
        used.update(request.get("files", {}).values())
    return used


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
