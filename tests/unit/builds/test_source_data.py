"""Which builds from source share one load of the data, and which never do."""

import pytest
from plans_for_tests import base_spec

from pgassay.design.schedule import has_owners
from pgassay.environment import datasets
from pgassay.environment.builds.source import SourceOrigin
from pgassay.environment.datasets import snapshots
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_builds import dataset_loads
from pgassay.factors import build as build_factor
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build, SourceTree

FORMAT = "18, catalog 202506291, control 1800, page 4, WAL 0xD118"


def built(name: str, data_format: str = FORMAT, **rest: object) -> Build:
    """A build from source of its own binary."""
    return Build(
        origin="source",
        version="18.6",
        major=18,
        bin_directory=f"/{name}/bin",
        binary_sha256=name,
        catalog_version=202506291,
        control_version=1800,
        data_format=data_format,
    ).model_copy(update=rest)


def arms(*builds: Build) -> tuple[Arm, ...]:
    specs = [base_spec().model_copy(update={"build": build}) for build in builds]

    def arm(place: int, spec: ArmSpec) -> Arm:
        return Arm(id=str(place), name="", levels={}, role="arm" if place else "control", spec=spec)

    twin = Arm(id="t", name="twin", levels={}, role="twin", spec=specs[0])
    return (*(arm(place, spec) for place, spec in enumerate(specs)), twin)


def test_trees_of_one_format_share_one_load() -> None:
    made = arms(built("one"), built("other", version="18.7"))
    assert dataset_loads(made) == 1
    assert not has_owners(made, "")
    assert snapshots.key(built("one"), DatasetSpec()) == snapshots.key(
        built("other", version="18.7"), DatasetSpec()
    )


@pytest.mark.parametrize(
    "other",
    [
        built("other", FORMAT.replace("page 4", "page 5")),
        # Where the sources do not say it, nothing is known.
        built("other", ""),
        built("other", extensions=datasets.OBSERVING_EXTENSIONS[:1]),
    ],
    ids=["another page layout", "unknown", "other extensions"],
)
def test_others_have_data_of_their_own(other: Build) -> None:
    made = arms(built("one"), other)
    assert has_owners(made, "")
    assert snapshots.key(built("one"), DatasetSpec()) != snapshots.key(other, DatasetSpec())


def test_another_format_is_loaded_twice_for_each() -> None:
    assert dataset_loads(arms(built("one"), built("other", FORMAT.replace("0xD118", "0xD119")))) == 2
    assert dataset_loads(arms(built("one", ""), built("other", ""))) == 2


def test_what_was_planned_on_packages_is_stored_as_before() -> None:
    package = Build(origin="apt", version="18.6", major=18, bin_directory="/apt/bin")
    assert not {"source", "data_format"} & package.model_dump().keys()


def test_two_trees_that_build_the_same_are_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_self: SourceOrigin, text: str) -> Build:
        return built("same", source=SourceTree(name=text, tree="1", compiler="gcc", options=()))

    monkeypatch.setattr(SourceOrigin, "find", find)
    with pytest.raises(UsageError, match="build the same files, so there is nothing to compare"):
        build_factor.bind("build", ("git:a@b", "git:a@c"))
