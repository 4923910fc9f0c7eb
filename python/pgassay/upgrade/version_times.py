"""The times of a statement on both versions, from the comparison that timed it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.upgrades.upgrade_answer import StatementVerdict, UpgradedStatement, UpgradeTraffic
from pgassay.record.experiment import StoredExperiment, load

_VERDICTS: Mapping[str, StatementVerdict] = {"slower": "slower", "faster": "faster", "equivalent": "as fast"}
Pair = tuple[ArmResult, ArmResult]


@dataclass(frozen=True)
class MeasuredTimes:
    """What both versions made of the statements, or of traffic, and the comparison of those that could be
    timed; `is_interrupted`: by the trials until then."""

    statements: Sequence[UpgradedStatement]
    result: CompareResult | None = None
    traffic: UpgradeTraffic | None = None
    is_interrupted: bool = False


def stored_so_far(folder: Path) -> StoredExperiment | None:
    """What an interrupted comparison recorded; None where that is no trial."""
    return load(folder) if folder.is_dir() else None


def pairs_of(result: CompareResult | None) -> dict[str, Pair]:
    """By statement its arms: the old version's, the new one's. One statement alone is the experiment."""
    if result is None:
        return {}
    families = {each.name: each.arms for each in result.statements}
    pairs = {}
    for name, arms in families.items() or {"": result.arms}.items():
        control = next((arm for arm in arms if arm.verdict == "control"), None)
        other = next((arm for arm in arms if arm.verdict != "control"), None)
        if control is not None and other is not None:
            pairs[name] = (control, other)
    return pairs


def with_times(made: UpgradedStatement, pair: Pair | None, reasons: Sequence[str]) -> UpgradedStatement:
    """The statement with its verdict by time; `reasons` are told with it."""
    if pair is None:
        return made.model_copy(update={"verdict": "not decided", "reason": "it was not timed"})
    before, after = pair
    ends = after.interval
    return made.model_copy(
        update={
            "verdict": _VERDICTS.get(after.verdict, "not decided") if not after.withheld else "not decided",
            "reason": "; ".join(reasons),
            "ratio": after.ratio,
            "interval": ends if ends is not None and None not in ends else None,
            "before_ms": None if before.median is None else 1000 * before.median,
            "after_ms": None if after.median is None else 1000 * after.median,
        }
    )
