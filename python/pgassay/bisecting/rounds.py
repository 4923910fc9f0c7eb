"""One round of a search: an experiment of a few builds, and its blocks as the search takes them."""

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pgassay.analysis.bisection.block_likelihood import MeasuredBlock
from pgassay.analysis.verdicts.blocks import complete_blocks, contract_measure
from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.validation import build_settings
from pgassay.environment.source_builds.build_step import says_what_is_lacking
from pgassay.environment.source_builds.tree_syntax import is_source
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.planning.experiment_plan import parse_request
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.results_folder import check_folder
from pgassay.experiment.running.run_experiment import resume_held, run_parsed
from pgassay.factors.base import level_text
from pgassay.model.arm import Arm
from pgassay.model.further_results.bisection import BisectionRound, BisectionState, Place
from pgassay.progress import NullProgress, Progress
from pgassay.record import layout
from pgassay.record.documents import read_model
from pgassay.record.experiment import StoredExperiment, load
from pgassay.record.experiment_lock import held, holder, is_held
from pgassay.words import join, plural

STATE_FILE = "bisect.json"
NEW_FOLDER = "name a new folder with --out"
FACTOR = "build"
PROFILE_FOLDER = "profile"
# Before the trials with perf: enough to say what connections wait for, which perf does not see.
PROFILED_BLOCKS = 2


class RoundProgress(NullProgress):
    """Of a round's progress what a search shows: its stages and trials, and each message once."""

    def __init__(self, shown: Progress, what: str, said: set[str]) -> None:
        """`what`: the round in words; `said`: the messages so far, of all rounds."""
        self._shown, self._what, self._said = shown, what, said

    def stage(self, content: str, fraction: float | None = None) -> None:
        """As it is."""
        self._shown.stage(content, fraction)

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        """A line, as of an experiment."""
        self._shown.stage(f"{self._what}: block {block + 1}, trial {position + 1}: {status} {metric_text}")

    def message(self, content: str) -> None:
        """Once, however many rounds say it."""
        if content not in self._said:
            self._said.add(content)
            self._shown.message(content)


@dataclass(frozen=True)
class RoundRun:
    """What running a round takes: the records' folder, who is told, and how long it may last (seconds)."""

    out: Path
    progress: Progress
    time_s: float


class FolderHold(ExitStack):
    """Keeps others out of the folder of a search's records until its `with` block ends.

    Their rounds would be none of this search's.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._is_taken = folder, False

    def take(self) -> None:
        """Hold the folder once it is there; raises UsageError where another process does."""
        if self._is_taken or not self._folder.is_dir():
            return
        if is_held(self._folder):
            raise UsageError(
                f"process {holder(self._folder) or 'of another user'} is searching in {self._folder}: wait "
                f"until it has ended, or {NEW_FOLDER}"
            )
        self.enter_context(held(self._folder))
        self._is_taken = True


def recalled(out: Path, made: BisectionState) -> BisectionState:
    """The state that a folder holds of the search that `made` begins, `made` itself in a new folder.

    Raises UsageError where the folder holds something else, or another search.
    """
    path = out / STATE_FILE
    if not path.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"--out {out} has other content: name a new folder")
        return made
    state = read_model(path, BisectionState, 1, NEW_FOLDER)
    builds, wanted = ([place.build for place in each.places] for each in (state, made))
    if (state.kind, builds) != (made.kind, wanted):
        raise UsageError(f"{out} is a search over another range: {NEW_FOLDER}")
    keys = sorted({*state.asked, *made.asked})
    changed = [key for key in keys if state.asked.get(key) != made.asked.get(key)]
    if changed:
        raise UsageError(
            f"{out} was searched with a different {join(changed)}: use the same, or {NEW_FOLDER}"
        )
    return state.model_copy(update={"places": made.places})


def announced(found: BisectionRound, state: BisectionState, left: int) -> tuple[str, str]:
    """What a round is called, and what is said at its start; left: how many places may still be the one."""
    names = [place.name for place in state.places]
    count = len(names) - 1
    ends = join([names[found.low], names[found.high]])
    if found == state.rounds[0]:
        unit = "commit" if state.kind == "commits" else "build"
        return "the two ends", f"the two ends first: {ends}, {plural(count, unit)} after the first"
    what = f"round {found.folder.rpartition('-')[2]}"
    standing = f"{left} left" if left < count else "all are candidates"
    if not found.places:
        return what, f"{what}: {ends}, with no other server between them; {standing}"
    return what, f"{what}: {join([names[place] for place in found.places])} between both ends; {standing}"


def run_round(
    request: CompareRequest, found: BisectionRound, places: Sequence[Place], run: RoundRun
) -> StoredExperiment:
    """Run a round, or continue it; raises as `run_new`. The good end of its part is the control.

    The caller holds the host's lock.
    """
    is_of_ends = not found.places
    limits = RunLimits(
        found.blocks, run.time_s, until_decided=is_of_ends, ends_at=time.monotonic() + run.time_s
    )
    builds = [places[place].build for place in (found.low, *found.places, found.high)]
    blocks = None if is_of_ends else found.blocks
    return run_builds(replace(request, blocks=blocks), builds, found.folder, limits, run)


def run_builds(
    request: CompareRequest, builds: Sequence[str], folder: str, limits: RunLimits, run: RoundRun
) -> StoredExperiment:
    """Compare these builds in a folder of the records, or continue that; the first is the control."""
    out = run.out / folder
    if (out / layout.EXPERIMENT_FILE).is_file():
        stored = load(out)
        if stored.stopped in ("decided", "blocks") and _has_profile(stored):
            return stored
        return resume_held(out, replace(limits, time_max_s=stored.seconds_used + run.time_s), run.progress)
    levels = ",".join(map(level_text, builds))
    factors, seed = (f"{FACTOR}={levels}",), _own_seed(request.seed, folder)
    # Other builds are as they were linked, and a list may have builds of both kinds.
    layouts = request.layouts if any(map(is_source, builds)) else None
    whole = replace(request, factors=factors, out=out, max_time_s=run.time_s, seed=seed, layouts=layouts)
    check_folder(out)
    return run_parsed(parse_request(whole), run.progress, limits=limits)


def _own_seed(seed: int | None, folder: str) -> int | None:
    """A seed of each round's own.

    With one for all, rounds of one block would have the same order and the same layouts again and again, and
    a trial's place in the block would count as its commit's speed.
    """
    return None if seed is None else random.Random(f"pgassay bisect {seed} {folder}").randrange(2**31)


def run_profiled(
    request: CompareRequest, rounds: int, sides: Sequence[Place], run: RoundRun
) -> StoredExperiment:
    """Why a step is slower: compare the places before and after it, then profile them in so many rounds.

    Or continue that. The caller holds the host's lock.
    """
    profiled = replace(request, profile=True, profile_rounds=rounds, blocks=PROFILED_BLOCKS)
    limits = RunLimits(PROFILED_BLOCKS, run.time_s, until_decided=False)
    return run_builds(profiled, [place.build for place in sides], PROFILE_FOLDER, limits, run)


def _has_profile(stored: StoredExperiment) -> bool:
    """Whether nothing is left of its profile, where it has one."""
    wanted = stored.experiment.protocol.profile_rounds > 0
    return not wanted or (stored.profile is not None and stored.profile.stopped == "blocks")


def places_that_do_not_start(found: BisectionRound, places: Sequence[Place]) -> dict[int, str]:
    """The places between the ends of a round whose servers make no cluster or don't start, with the reason.

    Raises MeasurementError where the machine lacks space or memory. Starts small servers: the caller holds
    the host's lock.
    """
    failing = {}
    for place in found.places:
        try:
            build_settings(resolve(places[place].build))
        except MeasurementError as error:
            if says_what_is_lacking(str(error)):
                raise
            failing[place] = f"its server does not start: {first_line(error)}"
    return failing


def failing_places(
    stored: StoredExperiment, found: BisectionRound, places: Sequence[Place]
) -> dict[int, str]:
    """The places between the ends of a round that failed which have no trial that ran, with the reason.

    {} where others failed too, or none ran: then it may be the machine.
    """
    if stored.stopped != "failed":
        return {}
    places_of = {arm.id: _place_of(arm, found, places) for arm in stored.experiment.arms}
    records = [trial.record for trial in stored.trials]
    ran = {places_of[each.arm_id] for each in records if each.status == "ok"}
    failed = {
        places_of[each.arm_id]: f"its trials fail: {each.reason}"
        for each in records
        if each.status not in ("ok", "interrupted")
    }
    return failed if ran and ran.isdisjoint(failed) and {*failed} <= {*found.places} else {}


def _place_of(arm: Arm, found: BisectionRound, places: Sequence[Place]) -> int:
    members = (found.low, *found.places, found.high)
    return next(place for place in members if places[place].build == arm.levels[FACTOR])


def blocks_of(
    stored: StoredExperiment, found: BisectionRound, places: Sequence[Place]
) -> list[MeasuredBlock]:
    """The complete blocks of a round, by places; the twin is a second member of the good end."""
    table = complete_blocks(stored, contract_measure(stored.experiment.contract))
    logs = table.logs(contract_measure(stored.experiment.contract))
    members = [_place_of(arm, found, places) for arm in stored.experiment.arms]
    return [
        MeasuredBlock(tuple(members), tuple(float(value) for value in row))
        for row in logs
        if np.isfinite(row).all()
    ]
