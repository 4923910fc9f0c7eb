"""The complete blocks in the order in which their trials ran, for the checks by position and neighbour."""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.eprocess import FloatArray
from pgassay.analysis.verdicts.study import Study


@dataclass(frozen=True)
class OrderedBlock:
    """One complete block.

    arm_ids: in the order that was drawn. values: log speeds by arm. copies: the copy of the data that a trial
    ran on, None where its record does not say. before: the arm that ran last before this block, None when
    that isn't known, or the machine was started anew between. repeated: arms whose first attempt did not
    count, so that their trial came after an attempt of their own.
    """

    number: int
    arm_ids: tuple[str, ...]
    values: dict[str, float]
    copies: dict[str, int | None]
    before: str | None
    repeated: frozenset[str]

    def predecessor(self, arm_id: str) -> str | None:
        """The arm whose trial ran before this arm's; None when it isn't known."""
        place = self.arm_ids.index(arm_id)
        if arm_id in self.repeated:
            return None
        return self.arm_ids[place - 1] if place else self.before


def ordered_blocks(study: Study) -> tuple[OrderedBlock, ...]:
    """The complete blocks of a study, in their order; only arms that took part in a block are in it."""
    measure = study.measures[0]
    blocks: list[OrderedBlock] = []
    boot = ""
    for number, row in zip(study.table.numbers, study.table.rows, strict=True):
        records = sorted(row.values(), key=lambda record: record.position)
        follows = bool(blocks) and blocks[-1].number == number - 1 and boot == records[0].boot_id
        blocks.append(
            OrderedBlock(
                number,
                tuple(record.arm_id for record in records),
                {record.arm_id: measure.log_value(record) for record in records},
                {record.arm_id: record.data_copy for record in records},
                blocks[-1].arm_ids[-1] if follows else None,
                frozenset(record.arm_id for record in records if record.attempt > 1),
            )
        )
        boot = records[-1].boot_id
    return tuple(blocks)


def controls_of(study: Study) -> dict[str, tuple[str, ...]]:
    """The arms with the control's settings (the control and its twin), by stratum."""
    found: dict[str, tuple[str, ...]] = {}
    for arm in study.experiment.arms:
        if arm.role in ("control", "twin"):
            found[arm.stratum] = (*found.get(arm.stratum, ()), arm.id)
    return found


def residuals(study: Study, blocks: tuple[OrderedBlock, ...]) -> tuple[dict[str, float], ...]:
    """Each trial's log speed less its controls' mean and less what its arm did in earlier blocks.

    By arm, one mapping for each block. Nothing in them depends on this block's order, nor on later blocks; an
    arm has none in its first block, because its effect isn't known yet.
    """
    controls, arms = controls_of(study), study.arms
    earlier: dict[str, list[float]] = {}
    answer = []
    for block in blocks:
        found = {}
        for arm_id in block.arm_ids:
            own = controls.get(arms[arm_id].stratum, ())
            reference = [block.values[each] for each in own if each in block.values]
            if not reference:
                continue
            difference = block.values[arm_id] - float(np.mean(reference))
            if arm_id in own:
                found[arm_id] = difference
                continue
            seen = earlier.setdefault(arm_id, [])
            if seen:
                found[arm_id] = difference - float(np.mean(seen))
            seen.append(difference)
        answer.append(found)
    return tuple(answer)


def follower_draws(
    blocks: tuple[OrderedBlock, ...],
    residual: tuple[dict[str, float], ...],
    arm_id: str,
    among: frozenset[str],
) -> FloatArray:
    """Who of `among` ran after an arm, as `assignment.log_draw_evidence` takes it: (2·blocks, members).

    Two draws for each block: its first trial, where the arm ran last before it, and the trial after the arm's
    own. Given what the first draw showed and where the arm stands, each is fair among those that are left.
    """
    # A block of one stratum is far narrower than all arms of an experiment.
    width = min(len(among), max((len(block.arm_ids) for block in blocks), default=0))
    draws = np.full((2 * len(blocks), width + 1), np.nan)
    for place, (block, known) in enumerate(zip(blocks, residual, strict=True)):
        spent = {arm_id}
        if block.before == arm_id:
            _enter(draws[2 * place], block.arm_ids[0], known, among)
            spent.add(block.arm_ids[0])
        if arm_id in block.arm_ids and block.arm_ids[-1] != arm_id:
            follower = block.arm_ids[block.arm_ids.index(arm_id) + 1]
            left = {name: value for name, value in known.items() if name not in spent}
            _enter(draws[2 * place + 1], follower, left, among)
    return draws


def _enter(row: FloatArray, chosen: str, known: dict[str, float], among: frozenset[str]) -> None:
    """Write the trial drawn and those that could have been; nothing when the drawn one is not among them."""
    candidates = [name for name in sorted(known) if name in among]
    if chosen in candidates:
        others = [known[name] for name in candidates if name != chosen]
        row[: len(others) + 1] = [known[chosen], *others]
