"""From two gate files to the comparisons that are run: one for each workload, of the baseline and the change.

Where the two differ in nothing that a workload meets, it is not run: equal arms would take time from the
others, and be counted among what may be a false alarm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.gate.units import units_of
from pgassay.environment.builds.registry import check_major, resolve
from pgassay.environment.remote.session_settings import READ_ONLY
from pgassay.errors import UsageError
from pgassay.experiment.gating.earlier_workload import earlier_workload
from pgassay.experiment.gating.gate_file import GateFile, SystemFile
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.server import NAME as SERVER
from pgassay.factors.system import System, factor_of
from pgassay.model.build import Build
from pgassay.workloads.registry import parse_workload


@dataclass(frozen=True)
class PlannedComparison:
    """The comparison of one workload, with the units that it will have."""

    name: str
    request: CompareRequest
    units: tuple[str, ...]


@dataclass(frozen=True)
class GatePlan:
    """What a gate runs; `equal`: workloads that are not run, since nothing differs for them."""

    planned: tuple[PlannedComparison, ...]
    equal: tuple[str, ...]
    versions: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class _Sides:
    """What both sides bring to every workload; builds: None where one build serves both."""

    settings: tuple[dict[str, str], dict[str, str]]
    prepare: tuple[tuple[str, ...], tuple[str, ...]]
    builds: tuple[Build, Build] | None

    @property
    def differ(self) -> bool:
        """Whether every workload meets a difference."""
        return (
            self.builds is not None
            or self.settings[0] != self.settings[1]
            or self.prepare[0] != self.prepare[1]
        )


def plan_gate(
    baseline: GateFile, change: GateFile, *, command: tuple[str, ...], seed: int | None, out: Path
) -> GatePlan:
    """The comparisons of a gate; raises UsageError for what the two can't be compared in.

    seed: of the first workload, the next one's is one more. out: the gate's folder.
    """
    if change.system.server is not None or baseline.system.server is not None:
        return _of_servers(baseline, change, command, seed, out)
    sides = _sides(baseline.system, change.system)
    planned, equal = [], []
    for index, (name, request) in enumerate(change.workloads.items()):
        other = baseline.workloads.get(name)
        specs = parse_workload(request.workload), earlier_workload(request, other)
        if not sides.differ and specs[1] is None:
            equal.append(name)
            continue
        made = tuple(
            System(
                build=None if sides.builds is None else sides.builds[place],
                prepare=sides.prepare[place],
                settings=sides.settings[place],
                workload=specs[1] if place == 0 else None,
            )
            for place in (0, 1)
        )
        common = replace(
            _common(request, command, seed, index, out / name),
            build=None if sides.builds is not None else change.system.pg,
            made_factors=(factor_of(made[0], made[1]),),
        )
        planned.append(PlannedComparison(name, common, units_of(specs[0])))
    builds = sides.builds or (resolve(change.system.pg),) * 2
    versions = tuple((f"{build.version} ({build.origin})",) for build in builds)
    return GatePlan(tuple(planned), tuple(equal), (versions[0], versions[1]))


def _common(
    request: CompareRequest, command: tuple[str, ...], seed: int | None, index: int, out: Path
) -> CompareRequest:
    own = None if seed is None else (seed + index) % 2**31
    return replace(request, command=command, seed=own, out=out)


def _sides(baseline: SystemFile, change: SystemFile) -> _Sides:
    builds = (_build(baseline.pg), _build(change.pg))
    is_one = builds[0].bin_directory == builds[1].bin_directory
    return _Sides(
        settings=(dict(baseline.settings), dict(change.settings)),
        prepare=(_statements(baseline), _statements(change)),
        builds=None if is_one else builds,
    )


def _build(text: str | None) -> Build:
    build = resolve(text)
    check_major(f"pg = {text}" if text else "the newest build here", build)
    return build


def _statements(system: SystemFile) -> tuple[str, ...]:
    return tuple(statement for text in system.prepare for statement in parse_prepare(text, f"prepare {text}"))


def _of_servers(
    baseline: GateFile, change: GateFile, command: tuple[str, ...], seed: int | None, out: Path
) -> GatePlan:
    """Two servers that run already, or one with settings of the session or with SQL of each side."""
    before, now = baseline.system, change.system
    if before.server is None or now.server is None:
        which = baseline.path if before.server is None else change.path
        raise UsageError(
            f"{which} has no server below [system], but the other side has: a gate compares "
            "two running servers, or two that pgassay starts"
        )
    for name in sorted({*before.settings, *now.settings} & {*READ_ONLY, "transaction_read_only"}):
        raise UsageError(
            f"{change.path}: {name} is on for a workload that reads and off for one that writes "
            "(as allow-writes permits): leave it out of [system.set]"
        )
    if before.server != now.server and before.settings != now.settings:
        raise UsageError(
            f"{change.path}: both the servers and their [system.set] differ, so an "
            "effect could come from either: make one of them the same"
        )
    planned, equal = [], []
    for index, (workload, request) in enumerate(change.workloads.items()):
        earlier = earlier_workload(request, baseline.workloads.get(workload))
        common = _common(request, command, seed, index, out / workload)
        if before.server != now.server:
            if earlier is not None:
                raise UsageError(
                    f"{change.path}: both the servers and the SQL of [workloads.{workload}] differ, so an "
                    "effect could come from either: make one of them the same"
                )
            given = tuple(f"{name}={value}" for name, value in now.settings.items())
            servers = f"{SERVER}={_quoted(before.server)},{_quoted(now.server)}"
            common = replace(common, factors=(servers,), settings=(*common.settings, *given))
        elif before.settings != now.settings or earlier is not None:
            then = System(settings=dict(before.settings), workload=earlier)
            made = factor_of(then, System(settings=dict(now.settings)))
            common = replace(common, server=now.server, made_factors=(made,))
        else:
            equal.append(workload)
            continue
        units = units_of(parse_workload(request.workload))
        planned.append(PlannedComparison(workload, common, units))
    return GatePlan(tuple(planned), tuple(equal), ((), ()))


def _quoted(string: str) -> str:
    return "'" + string.replace("'", "''") + "'"


def refuse_double_settings(plan: GatePlan, systems: Mapping[str, SystemFile]) -> None:
    """Raise UsageError for a setting that a workload gives to both sides, and a side to itself."""
    for each in plan.planned:
        given = {text.partition("=")[0].strip().lower() for text in each.request.settings}
        for side, system in systems.items():
            twice = sorted(given & {name.lower() for name in system.settings})
            if twice:
                raise UsageError(
                    f"{twice[0]} is set in [workloads.{each.name}.set] and in [system.set] of the {side}: "
                    "leave it out of one"
                )
