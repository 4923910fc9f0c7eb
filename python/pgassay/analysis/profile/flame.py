"""The stacks of two arms as one tree of times per transaction, small enough for a page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.analysis.profile import stacks
from pgassay.analysis.profile.judge_functions import units_of
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.renames import renames_of

# More frames than this can't be told apart on a page, and those that are left out are its narrowest.
NODES_MAX = 4000
SHARE_MIN = 0.0005
# Deeper ones are no help on a page, and as JSON too deep for Python.
DEPTH_MAX = 256


@dataclass
class FlameNode:
    """A frame: its function, its time including callees in both arms, in µs per unit, what it calls."""

    name: str
    control_us: float = 0.0
    arm_us: float = 0.0
    children: list["FlameNode"] = field(default_factory=list)

    @property
    def width_us(self) -> float:
        """The mean of both, which is how wide it is drawn: it adds up, and shows what one arm alone has."""
        return (self.control_us + self.arm_us) / 2


@dataclass(frozen=True)
class Flame:
    """The tree of a compared arm and its control; a sample of either is `sample_us` per unit."""

    control: str
    arm: str
    stratum: str
    root: FlameNode
    sample_us: float


def flames(stored: StoredExperiment, most: int) -> tuple[Flame, ...]:
    """A tree for each comparison of an experiment's profile, `most` of them; () without a profile.

    Raises UsageError for a damaged file.
    """
    if stored.profile is None:
        return ()
    experiment = stored.profile.experiment
    arms = {arm.id: arm for arm in experiment.arms}
    renamed = renames_of(stored.profile.folder)
    trials: dict[str, list[StoredTrial]] = {}
    for trial in stored.profile.trials:
        if trial.record.status == "ok":
            trials.setdefault(trial.record.arm_id, []).append(trial)
    found = []
    for contrast in experiment.contrasts[:most]:
        if contrast.arm_id in trials and contrast.control_id in trials:
            arm, control = arms[contrast.arm_id], arms[contrast.control_id]
            root = tree(mean_us(trials[control.id]), mean_us(trials[arm.id], renamed.get(arm.id, {})))
            mine = [*trials[control.id], *trials[arm.id]]
            samples = sum(trial.record.facts.profile.samples or 0 for trial in mine)
            sample_us = (root.control_us + root.arm_us) / max(1, samples)
            found.append(Flame(control.name, arm.name, contrast.stratum, root, sample_us))
    return tuple(found)


def mean_us(
    trials: Sequence[StoredTrial], names: Mapping[str, str] | None = None
) -> dict[tuple[str, ...], float]:
    """By stack its own time in µs per unit, the mean over trials; names: other ones for some functions."""
    found: dict[tuple[str, ...], float] = {}
    profiled = [(trial.record, counted) for trial in trials if (counted := stacks.stacks_of(trial.folder))]
    for record, counted in profiled:
        each_us = 1e6 / float(record.facts.profile.rate_hz or 1) / units_of(record) / len(profiled)
        for frames, count in stacks.under_names(counted, names or {}).items():
            found[frames] = found.get(frames, 0.0) + count * each_us
    return found


def tree(
    control: Mapping[tuple[str, ...], float],
    arm: Mapping[tuple[str, ...], float],
    nodes_max: int = NODES_MAX,
) -> FlameNode:
    """Two arms' stacks as one tree without its narrowest and deepest frames: their time is their caller's."""
    root = FlameNode("all")
    places: dict[tuple[str, ...], FlameNode] = {}
    for side, times in (("control_us", control), ("arm_us", arm)):
        for frames, us in times.items():
            setattr(root, side, getattr(root, side) + us)
            node = root
            for depth, name in enumerate(frames[:DEPTH_MAX], start=1):
                path = frames[:depth]
                child = places.get(path)
                if child is None:
                    child = places[path] = FlameNode(name)
                    node.children.append(child)
                setattr(child, side, getattr(child, side) + us)
                node = child
    widths = sorted((node.width_us for node in places.values()), reverse=True)
    least = max(SHARE_MIN * root.width_us, widths[nodes_max] if len(widths) > nodes_max else 0.0)
    _prune([root], least)
    return root


def _prune(nodes: Iterable[FlameNode], least_us: float) -> None:
    """Leave out frames of at most that width, and order the others by name, as both arms have them."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        node.children = sorted(
            (child for child in node.children if child.width_us > least_us), key=lambda child: child.name
        )
        waiting += node.children
