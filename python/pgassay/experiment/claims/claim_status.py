"""Where the claims of a file stand: by its stored experiment, or by a plan that says what can be tried."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pgassay.analysis.claims.arm_claims import (
    CLAIMS_COMMAND,
    missing_condition,
    missing_for,
    refuse_unknown_arms,
    refuse_unknown_statements,
    short_name,
)
from pgassay.analysis.claims.claim_blocks import is_open
from pgassay.analysis.claims.judge_claims import caveats_of, claimed_arms, judge, refuse_unfit
from pgassay.analysis.verdicts.compare import analyse
from pgassay.design.arms import level_name
from pgassay.design.shared_data import on_shared_data
from pgassay.environment.linux import machine
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.claims.claim_files import ClaimedFile
from pgassay.experiment.claims.claim_outlooks import after_measuring, before_measuring, first_verdict_s
from pgassay.experiment.claims.run_order import Outlook, Waiting
from pgassay.experiment.planning.connections import is_remote
from pgassay.experiment.planning.experiment_file import read_document, read_file
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running import earlier_experiments
from pgassay.experiment.running.plan_preview import planned
from pgassay.model.arm import Arm
from pgassay.model.experiment import MachineFacts
from pgassay.model.further_results.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.redaction import without_secrets
from pgassay.progress import Progress
from pgassay.record import layout
from pgassay.record.documents import write_file
from pgassay.record.experiment import StoredExperiment, load

# Loading and copying data, and the small servers that judge levels; known better after a first turn.
_SETUP_UNKNOWN_S = 20.0
# Of a claim of which nothing is planned.
_VERDICT_UNKNOWN_S = 60.0


@dataclass(frozen=True)
class Standing:
    """The claims of a file as they stand.

    `least_s`: what the next verdict takes at least, None where that is not known. `outlooks`: of its open
    claims, once they are planned or measured. `setup_s`: what loading its data and starting its servers
    takes. `note`: why the experiment was not run, or not further. `is_out`: it is not run any more this time.
    `fruitless`: how many of its last turns decided nothing. `cache`, `caveats`: as of `ClaimedExperiment`.
    """

    file: ClaimedFile
    request: CompareRequest
    judged: tuple[JudgedClaim, ...]
    blocks: int = 0
    seconds_used: float = 0.0
    family: str = ""
    least_s: float | None = None
    outlooks: tuple[Outlook, ...] = ()
    setup_s: float = _SETUP_UNKNOWN_S
    note: str = ""
    is_out: bool = False
    fruitless: int = 0
    cache: str = ""
    caveats: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where its records are, or are to be."""
        assert self.request.out is not None
        return self.request.out

    @property
    def open_claims(self) -> tuple[str, ...]:
        """The ids of those of which more is wanted."""
        pairs = zip(self.file.claims, self.judged, strict=True)
        return tuple(claim.id for claim, judged in pairs if is_open(claim, judged, self.blocks))

    @property
    def waiting(self) -> Waiting:
        """What decides when it is run."""
        outlooks = tuple(Outlook(_VERDICT_UNKNOWN_S) for _ in self.open_claims)
        outlooks = self.outlooks if self.outlooks and outlooks else outlooks
        has_run = self.blocks > 0
        return Waiting(self.file.name, outlooks, has_run, self.least_s, self.setup_s, self.fruitless)


def standing_of(file: ClaimedFile, parent: Path, seed: int | None) -> Standing:
    """As the records below `parent` have it; raises UsageError for a file that was changed since."""
    read = read_file(file.path, parent / file.name, ("pgassay", "run", str(file.path)))
    request = replace(read, seed=seed if seed is not None else read.seed)
    found = Standing(file, request, tuple(_unjudged(claim, file, "") for claim in file.claims))
    if (found.folder / layout.EXPERIMENT_FILE).is_file():
        _refuse_changed(file, found.folder)
        stored = load(found.folder)
        _refuse_changed_sql(found, stored)
        _refuse_other_seed(stored.experiment.contract.seed, seed, found.folder)
        for claim in file.claims:
            refuse_unfit(claim, stored.experiment.arms, str(file.path))
        return measured(found, stored)
    facts = MachineFacts.model_validate(machine.facts())
    lacking = {claim.id: missing_condition(claim, facts) for claim in file.claims}
    return without(found, lacking)


def _refuse_other_seed(stored: int, wanted: int | None, folder: Path) -> None:
    if wanted is not None and wanted != stored:
        raise UsageError(
            f"{folder} was begun with --seed {stored}, and continues with it: leave out --seed {wanted}, or "
            "name another folder by --out"
        )


def with_plan(found: Standing, progress: Progress) -> Standing:
    """With what a plan says: what this machine can't have, and what the first verdict takes at least.

    The caller holds the host's lock. Raises UsageError for claims on what the experiment doesn't compare.
    """
    file = found.file
    try:
        experiment = plan(parse_request(found.request, progress.stage), progress.stage)
    except UsageError as error:
        return without(found, {claim.id: str(error) for claim in file.claims})
    except (MeasurementError, OSError) as error:
        return replace(found, note=str(error), is_out=True)
    where, instead = str(file.path), "correct the claim"
    lacking = {claim.id: missing_for(claim, experiment, where, instead) for claim in file.claims}
    for claim in file.claims:
        if not lacking[claim.id]:
            refuse_unfit(claim, experiment.arms, where)
    listed = without(found, lacking)
    wanted = [claim for claim in file.claims if claim.id in listed.open_claims]
    chosen = partial(claimed_arms, wanted)
    arms, contrasts = chosen(experiment.arms, experiment.contrasts)
    if arms != experiment.arms:
        # Arms of which no claim can be tried would be run for nothing, and make the family larger.
        listed = replace(listed, request=replace(found.request, chosen=chosen, command=_command(file)))
        contract = experiment.contract.model_copy(update={"contrasts": len(contrasts)})
        experiment = experiment.model_copy(
            update={"arms": arms, "contrasts": contrasts, "contract": contract}
        )
    of_plan = planned(experiment, earlier_experiments.recall(experiment))
    least_s = first_verdict_s(file.claims, wanted, experiment, of_plan)
    return replace(
        listed,
        least_s=least_s,
        outlooks=before_measuring(file.claims, wanted, experiment, of_plan),
    )


def without(found: Standing, lacking: Mapping[str, str]) -> Standing:
    """With the claims that can't be tried: by id what is missing, '' where nothing is."""

    def with_missing(claim: Claim, judged: JudgedClaim) -> JudgedClaim:
        missing = without_secrets(lacking[claim.id])
        if judged.verdict is not None or not missing:
            return judged
        return _unjudged(claim, found.file, missing, "can't be tried here")

    judged = tuple(map(with_missing, found.file.claims, found.judged))
    return replace(found, judged=judged)


def measured(found: Standing, stored: StoredExperiment) -> Standing:
    """With the verdicts of its experiment, and what the next of them takes."""
    result = analyse(stored)
    file = found.file
    # 'pgassay run', which the experiment may have stored, runs all arms and judges no claim.
    command = shlex.join((*_command(file), "--seed", str(stored.experiment.contract.seed)))
    here = {"file": str(file.path), "command": command}
    judged = tuple(each.model_copy(update=here) for each in judge(file.claims, result, stored))
    outlooks = after_measuring(file.claims, judged, result, stored)
    return replace(
        found,
        judged=judged,
        blocks=result.blocks,
        seconds_used=stored.seconds_used,
        family=result.family,
        least_s=min((each.seconds for each in outlooks), default=None),
        outlooks=outlooks,
        cache=stored.experiment.protocol.cache,
        caveats=caveats_of(result),
    )


def check_arms(file: ClaimedFile) -> str:
    """Why the experiment of a file can't be read here; '' if it can, and where its server would be asked.

    Raises UsageError for a claim on an arm or a statement that the file doesn't ask for.
    """
    try:
        request = read_file(file.path, None, CLAIMS_COMMAND)
        if is_remote(request):
            return ""
        candidates = parse_request(request).candidates
    except (UsageError, MeasurementError, OSError) as error:
        return without_secrets(str(error))
    names = [level_name(levels) for levels, _ in candidates]
    for claim in file.claims:
        refuse_unknown_arms(claim, names, str(file.path), "correct the claim")
        workloads = [spec.workload for _, spec in candidates]
        refuse_unknown_statements(claim, workloads, str(file.path), "correct the claim")
    return ""


def keep_file(file: ClaimedFile, folder: Path) -> None:
    """Keep the file as it is measured, so that a later change of it is found."""
    write_file(_copy_of(folder), file.path.read_bytes())


def _command(file: ClaimedFile) -> tuple[str, ...]:
    """What judges its claims, and repeats an experiment of which only the claimed arms are run."""
    return (*CLAIMS_COMMAND, str(file.path))


def _refuse_changed(file: ClaimedFile, folder: Path) -> None:
    copy = _copy_of(folder)
    if copy.is_file() and _experiment_in(copy) != _experiment_in(file.path):
        raise UsageError(
            f"{file.path} was changed since {folder} was measured: name another folder with --out"
        )


def _refuse_changed_sql(found: Standing, stored: StoredExperiment) -> None:
    """Raise UsageError where a file of SQL or data that the experiment names is not what was measured.

    Where the request can't be read here, as without a build, nothing is said: stored verdicts can be shown.
    """
    if is_remote(found.request):
        return
    try:
        candidates = parse_request(found.request).candidates
    except (UsageError, MeasurementError, OSError):
        return
    asked = {short_name(level_name(levels)): spec for levels, spec in candidates}
    names = [short_name(level_name(arm.levels)) for arm in stored.experiment.arms]
    if not {*names} <= {*asked}:
        return
    measured_arms = stored.experiment.arms
    arms = tuple(
        arm.model_copy(update={"spec": asked[name]}) for arm, name in zip(measured_arms, names, strict=True)
    )
    if any(arm.spec.without_indexes for arm in measured_arms):
        arms = on_shared_data(arms).arms
    if any(map(_differ, arms, measured_arms)):
        raise UsageError(
            f"a file that {found.file.path} names was changed since {found.folder} was measured: name "
            "another folder with --out"
        )


def _differ(arm: Arm, measured: Arm) -> bool:
    """Whether an arm has other statements, another preparation or other data of files than was measured.

    Arms of which nobody wanted a claim may have brought more indexes to the data.
    """
    now, then = arm.spec, measured.spec
    is_own = now.workload.family in ("sql", "maintenance")
    texts = [[each.sql for each in spec.workload.statements] for spec in (now, then)]
    return (
        (is_own and texts[0] != texts[1])
        or not {*now.prepare} <= {*then.prepare}
        or now.dataset.source_sha256 != then.dataset.source_sha256
    )


def _copy_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.toml")


def _experiment_in(path: Path) -> dict[str, object]:
    """A file without its claims, which may be added to."""
    return {key: value for key, value in read_document(path).items() if key != "claim"}


def _unjudged(claim: Claim, file: ClaimedFile, why: str, verdict: ClaimVerdict | None = None) -> JudgedClaim:
    return JudgedClaim.of(claim, why, shlex.join(_command(file)), verdict, file=str(file.path))
