"""The proof of a search in its two stages, at any moment of it, and how it is gone on with later.

The first stage compares the chosen set with the workload as it is and with the set without each of its
members. Where two or more members turn out not to help, what is left of the set was never measured as it
would be applied: a second stage of fresh blocks, on data of its own, confirms that set and each of its
members. Its family is fixed, and stored, before its first trial. With three members and more, which is when
there can be two stages, each has half of the error rate, so that both together have the whole of it.

A stage goes on after the whole set has its verdict, while a member of it that gains has none.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse, decided
from pgassay.environment.datasets import snapshots
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_builds import LOADS_OF_COMPARED_BUILDS
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.run_experiment import resume_held
from pgassay.experiment.running.stopping_rules import Wanted, decided_arms
from pgassay.model.arm import ArmSpec
from pgassay.model.result import CompareResult
from pgassay.options.evidence import BLOCKS_MAX
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment, load
from pgassay.record.layout import CONFIRMATION_FOLDER, PROOF_FOLDER
from pgassay.storage.registry import provide
from pgassay.tune.candidate import Candidate
from pgassay.tune.proof.effects import HIDDEN_WORD, read_proof, read_result, remaining_of
from pgassay.tune.proof.proof_arms import AS_IT_IS, FACTOR, SharedArms, arms_of, arms_of_shared, without
from pgassay.tune.proof.proof_experiment import prove
from pgassay.tune.search.proof_time import (
    FIRST_STAGE_SHARE,
    PROOF_SHARE,
    STAGED_MEMBERS_MIN,
    trials_in_block,
)
from pgassay.tune.search.selection import STATEMENT_MARGIN
from pgassay.tune.stored_search import StoredSearch, write_search
from pgassay.tune.tune_plan import PlannedTune, TuneRequest, plan_tune, request_from
from pgassay.tune.tuned_statements import measured

STAGES = 2
PROOF_S_MIN = 10.0


def alpha_of(members: int) -> float:
    """The error rate of one stage of the proof of a set of so many members."""
    return CompareRequest.alpha / (STAGES if members >= STAGED_MEMBERS_MIN else 1)


@dataclass
class ProofStages:
    """A search's proof, as far as it has come. `first`, `second`: its stages' experiments.

    `planned`: how the workload as it is was planned; None when it is gone on with, where the record of the
    first stage tells.
    """

    folder: Path
    search: StoredSearch
    planned: PlannedTune | None = None
    first: StoredExperiment | None = None
    second: StoredExperiment | None = None

    def run(self, left_s: Callable[[], float], progress: Progress) -> None:
        """Prove in the time that is left; raises UsageError where the disk can't hold the arms' data."""
        is_staged = self._is_staged
        share = FIRST_STAGE_SHARE if is_staged else PROOF_SHARE
        progress.stage("proving the chosen fixes in fresh blocks")
        self.first = self._prove(self.search.members, PROOF_FOLDER, share * left_s(), progress)
        self._to_the_end((1.0,) if is_staged else (), left_s, progress)

    def resume(self, left_s: Callable[[], float], progress: Progress) -> None:
        """More blocks for the stage that came to no verdict; the first, once the second began, is over.

        Raises UsageError for a folder whose experiments can't be read or gone on with.
        """
        self.read()
        if self.first is None:
            self.first = load(self.folder / PROOF_FOLDER)
        if self.second is not None:
            self.second = self._resumed(self.second, left_s(), progress)
            return
        is_staged = self._is_staged
        self._to_the_end((FIRST_STAGE_SHARE, 1.0) if is_staged else (1.0,), left_s, progress)

    @property
    def is_decided(self) -> bool:
        """Whether the whole set has its verdict, and there is no second stage to come."""
        last = self.second or self.first
        if last is None or not (last.stopped == "decided" or _is_decided(last)):
            return False
        return self.second is not None or not self._remaining()

    @property
    def _is_staged(self) -> bool:
        """Whether a second stage may follow: in one server the planner says what is needed beside what."""
        return self.search.shared is None and len(self.search.members) >= STAGED_MEMBERS_MIN

    def read(self) -> None:
        """Read both stages as they lie in the folder; one that is not there stays None."""
        for name in (PROOF_FOLDER, CONFIRMATION_FOLDER):
            if (self.folder / name).is_dir():
                with contextlib.suppress(UsageError):
                    found = load(self.folder / name)
                    if name == PROOF_FOLDER:
                        self.first = found
                    else:
                        self.second = found

    def specs(self) -> list[ArmSpec]:
        """Of every arm whose data may have been made."""
        specs = [arm.spec for each in (self.first, self.second) if each for arm in each.experiment.arms]
        if self.planned is not None and self.search.shared is not None:
            statements, members = measured(self.search.statements), self.search.members
            specs += arms_of_shared(
                self.planned.spec, statements, members, self.search.shared, self.search.seconds
            ).values()
        elif self.planned is not None:
            for members in (self.search.members, self.search.remaining_members):
                statements = measured(self.search.statements)
                specs += arms_of(self.planned.spec, statements, members).values()
        return specs

    def _confirm(self, left_s: Callable[[], float], progress: Progress) -> None:
        """Begin the second stage where the first calls for one and there is time for it."""
        remaining = self._remaining()
        if not remaining or left_s() < PROOF_S_MIN:
            return
        self.search = self.search.model_copy(update={"remaining": remaining})
        write_search(self.folder, self.search)
        progress.stage("confirming the rest of the set in fresh blocks")
        members = self.search.remaining_members
        self.second = self._prove(members, CONFIRMATION_FOLDER, PROOF_SHARE * left_s(), progress)

    def _to_the_end(self, shares: Sequence[float], left_s: Callable[[], float], progress: Progress) -> None:
        """The second stage once it is called for; until then more of the first, by shares of the time."""
        for share in shares:
            self._confirm(left_s, progress)
            if self.second is not None or self.first is None or left_s() < PROOF_S_MIN:
                return
            # What failed a moment ago is not tried again at once.
            if self.first.stopped in ("decided", *(("failed",) if self.planned is not None else ())):
                return
            self.first = self._resumed(self.first, share * left_s(), progress)
        self._confirm(left_s, progress)

    def _remaining(self) -> tuple[str, ...]:
        if self.first is None or self.search.shared is not None:
            return ()
        proved = read_proof(self.first, self.search.members)
        return remaining_of(proved, self.search.margin, self.search.made_faster)

    def _prove(
        self, members: Sequence[Candidate], name: str, seconds: float, progress: Progress
    ) -> StoredExperiment:
        # Kept, so that the data of its arms are known whatever happens.
        self.planned = planned = self.planned or planned_again(self.folder / PROOF_FOLDER, self.search)
        alpha = alpha_of(len(self.search.members)) if self.search.shared is None else CompareRequest.alpha
        request = replace(planned.request, alpha=alpha)
        return prove(
            replace(planned, request=request),
            [each for each in measured(self.search.statements) if each.name not in self.search.unsolved],
            members,
            times=(self.search.seconds, self.search.chosen_seconds),
            limits=self.search.proof_limits,
            seconds=max(PROOF_S_MIN, seconds),
            folder=self.folder / name,
            progress=progress,
            trial_s=self.search.block_s / trials_in_block(len(self.search.members)),
            shared=self.search.shared,
            wanted=open_arms(members, self.search.shared),
        )

    def _resumed(self, stored: StoredExperiment, seconds: float, progress: Progress) -> StoredExperiment:
        is_second = self.second is not None and stored.folder == self.second.folder
        members = self.search.remaining_members if is_second else self.search.members
        wanted = open_arms(members, self.search.shared)
        limits = RunLimits(BLOCKS_MAX, stored.seconds_used + seconds, wanted=wanted)
        return resume_held(stored.folder, limits, progress)


def open_arms(members: Sequence[Candidate], shared: SharedArms | None) -> Wanted:
    """Which arms of a proof need further blocks: those without a verdict, and those of members that gain.

    The whole set may have its verdict by one statement, long before each of its members has one. Of a member
    that makes a statement faster by twice the margin of a statement, by its estimate, a verdict is to be had;
    one that gains less could take all the time for nothing.
    """
    gains_min = (1 + STATEMENT_MARGIN) ** 2

    def arm_of(member: Candidate) -> str:
        if shared is not None:
            return shared.told_by[member.id]
        return AS_IT_IS if len(members) == 1 else without(member)

    def wanted(result: CompareResult, stored: StoredExperiment) -> set[str]:
        ids = {arm.levels.get(FACTOR): arm.id for arm in stored.experiment.arms if arm.role == "arm"}
        found = {*ids.values()} - decided_arms(stored, result)
        proved = read_result(result, stored, members, shared)
        for member in members:
            effect = proved.members.get(member.id)
            if effect is None or effect.sped or effect.word in ("slower", HIDDEN_WORD):
                continue
            if any(
                each.ratio >= gains_min and each.name not in {*effect.late, *effect.alike}
                for each in effect.statements
            ):
                found.add(ids[arm_of(member)])
        return found

    return wanted


def _is_decided(stored: StoredExperiment) -> bool:
    return bool(stored.trials) and decided(analyse(stored), stored.experiment.contract.decide)


def planned_again(proof: Path, search: StoredSearch) -> PlannedTune:
    """How the workload as it is was planned, from the record of its first proof."""
    name = next(arm.name for arm in load(proof).experiment.arms if arm.levels.get(FACTOR) == AS_IT_IS)
    request = TuneRequest(CompareRequest(factors=(), max_time_s=1e6, margin=search.margin))
    return plan_tune(request_from(proof, request, {}, name), lambda *_: None)


def deadline(began_at: float, seconds: float) -> Callable[[], float]:
    """The seconds that are left of those given, asked again and again."""
    return lambda: max(0.0, began_at + seconds - time.monotonic())


def remove_copies(specs: Iterable[ArmSpec], kept: Collection[str]) -> None:
    """Remove the data that were made for these arms, but for the snapshots whose keys are `kept`."""
    for spec in specs:
        # Where versions are compared, the data of each arm are loaded several times.
        loads = [spec.dataset.model_copy(update={"load": load}) for load in range(LOADS_OF_COMPARED_BUILDS)]
        keys = [snapshots.key(spec.build, dataset, spec.prepare) for dataset in loads]
        made = [key for key in keys if key not in kept]
        if not made:
            continue
        volume = provide(spec.storage, 0)
        try:
            for key in made:
                volume.keep_only(key, ())
                with contextlib.suppress(UsageError):
                    snapshots.remove(key)
        finally:
            volume.remove()
