"""What runs on each machine of a fleet: answers documents, runs `pgassay compare`, hands out its records.

It knows nothing of what carries the documents. Every operation may be repeated: a request whose answer was
lost is asked again. What it was asked and what was recorded lies below its home folder, so that another agent
on the same home, after the worker was killed or the machine was restarted, answers for it.
"""

import base64
import binascii
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue, ValidationError

from pgassay.durable import flush
from pgassay.errors import PgassayError, UsageError
from pgassay.fleet import records
from pgassay.fleet.agent_requests import Document
from pgassay.fleet.machine_runs import PROGRAM, MachineRun, RunRequest, file_place, files_used, runs_below

# A document of this size passes any carrier, and a lost one costs little.
CHUNK_BYTES = 1 << 20
_FACTS_TIMEOUT_S = 60.0
_NOISE_MAX_S = 60.0
Answer = dict[str, JsonValue]


class Agent:
    """Answers for one home folder; from any thread.

    python: begins every command that it runs, where the experiment is to run in other namespaces than the
    worker. is_part_of_host: this worker has a part of its host's cores and memory, beside other workers.
    """

    def __init__(
        self,
        home: Path,
        *,
        is_part_of_host: bool = False,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """Starts nothing."""
        self.home = home.absolute()
        self.is_part_of_host = is_part_of_host
        self._python = tuple(python)
        # An experiment is bound to the thread that started it: this one lives as long as the worker.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="pgassay-spawner")
        self._runs: dict[str, MachineRun] = {}
        self._packed: tuple[str, str, bytes] | None = None
        self._lock = threading.Lock()
        self._operations: Mapping[str, Callable[[Document], Answer]] = {
            "facts": self._facts,
            "have": self._have,
            "put": self._put,
            "plan": self._plan,
            "data": self._data,
            "start": self._start,
            "state": self._state,
            "fetch": self._fetch,
            "stop": self._stop,
            "forget": self._forget,
        }

    def handle(self, document: Document) -> Answer:
        """The answer to a request: the operation's keys, or `error` with a sentence; raises nothing."""
        name = document.get("operation")
        operation = self._operations.get(name) if isinstance(name, str) else None
        if operation is None:
            known = ", ".join(self._operations)
            return {"error": f"{name!r} is not an operation of this pgassay: it knows {known}"}
        try:
            return operation(document)
        except PgassayError as error:
            return {"error": str(error)}
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return {"error": f"{name}: {where}: {first['msg']}"}
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            return {"error": f"{name}: {error.strerror}{place} below {self.home}: fix it on that machine"}

    def close(self) -> None:
        """Ask what runs to end, and wait for it."""
        for run in list(self._runs.values()):
            run.stop()
        for run in list(self._runs.values()):
            run.wait()
        self._spawner.shutdown()

    def _facts(self, document: Document) -> Answer:
        noise_s = document.get("noise_s", 0)
        if (
            isinstance(noise_s, bool)
            or not isinstance(noise_s, int | float)
            or not 0 <= noise_s <= _NOISE_MAX_S
        ):
            raise UsageError(f"noise_s is {noise_s!r}: use 0 to {_NOISE_MAX_S:g} seconds")
        words = [*PROGRAM, "facts", str(noise_s)]
        words += [name for name in ("speed", "storage") if document.get(name)]
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            finished = subprocess.run(
                [*self._python, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={**os.environ, "PGASSAY_HOME": str(self.home)},
                timeout=_FACTS_TIMEOUT_S + noise_s,
                check=False,
            )
            facts: Answer = json.loads(finished.stdout)
        except subprocess.TimeoutExpired:
            raise UsageError(
                "collecting this machine's facts took over a minute: run 'pgassay doctor' there"
            ) from None
        except ValueError:
            said = finished.stderr.decode("utf-8", "replace").strip().splitlines() or ["no error message"]
            raise UsageError(f"this machine can't be examined: {said[-1]}") from None
        return {**facts, "is_part_of_host": self.is_part_of_host, "runs": list(runs_below(self.home))}

    def _have(self, document: Document) -> Answer:
        asked = document.get("files")
        if not isinstance(asked, list):
            raise UsageError("have: files is missing: name checksums")
        return {"files": [sha256 for sha256 in asked if file_place(self.home, str(sha256)).is_file()]}

    def _put(self, document: Document) -> Answer:
        """A part of a file at its offset; the file is there once it is whole and has its checksum."""
        sha256, offset, size = (
            _text(document, "sha256"),
            _count(document, "offset"),
            _count(document, "bytes"),
        )
        place = file_place(self.home, sha256)
        if place.is_file():
            return {"complete": True}
        content = _decoded(document)
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{sha256}.part")
        with self._lock, part.open("r+b" if part.exists() else "w+b") as file:
            file.seek(offset)
            file.write(content)
            file.flush()
            if offset + len(content) < size:
                return {"complete": False}
            file.truncate(size)
            file.seek(0)
            found = hashlib.file_digest(file, "sha256").hexdigest()
            flush(file)
            if found != sha256:
                part.unlink()
                raise UsageError(f"the file {sha256[:12]} arrived damaged: send it again")
            part.replace(place)
        return {"complete": True}

    def _plan(self, document: Document) -> Answer:
        request = RunRequest.model_validate(document.get("request"))
        return {"planned": self._run(document).plan(request, self._spawner)}

    def _start(self, document: Document) -> Answer:
        request = RunRequest.model_validate(document.get("request"))
        run = self._run(document)
        run.start(request, self._spawner)
        return run.state()

    def _data(self, document: Document) -> Answer:
        return self._run(document).ask_about_data(document, self._spawner)

    def _state(self, document: Document) -> Answer:
        return {**self._run(document).state(), "disk_free_bytes": _free_bytes(self.home)}

    def _fetch(self, document: Document) -> Answer:
        """A part of a record from `offset` on, with the size and the checksum of the whole."""
        run, name, offset = self._run(document), _text(document, "name"), _count(document, "offset")
        with self._lock:
            packed = self._packed
            if packed is None or packed[:2] != (run.id, name) or offset == 0:
                packed = (run.id, name, records.pack(run.results, name))
                # Only what takes several answers is worth keeping.
                self._packed = packed if len(packed[2]) > CHUNK_BYTES else None
        content = packed[2]
        return {
            "data": base64.b64encode(content[offset : offset + CHUNK_BYTES]).decode("ascii"),
            "bytes": len(content),
            "sha256": records.checksum(content),
        }

    def _stop(self, document: Document) -> Answer:
        run = self._run(document)
        run.stop()
        return run.state()

    def _forget(self, document: Document) -> Answer:
        """Remove an experiment, and the files that no other one here was given."""
        run = self._run(document)
        run.forget()
        with self._lock:
            self._runs.pop(run.id, None)
        used = files_used(self.home)
        folder = file_place(self.home, "0" * 64).parent
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name not in used:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
        return {"forgotten": True}

    def _run(self, document: Document) -> MachineRun:
        name = _text(document, "id")
        with self._lock:
            return self._runs.setdefault(name, MachineRun(self.home, name, self._python))


def _text(document: Document, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise UsageError(f"{key} is missing or not a text")
    return value


def _count(document: Document, key: str) -> int:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{key} is missing or not a whole number")
    return value


def _decoded(document: Document) -> bytes:
    try:
        return base64.b64decode(_text(document, "data"), validate=True)
    except binascii.Error:
        raise UsageError("data is not base64: send it again") from None


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
