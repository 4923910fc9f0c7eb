"""What the network hides: a remote server is measured through round trips, which are no work of its own.

A transaction or a list of statements spends n round trips of t each on the network, so of the time T that
was measured the server's own part is S = T − n·t. With two arms, T_a = T_c / r for a measured ratio of
speeds r, and the ratio of the servers' own parts is S_c / (T_c / r − n·t_a): for every end of r's interval,
an end of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.descriptive.round_trips import ROUND_TRIP_MIN_MS, round_trip_ms, round_trips
from pgassay.analysis.verdicts.study import Study
from pgassay.model.arm import Arm
from pgassay.model.result import ArmResult
from pgassay.model.trial import TrialRecord
from pgassay.words import Ends, figure, percent_fixed, percent_rounded, plural, span

# Below this share of the time the round trips widen no interval by more than a tenth.
SHARE_MIN = 0.1
SENTENCES_MAX = 4


@dataclass(frozen=True)
class ThroughNetwork:
    """One arm's unit of work: all of its time, and the part of it that round trips take, in ms."""

    whole_ms: float
    network_ms: float

    @property
    def own_ms(self) -> float:
        """The server's own part."""
        return self.whole_ms - self.network_ms


def through_network(arm: Arm, records: Sequence[TrialRecord]) -> ThroughNetwork | None:
    """The medians over an arm's trials; None when none of them measured the round trip."""
    pairs = [
        (whole, trip)
        for record in records
        if (trip := round_trip_ms(record)) is not None and (whole := _whole_ms(record)) is not None
    ]
    if not pairs:
        return None
    whole, trip = (float(np.median(column)) for column in zip(*pairs, strict=True))
    return ThroughNetwork(whole, round_trips(arm.spec.workload) * trip)


def _whole_ms(record: TrialRecord) -> float | None:
    if record.load is not None:
        return record.load.latency_ms.get("mean")
    elapsed = math.fsum(statement.elapsed_s for statement in record.statements)
    return elapsed * 1e3 if elapsed > 0 else None


def own_interval(control: ThroughNetwork, arm: ThroughNetwork, interval: Ends) -> Ends:
    """The interval of the ratio of the servers' own speeds; None where nothing bounds it."""
    if control.own_ms <= 0:
        return None, None
    ends: list[float | None] = []
    for end in interval:
        if end is None or not math.isfinite(end) or end <= 0:
            ends.append(None)
            continue
        own_ms = control.whole_ms / end - arm.network_ms
        ends.append(control.own_ms / own_ms if own_ms > 0 else None)
    return ends[0], ends[1]


def network_sentences(study: Study, results: Sequence[ArmResult]) -> tuple[list[str], list[str]]:
    """Confounds and warnings: where the network differs between arms, and what it hides of the servers."""
    confounds: list[str] = []
    warnings: list[tuple[float, str]] = []
    by_name = {(result.name, result.stratum): result for result in results}
    for contrast in study.experiment.contrasts:
        arm, control = study.arms[contrast.arm_id], study.arms[contrast.control_id]
        if arm.spec.server is None or control.spec.server is None:
            continue
        mine = through_network(arm, study.table.valid[arm.id])
        other = through_network(control, study.table.valid[control.id])
        if mine is None or other is None:
            continue
        margin = study.experiment.contract.margin
        is_far = max(mine.network_ms, other.network_ms) >= ROUND_TRIP_MIN_MS * round_trips(arm.spec.workload)
        if not is_far:
            continue
        if (
            arm.spec.server != control.spec.server
            and abs(mine.network_ms - other.network_ms) > margin / 2 * other.whole_ms
        ):
            confounds.append(_difference(arm, mine, control, other))
        share = max(each.network_ms / each.whole_ms for each in (mine, other))
        result = by_name.get((arm.name, arm.stratum))
        if share >= SHARE_MIN and result is not None:
            warnings.append((share, _hidden(arm, mine, other, result, margin)))
    # A grid has one such sentence for each comparison: those in which the network hides most are told.
    warnings.sort(key=lambda item: -item[0])
    return confounds, [sentence for _, sentence in warnings[:SENTENCES_MAX]]


def _difference(arm: Arm, mine: ThroughNetwork, control: Arm, other: ThroughNetwork) -> str:
    apart_ms = abs(mine.network_ms - other.network_ms)
    return (
        f"the network to {arm.name} differs from that to {control.name}: {_unit(arm)} spends "
        f"{_ms(mine.network_ms)} on it and {_ms(other.network_ms)} there, so {_ms(apart_ms)} of the "
        "difference are the network's"
    )


def _hidden(arm: Arm, mine: ThroughNetwork, other: ThroughNetwork, result: ArmResult, margin: float) -> str:
    trips = round_trips(arm.spec.workload)
    counted = plural(trips, "round trip")
    share = min(1.0, other.network_ms / other.whole_ms)
    part = "most" if share > 0.5 else "a part"
    begin = (
        f"the network hides {part} of the difference in {result.name}: {_unit(arm)} takes "
        f"{_ms(other.whole_ms)} and spends {_ms(other.network_ms)} of it ({percent_fixed(share)}) on "
        f"{counted}"
    )
    remedy = "measure from a machine nearer to the servers, or with longer statements"
    if other.own_ms <= 0:
        return f"{begin}, and the servers' own part can't be separated from the network's noise: {remedy}"
    of_own = margin * other.whole_ms / other.own_ms
    end = (
        f"; the servers' own part is {_ms(other.own_ms)}, so {percent_rounded(margin)} of the whole are "
        f"{percent_rounded(of_own)} of it"
    )
    if result.interval is not None and result.interval != (None, None):
        found = own_interval(other, mine, result.interval)
        end += f", and for the servers alone the result means: {span(found)}"
    return f"{begin}{end}: {remedy}"


def _unit(arm: Arm) -> str:
    return "a transaction" if arm.spec.workload.load is not None else "a run of all statements"


def _ms(value: float) -> str:
    return f"{figure(value)} ms"
