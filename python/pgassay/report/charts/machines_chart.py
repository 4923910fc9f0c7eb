"""The drawing of an arm's effect on each machine, with the common effect and that of machines like these."""

import math
from collections.abc import Sequence

from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.report import text
from pgassay.report.charts import drawing, interval_rows, palette
from pgassay.report.charts.drawing import NARROW_PX, Drawing, Specification, both_widths, shortened
from pgassay.report.charts.interval_rows import IntervalRow
from pgassay.words import percent

# Of more machines those with the least and the greatest ratios are drawn; the table has all.
_MACHINES_MAX = 40
_MACHINE_SIZE, _COMMON_SIZE = 80, 150


def drawings(result: CombinedResult, arms: Sequence[CombinedArm]) -> list[Drawing]:
    """One drawing for each of these arms, named machines-1, machines-2 and so on.

    Before them `strata`, where a grid was spread: each stratum's effect, with the machine that ran it.
    """
    made = []
    if result.cells is not None:
        made.append(both_widths("strata", lambda width: strata(result, width_px=width)))
    for number, arm in enumerate(arms, start=1):

        def make(width: int, arm: CombinedArm = arm) -> Specification:
            return specification(result, arm, width_px=width)

        made.append(both_widths(f"machines-{number}", make))
    return made


def specification(result: CombinedResult, arm: CombinedArm, *, width_px: int) -> Specification:
    """Each machine's interval, below a line the effect of all and that of machines like these."""
    narrow = width_px <= NARROW_PX
    own = [each for each in result.machines if (each.arm, each.stratum) == (arm.name, arm.stratum)]
    drawn = _drawn(own)
    limit = 44 if narrow else 40
    rows = [_machine_row(number, each, limit) for number, each in enumerate(drawn)]
    rows += _common_rows(len(rows), arm, is_one=len(own) == 1)
    title = _title(result, arm, len(own), len(drawn), narrow=narrow)
    return interval_rows.specification(
        rows, result.margin, title, width_px=width_px, kind="machine", apart=len(rows) - len(drawn)
    )


def strata(result: CombinedResult, *, width_px: int) -> Specification:
    """The effect of every arm of a spread grid, with the machines that it was measured on."""
    narrow = width_px <= NARROW_PX
    limit = 44 if narrow else 46
    shown = result.arms[:_MACHINES_MAX]
    rows = []
    for number, arm in enumerate(shown):
        own = [each for each in result.machines if (each.arm, each.stratum) == (arm.name, arm.stratum)]
        ran = [each.name for each in own if each.blocks]
        at = f" at {arm.stratum}" if arm.stratum and arm.stratum not in arm.name else ""
        where = ran[0] if len(ran) == 1 else f"{len(ran)} machines"
        name = text.clean(f"{arm.name}{at}, {where}")
        found = arm.these_machines
        colour = palette.QUIET_INK if found.withheld else palette.ARMS[1 if len(ran) > 1 else 0]
        shape = "diamond" if len(ran) > 1 else "circle"
        says = "no single effect fits them" if found.withheld else "no complete block"
        rows.append(_row(number, shortened(name, limit), name, found, _word(found), colour, shape, says))
    parts = ["right of 1× is faster than the control", f"the band is ±{percent(result.margin)}"]
    parts += ["diamond: an anchor, run on several machines"]
    parts += [f"the first {len(shown)} of {len(result.arms)}"] if len(shown) < len(result.arms) else []
    title = drawing.title("The effect in each stratum", parts if narrow else ["; ".join(parts)])
    return interval_rows.specification(rows, result.margin, title, width_px=width_px, kind="arm")


def _drawn(machines: Sequence[MachineResult]) -> Sequence[MachineResult]:
    if len(machines) <= _MACHINES_MAX:
        return machines
    known = sorted((each for each in machines if each.ratio is not None), key=lambda each: each.ratio or 1.0)
    half = _MACHINES_MAX // 2
    return known if len(known) <= _MACHINES_MAX else [*known[:half], *known[-half:]]


def _title(
    result: CombinedResult, arm: CombinedArm, machines: int, drawn: int, *, narrow: bool
) -> Specification:
    at = f" at {arm.stratum}" if arm.stratum and arm.stratum not in arm.name else ""
    name = shortened(text.clean(f"{arm.name}{at}"), 42 if narrow else 50)
    control = shortened(text.clean(arm.control), 28 if narrow else 40)
    parts = [f"right of 1× is faster than {control}", f"the band is ±{percent(result.margin)}"]
    if drawn < machines:
        parts.append(f"the {drawn // 2} slowest and the {drawn - drawn // 2} fastest of {machines} machines")
    if narrow:
        return drawing.title(name, parts)
    return drawing.title(f"{name} against {control}, by machine", ["; ".join(parts)])


def _machine_row(number: int, machine: MachineResult, limit: int) -> IntervalRow:
    says = "no complete block" if machine.blocks == 0 else "no single effect fits its blocks"
    word = "withheld" if machine.withheld else machine.verdict
    colour = palette.QUIET_INK if machine.withheld else palette.ARMS[0]
    name = text.clean(machine.name)
    return _row(number, shortened(name, limit), name, machine, word, colour, "circle", says)


def _common_rows(number: int, arm: CombinedArm, *, is_one: bool) -> list[IntervalRow]:
    """Both answers; of one machine that of these machines is its own, and of a spread grid there is one."""
    these, like_these = arm.these_machines, arm.machines_like_these
    missing = "no single effect fits them" if these.withheld else "no complete block"
    too_few = f"{like_these.machines} of the {like_these.needed} machines needed"
    answers = [] if is_one else [("these machines", these, palette.ARMS[1], "diamond", missing)]
    if like_these.needed:
        answers.append(("machines like these", like_these, palette.ARMS[2], "square", too_few))
    return [
        _row(number + place, called, called, found, _word(found), colour, shape, says, _COMMON_SIZE)
        for place, (called, found, colour, shape, says) in enumerate(answers)
    ]


def _word(effect: CommonEffect) -> str:
    return "withheld" if effect.withheld else effect.verdict


def _row(
    number: int,
    label: str,
    full: str,
    found: MachineResult | CommonEffect,
    word: str,
    colour: str,
    shape: str,
    says: str,
    size: int = _MACHINE_SIZE,
) -> IntervalRow:
    low, high = text.bounds(found.interval) if found.interval else (None, None)
    # Where no single figure fits all blocks a point would pass for an answer.
    is_shown = found.interval is not None and found.ratio and math.isfinite(found.ratio)
    return {
        "key": f"{number:04d}",
        "label": label,
        "ratio": found.ratio if is_shown else None,
        "low": low,
        "high": high,
        "colour": colour,
        "shape": shape,
        "size": size,
        "says": says,
        "full": full,
        "word": word,
        "ratio_text": text.ratio(found.ratio),
        "interval_text": text.interval(found.interval),
    }
