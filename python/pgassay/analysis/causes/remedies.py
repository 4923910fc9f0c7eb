"""What the experiment itself says of a remedy: another arm may have tried it.

A remedy that is a setting is tried by an arm that differs from the one with the cause in that setting alone,
and has it changed in the direction that is advised. Whether it was faster is the verdict's to say, or where
neither is the control that the two intervals against it have nothing in common (the intervals of all
comparisons hold together).
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pgassay.analysis.causes.base import SettingRemedy
from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.causes.rules.device_limit import INDEX_SHARE
from pgassay.model.cause import UNKNOWN, Cause, RemedyStatus
from pgassay.model.result import ArmResult
from pgassay.words import comparison

Answer = Literal["faster", "no faster", "not decided"]
_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
# Of memory and of time (src/backend/utils/misc/guc.c, memory_unit_conversion_table and that of time).
_UNITS = {
    "": 1.0,
    **{name: 1024.0**power for power, name in enumerate(("B", "kB", "MB", "GB", "TB"))},
    "us": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "min": 6e7,
    "h": 3.6e9,
    "d": 8.64e10,
}


_OF_STORAGE = frozenset(
    {
        *("storage-throughput", "storage-iops", "storage-latency", "burst-credits", "wal-fsync"),
        *("backend-writes", "extension", "wal-insert", "checkpoint-wait"),
    }
)
_STORAGE = SettingRemedy("storage", "higher", "Another storage")
# As far as a prediction may lie from what was measured, as the bench of the causes has it.
_TOLERANCE = 1.25
# What is left of a limit in an arm that lifted it, of its share of the time.
_LEFT_SHARE_MAX = 0.5
# What a cause says whose prediction is withdrawn.
_NO_GAIN = {"gain_if_lifted": None, "gain_interval": None, "gain_range": None, "next_limit": None}


@dataclass(frozen=True)
class _Try:
    """Another arm that has the remedy: what came of it, and how fast it was over the arm with the cause."""

    arm: ArmResult
    setting: SettingRemedy
    answer: Answer
    ratio: float | None


def judged(
    causes: Sequence[Cause], arms: Sequence[ArmResult], lesser: Sequence[Cause] = ()
) -> tuple[Cause, ...]:
    """The causes, with what the arms of the experiment say of their remedies.

    arms: of the same experiment, with the controls. A remedy that they refute is withdrawn: its words say so
    in its place. A cause whose remedy is no setting stays as it is. What lifted a limit in an arm is the gain
    that is told, in place of the prediction; where a prediction missed so, the others are withdrawn.
    lesser: limits that explain less than a quarter of the time. One that another arm lifted, which is faster
    for it, is told: as the limit where none is known, else beside it as what should be mended.
    """
    proved = list(_proved_lesser(lesser, arms, [*causes, *lesser]))
    told = [_measured(_judged(cause, arms), arms, causes) for cause in causes]
    for cause in proved:
        of_arm = [place for place, each in enumerate(told) if _is_of_same_arm(each, cause)]
        if told[of_arm[0]].cause == UNKNOWN:
            told[of_arm[0]] = cause
        else:
            told.insert(of_arm[0] + 1, cause.model_copy(update={"kind": "fault"}))
    if not any(_missed(cause) for cause in told):
        return tuple(told)
    return tuple(
        cause if cause.lifted_by is not None else cause.model_copy(update=_NO_GAIN) for cause in told
    )


def _proved_lesser(
    lesser: Sequence[Cause], arms: Sequence[ArmResult], causes: Sequence[Cause]
) -> Iterator[Cause]:
    """Of each arm the lesser limit with the most seconds of those that another arm lifted.

    Lifted: faster, and less than half of the share is left of it there.
    """
    shares = {(each.arm, each.stratum, each.cause): each.share or 0.0 for each in causes}
    best: dict[tuple[str, str], Cause] = {}
    for cause in lesser:
        own = next((arm for arm in arms if (arm.name, arm.stratum) == (cause.arm, cause.stratum)), None)
        if own is None:
            continue
        of_stratum = [arm for arm in arms if arm.stratum == cause.stratum]
        had = cause.share or 0.0
        lifted = [
            each.arm
            for each in _tries(own, of_stratum, _lifting(cause))
            if each.answer == "faster"
            and shares.get((each.arm.name, cause.stratum, cause.cause), 0.0) < _LEFT_SHARE_MAX * had
        ]
        key = (cause.arm, cause.stratum)
        if lifted and (key not in best or (cause.seconds or 0.0) > (best[key].seconds or 0.0)):
            only = [own, *lifted]
            best[key] = _measured(_judged(cause, only), only, [])
    yield from best.values()


def _is_of_same_arm(one: Cause, other: Cause) -> bool:
    return (one.arm, one.stratum) == (other.arm, other.stratum)


def _measured(cause: Cause, arms: Sequence[ArmResult], causes: Sequence[Cause]) -> Cause:
    """The cause with the gain of the arm that lifted it most; as it is where none did.

    An arm lifted it that was faster, by its verdict, and of which the cause is not told any more. One that
    has it still was only relieved, which says nothing of what is left to gain: unless it gained more already
    than was predicted as the most.
    """
    own = next((arm for arm in arms if (arm.name, arm.stratum) == (cause.arm, cause.stratum)), None)
    if own is None or cause.gain_if_lifted is None:
        return cause
    tries = list(_tries(own, [arm for arm in arms if arm.stratum == cause.stratum], _lifting(cause)))
    have_it = {each.arm for each in causes if (each.cause, each.stratum) == (cause.cause, cause.stratum)}
    faster = [each for each in tries if each.answer == "faster" and each.ratio]
    lifted = [each for each in faster if each.arm.name not in have_it]
    lifted = lifted or [each for each in faster if _is_beyond(cause, _ends_over(own, each.arm))]
    if not lifted:
        return cause
    best = max(lifted, key=lambda each: each.ratio or 0.0)
    return cause.model_copy(
        update={
            "gain_if_lifted": best.ratio,
            "gain_interval": _ends_over(own, best.arm),
            "gain_predicted": cause.gain_if_lifted,
            "lifted_by": _level(best.arm, best.setting),
            "next_limit": None,
        }
    )


def _is_beyond(cause: Cause, measured: tuple[float, float] | None) -> bool:
    """Whether so much was measured that the prediction, which is of the most, is refuted."""
    predicted = (cause.gain_interval or (0.0, cause.gain_if_lifted or math.inf))[1]
    return measured is not None and measured[0] > predicted * _TOLERANCE


def _lifting(cause: Cause) -> tuple[SettingRemedy, ...]:
    """What lifts a cause: its rule's settings, and another storage where the storage is the limit."""
    rule = rule_of(cause.cause)
    found = rule.settings if rule is not None else ()
    return (*found, _STORAGE) if cause.cause in _OF_STORAGE else found


def _ends_over(own: ArmResult, other: ArmResult) -> tuple[float, float] | None:
    """The interval of the other arm's speed over this one's, where one of them is the control."""
    low, high = (other if own.verdict == "control" else own).interval or (None, None)
    if low is None or high is None or "control" not in (own.verdict, other.verdict):
        return None
    return (low, high) if own.verdict == "control" else (1 / high, 1 / low)


def _missed(cause: Cause) -> bool:
    """Whether what was measured is not what had been predicted."""
    if cause.gain_predicted is None or cause.gain_if_lifted is None:
        return False
    # Between two arms of which neither is the control there is no interval.
    low, high = cause.gain_interval or (cause.gain_if_lifted, cause.gain_if_lifted)
    least, most = cause.gain_range or (cause.gain_predicted, cause.gain_predicted)
    rule = rule_of(cause.cause)
    if rule is not None and rule.gain_is_least:
        most = math.inf
    return not (low / _TOLERANCE <= most and least <= high * _TOLERANCE)


def _judged(cause: Cause, arms: Sequence[ArmResult]) -> Cause:
    rule = rule_of(cause.cause)
    of_stratum = [arm for arm in arms if arm.stratum == cause.stratum]
    own = next((arm for arm in of_stratum if arm.name == cause.arm), None)
    if rule is None or own is None or not rule.settings:
        return cause
    tries = list(_tries(own, of_stratum, rule.settings))
    helped = [each for each in tries if each.answer == "faster"]
    if helped:
        best = max(helped, key=lambda each: each.ratio or 0.0)
        return _with(cause, "proved", _proved(own, best, cause.remedy))
    if not tries:
        return _with(cause, "not tried", cause.remedy)
    if any(each.answer == "not decided" for each in tries):
        return _with(cause, "not decided", cause.remedy)
    # What is advised for index reads is no setting, so that nothing of it was tried.
    left = cause.remedy if INDEX_SHARE in cause.evidence else rule.otherwise
    words = f"{_refuted(own, tries)} {left}".strip()
    return _with(cause, "refuted", words)


def _with(cause: Cause, status: RemedyStatus, remedy: str) -> Cause:
    return cause.model_copy(update={"remedy_status": status, "remedy": remedy})


def _tries(own: ArmResult, arms: Sequence[ArmResult], settings: Sequence[SettingRemedy]) -> Iterator[_Try]:
    by_name = {setting.name: setting for setting in settings}
    for arm in arms:
        differing = {name for name in own.levels | arm.levels if own.levels.get(name) != arm.levels.get(name)}
        if len(differing) != 1:
            continue
        name = differing.pop()
        setting = by_name.get(name)
        if setting is None or not _is_towards(setting, own.levels.get(name), arm.levels.get(name)):
            continue
        answer, ratio = _compared(own, arm)
        yield _Try(arm, setting, answer, ratio)


def _is_towards(setting: SettingRemedy, before: str | None, after: str | None) -> bool:
    if before is None or after is None:
        return False
    if setting is _STORAGE:
        return True  # which of two storages is the faster one, the verdict says
    if isinstance(setting.to, tuple):
        return after in setting.to and before not in setting.to
    low, high = _amount(before), _amount(after)
    if low is None or high is None:
        return False
    return high > low if setting.to == "higher" else high < low


def _amount(text: str) -> float | None:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        return None
    return float(match[1]) * _UNITS[match[2]]


def _compared(own: ArmResult, other: ArmResult) -> tuple[Answer, float | None]:
    """Whether the other arm was faster than `own`, and how many times as fast."""
    ratio = other.ratio / own.ratio if other.ratio and own.ratio else None
    if own.withheld or other.withheld:
        return "not decided", ratio
    if own.verdict == "control":
        return _of_verdict(other.verdict, "faster"), ratio
    if other.verdict == "control":
        return _of_verdict(own.verdict, "slower"), ratio
    (own_low, own_high), (low, high) = own.interval or (None, None), other.interval or (None, None)
    if low is not None and own_high is not None and low > own_high:
        return "faster", ratio
    if high is not None and own_low is not None and high < own_low:
        return "no faster", ratio
    return "not decided", ratio


def _of_verdict(verdict: str, helped: str) -> Answer:
    if verdict == helped:
        return "faster"
    return "no faster" if verdict in ("faster", "slower", "equivalent") else "not decided"


def _level(arm: ArmResult, setting: SettingRemedy) -> str:
    return f"{setting.name}={arm.levels[setting.name]}"


def _proved(own: ArmResult, best: _Try, remedy: str) -> str:
    told = f" ({_told(own, best)})" if best.ratio else ""
    return f"{remedy} It helped here: {_level(best.arm, best.setting)}{told}."


def _refuted(own: ArmResult, tries: Sequence[_Try]) -> str:
    names = " or ".join(dict.fromkeys(each.setting.words for each in tries))
    told = "; ".join(f"{_level(each.arm, each.setting)} {_told(own, each)}" for each in tries)
    return f"{names} did not help here: {told}."


def _told(own: ArmResult, tried: _Try) -> str:
    of = _level(own, tried.setting)
    if tried.answer == "no faster" and "equivalent" in (own.verdict, tried.arm.verdict):
        return f"is as fast as {of}"
    return f"is {comparison(tried.ratio)} {of}" if tried.ratio else f"is no faster than {of}"
