"""The plan of a spread experiment: from what was typed and what the machines said; kept in fleet.json."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from pgassay import __version__
from pgassay.errors import UsageError
from pgassay.model.machines.spread import (
    SPREAD_FORMAT,
    SpreadExperiment,
    SpreadFile,
    SpreadGrid,
    SpreadMachine,
    SpreadRun,
)
from pgassay.record import layout
from pgassay.record.documents import read_model, write_document

FILE = layout.FLEET_FILE
MACHINES_FOLDER = "machines"
REMEDY = "name the folder of a fleet's experiment"
_SEED_BITS = 31


def seed_of(seed: int, machine: str, run: int) -> int:
    """The seed of a machine's run: another for each, and the same whenever it is asked."""
    digest = hashlib.sha256(f"{seed} {machine} {run}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)


def new_plan(
    *,
    command: Sequence[str],
    words: Sequence[str],
    files: Mapping[str, Path],
    fleet_file: Path,
    seed: int | None,
    blocks_max: int,
    time_max_s: float,
    until_decided: bool,
    decided_rest: bool = False,
    facts: Mapping[str, Mapping[str, JsonValue]],
    counts_as: Mapping[str, str] = MappingProxyType({}),
) -> SpreadExperiment:
    """facts: of each machine that is to take part; counts_as: which machine its user says it is.

    Raises UsageError where a file can't be read.
    """
    identity = secrets.token_hex(6)
    drawn = secrets.randbits(_SEED_BITS) if seed is None else seed
    return SpreadExperiment(
        id=identity,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pgassay_version=__version__,
        command=tuple(command),
        fleet_file=str(fleet_file.absolute()),
        words=tuple(words),
        files={name: _file(path) for name, path in files.items()},
        seed=drawn,
        blocks_max=blocks_max,
        time_max_s=time_max_s,
        until_decided=until_decided,
        decided_rest=decided_rest,
        machines=tuple(
            SpreadMachine(
                name=name,
                host=str(said.get("host")),
                counts_as=counts_as.get(name, ""),
                runs=(_run(identity, drawn, name, 1),),
                facts=dict(said),
            )
            for name, said in facts.items()
        ),
    )


def _file(path: Path) -> SpreadFile:
    try:
        with path.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
            return SpreadFile(source=str(path.absolute()), bytes=opened.tell(), sha256=sha256)
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): the machines need it") from error


def _run(identity: str, seed: int, machine: str, number: int, strata: tuple[str, ...] = ()) -> SpreadRun:
    folder = machine if number == 1 else f"{machine}+{number}"
    return SpreadRun(
        id=f"{identity}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}-{number}",
        folder=f"{MACHINES_FOLDER}/{folder}",
        seed=seed_of(seed, machine, number),
        strata=strata,
    )


def with_cells(
    plan: SpreadExperiment, grid: SpreadGrid, given: Mapping[str, tuple[str, ...]]
) -> SpreadExperiment:
    """The plan of a grid whose strata are spread; `given`: by the machines that take part what each runs."""
    machines = tuple(
        machine.model_copy(
            update={
                "runs": tuple(run.model_copy(update={"strata": given[machine.name]}) for run in machine.runs)
            }
        )
        for machine in plan.machines
        if machine.name in given
    )
    named = grid.model_copy(update={"machines": tuple(machine.name for machine in machines)})
    return plan.model_copy(update={"grid": named, "machines": machines})


def with_further_run(
    plan: SpreadExperiment, name: str, strata: tuple[str, ...] = ()
) -> tuple[SpreadExperiment, SpreadRun]:
    """The plan with one more run of a machine: it lost its earlier ones, or takes over strata of another."""
    found = next(machine for machine in plan.machines if machine.name == name)
    run = _run(plan.id, plan.seed, name, len(found.runs) + 1, strata)
    machines = tuple(
        machine.model_copy(update={"runs": (*machine.runs, run)}) if machine is found else machine
        for machine in plan.machines
    )
    return plan.model_copy(update={"machines": machines}), run


def write(folder: Path, plan: SpreadExperiment) -> None:
    """Write it whole; raises MeasurementError."""
    write_document(folder / FILE, plan)


def is_spread(folder: Path) -> bool:
    """Whether a folder holds an experiment that was spread over a fleet."""
    return (folder / FILE).is_file()


def read(folder: Path) -> SpreadExperiment:
    """Raises UsageError for a folder that holds none, a damaged or a newer one."""
    return read_model(folder / FILE, SpreadExperiment, SPREAD_FORMAT, REMEDY)
