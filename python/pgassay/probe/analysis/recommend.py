"""What to set, why, and what each other value would cost; from the regrets that were measured."""

from collections.abc import Mapping

from pgassay.model.probe import Alternative, Method, Recommendation
from pgassay.probe.analysis.estimates import Estimates
from pgassay.probe.analysis.probe_plan import (
    DEFAULT_HANDLES,
    DEFAULT_MAX_WORKERS,
    DEFAULT_MIN_WORKERS,
    GROWING_SINCE,
    Facilities,
    decisions,
)
from pgassay.probe.analysis.regret import TOLERANCE, JudgedLevels, judge
from pgassay.words import percent_fixed

_MAX_COMBINE_DEFAULT_KB = 128
_CURVES = ("effective_io_concurrency", "io_combine_limit", "read_ahead_kb")


def leader(have: Facilities, estimates: Estimates, present: Method | None = None) -> Method | None:
    """The method to recommend so far; the default while there is nothing to tell the methods apart.

    With `present`, for which curves were begun, that one while another is not certainly better: two that are
    nearly equal would change places with every round, and the time go into the curves of both.
    """
    for decision in decisions(have, None):
        judged = judge(decision, estimates)
        if judged is None:
            continue
        if present is not None and judged.interval_of(present)[0] <= 0:
            return present
        return next(method for method in have.methods if method == judged.choice)
    return have.methods[0] if have.methods else None


def curve_method(have: Facilities, estimates: Estimates) -> Method | None:
    """The method that the curves of look-ahead and read-ahead were measured for: mostly the leader.

    Two methods that are nearly equal may change places late, and the curves are those of the first.
    """
    first = leader(have, estimates)

    def measured(method: Method) -> tuple[float, bool]:
        curves = (each for each in decisions(have, method) if each.name in _CURVES)
        cells = {spec for each in curves for specs in each.candidates.values() for spec in specs}
        return len(cells & estimates.keys()) / max(1, len(cells)), method == first

    return max(have.methods, key=measured, default=None)


def judged_decisions(have: Facilities, estimates: Estimates) -> dict[str, JudgedLevels]:
    """Every decision with at least two measured values, by its name."""
    chosen = curve_method(have, estimates)
    found = {each.name: judge(each, estimates) for each in decisions(have, chosen)}
    return {name: judged for name, judged in found.items() if judged is not None}


def recommendations(have: Facilities, estimates: Estimates) -> dict[str, Recommendation]:
    """Setting → its recommendation; only what was measured is recommended."""
    judged = judged_decisions(have, estimates)
    made: dict[str, Recommendation] = {}
    if "io_method" in judged:
        made["io_method"] = _method(judged["io_method"])
    if "io_workers" in judged:
        several = judged.get("io_workers, several scans")
        workers = _growing_workers if have.grows_workers else _workers
        made |= workers(judged["io_workers"], several, leader(have, estimates))
    method = curve_method(have, estimates)
    if "effective_io_concurrency" in judged:
        where = "bitmap scans" if method == "sync" else "bitmap scans and cold scans"
        depth = judged["effective_io_concurrency"]
        made["effective_io_concurrency"] = _concurrency(depth, f"{where} by {method}", method)
        if "io_max_concurrency" in judged:
            made["io_max_concurrency"] = _handles(judged["io_max_concurrency"], depth)
    if "io_combine_limit" in judged:
        made["io_combine_limit"] = _combine(judged["io_combine_limit"], method)
    if "read_ahead_kb" in judged:
        made["read_ahead_kb"] = _curve(judged["read_ahead_kb"], f"cold scans by {method}")
    return made


def _method(judged: JudgedLevels) -> Recommendation:
    others = [each for each in judged.alternatives if each.value != judged.choice]
    costs = ", ".join(f"{each.value} {_signed(each, judged)}" for each in others)
    reason = f"over cold, cached and bitmap scans together, time against {judged.choice}'s: {costs}"
    return _made(judged, reason, knee=None)


def _signed(other: Alternative, judged: JudgedLevels) -> str:
    """The time of another value relative to the choice's."""
    change = (1 + other.regret) / (1 + judged.regret_of[judged.choice]) - 1
    return percent_fixed(change, signed=True)


def _workers(
    one: JudgedLevels, several: JudgedLevels | None, method: str | None
) -> dict[str, Recommendation]:
    """One figure for 18, a range for 19: enough for one scan, and for a scan on every core."""
    wide = several or one
    most = max(int(one.choice), int(wide.choice))
    use = "" if method == "worker" else f" (of use only with io_method=worker; {method} is recommended)"
    chosen = wide if int(wide.choice) >= int(one.choice) else one
    what = "a cold scan" if chosen is one else "cold scans on all cores at once"
    reason = f"{_knee_words(chosen, f'{what} by worker')}{use}"
    fixed = _made(chosen, reason, knee=chosen.knee)
    low = DEFAULT_MIN_WORKERS if one.choice == one.decision.default else int(one.choice)
    return {
        "io_workers": fixed,
        "io_min_workers": Recommendation(
            value=str(low),
            default=str(DEFAULT_MIN_WORKERS),
            reason=f"one cold scan needs {one.choice}; 19 starts more when they are needed{use}",
            knee=one.knee,
            alternatives=one.alternatives,
            probability=one.probability if low != DEFAULT_MIN_WORKERS else None,
        ),
        "io_max_workers": Recommendation(
            value=str(max(most, low, DEFAULT_MAX_WORKERS)),
            default=str(DEFAULT_MAX_WORKERS),
            reason=f"cold scans on all cores at once need {wide.choice}; 19 starts no more than are needed, "
            f"so a smaller limit gains nothing{use}",
            knee=wide.knee,
            alternatives=wide.alternatives,
            probability=wide.probability if most > DEFAULT_MAX_WORKERS else None,
        ),
    }


def _growing_workers(
    one: JudgedLevels, several: JudgedLevels | None, method: str | None
) -> dict[str, Recommendation]:
    """The most workers of a pool that grows as they are wanted; it begins with the default."""
    wide = several if several is not None and int(several.choice) >= int(one.choice) else one
    what = "a cold scan" if wide is one else "cold scans on all cores at once"
    use = "" if method == "worker" else f" (of use only with io_method=worker; {method} is recommended)"
    reason = f"{_knee_words(wide, f'{what} by worker')}{use}"
    least = min(DEFAULT_MIN_WORKERS, int(wide.choice))
    why = (
        "the pool starts more by itself, one in io_worker_launch_interval, and keeps them for "
        "io_worker_idle_timeout"
        if least == DEFAULT_MIN_WORKERS
        else "no more than io_max_workers"
    )
    return {
        "io_min_workers": Recommendation(
            value=str(least),
            default=str(DEFAULT_MIN_WORKERS),
            reason=f"{why}{use}",
            knee=None,
            alternatives=(),
            # Below the default it comes with the smaller pool, and is as certain.
            probability=None if least == DEFAULT_MIN_WORKERS else wide.probability,
        ),
        "io_max_workers": _made(wide, reason, knee=wide.knee),
    }


def _concurrency(judged: JudgedLevels, what: str, method: str | None) -> Recommendation:
    reason = _knee_words(judged, what)
    if method != "sync":
        above = f"more than io_max_concurrency ({DEFAULT_HANDLES} by default) puts no more reads in flight"
        if int(judged.choice) > DEFAULT_HANDLES:
            above += f", so io_max_concurrency must be raised to {judged.choice} as well, and needs a restart"
        reason += f"; {above}"
    return _made(judged, reason, knee=judged.knee)


def _handles(judged: JudgedLevels, depth: JudgedLevels) -> Recommendation:
    """As many as effective_io_concurrency uses: of itself it puts nothing in flight."""
    value = max(DEFAULT_HANDLES, int(depth.choice))
    is_default = value == DEFAULT_HANDLES
    reason = (
        f"effective_io_concurrency = {depth.choice} needs no more"
        if is_default
        else f"effective_io_concurrency = {depth.choice} needs as many; it takes a restart"
    )
    return Recommendation(
        value=str(value),
        default=judged.decision.default,
        reason=f"{reason}. The default is what shared_buffers leave to a process, {DEFAULT_HANDLES} at most",
        knee=judged.knee,
        alternatives=judged.alternatives,
        probability=None if is_default else depth.probability,
    )


def _curve(judged: JudgedLevels, what: str) -> Recommendation:
    return _made(judged, _knee_words(judged, what), knee=judged.knee)


def _combine(judged: JudgedLevels, method: str | None) -> Recommendation:
    reason = _knee_words(judged, f"cold and cached scans by {method}")
    if int(judged.choice.removesuffix("kB")) > _MAX_COMBINE_DEFAULT_KB:
        reason += f"; io_max_combine_limit must be raised to {judged.choice} as well, and needs a restart"
    return _made(judged, reason, knee=judged.knee)


def _knee_words(judged: JudgedLevels, what: str) -> str:
    regrets = judged.regret_of
    default = regrets.get(judged.decision.default)
    values = list(regrets)
    larger = max((regrets[value] for value in values[values.index(judged.knee) :]), default=0.0)
    near = percent_fixed(TOLERANCE)
    words = f"measured on {what}: the best is within {near} from {judged.knee} on"
    if larger > TOLERANCE:
        words = (
            f"measured on {what}: the first within {near} of the best is {judged.knee}, larger values cost "
            f"up to {percent_fixed(larger)}"
        )
    if default is None:
        return words
    if judged.choice == judged.decision.default:
        return f"{words}, and the present {judged.choice} costs {percent_fixed(default, 1)}"
    return f"{words}; the present {judged.decision.default} costs {percent_fixed(default)} more time"


def _made(judged: JudgedLevels, reason: str, *, knee: str | None) -> Recommendation:
    made = Recommendation(
        value=judged.choice,
        default=judged.decision.default,
        reason=reason,
        knee=knee,
        alternatives=judged.alternatives,
        probability=judged.probability,
    )
    if made.value == made.default and judged.regret_of[made.value] > TOLERANCE:
        reason += "; that is within the noise, so it stays: a longer probe would show"
    elif made.probability is not None and not made.is_certain:
        reason += f"; likely ({percent_fixed(made.probability)}), not certain: a longer probe would show"
    return made.model_copy(update={"reason": reason})


def changed(recommend: Mapping[str, Recommendation], major: int) -> dict[str, Recommendation]:
    """The recommendations that differ from the defaults, of those that this major version has a use for."""
    method = recommend["io_method"].value if "io_method" in recommend else None
    return {
        name: each
        for name, each in of_major(recommend, major).items()
        if each.value != each.default and not ("workers" in name and method != "worker")
    }


def of_major(recommend: Mapping[str, Recommendation], major: int) -> dict[str, Recommendation]:
    """The recommendations of settings that this major version has."""
    of_other_major = {"io_workers"} if major >= GROWING_SINCE else {"io_min_workers", "io_max_workers"}
    return {name: each for name, each in recommend.items() if name not in of_other_major}


def shell_lines(recommend: Mapping[str, Recommendation], major: int, disk: str | None) -> list[str]:
    """The recommendations that differ from the defaults, as lines of postgresql.conf of this major version.

    The read-ahead is a line for a shell, in 512-byte sectors as blockdev takes it. What is not certain
    says so.
    """
    lines = []
    for name, each in changed(recommend, major).items():
        doubt = "" if each.is_certain else "  # likely, not certain"
        if name == "read_ahead_kb":
            lines.append(f"# blockdev --setra {int(each.value) * 2} /dev/{disk or 'DISK'}{doubt}")
            continue
        lines.append(f"{name} = {each.value}{doubt}")
        if needs_max_combine(name, each.value):
            lines.append(f"io_max_combine_limit = {each.value}")
    return lines


def needs_max_combine(name: str, value: str) -> bool:
    """Whether the value of a setting has no effect without an io_max_combine_limit as large."""
    return name == "io_combine_limit" and int(value.removesuffix("kB")) > _MAX_COMBINE_DEFAULT_KB
