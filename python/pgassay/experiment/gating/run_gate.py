"""One run of a gate: both systems found, every workload compared in blocks, the result judged and kept."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgassay.analysis.gate.detector import rule_of
from pgassay.analysis.gate.judge_gate import Gated, gate_result
from pgassay.analysis.gate.promise import TimeBudget, noise_of, opening, promise
from pgassay.analysis.verdicts.study import owns_data
from pgassay.errors import InterruptionError, UsageError
from pgassay.experiment.gating.gate_baseline import GateBaseline, find_baseline, revision_of
from pgassay.experiment.gating.gate_file import GateFile, read_gate_file
from pgassay.experiment.gating.requests import GatePlan, PlannedComparison, plan_gate, refuse_double_settings
from pgassay.experiment.planning.experiment_plan import parse_request
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.results_folder import check_folder, find_experiments
from pgassay.experiment.running.run_experiment import run_new
from pgassay.model.experiment import Experiment
from pgassay.model.gates.gate import GatedSystem, GateResult, GateRule
from pgassay.model.redaction import without_secrets
from pgassay.progress import Progress
from pgassay.record.experiment import load
from pgassay.record.gates import load_gates, write_gate

PARENT = Path("pgassay-gates")
BASELINE_FOLDER = "baseline"


@dataclass(frozen=True)
class GateOptions:
    """A gate as typed. history: a folder of earlier gates whose evidence adds up with this one's."""

    file: Path
    baseline: str
    history: Path | None
    out: Path | None
    command: tuple[str, ...]
    seed: int | None = None


@dataclass(frozen=True)
class PreparedGate:
    """A gate of which every word is understood; nothing has been measured."""

    change: GateFile
    baseline: GateBaseline
    plan: GatePlan
    systems: tuple[GatedSystem, GatedSystem]
    earlier: tuple[GateResult, ...]
    rule: GateRule | None
    folder: Path


def prepare_gate(options: GateOptions, folder: Path) -> PreparedGate:
    """Read both sides and check every workload; raises UsageError for the first that can't be meant.

    folder: of the gate, where the baseline's files are written; it is there.
    """
    change = read_gate_file(options.file)
    earlier = tuple(load_gates(options.history)) if options.history is not None else ()
    baseline = find_baseline(options.baseline, change, folder / BASELINE_FOLDER)
    plan = plan_gate(baseline.file, change, command=_storable(options.command), seed=options.seed, out=folder)
    refuse_double_settings(plan, {"baseline": baseline.file.system, "change": change.system})
    for each in plan.planned:
        parse_request(each.request)
    is_server = change.system.server is not None
    systems = (
        baseline.system.model_copy(update={"versions": plan.versions[0]}),
        GatedSystem(
            kind="server" if is_server else "file",
            name=without_secrets(change.system.server or str(options.file)),
            revision=revision_of(options.file.parent),
            versions=plan.versions[1],
        ),
    )
    units = sum(len(each.units) for each in plan.planned)
    rule = rule_of(units, change.runs_per_year, change.false_alarms_per_year) if units else None
    return PreparedGate(change, baseline, plan, systems, earlier, rule, folder)


def run_gate(options: GateOptions, progress: Progress, *, wait: bool) -> GateResult:
    """Run a gate to its end and keep its result; raises UsageError, or MeasurementError of a workload.

    Interrupted, it keeps what is known by then; raises InterruptionError where that is nothing.
    """
    created_at = datetime.now(UTC)
    folder = _folder_for(options, created_at)
    make_folder(folder)
    try:
        prepared = prepare_gate(options, folder)
    except BaseException:
        _remove_unmeasured(folder)
        raise
    for sentence in sentences_before(prepared):
        progress.message(sentence)
    gated: list[Gated] = []
    is_interrupted = False
    try:
        for each in prepared.plan.planned:
            # One by one: an interruption leaves those that have ended.
            ended = _run_workload(each, prepared, progress, wait=wait)
            gated.append(ended)
    except (KeyboardInterrupt, InterruptionError) as interruption:
        gated = _measured_until(prepared, gated)
        if not gated:
            _remove_unmeasured(folder)
            raise InterruptionError(
                "interrupted before the first trial; nothing is left running and nothing was recorded"
            ) from interruption
        is_interrupted = True
    result = gate_result(
        gated,
        systems=prepared.systems,
        earlier=prepared.earlier,
        created_at=created_at.isoformat(timespec="seconds"),
        file=str(options.file),
        folder=str(prepared.folder),
        runs_per_year=prepared.change.runs_per_year,
        false_alarms_per_year=prepared.change.false_alarms_per_year,
        warnings=_warnings(prepared),
        interrupted_of=_units_of(prepared) if is_interrupted else None,
    )
    write_gate(prepared.folder, result)
    return result


def _measured_until(prepared: PreparedGate, gated: Sequence[Gated]) -> list[Gated]:
    """What was measured before an interruption: whole workloads, and the one that was under way."""
    found = list(gated)
    for each in prepared.plan.planned[len(gated) :]:
        # A folder without a trial has been removed already.
        if find_experiments(prepared.folder / each.name):
            stored = load(prepared.folder / each.name)
            if stored.trials:
                found.append(Gated(each.name, stored, folder=each.name))
        break
    return found


def _units_of(prepared: PreparedGate) -> int:
    return sum(len(each.units) for each in prepared.plan.planned)


def sentences_before(prepared: PreparedGate) -> list[str]:
    """What is compared and how false alarms are bounded, to be said before anything is measured."""
    names = [each.name for each in prepared.plan.planned]
    return opening(names, prepared.plan.equal, prepared.systems[0], prepared.rule)


def _warnings(prepared: PreparedGate) -> tuple[str, ...]:
    return () if prepared.rule is None else tuple(sentences_before(prepared)[1:])


def _run_workload(
    each: PlannedComparison, prepared: PreparedGate, progress: Progress, *, wait: bool
) -> Gated:
    said: list[str] = []

    def said_by(experiment: Experiment, known: TrialHistory, limits: RunLimits) -> str:
        said.append(promise_of(each.name, experiment, known, limits, prepared))
        return said[-1]

    progress.message(f"workload {each.name}")
    stored = run_new(each.request, progress, wait=wait, until_decided=False, said_by=said_by)
    return Gated(
        each.name,
        stored,
        promise=said[-1] if said else "",
        folder=each.name,
        must_find=prepared.change.must_find.get(each.name),
        warnings=stored.warnings,
    )


def promise_of(
    name: str, experiment: Experiment, known: TrialHistory, limits: RunLimits, prepared: PreparedGate
) -> str:
    """What one workload's time can find, by what is known of its trials."""
    if prepared.rule is None:
        return ""
    contract = experiment.contract
    owning = owns_data(experiment, experiment.contrasts[0])
    time = TimeBudget(
        time_s=limits.time_max_s,
        trial_s=known.trial_s,
        members=len(experiment.arms),
        blocks_max=limits.blocks_max,
        blocks_per_row=experiment.design.blocks_per_copy if owning else 1,
        pooled=contract.pool_twin,
        by_starts=contract.unit == "start",
    )
    return promise(name, time, noise_of(prepared.earlier, name, known.spread), prepared.rule)


def _folder_for(options: GateOptions, created_at: datetime) -> Path:
    """A new folder for this gate: --out, or a dated one in --history or below ./pgassay-gates."""
    if options.out is not None:
        check_folder(options.out)
        folder = options.out
    else:
        parent = options.history or PARENT
        stamp = created_at.astimezone().strftime("%Y-%m-%d-%H%M%S")
        stem = re.sub(r"[^A-Za-z0-9]+", "-", options.file.stem).strip("-").lower() or "gate"
        folder, number = parent / f"{stamp}-{stem}", 2
        while folder.exists():
            folder, number = parent / f"{stamp}-{stem}-{number}", number + 1
    return folder.resolve()


def _remove_unmeasured(folder: Path) -> None:
    """Keep nothing of what ended before its first trial, nor the default parent that was made for it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent == PARENT.resolve():
        with contextlib.suppress(OSError):  # others lie there
            folder.parent.rmdir()


def make_folder(folder: Path) -> None:
    """Make a gate's folder; raises UsageError where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except OSError as error:
        raise UsageError(
            f"can't record the gate in {folder} ({error.strerror}): name another folder with --out"
        ) from error


def _storable(command: Sequence[str]) -> tuple[str, ...]:
    """The command line without a password of a connection string."""
    return tuple(without_secrets(word) for word in command)
