"""Did the new disk deliver? The ceilings of two probes as ratios, with intervals where cells give them."""

import math

from pgassay.model.probe import CeilingRatio, CellResult, ProbeComparison, ProbeResult
from pgassay.model.result import Interval
from pgassay.probe.analysis.ceilings import FROM_MEMORY
from pgassay.probe.analysis.probe_plan import CEILING_DEPTHS

# A ratio within 5 % is no reason to change a disk.
_MARGIN = 0.05
# By them the warnings of a device that was not steady are known; the second is that of earlier files.
_UNSTEADY = (FROM_MEMORY, "memory answers", "NOT STEADY")


def compare_probes(new: ProbeResult, old: ProbeResult, old_name: str) -> ProbeComparison:
    """The ratio new over old of every ceiling that both have.

    The interval of a ratio comes from the two cells' intervals, as independent errors on the logarithmic
    scale. A verdict is given only where the interval excludes 1, `alike` where it lies within 5 %.
    """
    ratios = tuple(_ratios(new, old))
    return ProbeComparison(
        old=old_name,
        old_measured_at=old.measured_at,
        ratios=ratios,
        sentences=tuple(_sentences(ratios, new, old)),
        result=new,
    )


def _ratios(new: ProbeResult, old: ProbeResult) -> list[CeilingRatio]:
    made = [
        _ratio(
            "sequential read",
            "MB/s",
            (new.ceilings.sequential_read_mb_s, old.ceilings.sequential_read_mb_s),
            (_fastest(new), _fastest(old)),
        )
    ]
    for depth in CEILING_DEPTHS:
        name = str(depth)
        made.append(
            _ratio(
                f"random read at depth {depth}",
                "IOPS",
                (new.ceilings.random_read_iops.get(name), old.ceilings.random_read_iops.get(name)),
                (_random(new, depth), _random(old, depth)),
            )
        )
    for quantile in ("p50", "p99"):
        pair = (
            new.ceilings.latency_us_depth_1.get(quantile),
            old.ceilings.latency_us_depth_1.get(quantile),
        )
        made.append(_ratio(f"latency at depth 1, {quantile}", "µs", pair, (None, None)))
    durable = (new.ceilings.fdatasync_per_s, old.ceilings.fdatasync_per_s)
    made.append(_ratio("fdatasync", "per second", durable, (_durable(new), _durable(old))))
    return [each for each in made if each is not None]


def _ratio(
    name: str,
    unit: str,
    values: tuple[float | None, float | None],
    cells: tuple[CellResult | None, CellResult | None],
) -> CeilingRatio | None:
    new, old = values
    if not new or not old:
        return None
    ratio = new / old
    interval = _interval(ratio, cells)
    better = "lower" if unit == "µs" else "higher"
    return CeilingRatio.model_validate(
        {
            "name": name,
            "unit": unit,
            "better": better,
            "old": old,
            "new": new,
            "ratio": ratio,
            "interval": interval,
            "verdict": _verdict(interval, higher_is_better=better == "higher"),
        }
    )


def _interval(ratio: float, cells: tuple[CellResult | None, CellResult | None]) -> Interval | None:
    reaches = []
    for cell in cells:
        if cell is None or cell.interval[0] <= 0:
            return None
        reaches.append(math.log(cell.interval[1] / cell.interval[0]) / 2)
    reach = math.hypot(*reaches)
    return ratio * math.exp(-reach), ratio * math.exp(reach)


def _verdict(interval: Interval | None, *, higher_is_better: bool) -> str:
    if interval is None:
        return "undecided"
    low, high = interval
    if low > 1 / (1 + _MARGIN) and high < 1 + _MARGIN:
        return "alike"
    if low <= 1 <= high:
        return "undecided"
    return "better" if (low > 1) == higher_is_better else "worse"


def _sentences(ratios: tuple[CeilingRatio, ...], new: ProbeResult, old: ProbeResult) -> list[str]:
    words = {
        verdict: [f"{each.name} {each.ratio:.2f}×" for each in ratios if each.verdict == verdict]
        for verdict in ("better", "worse", "alike", "undecided")
    }
    found = []
    if words["better"]:
        found.append(f"The new device is better in: {', '.join(words['better'])}.")
    if words["worse"]:
        found.append(f"It is WORSE in: {', '.join(words['worse'])}.")
    if words["alike"]:
        found.append(f"Equal within 5 %: {', '.join(words['alike'])}.")
    if words["undecided"]:
        found.append(f"Not distinguishable, or without an interval: {', '.join(words['undecided'])}.")
    for name, result in (("new", new), ("old", old)):
        if any(phrase in warning for warning in result.warnings for phrase in _UNSTEADY):
            found.append(f"The {name} probe did not measure a steady device: see its warnings.")
    return found


def _fastest(result: ProbeResult) -> CellResult | None:
    wanted = result.ceilings.sequential_read_mb_s
    return next((cell for cell in result.cells if wanted is not None and cell.mb_s == wanted), None)


def _random(result: ProbeResult, depth: int) -> CellResult | None:
    return next(
        (
            cell
            for cell in result.cells
            if cell.spec.pattern == "random" and cell.spec.depth == depth and cell.spec.engine != "write"
        ),
        None,
    )


def _durable(result: ProbeResult) -> CellResult | None:
    return next((cell for cell in result.cells if cell.spec.pattern == "wal"), None)
