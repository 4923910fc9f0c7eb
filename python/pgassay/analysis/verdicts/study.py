"""What every analysis starts from: the complete blocks of a stored experiment as arrays."""

from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet
from pgassay.analysis.statistics.eprocess import EvidenceRules, FloatArray
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.verdicts.blocks import BlockTable, complete_blocks
from pgassay.analysis.verdicts.metrics import Measure, canary_log_s, primary_measure, statement_measures
from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.record.read import StoredExperiment


@dataclass(frozen=True)
class Study:
    """An experiment's plan with the logs of its complete blocks.

    measures: the primary metric, then every statement that all trials of complete blocks measured;
    logs: their signed logs, shape (measures, blocks, arms). covariate: (blocks, arms) or None.
    """

    experiment: Experiment
    table: BlockTable
    measures: tuple[Measure, ...]
    logs: FloatArray
    covariate: FloatArray | None
    covariate_missing: int

    @property
    def blocks(self) -> int:
        """The number of complete blocks."""
        return len(self.table.numbers)

    @property
    def arms(self) -> dict[str, Arm]:
        """The arms by id, in the plan's order."""
        return {arm.id: arm for arm in self.experiment.arms}

    @property
    def columns(self) -> dict[str, int]:
        """The place of each arm on the last axis of `logs`."""
        return {name: index for index, name in enumerate(self.table.arm_ids)}

    @property
    def contrast_count(self) -> int:
        """m: the number of contrasts that share α, as fixed before the first trial."""
        return max(self.experiment.contract.contrasts, len(self.experiment.contrasts), 1)

    @property
    def is_pooled(self) -> bool:
        """Whether every contrast has a twin as its second control."""
        contrasts = self.experiment.contrasts
        return self.experiment.contract.pool_twin and all(item.twin_id is not None for item in contrasts)

    @property
    def blocks_min(self) -> int:
        """Complete blocks before which no verdict is given."""
        alpha = self.experiment.contract.alpha
        return minimum_blocks(pooled=self.is_pooled, contrasts=self.contrast_count, alpha=alpha)

    @property
    def rules(self) -> EvidenceRules:
        """What the evidence of this experiment's contrasts is made with."""
        contract = self.experiment.contract
        return EvidenceRules(contract.sharpness, contract.first_scale)

    def contrast_set(self, logs: FloatArray) -> ContrastSet:
        """The evidence of all contrasts on these measures, shape (measures, blocks, arms)."""
        return ContrastSet(
            logs,
            self.columns,
            self.experiment.contrasts,
            pool_twin=self.experiment.contract.pool_twin,
            covariate=self.covariate,
            rules=self.rules,
        )


def gather_study(stored: StoredExperiment) -> Study:
    """The arrays of a stored experiment; raises UsageError when its contrasts name arms it does not have."""
    experiment = stored.experiment
    _check_contrasts(experiment)
    primary = primary_measure(experiment.contract.metric)
    table = complete_blocks(stored, primary)
    measures, logs = [primary], [table.logs(primary)]
    for measure in statement_measures(experiment):
        found = table.logs(measure)
        if not np.isnan(found).any():
            measures.append(measure)
            logs.append(found)
    covariate, missing = _covariate(experiment, table)
    return Study(experiment, table, tuple(measures), np.stack(logs), covariate, missing)


def _covariate(experiment: Experiment, table: BlockTable) -> tuple[FloatArray | None, int]:
    """The declared covariate, and how many trials lack it (then it is not used at all)."""
    if experiment.contract.covariate == "none":
        return None, 0
    canary = table.matrix(canary_log_s)
    missing = int(np.isnan(canary).sum())
    return (None, missing) if missing else (canary, 0)


def _check_contrasts(experiment: Experiment) -> None:
    known = {arm.id for arm in experiment.arms}
    for contrast in experiment.contrasts:
        named = {contrast.arm_id, contrast.control_id} | ({contrast.twin_id} - {None})
        if not named <= known:
            unknown = ", ".join(sorted(str(name) for name in named - known))
            raise UsageError(
                f"the experiment's contrasts name arms it does not have ({unknown}): "
                "restore experiment.json from a copy"
            )
