"""Defects planted in real databases are found by the finders, and their decoys left alone.

The plants are those of `benchmarks/planted_tunes.py`. What is offered is judged, and no time; figures of time
only need to be those of a real execution.
"""

import sys
from collections.abc import Iterator

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.tune.finders.registry import FINDERS
from server_helpers import own_home

# The bench is no package: its table is found as its own script finds it.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from tune_plants.base import Plant
from tune_plants.table import PLANTS
from tune_plants.trial import Laboratory, laboratory

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# An index, one that nobody needs, an operation and a setting: the shortest of each.
DEFAULT = ("index-expression", "unneeded-prefix", "vacuum-visibility", "work-mem-subplan")
SEED = 1


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    build = resolve("18")
    with own_home() as home, laboratory(build, home / "data") as made:
        yield made


def check(lab: Laboratory, plant: Plant) -> None:
    found = lab.run(plant, SEED, decoy=False)
    assert found.fix is not None, [each.id for each in found.offered]
    assert found.fix.kind in (plant.kind, "work-mem", "hash-memory") and found.fix.reason
    assert found.fix.described or min(found.fix.predicted.values(), default=0.0) < 1
    decoy = lab.run(plant, SEED, decoy=True)
    assert not decoy.left, [(each.id, each.reason) for each in decoy.left]


@pytest.mark.parametrize(
    "plant", [each for each in PLANTS if each.name in DEFAULT], ids=lambda each: each.name
)
def test_a_plant_is_found_and_its_decoy_left_alone(lab: Laboratory, plant: Plant) -> None:
    check(lab, plant)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", [each for each in PLANTS if each.name not in DEFAULT], ids=lambda each: each.name
)
def test_every_other_plant_is_found_and_its_decoy_left_alone(lab: Laboratory, plant: Plant) -> None:
    check(lab, plant)


def test_every_kind_of_candidate_has_a_plant() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 36
    planted = {plant.kind for plant in PLANTS}
    # They need a build with LLVM, a slow device, one for temporary files, two versions, and a volume.
    not_planted = {"jit", "io", "hash-memory", "version", "storage"}
    assert {kind for finder in FINDERS for kind in finder.kinds} == planted | not_planted
