"""What proves a recommendation: the volumes that the workload is run on, and the memory of their servers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.errors import UsageError
from pgassay.model.volumes.size import SizedGroup
from pgassay.record.experiment import StoredExperiment
from pgassay.sizing.candidates import candidate
from pgassay.sizing.caveats import wal_of
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import kind_named
from pgassay.storage.storage_options import format_bytes
from pgassay.storage.volume import catalogue, model_for

_KIND = "volume"


@dataclass(frozen=True)
class VolumesToProve:
    """`volumes`: as they stand behind `volume:` of a storage. `left_out`: why others are not run."""

    volumes: tuple[str, ...]
    left_out: tuple[str, ...]


def volumes_to_prove(
    stored: StoredExperiment, groups: Sequence[SizedGroup], loaded: LoadedCatalogue
) -> VolumesToProve:
    """The neighbours of what is recommended, with no credits left; those that can be imitated here."""
    names: dict[str, None] = {}
    left_out: dict[str, None] = {}
    if not any(group.neighbours for group in groups):
        left_out["no volume is recommended, so none is proven: allow a larger --slow-down"] = None
    is_apart = all(arm.spec.storage.wal is not None for arm in stored.experiment.arms)
    for group in groups:
        for name in group.neighbours:
            found = candidate(name, loaded)
            reason = _why_not(found, loaded)
            if reason is None and is_apart and found.wal is None and not wal_of(group):
                reason = (
                    f"{name} is not proven: the WAL lay on a storage that is not a volume. Run it with "
                    "compare, and name its folder with --proof"
                )
            if reason is None:
                names[found.sustained_name + ("" if found.wal is not None else wal_of(group))] = None
            else:
                left_out[reason] = None
    return VolumesToProve(tuple(names), tuple(left_out))


def memory_of(stored: StoredExperiment) -> str | None:
    """The cap that all servers had when requests were recorded, as it is typed; None where they had several.

    Else the instance in a volume's name would bring its own memory, and what is read would be another thing.
    """
    caps = {arm.spec.memory_bytes for arm in stored.experiment.arms}
    if len(caps) > 1:
        return None
    only = caps.pop()
    return "unlimited" if only is None else format_bytes(only)


def _why_not(found: CandidateVolume, loaded: LoadedCatalogue) -> str | None:
    for offer in (found.data, found.wal):
        if offer is not None and (reason := next(_reasons(CandidateVolume(offer), loaded), None)) is not None:
            return reason
    return None


def _reasons(alone: CandidateVolume, loaded: LoadedCatalogue) -> Iterator[str]:
    """Why a volume can't be imitated here as it was looked at."""
    spec = parse_storage(f"{_KIND}:{alone.sustained_name}")
    try:
        imitated = model_for(spec, catalogue())
    except UsageError:
        imitated = None
    if imitated != candidate(alone.sustained_name, loaded).data.model:
        yield (
            f"{alone.name} is not proven: it is in {' and '.join(loaded.files)}, but volumes are imitated "
            "from pgassay's own catalogue. Write it into volumes.toml in pgassay's home"
        )
    elif (beyond := kind_named(_KIND).unreachable(spec, ())) is not None:
        yield f"{alone.name} is not proven: {beyond.partition(': ')[0]}"
