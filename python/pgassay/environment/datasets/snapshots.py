"""Frozen data directories, made once and reused by every later experiment.

A snapshot is a folder home()/data/snapshots/KEY: the data directory of a cluster that was stopped
cleanly and written to the device, with a file SNAPSHOT_FILE that says what is in it. KEY is a hash
of all that decides its content, so a changed layer (build, dataset, prepare) is another snapshot.
"""

import hashlib
import json
import platform
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from pgassay import __version__
from pgassay.environment import datasets
from pgassay.environment.atomic_folder import locked, made_whole
from pgassay.environment.builds.build_identity import refuse_changed
from pgassay.environment.datasets import OnStage
from pgassay.environment.home import home
from pgassay.environment.linux.settle import sync_tree
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import (
    ensure_private_folder,
    make_private_folder,
    run_program,
    write_private_file,
)
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.storage.storage_options import readable_bytes

SNAPSHOT_FILE = "pgassay-snapshot.json"
SNAPSHOT_FORMAT = 1
KEY_CHARACTERS = 20
# Space that a load leaves free: a disk filled to the brim slows down or fails for others.
FREE_MARGIN_BYTES = 128 * datasets.MEGABYTE
# The options of configure that decide what a data directory looks like.
FORMAT_OPTION = re.compile(
    r"--(?:with-(?:blocksize|segsize(?:-blocks)?|wal-blocksize))=\S+|--disable-float8-byval"
)
# What a snapshot says of the build that made it.
_OF_THE_BUILD = {"origin", "version", "major", "binary_sha256", "catalog_version", "control_version"}
_KEY = re.compile(rf"[0-9a-f]{{{KEY_CHARACTERS}}}")


class SnapshotFacts(TypedDict, total=False):
    """What pgassay-snapshot.json says; an older version may have written fewer keys.

    `relations`: pages, rows and bytes by name; `notes`: what was done to the data; `made_at`: UTC. `upgrade`:
    how pg_upgrade brought them to their version.
    """

    format: int
    pgassay_version: str
    build: Mapping[str, object]
    dataset: Mapping[str, object]
    prepare: Sequence[str]
    checksums: bool | None
    database: str
    relations: dict[str, dict[str, int]]
    notes: Sequence[str]
    made_at: str
    seconds: float
    bytes: int
    upgrade: Mapping[str, object]


@dataclass(frozen=True)
class Snapshot:
    """A frozen data directory.

    `bytes` is its size on the device.
    """

    path: Path
    key: str
    bytes: int
    facts: SnapshotFacts

    @property
    def database(self) -> str:
        """The database that holds the data."""
        return str(self.facts.get("database", datasets.DATABASE))


def key(build: Build, dataset: DatasetSpec, prepare: Sequence[str] = ()) -> str:
    """Return the name of the snapshot: a hash of everything that decides its content.

    `build` has its `catalog_version`, as those of an experiment's arms (`validation.with_data_format`).
    """
    layers = {
        "format": SNAPSHOT_FORMAT,
        "version": "" if build.data_format else build.version,
        "catalog_version": build.catalog_version,
        "control_version": build.control_version,
        # Trees of one version number differ, and whoever works on one need not raise the catalogs' version.
        # Of those that pgassay built the sources were read for what decides it.
        "binary_sha256": build.data_format or build.binary_sha256,
        "format_options": sorted(FORMAT_OPTION.findall(build.configure)),
        "machine": platform.machine(),
        "extensions": sorted(set(datasets.OBSERVING_EXTENSIONS) & set(build.extensions)),
        "dataset": datasets.content(dataset),
        "prepare": list(prepare),
    }
    if prepare or dataset.kind == "script":
        # What the user's own VACUUM can mark and count depends on it (`bulk_settings`, `run_statement`).
        layers["commits"] = "flushed and counted"
    if prepare and not dataset.settled:
        layers["settled"] = False
    text = json.dumps(layers, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_CHARACTERS]


def ensure(build: Build, dataset: DatasetSpec, prepare: Sequence[str], on_progress: OnStage) -> Snapshot:
    """Return the snapshot, making it first when it isn't there.

    `on_progress(stage, fraction)` is called while it is made, with None where the fraction of the
    stage that is done isn't known. Another process that makes the same one is waited for.
    Raises UsageError when the disk has too little space (before any work) or a prepare statement
    fails, MeasurementError when making it fails; nothing half-made is left then.
    """
    datasets.check_dataset(build, dataset)
    wanted = key(build, dataset, prepare)
    found = find(wanted)
    if found is not None:
        return found
    with locked(folder() / f"{wanted}.lock"):
        found = find(wanted)
        if found is not None:
            return found
        # What another binary made would lie under the name of the planned one.
        refuse_changed(build)
        base = ensure(build, dataset, (), on_progress) if prepare else None
        _check_space(dataset, base)
        with made_whole(folder() / wanted) as partial, _disk_full_reported(partial):
            _make(partial, build, dataset, prepare, base, on_progress)
        made = find(wanted)
    if made is None:
        raise MeasurementError(f"The snapshot {folder() / wanted} vanished while it was made: run again.")
    return made


def adopt(
    build: Build,
    dataset: DatasetSpec,
    prepare: Sequence[str],
    data: Path,
    base: Snapshot,
    relations: dict[str, dict[str, int]],
) -> None:
    """Make a stopped server's data directory the snapshot of these layers; it is moved, or else copied.

    The caller has executed `prepare` on a copy of `base`, and vouches for it. Raises as `ensure`.
    """
    wanted, begun = key(build, dataset, prepare), time.monotonic()
    with locked(folder() / f"{wanted}.lock"):
        if find(wanted) is not None:
            return
        with made_whole(folder() / wanted) as partial, _disk_full_reported(partial):
            try:
                data.rename(partial)
            except OSError:  # on another file system
                make_private_folder(partial)
                run_program(["cp", "-a", "--reflink=auto", f"{data}/.", partial], f"copying {data}")
            made = datasets.Made(base.database, relations, tuple(base.facts.get("notes", ())))
            _describe(partial, build, dataset, prepare, made, begun)


def find(key: str) -> Snapshot | None:
    """The snapshot of a key; None where it is not here. Raises MeasurementError for a damaged one."""
    return _read(folder() / key)


def check_space_for(wanted: Iterable[tuple[Build, DatasetSpec, Sequence[str]]]) -> None:
    """Raise UsageError when those of the snapshots that are still to be made don't fit together.

    Called before the first is made: the last of several must not be the one that finds the disk full.
    """
    needed_bytes: dict[str, int] = {}
    for build, dataset, prepare in wanted:
        # What prepares another snapshot copies it first; what it adds can't be known.
        for layers in ((), tuple(prepare)):
            name = key(build, dataset, layers)
            if not (folder() / name / SNAPSHOT_FILE).exists():
                needed_bytes[name] = datasets.needed_bytes(dataset)
    needed = sum(needed_bytes.values())
    free = shutil.disk_usage(folder()).free
    # A single one is judged, with its own words, when it is made.
    if len(needed_bytes) > 1 and free < needed + FREE_MARGIN_BYTES:
        raise UsageError(
            f"The data are needed in {len(needed_bytes)} versions, {readable_bytes(needed)} in all, "
            f"in {folder()} and {readable_bytes(free)} are free: choose smaller data or fewer "
            "levels, free some space, or name another folder by PGASSAY_HOME."
        )


def list_snapshots() -> list[Snapshot]:
    """Return every snapshot on this machine, in the order of their keys."""
    found = (_read(path) for path in sorted(folder().iterdir()) if _KEY.fullmatch(path.name))
    return [snapshot for snapshot in found if snapshot is not None]


def remove(key: str) -> None:
    """Remove a snapshot; working copies made from it stay. Raises UsageError when there is none.

    Another process that removes the same one is waited for.
    """
    path = folder() / key
    if not _KEY.fullmatch(key) or not path.is_dir():
        known = ", ".join(snapshot.key for snapshot in list_snapshots()) or "none"
        raise UsageError(f"There is no snapshot {key} in {folder()}: those there are: {known}.")
    with locked(folder() / f"{key}.lock"):
        if path.is_dir():
            shutil.rmtree(path)
    (folder() / f"{key}.lock").unlink(missing_ok=True)


def _make(
    partial: Path,
    build: Build,
    dataset: DatasetSpec,
    prepare: Sequence[str],
    base: Snapshot | None,
    on_progress: OnStage,
) -> None:
    begun = time.monotonic()
    if base is None:
        made = datasets.make_dataset(build, partial, dataset, on_progress)
    else:
        made = _prepare_copy(partial, build, dataset, prepare, base, on_progress)
    on_progress("writing the data to the device", None)
    _describe(partial, build, dataset, prepare, made, begun)


def _describe(
    partial: Path,
    build: Build,
    dataset: DatasetSpec,
    prepare: Sequence[str],
    made: datasets.Made,
    begun: float,
) -> None:
    """Say what is in it, and write all of it to the device."""
    facts: SnapshotFacts = {
        "format": SNAPSHOT_FORMAT,
        "pgassay_version": __version__,
        "build": build.model_dump(include=_OF_THE_BUILD),
        "dataset": dataset.model_dump(),
        "prepare": list(prepare),
        "checksums": dataset.checksums,
        "database": made.database,
        "relations": made.relations,
        "notes": list(made.notes),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - begun, 3),
        "bytes": _size_bytes(partial),
    }
    if made.upgrade:
        facts["upgrade"] = made.upgrade
    write_private_file(partial / SNAPSHOT_FILE, json.dumps(facts, indent=1) + "\n")
    sync_tree(partial)


def _prepare_copy(
    partial: Path,
    build: Build,
    dataset: DatasetSpec,
    prepare: Sequence[str],
    base: Snapshot,
    on_progress: OnStage,
) -> datasets.Made:
    on_progress("copying the data", None)
    make_private_folder(partial)
    run_program(["cp", "-a", "--reflink=auto", f"{base.path}/.", partial], f"copying {base.path}")
    (partial / SNAPSHOT_FILE).unlink()
    # What a forgotten transaction holds back can be planted; the measured server then needs the setting too.
    settings = datasets.bulk_settings(build, dataset.wal_segment_mb) | {"max_prepared_transactions": "10"}
    with Server(build, partial, settings) as server:
        datasets.prepare(server, prepare, on_progress, base.database, settled=dataset.settled)
        relations = datasets.relation_facts(server, base.database)
    notes = [*base.facts.get("notes", ())]
    if not dataset.settled and datasets.LEFT_AS_MADE not in notes:
        notes.append(datasets.LEFT_AS_MADE)
    return datasets.Made(base.database, relations, tuple(notes))


def _check_space(dataset: DatasetSpec, base: Snapshot | None) -> None:
    # What the statements of a prepare add can't be known; an index or a rewrite at most doubles it.
    needed = datasets.needed_bytes(dataset) if base is None else 2 * base.bytes
    needed += FREE_MARGIN_BYTES
    free = shutil.disk_usage(folder()).free
    if free < needed:
        smaller = (
            "choose a smaller --scale, " if "scale" in datasets.kind_named(dataset.kind).decided_by else ""
        )
        raise UsageError(
            f"The data ({datasets.describe(dataset)}) need {readable_bytes(needed)} "
            f"in {folder()} and {readable_bytes(free)} are free: "
            f"{smaller}free some space, or name another folder by PGASSAY_HOME."
        )


@contextmanager
def _disk_full_reported(partial: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MeasurementError(
            f"The data could not be written to {partial} ({error.strerror}): free some space there, "
            "or name another folder by PGASSAY_HOME."
        ) from error


def folder() -> Path:
    """Where all snapshots of this machine lie."""
    return ensure_private_folder(home() / "data" / "snapshots")


def _read(path: Path) -> Snapshot | None:
    try:
        facts = json.loads((path / SNAPSHOT_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MeasurementError(
            f"The snapshot {path} cannot be read ({error}): remove that folder and run again."
        ) from error
    return Snapshot(path=path, key=path.name, bytes=int(facts["bytes"]), facts=facts)


def _size_bytes(folder: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*"))
