"""Which layout of its build's functions each arm of a block runs: drawn, so that no claim rests on one.

A build has K of them. In K blocks an arm meets each once, in an order that is drawn for its build. The twin
is always at another one than its control: what a layout does is then seen between equals as well.
"""

import random
from collections.abc import Collection, Sequence

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.build import LAYOUTS_DEFAULT
from pgassay.model.experiment import Experiment


def planned_layouts(arms: Sequence[Arm], wanted: int | None) -> int:
    """Of how many layouts each build's is drawn; 0 where no builds from source are compared, or as they are.

    wanted: as typed, None for the default. Raises UsageError where there are none to draw from.
    """
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in arms if arm.spec.server is None}
    counts = [len(build.source.layouts) for build in builds.values() if build.source is not None]
    if wanted is not None and wanted > 1 and (len(builds) < 2 or not counts):
        raise UsageError(
            f"--layouts {wanted}: no two builds from source are compared here: leave it out, or compare them "
            "with build=git:PATH@REVISION,git:PATH@REVISION"
        )
    if len(builds) < 2 or wanted == 1:
        return 0
    return min(wanted or LAYOUTS_DEFAULT, min(counts, default=0))


def draw_layouts(experiment: Experiment, arm_ids: Collection[str], visit: int) -> dict[str, int]:
    """The layout of each arm in a block by its id, from 1; {} where none are drawn.

    visit: how many blocks of the same stratum there were before.
    """
    count = experiment.design.layouts
    if not count:
        return {}
    cycle, place = divmod(visit, count)
    found = {}
    for arm in experiment.arms:
        build = arm.spec.build
        if arm.id not in arm_ids or build.source is None:
            continue
        order = list(range(1, count + 1))
        key = f"{_first_with(experiment.arms, build.bin_directory)} {cycle}"
        random.Random(f"pgassay layout {experiment.contract.seed} {key}").shuffle(order)
        found[arm.id] = order[(place + (arm.role == "twin")) % count]
    return found


def at_layout(arm: Arm, number: int) -> Arm:
    """The arm on another layout of its build; 0: as it was built."""
    if not number:
        return arm
    spec = arm.spec.model_copy(update={"build": arm.spec.build.at_layout(number)})
    return arm.model_copy(update={"spec": spec})


def _first_with(arms: Sequence[Arm], bin_directory: str) -> int:
    """A build's place among the arms, which is the same wherever its files are."""
    return next(place for place, arm in enumerate(arms) if arm.spec.build.bin_directory == bin_directory)
