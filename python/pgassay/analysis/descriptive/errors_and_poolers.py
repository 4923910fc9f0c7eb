"""What the server refused and what a pooler did, per arm; descriptive, no verdict."""

from collections import Counter
from collections.abc import Iterator
from statistics import median

from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmErrors, ArmPooler
from pgassay.model.trial import TrialRecord
from pgassay.model.workload import POOLER_BUSY_MIN
from pgassay.record.experiment import StoredExperiment


def arm_errors(stored: StoredExperiment) -> tuple[ArmErrors, ...]:
    """One for each SQLSTATE of each statement of each arm, twins included; () where nothing failed."""
    valid = [each.record for each in stored.trials if each.record.status == "ok"]
    return tuple(
        found
        for arm in stored.experiment.arms
        for found in _errors_of(arm, [record for record in valid if record.arm_id == arm.id])
    )


def _errors_of(arm: Arm, records: list[TrialRecord]) -> Iterator[ArmErrors]:
    """Those of its statements; of a load that times none those of its transactions."""
    done, failed, examples = Counter[str](), dict[str, Counter[str]](), dict[str, str]()
    for record in records:
        # Those of a series are loads themselves.
        of_series = {kind.name: kind.transactions for kind in record.load.kinds} if record.load else {}
        for each in record.statements:
            done[each.name] += of_series.get(each.name, each.at_once or 1)
            failed.setdefault(each.name, Counter()).update(each.failures)
        if record.load is not None:
            examples = {**record.load.failure_examples, **examples}
            if not record.statements:
                done[""] += record.load.transactions
                failed.setdefault("", Counter()).update(record.load.failures)
    for name, states in failed.items():
        executed = done[name] + states.total()
        for state, count in sorted(states.items()):
            yield ArmErrors(
                arm=f"twin ({arm.name})" if arm.role == "twin" else arm.name,
                stratum=arm.stratum,
                name=name,
                sqlstate=state,
                failed=count,
                share=count / executed,
                example=examples.get(state, ""),
            )


def arm_poolers(stored: StoredExperiment) -> tuple[ArmPooler, ...]:
    """One for each arm or control with a pooler that was observed; () where no arm has one."""
    found = (_pooler_of(arm, stored) for arm in stored.experiment.arms if arm.role != "twin")
    return tuple(each for each in found if each is not None)


def _pooler_of(arm: Arm, stored: StoredExperiment) -> ArmPooler | None:
    records = [each.record for each in stored.trials if each.record.arm_id == arm.id]
    uses = [
        record.load.pooler
        for record in records
        if record.status == "ok" and record.load is not None and record.load.pooler is not None
    ]
    if arm.spec.pooler is None or not uses:
        return None
    return ArmPooler(
        arm=arm.name,
        stratum=arm.stratum,
        pooler=arm.spec.pooler.text,
        version=uses[-1].version,
        trials=len(uses),
        size=uses[-1].size,
        server_connections_max=max(use.server_connections_max for use in uses),
        busy=median(use.busy for use in uses),
        processors=median(use.cpu_s / use.elapsed_s for use in uses),
        cpu_us=median(1e6 * use.cpu_s / max(use.transactions, 1) for use in uses),
        wait_ms=median(1e3 * use.client_wait_s / max(use.transactions, 1) for use in uses),
        is_full=median(use.busy for use in uses) >= POOLER_BUSY_MIN,
    )
