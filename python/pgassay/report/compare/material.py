"""What the sections of a comparison's report are made of: the result, its record, and what both share."""

from dataclasses import dataclass
from functools import cached_property

from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report import text
from pgassay.report.compare.trial_series import ObservedSeries, observe
from pgassay.report.labels import Levelled, compared_factors, short_name


@dataclass(frozen=True)
class Material:
    """A stored experiment with what the analysis found in it; what lies within the trials is read once."""

    result: CompareResult
    stored: StoredExperiment

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors whose levels are compared."""
        return compared_factors(self.result.arms)

    @property
    def is_replay(self) -> bool:
        """Whether a capture is played, so that what a load calls transactions are statements."""
        return any(arm.spec.workload.is_replay for arm in self.stored.experiment.arms)

    @cached_property
    def observed(self) -> ObservedSeries:
        """What the samplers saw within the trials."""
        return observe(self.stored)

    def label(self, arm: Levelled) -> str:
        """The arm by its compared levels."""
        return short_name(arm, self.factors)

    def label_at(self, arm: Levelled) -> str:
        """The same with its stratum, where arms of several stand together."""
        return f"{self.label(arm)} at {text.clean(arm.stratum)}" if arm.stratum else self.label(arm)

    def members(self, stratum: str) -> list[ArmResult]:
        """The arms of a stratum."""
        return [arm for arm in self.result.arms if arm.stratum == stratum]
