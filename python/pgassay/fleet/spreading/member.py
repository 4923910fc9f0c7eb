"""One machine of a spread experiment, as its coordinator knows it: asked, started, stopped, brought home."""

import base64
import binascii
import hashlib
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from pgassay.errors import MeasurementError, UsageError
from pgassay.fleet import records
from pgassay.fleet.agent import CHUNK_BYTES
from pgassay.fleet.agent_requests import Document, FleetMachine, MachineLostError
from pgassay.fleet.machine_runs import RunRequest
from pgassay.model.machines.spread import SpreadFile, SpreadRun
from pgassay.model.result import Planned
from pgassay.record import layout
from pgassay.record.experiment import (
    StoredExperiment,
    load,
    load_block_plan,
    load_state,
    load_trial,
    remove_unfinished,
)

# A start that brings no further trial is tried again so often: machines are restarted, not all the time.
_STARTS_IN_VAIN_MAX = 3
_FETCHES_MAX = 3
FACTS_TIMEOUT_S = 120.0
PLAN_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Visit:
    """What a visit found: `state` as the machine says, 'lost', or 'forgotten' where it knows of nothing that
    came home before. new: the trials that came home. sentence: why it failed."""

    state: str
    stopped: str = ""
    sentence: str = ""
    progress: str = ""
    new: int = 0
    disk_free_bytes: int | None = None

    def words_of_end(self, name: str, folder: Path) -> list[str]:
        """What a person should know of a machine that is lost at the end, or ended before the others."""
        if self.state == "lost":
            return [
                f"{name} did not answer at the end: 'pgassay resume {shlex.quote(str(folder))}' fetches what "
                "it finished."
            ]
        return [f"{name} ended early: {self.sentence.rstrip('.')}."] if self.state == "failed" else []


class Member:
    """Not for two threads at once."""

    def __init__(self, machine: FleetMachine, folder: Path, runs: tuple[SpreadRun, ...]) -> None:
        """folder: of the whole experiment; what came home before is found there."""
        self.machine, self.runs = machine, runs
        self._folder = folder
        self._present: set[str] = set()
        self._starts_in_vain = self._brought = 0
        self.experiments: dict[str, StoredExperiment] = {}
        for run in runs:
            self._open(run)

    @property
    def name(self) -> str:
        """How the user calls the machine."""
        return self.machine.name

    @property
    def run(self) -> SpreadRun:
        """The run that goes on."""
        return self.runs[-1]

    def home(self, run: SpreadRun) -> Path:
        """Where a run comes home."""
        return self._folder / run.folder

    def begin(self, run: SpreadRun) -> None:
        """From now on this run is the one that goes on."""
        self.runs = (*self.runs, run)
        self._starts_in_vain = 0
        self._open(run)

    def plan(self, request: RunRequest, files: Mapping[str, SpreadFile]) -> Planned:
        """What the experiment would take there, unmeasured.

        Raises MachineLostError, MeasurementError with the sentence of a refusal, and UsageError for an answer
        that is no plan.
        """
        self._send(files)
        document: Document = {
            "operation": "plan",
            "id": self.run.id,
            "request": request.model_dump(mode="json"),
        }
        answer = _answer(self.machine.request(document, timeout_s=PLAN_TIMEOUT_S))
        try:
            return Planned.model_validate(answer.get("planned"))
        except ValidationError as error:
            raise UsageError(f"{self.name} answered with no plan ({error.errors()[0]['msg']})") from error

    def seconds_used_before(self) -> float:
        """What the runs before the one that goes on took, as far as they came home."""
        homes = [self.home(run) for run in self.runs[:-1]]
        return sum(load_state(home)[1] for home in homes if (home / layout.EXPERIMENT_FILE).is_file())

    def visit(self, request: RunRequest, files: Mapping[str, SpreadFile], *, stops: bool) -> Visit:
        """Start what does not run, or with `stops` stop what does; bring home what is finished.

        Raises nothing but programming errors: a machine that is away is 'lost', one that refuses 'failed'.
        """
        self._brought = 0
        try:
            answer = self._asked(operation="state")
            state = str(answer.get("state"))
            if stops:
                answer = self._asked(operation="stop") if state == "running" else answer
            elif state == "unknown" and self._present:
                return Visit("forgotten")
            elif self._is_to_be_started(state, request):
                self._send(files)
                self._starts_in_vain += 1
                answer = self._asked(operation="start", request=request.model_dump(mode="json"))
            return self._brought_home(answer)
        except MachineLostError:
            return Visit("lost", new=self._brought)
        except (MeasurementError, UsageError) as error:
            # It is visited no more, so what it runs would go on with nobody to stop it.
            with suppress(MeasurementError):
                self._asked(operation="stop")
            return Visit("failed", sentence=str(error), new=self._brought)
        except OSError as error:
            # Nothing that came is lost on the machine: the disk that is full is the coordinator's.
            raise MeasurementError(
                f"can't record what {self.name} finished in {self.home(self.run)} ({error.strerror}): free "
                f"some space and continue with 'pgassay resume {shlex.quote(str(self._folder))}'"
            ) from error

    def at_home(self) -> list[tuple[str, StoredExperiment]]:
        """By the id of its run each experiment of which something came home; a copy, for another thread."""
        return list(self.experiments.items())

    def survey(self, request: RunRequest, files: Mapping[str, SpreadFile], *, timeout_s: float) -> Document:
        """Which data it needs and has, after what it makes them from is there; raises as `about_data`."""
        self._send(files)
        return self.about_data("survey", {"request": request.model_dump(mode="json")}, timeout_s=timeout_s)

    def about_data(
        self, ask: str, document: Mapping[str, JsonValue] | None = None, *, timeout_s: float = 60.0
    ) -> Document:
        """The answer to a question about its data; raises MachineLostError, MeasurementError."""
        asked: Document = {**(document or {}), "operation": "data", "id": self.run.id, "ask": ask}
        return _answer(self.machine.request(asked, timeout_s=timeout_s))

    def forget(self) -> None:
        """Let the machine remove what came home; one that is away keeps it."""
        for run in self.runs:
            try:
                self.machine.request({"operation": "forget", "id": run.id})
            except MachineLostError:
                return

    def _open(self, run: SpreadRun) -> None:
        home = self.home(run)
        if home.is_dir():
            remove_unfinished(home)
        self._present = set(records.pieces(home)) - {records.CHANGING} if home.is_dir() else set()
        if layout.EXPERIMENT_FILE in self._present:
            self.experiments[run.id] = load(home)

    def _is_to_be_started(self, state: str, request: RunRequest) -> bool:
        if state in ("unknown", "interrupted"):
            if self._starts_in_vain >= _STARTS_IN_VAIN_MAX:
                raise MeasurementError(f"it ended {_STARTS_IN_VAIN_MAX} times without another trial")
            return True
        # Who resumes a failed experiment has mended something.
        if state == "failed" and self._starts_in_vain == 0:
            return True
        # One that used up its limits goes on where they are wider now.
        stored = self.experiments.get(self.run.id)
        if state == "ended" and stored is not None and self._starts_in_vain == 0:
            contract = stored.experiment.contract
            return request.blocks > contract.blocks_max or request.max_time_s > contract.time_max_s
        return False

    def _asked(self, **document: JsonValue) -> Document:
        """The answer about the run that goes on; raises MeasurementError with the sentence of a refusal."""
        return _answer(self.machine.request({"id": self.run.id, **document}))

    def _send(self, files: Mapping[str, SpreadFile]) -> None:
        """The files that the machine has not, in parts, each with the checksum of the whole."""
        wanted: dict[str, SpreadFile] = {file.sha256: file for file in files.values()}
        if not wanted:
            return
        have = self._asked(operation="have", files=list(wanted)).get("files")
        for sha256, file in wanted.items():
            if not isinstance(have, list) or sha256 not in have:
                self._send_one(file)

    def _send_one(self, file: SpreadFile) -> None:
        with Path(file.source).open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                raise MeasurementError(
                    f"{file.source} has changed since the experiment started: restore it, or start again"
                )
            for offset in range(0, max(file.bytes, 1), CHUNK_BYTES):
                opened.seek(offset)
                data = base64.b64encode(opened.read(CHUNK_BYTES)).decode("ascii")
                self._asked(operation="put", sha256=file.sha256, offset=offset, bytes=file.bytes, data=data)

    def _brought_home(self, answer: Document) -> Visit:
        state, names = str(answer.get("state")), answer.get("records")
        stopped = "running" if state == "running" else str(answer.get("stopped"))
        # One that was killed had no time to say so.
        if state in ("interrupted", "failed") and stopped in ("", "running"):
            stopped = "interrupted"
        new: list[str] = []
        is_all = False
        try:
            for name in names if isinstance(names, list) else []:
                if not isinstance(name, str) or name in self._present:
                    continue
                if name == records.CHANGING and state == "running":
                    continue
                records.unpack(self.home(self.run), name, self._fetched(name))
                if name != records.CHANGING:
                    self._present.add(name)
                    new.append(name)
            is_all = True
        finally:
            # What came before the machine was lost is here.
            self._brought = self._read(new, stopped if is_all else "running")
        if self._brought:
            self._starts_in_vain = 0
        free = answer.get("disk_free_bytes")
        return Visit(
            state,
            stopped=str(answer.get("stopped", "")),
            sentence=str(answer.get("sentence", "")),
            progress=str(answer.get("progress", "")),
            new=self._brought,
            disk_free_bytes=free if isinstance(free, int) else None,
        )

    def _fetched(self, name: str) -> bytes:
        """A record, whole; raises MeasurementError where it arrives damaged time and again."""
        for _ in range(_FETCHES_MAX):
            content, checksums = bytearray(), set()
            while True:
                answer = self._asked(operation="fetch", name=name, offset=len(content))
                part = _decoded(answer)
                content += part
                checksums.add(answer.get("sha256"))
                if not part or len(content) == answer.get("bytes"):
                    break
            if checksums == {records.checksum(bytes(content))}:
                return bytes(content)
        raise MeasurementError(f"{name} arrived damaged {_FETCHES_MAX} times: check the network")

    def _read(self, names: list[str], stopped: str) -> int:
        """Take the new pieces into the experiment in memory; the number of trials among them.

        stopped: '' where the machine knows nothing of it any more.
        """
        home, run = self.home(self.run), self.run
        stored = self.experiments.get(run.id)
        trials = [name for name in names if records.is_trial(name)]
        if stored is None:
            if layout.EXPERIMENT_FILE in self._present:
                stored = load(home)
        else:
            plans = {
                plan.block: plan
                for plan in (
                    load_block_plan(home / name)
                    for name in names
                    if name.startswith(f"{layout.BLOCKS_FOLDER}/")
                )
            }
            stored = replace(
                stored,
                trials=(*stored.trials, *(load_trial(home / name) for name in trials)),
                block_plans={**stored.block_plans, **plans},
            )
        if stored is not None:
            self.experiments[run.id] = replace(stored, stopped=stopped or stored.stopped)
        return len(trials)


def facts_of(machine: FleetMachine, *, noise_s: float, with_storage: bool) -> Document:
    """What a machine says of itself, its speeds included; raises MachineLostError, MeasurementError."""
    document: Document = {"operation": "facts", "noise_s": noise_s, "speed": True, "storage": with_storage}
    return _answer(machine.request(document, timeout_s=FACTS_TIMEOUT_S))


def _answer(answer: Document) -> Document:
    if "error" in answer:
        raise MeasurementError(str(answer["error"]))
    return answer


def _decoded(answer: Document) -> bytes:
    try:
        return base64.b64decode(str(answer.get("data", "")), validate=True)
    except binascii.Error:
        return b""
