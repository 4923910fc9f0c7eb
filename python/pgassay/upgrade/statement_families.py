"""What a new version does to each statement family of captured traffic: errors, rows, times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import hypergeom

from pgassay.model.result import CompareResult
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.upgrades.upgrade_answer import UpgradedStatement, UpgradeTraffic
from pgassay.model.workload import WorkloadSpec
from pgassay.upgrade.empty_server import Refused
from pgassay.upgrade.refused_views import why_it_fails
from pgassay.upgrade.version_texts import TELLS_VERSION, tells_version
from pgassay.upgrade.version_times import Pair, pairs_of, with_times
from pgassay.words import plural

# Chance gives a family as many more executions that come out otherwise in so few of all upgrades.
_CHANCE_MAX = 0.005
_ERROR = "error "
_NO_TABLE = "error 42P01"
# What comes of an error before it in the transaction, or in the pipeline.
_AFTER_AN_ERROR = ("error 25P02", "not executed, after an error")


@dataclass(frozen=True)
class Plays:
    """What the plays on either version came to."""

    before: tuple[Replayed, ...]
    after: tuple[Replayed, ...]


@dataclass(frozen=True)
class _Seen:
    """A family in all plays of one version; `shares` are those of each play that came out otherwise."""

    calls: int
    diverged: int
    other_values: int
    shares: tuple[tuple[float, float], ...]
    captured: str
    now: str
    seconds_captured: float


def judged_families(
    workload: WorkloadSpec,
    plays: Plays,
    result: CompareResult,
    plans: Mapping[str, tuple[str, ...]],
    refused: Sequence[Refused] = (),
) -> tuple[UpgradedStatement, ...]:
    """Every family that has a line, and of the others those that fail or return other rows.

    `refused`: what both copies are without, since the new version can't have it.
    """
    before, after = _by_text(plays.before), _by_text(plays.after)
    timed = pairs_of(result)
    sql = {each.name: each.sql for each in workload.statements}
    whole_s = plays.before[0].seconds_captured or 1.0
    found = []
    # What came out as captured may be left out of a play's record.
    for text, group in (after | before).items():
        name = group[0].name
        old = _seen(before.get(text, ()), group[0], len(plays.before))
        new = _seen(after.get(text, ()), group[0], len(plays.after))
        made = UpgradedStatement(
            name=name or text,
            sql=sql.get(name, text),
            verdict="not decided",
            share=old.seconds_captured / whole_s,
            calls=group[0].calls,
        )
        wrong = _on_a_refused_view(made, new, refused) or _wrong(made, old, new)
        if wrong is not None:
            found.append(wrong)
        elif name:
            reasons = _doubts(old, new)
            reasons += [TELLS_VERSION] if new.other_values and tells_version(made.sql) else []
            changed = plans.get(name)
            made = made.model_copy(update={"plan": changed or ()})
            if changed == ():
                reasons.append("the plan is the same in both")
            found.append(with_times(made, timed.get(name) or _alone(timed, workload), reasons))
    return tuple(found)


def _alone(timed: Mapping[str, Pair], workload: WorkloadSpec) -> Pair | None:
    return timed.get("") if len(workload.statements) == 1 else None


def whole_of(workload: WorkloadSpec, plays: Plays, result: CompareResult) -> UpgradeTraffic:
    """The traffic as a whole: what was played, how much came out otherwise, how fast the new version is."""
    options, first = workload.replay, plays.before[0]
    whole_s = first.seconds_captured
    others = [each for each in first.families if not each.name]
    others_s = sum(each.seconds_captured for each in others) + first.seconds_left_out
    arm = next(each for each in result.arms if each.verdict != "control")
    return UpgradeTraffic(
        folder=options.folder,
        speed=options.speed,
        sessions=first.sessions,
        statements=first.statements,
        seconds_captured=options.seconds_captured,
        plays=(len(plays.before), len(plays.after)),
        otherwise=(
            median(each.diverged_share for each in plays.before),
            median(each.diverged_share for each in plays.after),
        ),
        untimed=len(others) + first.families_left_out,
        untimed_share=others_s / whole_s if whole_s else 0.0,
        metric=result.metric.name,
        verdict=arm.verdict,
        ratio=arm.ratio,
        interval=arm.interval if arm.interval is not None and None not in arm.interval else None,
        note=arm.note if arm.withheld else "",
    )


def failed_on_views(
    played: Replayed, workload: WorkloadSpec, refused: Sequence[Refused]
) -> tuple[list[ReplayedFamily], list[ReplayedFamily]]:
    """What failed since the data are without a view that the new version refuses; and what came after that.

    Whether a family that came after an error came after one of these is not known.
    """
    sql = {each.name: each.sql for each in workload.statements}
    failed = [
        each
        for each in played.families
        if each.diverged
        and each.now.startswith((_NO_TABLE, *_AFTER_AN_ERROR))
        and why_it_fails(sql.get(each.name, each.text), refused)
    ]
    names = {each.text for each in failed}
    after = [
        each
        for each in played.families
        if each.text not in names and each.diverged and each.now.startswith(_AFTER_AN_ERROR)
    ]
    return failed, after if failed else []


def _by_text(plays: Sequence[Replayed]) -> dict[str, list[ReplayedFamily]]:
    found: dict[str, list[ReplayedFamily]] = {}
    for played in plays:
        for each in played.families:
            found.setdefault(each.text, []).append(each)
    return found


def _seen(group: Sequence[ReplayedFamily], known: ReplayedFamily, plays: int) -> _Seen:
    """The family in so many plays; those that left it out had the calls of the `known` one, all as then."""
    worst = max(group, key=_told_first, default=None)
    left_out = plays - len(group)
    same = ((0.0, 0.0),) * (left_out if known.calls else 0)
    return _Seen(
        calls=sum(each.calls for each in group) + left_out * known.calls,
        diverged=sum(each.diverged for each in group),
        other_values=sum(each.other_values for each in group),
        shares=same
        + tuple((each.diverged / each.calls, each.other_values / each.calls) for each in group if each.calls),
        captured=worst.captured if worst else "",
        now=worst.now if worst else "",
        seconds_captured=known.seconds_captured,
    )


def _told_first(each: ReplayedFamily) -> tuple[bool, bool, int]:
    """What stands for a family: an error of its own before one that came of another, and that before rows."""
    is_after = each.now.startswith(_AFTER_AN_ERROR)
    return each.now.startswith(_ERROR) and not is_after, is_after, each.diverged


def _wrong(made: UpgradedStatement, old: _Seen, new: _Seen) -> UpgradedStatement | None:
    """It fails, or returns other rows, on the new version and not, or far less, on the old one."""
    if all(each.calls == each.diverged and each.now.startswith(_AFTER_AN_ERROR) for each in (old, new)):
        return _told(made, "not run", "a statement before it had failed, on the old version too")
    came = f"{new.diverged:,} of {new.calls:,} executions: {new.captured} in the capture, {new.now}"
    has_more = _is_more(old, new, 0)
    # Deadlocks and the like are not counted, and no other error comes by chance where there was none.
    if has_more or (new.diverged and not old.diverged):
        if new.now.startswith(_AFTER_AN_ERROR):
            return _told(made, "not run", f"a statement before it had failed, in {came}")
        if new.now.startswith(_ERROR):
            return _told(made, "fails", came)
    if has_more:
        return _told(made, "other rows", came)
    if _is_more(old, new, 1) and not tells_version(made.sql):
        return _told(
            made,
            "other rows",
            f"{new.other_values:,} of {new.calls:,} executions had the same number of rows with different "
            f"values, {old.other_values:,} of {old.calls:,} on the old version",
        )
    return None


def _on_a_refused_view(
    made: UpgradedStatement, new: _Seen, refused: Sequence[Refused]
) -> UpgradedStatement | None:
    is_without = new.now.startswith((_NO_TABLE, *_AFTER_AN_ERROR))
    reason = why_it_fails(made.sql, refused) if is_without else ""
    return _told(made, "fails", reason) if reason else None


def _told(made: UpgradedStatement, verdict: str, reason: str) -> UpgradedStatement:
    return made.model_copy(update={"verdict": verdict, "reason": reason})


def _is_more(old: _Seen, new: _Seen, which: int) -> bool:
    """More came out otherwise on the new version than chance gives, in each play than in any on the old one.

    `which`: 0 for diverged ones, 1 for other values. Executions of one play hang together, so that their
    number alone says too much.
    """
    counts = (old.diverged, new.diverged) if which == 0 else (old.other_values, new.other_values)
    if not counts[1] or not old.calls:
        return False
    most = max(share[which] for share in old.shares)
    if min(share[which] for share in new.shares) <= most:
        return False
    calls, otherwise = old.calls + new.calls, sum(counts)
    return float(hypergeom.sf(counts[1] - 1, calls, otherwise, new.calls)) <= _CHANCE_MAX


def _doubts(old: _Seen, new: _Seen) -> list[str]:
    found = []
    if new.diverged > old.diverged * new.calls / max(old.calls, 1):
        found.append(
            f"{plural(new.diverged, 'execution')} of {new.calls:,} differ ({new.captured} in the "
            f"capture, {new.now}), which may be chance"
        )
    elif old.other_values and new.other_values:
        found.append("its values differ in each run")
    return found
