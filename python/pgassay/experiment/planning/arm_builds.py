"""The builds of an experiment: one for all arms, or the factor; what stays alike, and what does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pgassay.design.arms import Candidate, level_name
from pgassay.environment.builds.base import version_key
from pgassay.environment.builds.default_differences import DefaultDifferences, default_differences, pair_names
from pgassay.environment.builds.registry import check_major, resolve
from pgassay.environment.server.setting_values import SettingFact, equal_value
from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_baseline import differing_checksums
from pgassay.factors.base import Factor
from pgassay.factors.config import names_of
from pgassay.model.arm import Arm
from pgassay.model.build import Build
from pgassay.model.experiment import Contrast

# One load of the data is laid out by chance; with two, the chance isn't confounded with the build.
LOADS_OF_COMPARED_BUILDS = 2
# Factors whose levels are builds.
BUILD_FACTORS = frozenset({"version", "build"})


@dataclass(frozen=True)
class AlikeSettings:
    """The candidates with every setting given where it exists; a sentence for each that one build lacks."""

    candidates: list[Candidate]
    sentences: tuple[str, ...]


def choose_builds(factors: Sequence[Factor], text: str | None) -> tuple[tuple[Factor, ...], Build]:
    """The factors with their builds found, and the build of arms that no factor gives one (`--pg TEXT`).

    Where the build is a factor, that is the newest of its levels: its settings are the most. Raises
    UsageError for a build that isn't at hand, or that is chosen twice over.
    """
    choosing = [factor for factor in factors if factor.kind.bind is not None]
    if len(choosing) > 1:
        names = " and ".join(f"{factor.name}=" for factor in choosing)
        raise UsageError(f"{names} both choose the server's binaries: leave one of them out")
    if not choosing:
        build = resolve(text)
        check_major(f"--pg {text}" if text else "the newest build here", build)
        return tuple(factors), build
    if text is not None:
        raise UsageError(
            f"--pg {text} chooses one build for all arms, {choosing[0].name}= one "
            "for each: leave one of them out"
        )
    bound = tuple(_bound(factor) for factor in factors)
    builds = [build for factor in bound for build in factor.kind.builds.values()]
    return bound, max(builds, key=version_key)


def _bound(factor: Factor) -> Factor:
    if factor.kind.bind is None:
        return factor
    return replace(factor, kind=factor.kind.bind(factor.name, factor.levels))


def settings_where_they_exist(candidates: list[Candidate]) -> AlikeSettings:
    """Leave out of an arm each setting, not a factor, that its build lacks and another arm's build has.

    What no build has stays, so that a slip of the fingers is found. Starts a server of each build when
    pgassay sees it for the first time.
    """
    builds = _distinct(candidates)
    if len(builds) < 2:
        return AlikeSettings(candidates, ())
    known = {build.bin_directory: build_settings(build) for build in builds}
    lacking: dict[str, list[Build]] = {}
    kept = []
    for levels, spec in candidates:
        facts = known[spec.build.bin_directory]
        missing = [
            name
            for name in spec.settings
            if name not in names_of(levels)
            and classify(facts, name) == "unknown"
            and any(classify(others, name) != "unknown" for others in known.values())
        ]
        for name in missing:
            if spec.build not in lacking.setdefault(name, []):
                lacking[name].append(spec.build)
        settings = {name: value for name, value in spec.settings.items() if name not in missing}
        kept.append((levels, spec.model_copy(update={"settings": settings})))
    values = {name: value for _, spec in candidates for name, value in spec.settings.items()}
    sentences = tuple(
        f"{name}={values[name]} is only set where it exists: PostgreSQL {_versions(without)} has no such "
        "setting"
        for name, without in lacking.items()
    )
    return AlikeSettings(kept, sentences)


def one_arm_where_lacking(candidates: list[Candidate], compared: str) -> tuple[list[Candidate], list[str]]:
    """The candidates with one arm for each build that lacks a factor's setting, and a sentence for each.

    Version 17 has no io_method, so `version=17,18 io_method=sync,worker` is three arms: 17, 18 with sync
    and 18 with worker. Where the setting itself is what is `compared`, or no build has it, the candidates
    stay, and the servers judge them. Starts a server of each build when pgassay sees it for the first time.
    """
    builds = {spec.build.bin_directory: spec.build for _, spec in candidates}
    if len(builds) < 2:
        return candidates, []
    known = {folder: build_settings(build) for folder, build in builds.items()}
    kept: dict[str, Candidate] = {}
    dropped: dict[tuple[str, str, str], list[str]] = {}
    for levels, spec in candidates:
        facts = known[spec.build.bin_directory]
        lacking = [
            name
            for name in levels
            if name != compared
            and name in spec.settings
            and classify(facts, name) == "unknown"
            and any(classify(others, name) != "unknown" for others in known.values())
        ]
        rest = {name: level for name, level in levels.items() if name not in lacking}
        settings = {name: value for name, value in spec.settings.items() if name not in lacking}
        kept.setdefault(level_name(rest), (rest, spec.model_copy(update={"settings": settings})))
        which = level_name({name: level for name, level in rest.items() if name in BUILD_FACTORS})
        for name in lacking:
            found = dropped.setdefault((which, spec.build.version, name), [])
            if levels[name] not in found:
                found.append(levels[name])
    sentences = [
        f"{which} {name}={','.join(found)} was skipped: PostgreSQL {version} has no setting {name}, "
        f"so {which} is one arm without it"
        for (which, version, name), found in dropped.items()
    ]
    return list(kept.values()), sentences


def differing_defaults(arms: Sequence[Arm], contrasts: Sequence[Contrast]) -> tuple[DefaultDifferences, ...]:
    """For each pair of builds that is compared the defaults in which they differ, if any do.

    Checksums are among them where each version's own initdb made the data.
    """
    by_id = {arm.id: arm for arm in arms}
    pairs = [(by_id[contrast.control_id], by_id[contrast.arm_id]) for contrast in contrasts]
    names = pair_names((control.spec.build, arm.spec.build) for control, arm in pairs)
    found: dict[tuple[str, str], DefaultDifferences] = {}
    for control, arm in pairs:
        build, other = control.spec.build, arm.spec.build
        if build.bin_directory == other.bin_directory:
            continue
        # What is given to both is alike, and what only one has was said already.
        given = set(control.spec.settings) | set(arm.spec.settings) | names_of(arm.levels)
        described = (build, build_settings(build)), (other, build_settings(other))
        pair = default_differences(*described, given, differing_checksums(control, arm))
        if pair.values:
            folders = build.bin_directory, other.bin_directory
            first, second = names[folders]
            found[folders] = replace(pair, first=first, second=second)
    return tuple(found.values())


def dataset_loads(arms: Sequence[Arm]) -> int:
    """How many times the data are loaded for each arm, independently.

    What is loaded into differently made clusters lies on the disk as chance had it, whatever the build; what
    pg_upgrade brought to a build lies as its original does.
    """
    if all(arm.spec.dataset.before_upgrade is not None for arm in arms):
        return 1
    made = {
        (_data_maker(arm.spec.build), arm.spec.dataset.checksums, arm.spec.dataset.wal_segment_mb)
        for arm in arms
    }
    return LOADS_OF_COMPARED_BUILDS if len(made) > 1 else 1


def _data_maker(build: Build) -> str:
    """What makes a build's data: the build, or the format that several builds from source share."""
    return build.data_format or build.bin_directory


def refuse_equal_levels(candidates: Sequence[Candidate]) -> None:
    """Raise UsageError for two levels that a server reads as one value, such as 4MB and 4096kB."""
    for fact, levels in _levels_of_settings(candidates):
        name = fact.name
        for level, other in combinations(levels if fact.vartype != "string" else (), 2):
            # Both ways: a level that lets the server choose equals whatever it chooses.
            if equal_value(name, level, other, fact) and equal_value(name, other, level, fact):
                raise UsageError(
                    f"{name}={level} and {name}={other} are the same value: give each "
                    "level once (copy=first,second compares equal arms)"
                )


def levels_without_unit(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """A sentence for each setting that has a bare number beside a level that names its unit."""
    sentences = {}
    for fact, levels in _levels_of_settings(candidates):
        bare = [level for level in levels if level.strip().isdecimal() and level.strip() != "0"]
        if fact.unit and bare and any(level.strip()[-1:].isalpha() for level in levels):
            sentences[fact.name] = (
                f"{fact.name}={bare[0]} has no unit, unlike its other levels: PostgreSQL counts it in "
                f"{fact.unit}"
            )
    return tuple(sentences.values())


def _levels_of_settings(candidates: Sequence[Candidate]) -> list[tuple[SettingFact, list[str]]]:
    """What each build says of each setting that is a factor, and the levels that it has there."""
    facts = {build.bin_directory: build_settings(build) for build in _distinct(list(candidates))}
    found: dict[tuple[str, str], tuple[SettingFact, list[str]]] = {}
    for levels, spec in candidates:
        folder = spec.build.bin_directory
        for name in levels.keys() & spec.settings.keys() & facts[folder].keys():
            _, known = found.setdefault((name, folder), (facts[folder][name], []))
            if levels[name] not in known:
                known.append(levels[name])
    return list(found.values())


def _distinct(candidates: list[Candidate]) -> list[Build]:
    return list({spec.build.bin_directory: spec.build for _, spec in candidates}.values())


def _versions(builds: list[Build]) -> str:
    return ", ".join(sorted({build.version for build in builds}))
