"""What came out otherwise in a replay: whether the arms did the captured work, and the player."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from pgassay.model.arm import Arm
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.trial import LoadObservation
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.section import QUIET, Block, Paragraph, Section, Subheading, bullets, plain_table

HEADING = "Differences from the capture (medians of the valid trials)"
_FAMILIES_MAX = 5
_TEXT_MAX = 100
_HEADS = (
    *("arm", "statements", "otherwise", "of time", "values", "order", "lost", "took", "busy", "late p99"),
)


def section(material: Material) -> Section:
    """A row for each arm; then the statements that diverged most often, with what the first came to."""
    arms = material.stored.experiment.arms if material.is_replay else ()
    loads = {arm.id: _loads(material, arm) for arm in arms}
    rows = [_row(_name(material, arm), loads[arm.id]) for arm in arms if loads[arm.id]]
    if not rows:
        return Section(HEADING, "replayed", ())
    note = (
        "Differs: a different number of rows, command tag or SQLSTATE than in the capture, or not "
        "executed, and the share of the captured time of these statements. Values: same number of rows "
        "with different values, for example from now(). Order: steps sent out of order, since an earlier "
        "one waited for a lock. Lost: sessions. Busy, late: the player, and its own delay in sending."
    )
    blocks: list[Block] = [plain_table(_HEADS, rows), Paragraph(note, QUIET)]
    diverged = _diverged([load for found in loads.values() for load in found])
    if diverged:
        blocks += [Subheading("Statements that differ most, in a trial"), bullets(diverged)]
    return Section(HEADING, "replayed", tuple(blocks))


def _loads(material: Material, arm: Arm) -> list[tuple[LoadObservation, Replayed]]:
    records = (trial.record for trial in material.stored.trials if trial.record.arm_id == arm.id)
    loads = (record.load for record in records if record.status == "ok")
    return [(load, load.replayed) for load in loads if load is not None and load.replayed is not None]


def _name(material: Material, arm: Arm) -> str:
    if arm.role != "twin":
        return material.label_at(arm)
    return f"twin at {text.clean(arm.stratum)}" if arm.stratum else "twin"


def _row(name: str, found: Sequence[tuple[LoadObservation, Replayed]]) -> list[str]:
    def of(values: Sequence[float]) -> str:
        return f"{median(values):,.0f}"

    replayed = [each for _, each in found]
    busy = median(load.client_cpu_s / load.elapsed_s for load, _ in found if load.elapsed_s > 0)
    late_ms = median(load.own_delay_ms.get("p99", 0.0) for load, _ in found)
    return [
        name,
        of([each.statements for each in replayed]),
        of([each.diverged for each in replayed]),
        text.percent_fixed(median(each.diverged_share for each in replayed), 2),
        of([each.other_values for each in replayed]),
        of([each.reordered for each in replayed]),
        of([each.sessions_lost for each in replayed]),
        text.seconds(median(load.elapsed_s for load, _ in found)),
        text.percent_fixed(busy),
        text.seconds(late_ms / 1e3),
    ]


def _diverged(found: Sequence[tuple[LoadObservation, Replayed]]) -> list[str]:
    by_text: dict[str, list[ReplayedFamily]] = defaultdict(list)
    for _, replayed in found:
        for each in replayed.families:
            if each.diverged:
                by_text[each.text].append(each)
    most = sorted(
        (max(group, key=lambda each: each.diverged) for group in by_text.values()),
        key=lambda each: -each.diverged,
    )
    return [
        f"{each.diverged:,} of {each.calls:,} × {text.excerpt(text.clean(each.text), _TEXT_MAX)}: "
        f"{text.clean(each.captured)} in the capture, {text.clean(each.now)} now"
        for each in most[:_FAMILIES_MAX]
    ]
