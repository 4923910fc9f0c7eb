"""The data of an experiment on one machine of a fleet: what it needs and has; made, sent and taken there.

Runs as a process of its own, `python -m pgassay.cli.fleet_worker data PARENT`, which answers documents, one
JSON text a line, as long as it is asked. It holds the host's lock meanwhile, so that no measurement is
disturbed by a copy, and removes what did not arrive when it ends.
"""

import base64
import binascii
import json
import os
import platform
import re
import select
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from pydantic import JsonValue, TypeAdapter, ValidationError

from pgassay.environment import datasets, lock
from pgassay.environment.cleanup import registry
from pgassay.environment.datasets import snapshot_transfer, snapshots
from pgassay.errors import PgassayError, UsageError
from pgassay.fleet.agent_requests import Document
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Experiment

Answer = dict[str, JsonValue]
Plan = Callable[[Sequence[str]], Experiment]
# Nobody asks any more: the coordinator was killed, or is away for longer than it waits for another machine.
IDLE_S = 180.0
# Pages of tables become a third of their size with the least effort; more takes the machine longer than any
# network that would gain from it.
_EFFORT = 1
_PROBE_BYTES_MAX = snapshot_transfer.PART_BYTES
_WORDS = TypeAdapter(tuple[str, ...])


@dataclass
class MachineData:
    """Answers about one experiment, whose plan `plan` makes of its words; a context manager."""

    plan: Plan
    _specs: dict[str, ArmSpec] = field(default_factory=dict)
    _manifests: dict[str, snapshot_transfer.Manifest] = field(default_factory=dict)
    _arrivals: dict[str, snapshot_transfer.Arrival] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "MachineData":
        return self

    def __exit__(self, *_: object) -> None:
        for arrival in self._arrivals.values():
            arrival.end(is_whole=False)
        self._arrivals.clear()
        self._stack.close()

    def handle(self, document: Document) -> Answer:
        """The answer to a question: its keys, or `error` with a sentence; raises nothing."""
        asked: Mapping[str, Callable[[Document], Answer]] = {
            "survey": self._survey,
            "make": self._make,
            "echo": self._echo,
            "pack": self._pack,
            "part": self._part,
            "take": self._take,
            "put": self._put,
            "drop": self._drop,
        }
        name = document.get("ask")
        if not isinstance(name, str) or name not in asked:
            return {"error": f"data: {name!r} is not a question of this pgassay"}
        try:
            return asked[name](document)
        except PgassayError as error:
            return {"error": str(error)}
        except ValidationError as error:
            return {"error": f"data: {name}: {error.errors()[0]['msg']}"}
        except (ValueError, binascii.Error, zlib.error) as error:
            return {"error": f"data: {name}: {error}"}
        except OSError as error:
            return {"error": f"data: {name}: {error.strerror} ({error.filename}): fix it on that machine"}

    def _survey(self, document: Document) -> Answer:
        """Which snapshots the experiment needs, which are here, and how long the others would take."""
        words = _WORDS.validate_python(document.get("words"), strict=False)

        def refuse(_holder: int | None) -> None:
            """Nobody waits here."""

        self._stack.enter_context(lock.acquire(wait=False, on_wait=refuse))
        registry.sweep()
        experiment = self.plan(words)
        for arm in experiment.arms:
            self._specs.setdefault(_key(arm.spec), arm.spec)
        return {
            # Loads that count as independent must be made on each machine for itself.
            "is_one_load": experiment.dataset_loads == 1,
            "snapshots": [_described(key, spec) for key, spec in self._specs.items()],
            "builds": {
                f"{arm.spec.build.origin} {arm.spec.build.version}": arm.spec.build.binary_sha256[:12]
                for arm in experiment.arms
            },
            "settings": _settings(experiment),
        }

    def _make(self, document: Document) -> Answer:
        spec = self._spec(document)
        snapshots.ensure(spec.build, spec.dataset, spec.prepare, lambda *_: None)
        return _described(_key(spec), spec)

    def _echo(self, document: Document) -> Answer:
        """As many bytes as a part has, to measure the way: taken where they are in the document."""
        size = document.get("bytes", 0)
        if not isinstance(size, int) or not 0 <= size <= _PROBE_BYTES_MAX:
            raise UsageError(f"data: echo: use 0 to {_PROBE_BYTES_MAX} bytes")
        with Path("/dev/urandom").open("rb") as random:
            return {"data": base64.b64encode(random.read(size)).decode("ascii")}

    def _pack(self, document: Document) -> Answer:
        key = _key(self._spec(document))
        manifest = snapshot_transfer.manifest_of(self._snapshot(key))
        self._manifests[key] = manifest
        text = zlib.compress(manifest.model_dump_json().encode(), _EFFORT)
        return {
            "manifest": base64.b64encode(text).decode("ascii"),
            "parts": manifest.parts,
            "bytes": manifest.bytes,
        }

    def _part(self, document: Document) -> Answer:
        key, number = _key(self._spec(document)), _count(document, "number")
        if key not in self._manifests or number >= self._manifests[key].parts:
            raise UsageError(f"data: {key} has no part {number}")
        content = snapshot_transfer.read_part(self._snapshot(key), self._manifests[key], number)
        packed = zlib.compress(content, _EFFORT)
        return {
            "data": base64.b64encode(packed).decode("ascii"),
            "sha256": snapshot_transfer.checksum(content),
        }

    def _take(self, document: Document) -> Answer:
        """Begin to take a snapshot; `arrived`: how many parts are here, where it was begun before."""
        key = _key(self._spec(document))
        if key not in self._arrivals:
            text = zlib.decompress(base64.b64decode(str(document.get("manifest")), validate=True))
            self._arrivals[key] = snapshot_transfer.Arrival(
                key, snapshot_transfer.Manifest.model_validate_json(text)
            )
        return {"arrived": self._arrivals[key].arrived}

    def _put(self, document: Document) -> Answer:
        """Take a part; with the last one the snapshot is here. `damaged`: send it again."""
        key, number = _key(self._spec(document)), _count(document, "number")
        if snapshots.find(key) is not None and key not in self._arrivals:
            return {"damaged": False, "complete": True}
        arrival = self._arrivals.get(key)
        if arrival is None:
            raise UsageError(f"data: {key} is not on its way to this machine")
        try:
            content = zlib.decompress(base64.b64decode(str(document.get("data")), validate=True))
        except (ValueError, zlib.error):
            return {"damaged": True, "complete": False}
        try:
            is_whole = arrival.take(number, content, str(document.get("sha256")))
            if arrival.arrived == arrival.manifest.parts:
                arrival.end(is_whole=True)
                del self._arrivals[key]
        except PgassayError:
            self._drop(document)
            raise
        return {"damaged": not is_whole, "complete": key not in self._arrivals}

    def _drop(self, document: Document) -> Answer:
        arrival = self._arrivals.pop(_key(self._spec(document)), None)
        if arrival is not None:
            arrival.end(is_whole=False)
        return {}

    def _spec(self, document: Document) -> ArmSpec:
        key = document.get("key")
        if not isinstance(key, str) or key not in self._specs:
            raise UsageError(f"data: {key!r} is not data of this experiment")
        return self._specs[key]

    def _snapshot(self, key: str) -> snapshots.Snapshot:
        found = snapshots.find(key)
        if found is None:
            raise UsageError(f"data: {key} is not on this machine")
        return found


def _settings(experiment: Experiment) -> dict[str, JsonValue]:
    """Each setting that arms are given, with all its values: what a machine's memory decides may differ."""
    values: dict[str, dict[str, None]] = {}
    for arm in experiment.arms:
        for name, value in arm.spec.settings.items():
            values.setdefault(name, {})[value] = None
    return {name: " or ".join(found) for name, found in values.items()}


def _key(spec: ArmSpec) -> str:
    return snapshots.key(spec.build, spec.dataset, spec.prepare)


def _count(document: Document, name: str) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"data: {name} is missing or not a whole number")
    return value


def _described(key: str, spec: ArmSpec) -> Answer:
    found = snapshots.find(key)
    layers = [()] if not spec.prepare else [(), spec.prepare]
    made = [_made_s(spec, prepare) for prepare in layers]
    return {
        "key": key,
        "called": datasets.describe(spec.dataset),
        "is_here": found is not None,
        "bytes": datasets.needed_bytes(spec.dataset) if found is None else found.bytes,
        "make_s": None if None in made else sum(each for each in made if each is not None),
        "reads_alike": libraries(spec.build),
    }


def _made_s(spec: ArmSpec, prepare: Sequence[str]) -> float | None:
    """How long it took here to make this layer, or the same of another version or load; None: not known.

    What takes no time more, because it is here, is told all the same: other machines ask.
    """
    content = datasets.content(spec.dataset)
    found = None
    for each in snapshots.list_snapshots():
        recorded, seconds = each.facts.get("dataset", {}), each.facts.get("seconds")
        is_like = all(recorded.get(name) == value for name, value in content.items() if name != "load")
        if is_like and tuple(each.facts.get("prepare", ())) == tuple(prepare) and seconds is not None:
            if each.key == snapshots.key(spec.build, spec.dataset, prepare):
                return float(seconds)
            found = float(seconds)
    return found


def libraries(build: Build) -> str:
    """What decides the order of texts beside the server: the C library, and ICU where it is linked.

    An index that another version of these had sorted would be damaged (PostgreSQL's documentation, "Collation
    Support", collation versions).
    """
    names = [platform.machine(), *platform.libc_ver()]
    try:
        linked = subprocess.run(
            ["ldd", str(Path(build.bin_directory) / "postgres")],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
    except OSError:
        linked = ""
    paths = re.findall(r"libicu\S+ => (\S+)", linked)
    return " ".join([*names, *sorted({Path(path).resolve().name for path in paths})])


def serve(plan: Plan, questions: int, answers: TextIO, idle_s: float = IDLE_S) -> None:
    """Answer the lines that come from a descriptor, until it is closed or nobody asks for so long."""
    with MachineData(plan) as data:
        for line in _lines(questions, idle_s):
            answers.write(json.dumps(data.handle(json.loads(line))) + "\n")
            answers.flush()


def _lines(descriptor: int, idle_s: float) -> Iterator[bytes]:
    waiting = bytearray()
    while select.select([descriptor], [], [], idle_s)[0] and (read := os.read(descriptor, 1 << 20)):
        waiting += read
        *lines, rest = waiting.split(b"\n")
        waiting = rest
        yield from map(bytes, lines)
