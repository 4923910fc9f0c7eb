"""The new version against itself: before ANALYZE, and with its own defaults for the source's settings.

What the upgrade brings is the comparison of both versions. This one says what is lost until ANALYZE has run,
and what settings that once were right keep from the statements now.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.experiment_plan import parse_request
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import run_parsed
from pgassay.model.build import Build
from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.upgrades.upgrade_answer import StateOfServer, UpgradedStatement, UpgradeState
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.upgrade.catalogs import GivenSetting
from pgassay.upgrade.chosen_statements import timed_text
from pgassay.upgrade.empty_server import KnownSetting
from pgassay.upgrade.traffic import plans_between, unbounded
from pgassay.upgrade.version_times import with_times
from pgassay.words import plural

FOLDER = "states"
TIME_MIN_S = 20.0
BEFORE: Final = "before ANALYZE"
DEFAULTS: Final = "new defaults"
_PLANNING = "Query Tuning"
# It says how much memory this machine has for the server, which no version knows better.
_OF_THE_MACHINE = ("effective_cache_size",)
# What can be part of a level: numbers, units, words.
_PLAIN = re.compile(r"[\w.-]+")
_TOLD = ("slower", "faster", "as fast", "not decided")

Held = Mapping[str, tuple[str, str]]


def held_settings(
    given: Mapping[str, GivenSetting], known: Mapping[str, KnownSetting]
) -> dict[str, tuple[str, str]]:
    """The source's settings that hold back a default of the new version: its own value, and that default.

    Those of planning, and those whose default is another one in the new version.
    """
    found = {}
    for name, each in given.items():
        new = known.get(name)
        if not each.is_given or new is None or new.boot is None or name in _OF_THE_MACHINE:
            continue
        is_meant = each.category.startswith(_PLANNING) or each.boot != new.boot
        if is_meant and each.value != new.boot and _PLAIN.fullmatch(each.shown):
            unit = f" {each.unit}" if each.unit else ""
            found[name] = (each.shown, f"{new.boot}{unit}")
    return found


@dataclass(frozen=True)
class StatesToMeasure:
    """What the states are measured with.

    request: that of the comparison of both versions; traffic: played in place of the statements; shares: of
    the source's time by statement; held: the settings that the new defaults do without; build: the new one;
    checksums: as that request has them, '' where the data folder says it.
    """

    request: CompareRequest
    traffic: WorkloadSpec | None
    statements: Sequence[Statement]
    shares: Mapping[str, float]
    held: Held
    build: Build
    checksums: str


def measured_states(
    asked: StatesToMeasure, folder: Path, max_time_s: float, progress: Progress
) -> tuple[UpgradeState, ...]:
    """Both states; one that could not be measured says why. Nothing where no statement has a time."""
    if not asked.statements:
        return ()
    if max_time_s < TIME_MIN_S:
        return _not_measured(asked, "not measured, since no time was left: give a longer --max-time")
    levels = _levels(asked)
    request = _request(asked, levels, folder, max_time_s)
    progress.message("ANALYZE and the new defaults: the new version against itself")
    try:
        stored = run_parsed(parse_request(request, progress.stage), progress, until_decided=False)
    except (UsageError, MeasurementError) as error:
        return _not_measured(asked, f"not measured: {error}")
    result = analyse(stored)
    found = [_state(BEFORE, asked, stored, result, levels)]
    found.append(_state(DEFAULTS, asked, stored, result, levels) if asked.held else _no_settings())
    return tuple(found)


def _request(
    asked: StatesToMeasure, levels: Mapping[str, str], folder: Path, max_time_s: float
) -> CompareRequest:
    request = asked.request
    if asked.traffic is not None:
        workload = unbounded(asked.traffic)
    else:
        file = folder / f"{FOLDER}.sql"
        file.write_text(timed_text(asked.statements))
        workload = f"sql:{file}"
    kept = tuple(each for each in request.settings if each.partition("=")[0].lower() not in asked.held)
    return replace(
        request,
        factors=(f"config={','.join(levels.values())}",),
        settings=kept,
        workload=workload,
        max_time_s=max_time_s,
        out=folder / FOLDER,
    )


def _levels(asked: StatesToMeasure) -> dict[str, str]:
    """The level of each state as it is typed, '' for the one that the others are compared with."""
    first = f"build={asked.build.bin_directory}{f'+checksums={asked.checksums}' if asked.checksums else ''}"
    held = "".join(f"+{name}={values[0]}" for name, values in asked.held.items())
    levels = {"": f"{first}{held}", BEFORE: f"{first}+analyze=off{held}"}
    return levels | ({DEFAULTS: first} if asked.held else {})


def _not_measured(asked: StatesToMeasure, why: str) -> tuple[UpgradeState, ...]:
    defaults = UpgradeState(id=DEFAULTS, sentence=why, settings=dict(asked.held))
    return UpgradeState(id=BEFORE, sentence=why), defaults if asked.held else _no_settings()


def _no_settings() -> UpgradeState:
    return UpgradeState(
        id=DEFAULTS,
        sentence="nothing: no setting of the server's holds back a default of the new version",
    )


def _state(
    state: StateOfServer,
    asked: StatesToMeasure,
    stored: StoredExperiment,
    result: CompareResult,
    levels: Mapping[str, str],
) -> UpgradeState:
    pairs = _pairs(result, levels[""], levels[state])
    arms = {_level(arm.levels): arm.name for arm in stored.experiment.arms if arm.role != "twin"}
    plans = plans_between(stored, arms[levels[""]], arms[levels[state]])
    found = []
    for statement in asked.statements:
        pair = pairs.get(statement.name) or (pairs.get("") if len(asked.statements) == 1 else None)
        changed = plans.get(statement.name)
        made = UpgradedStatement(
            name=statement.name, sql=statement.sql, verdict="not decided",
            share=asked.shares.get(statement.name), plan=changed or (),
        )  # fmt: skip
        reasons = ["the plan is the same in both"] if changed == () else []
        found.append(with_times(made, pair, reasons))
    found.sort(key=lambda each: (_TOLD.index(each.verdict), each.ratio or 1.0))
    settings = dict(asked.held) if state == DEFAULTS else {}
    return UpgradeState(
        id=state, sentence=_sentence(state, settings, found), settings=settings, statements=tuple(found)
    )


def _level(levels: Mapping[str, str]) -> str:
    return levels.get("config", "")


def _pairs(result: CompareResult, control: str, level: str) -> dict[str, tuple[ArmResult, ArmResult]]:
    families = {each.name: each.arms for each in result.statements} or {"": result.arms}
    found = {}
    for name, arms in families.items():
        by_level = {_level(arm.levels): arm for arm in arms}
        if control in by_level and level in by_level:
            found[name] = (by_level[control], by_level[level])
    return found


def _sentence(
    state: StateOfServer, settings: Mapping[str, tuple[str, str]], found: Sequence[UpgradedStatement]
) -> str:
    counts = [
        f"{number} {verdict}"
        for verdict in _TOLD
        if (number := sum(each.verdict == verdict for each in found))
    ]
    told = f"of {plural(len(found), 'statement')} {', '.join(counts)}"
    if state == BEFORE:
        return f"against the same server after ANALYZE: {told}"
    changed = ", ".join(f"{name} {new} instead of {own}" for name, (own, new) in settings.items())
    return f"with the defaults of the new version ({changed}): {told}"
