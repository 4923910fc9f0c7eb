"""Where along a factor the limit moves from the storage to the processors: one sentence for each factor.

Of each combination of the other factors the limits of its arms are followed along the factor's levels, in the
order of the plan. That order is the user's: more connections, longer ranges, dearer volumes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgassay.model.arm import Arm
from pgassay.model.cause import Cause

STORAGE = frozenset(
    {
        *("storage-throughput", "storage-iops", "storage-latency", "burst-credits"),
        *("wal-fsync", "wal-insert", "backend-writes", "extension", "checkpoint-wait"),
        "too-few-io-workers",
    }
)
PROCESSORS = frozenset({"backend-core", "all-cores", "cpu-quota", "cached"})
_EXAMPLES_MAX = 3


@dataclass(frozen=True)
class _Move:
    """Between which levels of a factor a combination of the others goes from one side to the other."""

    others: str
    before: str
    after: str


def crossover_sentences(arms: Sequence[Arm], causes: Sequence[Cause]) -> tuple[str, ...]:
    """A sentence for each factor along which the limit of some combination moves; () where none does.

    What lies on neither side (locks, the client, what is not known) is passed over.
    """
    limits = {(cause.arm, cause.stratum): cause.cause for cause in causes if cause.kind == "limit"}
    sides: list[tuple[Mapping[str, str], str]] = []
    for arm in arms:
        side = _side(limits.get((arm.name, arm.stratum), ""))
        if arm.role != "twin" and side:
            sides.append((arm.levels, side))
    factors = dict.fromkeys(name for levels, _ in sides for name in levels)
    return tuple(sentence for factor in factors if (sentence := _sentence(factor, sides)))


def _side(cause: str) -> str:
    return "storage" if cause in STORAGE else "processors" if cause in PROCESSORS else ""


def _sentence(factor: str, sides: Sequence[tuple[Mapping[str, str], str]]) -> str:
    groups: dict[str, list[tuple[str, str]]] = {}
    for levels, side in sides:
        if factor in levels:
            others = " ".join(f"{name}={level}" for name, level in levels.items() if name != factor)
            groups.setdefault(others, []).append((levels[factor], side))
    moves = [move for others, found in groups.items() for move in _moves(others, found)]
    if not moves:
        return ""
    followed = sum(len(found) > 1 for found in groups.values())
    shown = "; ".join(
        f"{move.others + ': ' if move.others else ''}{move.before} → {move.after}"
        for move in moves[:_EXAMPLES_MAX]
    )
    more = f"; and {len(moves) - _EXAMPLES_MAX} more" if len(moves) > _EXAMPLES_MAX else ""
    share = "" if followed == 1 else f" in {len({move.others for move in moves})} of {followed} combinations"
    return f"Along {factor} the limit moves from the storage to the processors{share} ({shown}{more})."


def _moves(others: str, found: Sequence[tuple[str, str]]) -> Iterator[_Move]:
    for (before, first), (after, second) in pairwise(found):
        if (first, second) == ("storage", "processors"):
            yield _Move(others, before, after)
