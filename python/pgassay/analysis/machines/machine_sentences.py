"""What several machines say, and a grid that was spread over them, in sentences that a person acts on."""

from collections.abc import Iterator, Sequence

from pgassay.analysis.causes.rank import arm_causes
from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.machines.gather import MachineTrials
from pgassay.model.arm import Arm
from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.model.machines.spread_grid import CellsResult, OverallEffect, StrataComparison
from pgassay.words import comparison, interval, join, percent, percent_rounded, plural, ratio, span

# Of what is recorded of a machine that disagrees, so many things are named beside it.
_NAMED_MAX = 3
_DISAGREE = "the machines disagree"


def arm_lines(arm: CombinedArm, result: CombinedResult) -> Iterator[str]:
    """Two sentences: on these machines, and on machines like these."""
    where = f"At {arm.stratum}, " if arm.stratum and arm.stratum not in arm.name else ""
    yield where + common_effect_line(arm, result)
    yield where + _like_these(arm, result)


def own_word(machine: MachineResult) -> str:
    """What one machine says in words, without its name: '12 % slower (between 9 % and 15 %)'."""
    if machine.withheld:
        return machine.note.removeprefix("withheld: ")
    if machine.ratio is None:
        return "no block"
    if machine.interval is None:
        return "no single effect fits its blocks"
    return f"{span(machine.interval)}" if machine.verdict == "inconclusive" else _difference(machine)


def _difference(machine: MachineResult) -> str:
    words = comparison(machine.ratio or 1.0).removesuffix(" than").removesuffix(" as")
    return f"{words} ({span(machine.interval or (None, None))})"


def disagreement_note(machines: Sequence[MachineResult]) -> str:
    """'the machines disagree: faster on 5 of 6; on host4 slower: 12 % slower (…)', and what sets it apart."""
    words: dict[str, list[MachineResult]] = {}
    for machine in machines:
        word = "undecided" if machine.verdict == "inconclusive" else str(machine.verdict)
        words.setdefault(word, []).append(machine)
    most = max(words, key=lambda word: (word != "undecided", len(words[word])))
    if most == "undecided":
        return f"{_DISAGREE}: {'; '.join(f'on {each.name} {own_word(each)}' for each in machines)}"
    parts = [f"{most} on {len(words[most])} of {len(machines)}"]
    if len(words) == 1:
        # All in one direction, and by how much differs.
        ordered = sorted(machines, key=lambda machine: machine.ratio or 1.0)
        parts += [f"on {each.name} {own_word(each)}{_apart(each)}" for each in (ordered[0], ordered[-1])]
        return f"{_DISAGREE} by how much: {'; '.join(parts)}"
    for word, found in words.items():
        if word != most:
            parts += [f"on {each.name} {word}: {own_word(each)}{_apart(each)}" for each in found]
    return f"{_DISAGREE}: {'; '.join(parts)}"


def limit_words(machine: MachineTrials, arm: Arm) -> str:
    """What limited the arm on this machine, 'the bandwidth of its storage'; '' where no rule explains it."""
    for part in reversed(machine.parts):
        for cause in arm_causes(part.stored):
            rule = rule_of(cause.cause)
            if (cause.arm, cause.stratum, cause.kind) == (arm.name, arm.stratum, "limit") and rule:
                ceilings = [
                    f"{value:,.0f} {'MB/s' if name.endswith('mb_s') else 'requests/s'}"
                    for name, value in cause.evidence.items()
                    if name.startswith("ceiling_") and isinstance(value, float)
                ]
                return f"{rule.phrase}, {join(ceilings)}" if ceilings else rule.phrase
    return ""


def _apart(machine: MachineResult) -> str:
    """What limits a machine, and what is recorded of it that is otherwise on most of the others."""
    limited = f" (limited by {machine.limit})" if machine.limit else ""
    return f"{limited}{_recorded_apart(machine)}"


def _recorded_apart(machine: MachineResult) -> str:
    if not machine.confounds:
        return ""
    more = len(machine.confounds) - _NAMED_MAX
    named = [each.replace(" (most: ", " instead of ").removesuffix(")") for each in machine.confounds]
    rest = f" and {more} more" if more > 0 else ""
    return f" [{join(named[:_NAMED_MAX])}{rest}]"


def common_effect_line(arm: CombinedArm, result: CombinedResult, on: str = "") -> str:
    """The effect of an arm on these machines; `on` names them, 'On alpha', in place of their number."""
    found = arm.these_machines
    if found.machines == 0:
        where = f"{on}: " if on else ""
        return f"{where}{arm.name} can't be distinguished from {arm.control} yet: no block is complete."
    on = on or (f"On these {found.machines} machines" if found.machines > 1 else "On this one machine")
    counted = plural(found.blocks, "block")
    if found.note.startswith(_DISAGREE):
        return f"{on} there is no single effect of {arm.name}, since {found.note}."
    if found.withheld:
        return f"{on} the verdict on {arm.name} is {found.note}."
    return f"{on} {_verdict(found, arm, result.margin, counted)}"


def _like_these(arm: CombinedArm, result: CombinedResult) -> str:
    found = arm.machines_like_these
    if found.ratio is None or found.machines < found.needed:
        return f"Of machines like these: {found.note}."
    counted = plural(found.machines, "machine")
    return f"On machines like these {_verdict(found, arm, result.margin, counted)}"


def _verdict(found: CommonEffect, arm: CombinedArm, margin: float, counted: str) -> str:
    if found.ratio is None or found.interval is None:
        return f"{arm.name} has no verdict against {arm.control}: {found.note} ({counted})."
    ends = span(found.interval)
    if found.verdict in ("faster", "slower"):
        small = "" if found.meaningful else f"; it may be less than the margin of {percent_rounded(margin)}"
        return f"{arm.name} is {comparison(found.ratio)} {arm.control} ({ends}, {counted}{small})."
    if found.verdict == "equivalent":
        note = f"; it is {found.note}" if found.note else ""
        return (
            f"{arm.name} is equivalent to {arm.control} within {percent(margin)} ({ends}, {counted}{note})."
        )
    note = f"; {found.note}" if found.note else ""
    return f"{arm.name} can't be distinguished from {arm.control} yet: {ends} after {counted}{note}."


# Of differences between strata so many have a sentence; the others stand in the table.
_DIFFERENCES_SHOWN_MAX = 8


def cells_lines(result: CombinedResult) -> Iterator[str]:
    """A sentence for each arm of each stratum with where it was measured, then what ties the strata."""
    cells = result.cells
    if cells is None:
        return
    for arm in result.arms:
        yield common_effect_line(arm, result, on=_where(arm, result, cells))
    for each in cells.overall:
        yield _overall(each, result.margin)
    yield from _between(cells)


def cells_family(comparisons: int, alpha: float) -> str:
    """What the error rates are of."""
    shared = (
        f" over {plural(comparisons, 'comparison')} of the whole grid together" if comparisons > 1 else ""
    )
    return (
        f"Two families with an error rate of {percent(alpha)} each{shared}: the effects within strata, on "
        "the machines that ran it; and what is said across strata, half of it for means, half for pairs. The "
        "latter takes each machine to change the effects of all strata alike, as the anchors show. The "
        "intervals of single machines at an anchor are a third."
    )


def _where(arm: CombinedArm, result: CombinedResult, cells: CellsResult) -> str:
    """'On alpha and beta (an anchor)', with the stratum where the arm's name does not have it."""
    given = next((each.machines for each in cells.strata if each.stratum == arm.stratum), ())
    ran = [
        row.name
        for row in result.machines
        if (row.arm, row.stratum) == (arm.name, arm.stratum) and row.blocks
    ]
    at = f"At {arm.stratum}, on" if arm.stratum not in arm.name else "On"
    anchor = " (an anchor)" if arm.stratum in cells.anchors else ""
    return f"{at} {join(ran or list(given))}{anchor}"


def _overall(found: OverallEffect, margin: float) -> str:
    over = f"Over all {found.strata} strata and {plural(found.machines, 'machine')}"
    if found.ratio is None or found.interval is None:
        return f"{over} there is no mean of {found.arm}: {found.note}."
    ends = span(found.interval)
    if found.verdict in ("faster", "slower"):
        small = "" if found.meaningful else f"; it may be less than the margin of {percent_rounded(margin)}"
        return (
            f"{over}, in the mean, {found.arm} is {comparison(found.ratio)} {found.control} ({ends}{small})."
        )
    if found.verdict == "equivalent":
        return f"{over}, in the mean, {found.arm} is equivalent to {found.control} ({ends})."
    note = f"; {found.note}" if found.note else ""
    return f"{over}, in the mean, {found.arm} can't be distinguished from {found.control} yet: {ends}{note}."


def _between(cells: CellsResult) -> Iterator[str]:
    shown = [each for each in cells.between if each.word in ("larger", "smaller")]
    for each in shown[:_DIFFERENCES_SHOWN_MAX]:
        yield _strata_difference(each)
    rest = len(shown) - _DIFFERENCES_SHOWN_MAX
    if rest > 0:
        yield f"{plural(rest, 'more difference')} between strata: see the table."


def _strata_difference(found: StrataComparison) -> str:
    on = f"{'tied over' if len(found.machines) > 1 else 'on'} {join(found.machines)}"
    return (
        f"The effect of {found.arm} (its ratio) is {found.word} at {found.first} than at {found.second}, "
        f"{on}: {ratio(found.ratio)} × as large ({interval(found.interval)})."
    )
