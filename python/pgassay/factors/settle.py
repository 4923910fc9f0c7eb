"""`settle=on,off`: every table is read once before the data are frozen, or each trial is the first reader.

The first reader of a table sets hint bits and prunes pages (docs/datasets.md has what that changes).
`analyze=on,off`: restored or upgraded data with statistics of all tables, or with those that came with them.
"""

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, split_levels
from pgassay.model.arm import ArmSpec, DatasetSpec

_LEVELS = {"on": True, "off": False}


def with_settling(dataset: DatasetSpec, level: str, what: str) -> DatasetSpec:
    """The dataset settled or left as it was made; raises UsageError naming `what` for another word."""
    if level not in _LEVELS:
        raise UsageError(f"{what} {level} is not known: write on or off")
    return dataset.model_copy(update={"settled": _LEVELS[level]})


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose data are settled (`on`), or left as the load and its preparation made them (`off`)."""
    return spec.model_copy(update={"dataset": with_settling(spec.dataset, level, f"factor {name}:")})


def with_statistics(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """The arm whose data are analysed (`on`), or have what statistics came with them (`off`).

    Raises UsageError for data that nothing comes with.
    """
    if level not in _LEVELS:
        raise UsageError(f"factor {name}: {level} is not known: write on or off")
    dataset = spec.dataset
    if dataset.kind != "dump" and dataset.before_upgrade is None:
        raise UsageError(
            f"{name}= needs data that are restored (--dataset dump:FILE) or upgraded "
            f"(folder:DATADIR,upgrade=on), and {dataset.kind} is neither: leave it out, or use "
            "prepare=none,ANALYZE"
        )
    return spec.model_copy(update={"dataset": dataset.model_copy(update={"analysed": _LEVELS[level]})})


KIND = FactorKind(split=split_levels, apply=apply, fixed_by="--settle ")
STATISTICS = FactorKind(split=split_levels, apply=with_statistics)
