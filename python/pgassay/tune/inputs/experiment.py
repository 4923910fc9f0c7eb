"""From an experiment to what is tuned: an arm's data, settings, caps and statements as recorded."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import CacheState, Experiment
from pgassay.model.workload import WorkloadSpec
from pgassay.record.experiment import load_experiment
from pgassay.storage.parse import describe
from pgassay.storage.storage_options import format_bytes
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.inputs.base import Start, workload_named
from pgassay.tune.tuned_statements import checked
from pgassay.workloads.sysbench import calls_of

# Cache states that a copy of tune's has no way to: it takes its own default in their place.
_NOT_ON_A_COPY = ("restarted",)


def start_of_experiment(
    folder: Path, compare: CompareRequest, arm_name: str | None, given: Mapping[str, str]
) -> tuple[CompareRequest, Start]:
    """The request and what is tuned: the arm named so, else the only control.

    `given`: the options typed beside the folder, by name, as 'pg': the record decides them, except where the
    experiment's server is not pgassay's own, whose data must be given. Raises UsageError for those, for an
    arm that is not there, and for a workload without single statements.
    """
    experiment = load_experiment(folder)
    arm = _chosen(folder, experiment, arm_name)
    spec = arm.spec
    notes = [f"taken from {folder}: its arm {arm.name}"]
    workload, statements, said = _statements_of(spec.workload, folder)
    notes += said
    if spec.server is not None:
        return _of_a_running_server(compare, given, folder, arm, notes, workload, statements)
    if given:
        raise UsageError(
            f"--{next(iter(given))} cannot be used with {folder}, which records its own workload and "
            "data: leave it out, or start again with --workload and --dataset"
        )
    build, said = _build_of(spec)
    notes += said
    cache: CacheState | None = experiment.protocol.cache
    request = replace(
        compare,
        workload=workload.text,
        cache=None if cache in _NOT_ON_A_COPY else cache,
        storage=describe(spec.storage),
        memory=None if spec.memory_bytes is None else format_bytes(spec.memory_bytes),
        cpus=None if spec.cpus is None else f"{spec.cpus:g}",
        build=build,
    )
    return request, Start(workload, statements, spec, tuple(notes))


def _chosen(folder: Path, experiment: Experiment, name: str | None) -> Arm:
    arms = [arm for arm in experiment.arms if arm.role != "twin"]
    if name is not None:
        found = [arm for arm in arms if arm.name == name]
        if found:
            return found[0]
    else:
        controls = [arm for arm in arms if arm.role == "control"]
        if len(controls) == 1:
            return controls[0]
    wrong = f"{folder} has no arm '{name}'" if name is not None else f"{folder} has several controls"
    names = ", ".join(f"'{arm.name}'" for arm in arms)
    raise UsageError(f"{wrong}: name one with --arm, of {names}")


def _statements_of(
    workload: WorkloadSpec, folder: Path
) -> tuple[WorkloadSpec, tuple[TunedStatement, ...], list[str]]:
    """The list that is tuned, its statements, and what has to be said of them."""
    if workload.is_replay:
        raise UsageError(
            f"{folder} measured {workload.text}, a replay: start again with --workload {workload.text} and "
            "the data "
            "by --dataset, as dump:FILE"
        )
    if workload.is_maintenance or not workload.statements:
        raise UsageError(
            f"{folder} measured {workload.text}, which has no statements with a plan to tune: "
            "name an experiment on sql:FILE, full-scan or a load"
        )
    weights, notes = dict(workload.weights), list[str]()
    if workload.load is not None:
        options = workload.load.of_sysbench
        weights = {} if options is None else {name: float(n) for name, n in calls_of(options).items()}
        notes.append(
            f"the statements of {workload.text} are tuned one by one, with one set of values each, weighted "
            "by how often a transaction runs them"
        )
    statements = tuple(
        checked(each, "", f"{folder}, {workload.text}").model_copy(
            update={"weight": weights.get(each.name, 1.0)}
        )
        for each in workload.statements
    )
    if workload.load is None:
        return workload, statements, notes
    named = workload_named(workload.text, statements)
    return named.model_copy(update={"clients": workload.load.clients}), statements, notes


def _build_of(spec: ArmSpec) -> tuple[str, list[str]]:
    """What --pg would say, and a sentence where the recorded binaries are not here."""
    build = spec.build
    if (Path(build.bin_directory) / "postgres").is_file():
        return build.bin_directory, []
    return str(build.major), [
        f"{build.bin_directory} with PostgreSQL {build.version} is no longer here: another build "
        f"of {build.major} is used instead"
    ]


def _of_a_running_server(
    compare: CompareRequest,
    given: Mapping[str, str],
    folder: Path,
    arm: Arm,
    notes: list[str],
    workload: WorkloadSpec,
    statements: tuple[TunedStatement, ...],
) -> tuple[CompareRequest, Start]:
    server = arm.spec.server
    assert server is not None
    if "workload" in given:
        raise UsageError(
            f"--workload cannot be used with {folder}, which records its own workload and data: leave it out"
        )
    if "dataset" not in given:
        raise UsageError(
            f"{folder} was measured on {server.name}, which is only read: give a copy of its data with "
            "--dataset dump:FILE or --dataset folder:BASEBACKUP"
        )
    named = {text.partition("=")[0].strip().lower() for text in compare.settings}
    settings = tuple(f"{name}={value}" for name, value in arm.spec.settings.items() if name not in named)
    notes.append(
        f"{server.name} runs PostgreSQL {server.version}: its statements and the settings that the "
        "experiment gave it are taken, its data, memory and processors are those given here"
    )
    request = replace(
        compare,
        workload=workload.text,
        settings=(*compare.settings, *settings),
        build=compare.build or str(server.major),
    )
    return request, Start(workload, statements, None, tuple(notes))
