"""A factor that some of the compared builds lack: such a build is one arm without it, not a hole in the grid.

Also says which combinations are left without a partner."""

from pgassay.design.arms import level_name
from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.experiment.planning.availability import Candidate
from pgassay.model.arm import Arm

BUILD_FACTORS = frozenset({"version", "build"})


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


def alone(candidates: list[Candidate], arms: tuple[Arm, ...], compared: str) -> tuple[str, ...]:
    """A sentence for each combination that could run and is no arm: nothing was left to compare it with."""
    names = {arm.name for arm in arms}
    return tuple(
        f"{level_name(levels)} was skipped: no other level of {compared} is left to compare it with"
        for levels, _ in candidates
        if level_name(levels) not in names
    )
