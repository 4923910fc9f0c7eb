"""The found commit reverted on the bad end: an experiment of its own, which confirms or doubts the answer."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.bisecting.rounds import RoundRun, run_builds
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.environment.source_builds.trees import clone_environment
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.loop import RunLimits
from pgassay.model.build import Build
from pgassay.model.further_results.bisection import Place, Reverted
from pgassay.model.result import ArmResult
from pgassay.record.experiment import StoredExperiment

FOLDER, PATCH_FILE = "revert", "revert.patch"
BLOCKS_MAX = 60


def reverted_build(culprit: Place, bad: Place, out: Path, provide: Callable[[str], Build]) -> str | Reverted:
    """The bad end without the commit, built; or why there is none."""
    tree = parse_source(culprit.build)
    # The last candidate is built as the bad end was typed, so its own name says which commit it is.
    # diff-tree does not read how this account likes its diffs: git could not apply some of them.
    diff = ("diff-tree", "-p", "--binary", "--full-index")
    words = ["git", "-C", str(tree.place), *diff, culprit.name, f"{culprit.name}^1"]
    patch = subprocess.run(
        words, env=clone_environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if patch.returncode != 0 or not patch.stdout:
        return Reverted(name=culprit.name, why="git can't create a patch for it")
    file = out.resolve() / PATCH_FILE
    file.write_bytes(patch.stdout)
    text = f"{bad.build}+patch:{file}"
    try:
        build = provide(text)
    except TreeDoesNotBuildError:
        return Reverted(name=culprit.name, why="without it the bad end does not build")
    except UsageError as error:
        if "does not apply" not in str(error):
            raise
        return Reverted(name=culprit.name, why="what came after it changed the same lines")
    if build.bin_directory == provide(bad.build).bin_directory:
        return Reverted(name=culprit.name, why="without it the bad end builds the same programs")
    return text


def run_reverted(request: CompareRequest, bad: Place, build: str, run: RoundRun) -> StoredExperiment:
    """The bad end with and without the commit, to a verdict; the caller holds the host's lock."""
    return run_builds(request, [bad.build, build], FOLDER, RunLimits(BLOCKS_MAX, run.time_s), run)


def judged(culprit: Place, stored: StoredExperiment, *, is_slow_down: bool) -> Reverted:
    """What the experiment says of the revert: confirmed where it takes the difference back.

    A verdict that is withheld, since equal servers differed, says nothing.
    """
    arm: ArmResult = next(arm for arm in analyse(stored).arms if arm.verdict != "control")
    wanted = "faster" if is_slow_down else "slower"
    ends = arm.interval
    known = ends is not None and ends[0] is not None and ends[1] is not None
    return Reverted(
        name=culprit.name,
        ratio=arm.ratio,
        interval=(ends[0], ends[1]) if known and ends is not None else None,
        is_confirmed=None if arm.withheld or arm.verdict == "inconclusive" else arm.verdict == wanted,
    )
