"""Of an arm's load: its connections, and the statements of its transactions; descriptive, no verdict."""

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median

from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmConnections, ArmLoadStatement
from pgassay.model.trial import LoadObservation
from pgassay.model.workload import ConnectionUse, LoadStatement
from pgassay.record.experiment import StoredExperiment

_MEAN, _P50, _P95, _P99, _MAX = "mean", "p50", "p95", "p99", "max"


def arm_connections(stored: StoredExperiment) -> tuple[ArmConnections, ...]:
    """One for each arm or control whose load shares, closes or reopens connections."""
    return tuple(each for arm in _arms(stored) for each in _connections_of(arm, _loads(arm, stored)))


def _connections_of(arm: Arm, loads: list[LoadObservation]) -> Iterator[ArmConnections]:
    found = [(load, load.connections) for load in loads if load.connections is not None]
    asked = arm.spec.workload.load
    if not found or asked is None:
        return

    def typical(figure: Callable[[ConnectionUse], float]) -> float:
        return median(figure(use) for _, use in found)

    refused = Counter[str]()
    for _, use in found:
        refused.update(use.refused)
    yield ArmConnections(
        arm=arm.name,
        stratum=arm.stratum,
        trials=len(found),
        pool=asked.pool,
        lifetime_s=asked.lifetime_s,
        opened_per_s=median(use.opened / load.elapsed_s for load, use in found),
        opening_ms=typical(lambda use: use.opening_ms.get(_MEAN, 0.0)),
        wait_mean_ms=typical(lambda use: use.wait_ms.get(_MEAN, 0.0)),
        wait_p99_ms=typical(lambda use: use.wait_ms.get(_P99, 0.0)),
        wait_max_ms=max(use.wait_ms.get(_MAX, 0.0) for _, use in found),
        lost=sum(use.lost for _, use in found),
        refused=dict(sorted(refused.items())),
        outages=tuple(each.length_s for _, use in found for each in use.outages),
    )


def arm_load_statements(stored: StoredExperiment) -> tuple[ArmLoadStatement, ...]:
    """One for each statement of each arm or control, in the order of the transaction."""
    return tuple(each for arm in _arms(stored) for each in _statements_of(arm, _loads(arm, stored)))


def _statements_of(arm: Arm, loads: list[LoadObservation]) -> Iterator[ArmLoadStatement]:
    by_name: dict[tuple[str, str], list[LoadStatement]] = {}
    for load in loads:
        for each in load.statements:
            by_name.setdefault((each.name, each.text), []).append(each)
    for (name, text), found in by_name.items():

        def typical(figure: str, found: list[LoadStatement] = found) -> float:
            return median(each.latency_ms.get(figure, 0.0) for each in found)

        yield ArmLoadStatement(
            arm=arm.name,
            stratum=arm.stratum,
            name=name,
            text=text,
            trials=len(found),
            executions=sum(each.executions for each in found),
            mean_ms=typical(_MEAN),
            p50_ms=typical(_P50),
            p95_ms=typical(_P95),
            p99_ms=typical(_P99),
            max_ms=max(each.latency_ms.get(_MAX, 0.0) for each in found),
        )


def _arms(stored: StoredExperiment) -> Iterator[Arm]:
    return (arm for arm in stored.experiment.arms if arm.role != "twin")


def _loads(arm: Arm, stored: StoredExperiment) -> list[LoadObservation]:
    records = [each.record for each in stored.trials if each.record.arm_id == arm.id]
    return [record.load for record in records if record.status == "ok" and record.load is not None]
