"""What several machines say, in sentences that a person acts on."""

from collections.abc import Iterator, Sequence

from pgassay.analysis.causes.rank import arm_causes
from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.machines.gather import Machine
from pgassay.model.arm import Arm
from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.words import comparison, join, percent, percent_rounded, plural, span

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


def limit_words(machine: Machine, arm: Arm) -> str:
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
    named = [each.replace(" (most: ", " in place of ").removesuffix(")") for each in machine.confounds]
    rest = f" and {more} more" if more > 0 else ""
    return f" [{join(named[:_NAMED_MAX])}{rest}]"


def common_effect_line(arm: CombinedArm, result: CombinedResult, on: str = "") -> str:
    """The effect of an arm on these machines; `on` names them, 'On alpha', in place of their number."""
    found = arm.these_machines
    if found.machines == 0:
        where = f"{on}: " if on else ""
        return f"{where}{arm.name} can't be told from {arm.control} yet: no block is complete."
    on = on or (f"On these {found.machines} machines" if found.machines > 1 else "On this one machine")
    counted = plural(found.blocks, "block")
    if found.note.startswith(_DISAGREE):
        return f"{on} no single effect of {arm.name} is given, since {found.note}."
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
    return f"{arm.name} can't be told from {arm.control} yet: {ends} after {counted}{note}."
