"""A run of the experiments of several files with claims, until all are decided or the time is used up."""

import math
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.claims.claim_blocks import blocks_first, is_open, pair_level
from pgassay.analysis.claims.judge_claims import arms_for, judge
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.claims.claim_files import ClaimedFile
from pgassay.experiment.claims.claim_outlooks import after_measuring, round_s
from pgassay.experiment.claims.claim_status import (
    Standing,
    keep_file,
    measured,
    standing_of,
    with_plan,
    without,
)
from pgassay.experiment.claims.run_order import Turn, best_of, goes_on, next_of, times_late
from pgassay.experiment.planning.connections import reconnect
from pgassay.experiment.planning.servers import ServerConnections
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.results_folder import check_folder
from pgassay.experiment.running.run_experiment import host_lock, parse_told, resume_held, run_parsed
from pgassay.model.further_results.claims import Claim, ClaimedExperiment, ClaimsResult
from pgassay.model.result import CompareResult
from pgassay.options.evidence import BLOCKS_DEFAULT
from pgassay.progress import Progress
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment, load, load_state
from pgassay.words import duration_rounded, join, plural

# What an experiment is planned for at least, whatever its share.
PLANNED_FOR_MIN_S = 120.0
FAMILY = (
    "The claims of a file are judged by one experiment, whose verdicts hold together; each file is a "
    "separate family."
)


@dataclass(frozen=True)
class ClaimsOptions:
    """A run as typed; `out`: the folder of all records, where an earlier run is continued."""

    files: tuple[ClaimedFile, ...]
    time_max_s: float
    out: Path
    seed: int | None = None


def run_claims(options: ClaimsOptions, progress: Progress, *, wait: bool) -> tuple[ClaimsResult, bool]:
    """Run what fits the time; the claims as they stand then, and whether it was interrupted.

    The host's lock is held for all of it, and the time begins when it is had: waiting for another experiment
    measures nothing. Raises UsageError for a file that can't be meant, before anything is measured.
    """
    out = options.out.resolve()
    standings = [standing_of(file, out, options.seed) for file in options.files]
    is_open = any(each.open_claims for each in standings)
    with host_lock(progress, wait=wait) if is_open else nullcontext():
        run = _Run(standings, time.monotonic() + options.time_max_s, progress)
        for number, each in enumerate(standings):
            if each.open_claims and not each.blocks:
                run.standings[number] = with_plan(each, progress)
        _make_folder(out)
        is_interrupted = False
        try:
            run.run_all()
        except (KeyboardInterrupt, InterruptionError):
            is_interrupted = True
            run.refresh()
    return _result(options, out, run.noted()), is_interrupted


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"can't record the claims in {out} ({error.strerror}): name another folder with --out"
        ) from error


def stored_claims(options: ClaimsOptions) -> ClaimsResult:
    """The claims as the records of an earlier run have them; nothing is run."""
    out = options.out.resolve()
    standings = [standing_of(file, out, options.seed) for file in options.files]
    return _result(options, out, standings)


class _Budget:
    """What is wanted of an experiment while it runs: its open claims, while no other decides more a second.

    What was begun gets the blocks that a first verdict takes, whatever its share was; where these don't fit
    the time left, nothing more after its first block, which others can use better. An expected verdict that
    is late counts less and less, or a claim that is "soon decided" for an hour would take the others' time.
    """

    def __init__(self, claims: Sequence[Claim], blocks_before: int, turn: Turn, ends_at: float) -> None:
        self._claims, self._turn, self._ends_at = claims, turn, ends_at
        self._blocks_before = blocks_before
        self._begun = time.monotonic()
        self._open_before, self._waits_since = len(claims), self._begun
        self._expected_s: float | None = None

    def __call__(self, result: CompareResult, stored: StoredExperiment) -> Collection[str]:
        judged = judge(self._claims, result, stored)
        pairs = zip(self._claims, judged, strict=True)
        open_claims = [claim for claim, each in pairs if is_open(claim, each, result.blocks)]
        open_arms = arms_for(open_claims, stored)
        now = time.monotonic()
        if not open_claims or result.blocks == self._blocks_before:
            return open_arms
        level = pair_level(self._claims, stored.experiment.contract.alpha)
        missing = blocks_first(open_claims, stored.experiment, level) - result.blocks
        if missing > 0:
            is_in_time = now + missing * round_s(stored, open_arms) <= self._ends_at
            return open_arms if is_in_time else ()
        outlooks, left_s = after_measuring(self._claims, judged, result, stored), self._ends_at - now
        if len(open_claims) < self._open_before or self._expected_s is None:
            self._open_before, self._waits_since = len(open_claims), now
            promise = best_of(outlooks, left_s)
            self._expected_s = None if promise is None else promise.seconds
        late = times_late(now - self._waits_since, self._expected_s)
        return open_arms if goes_on(outlooks, now - self._begun, self._turn, left_s, late) else ()


class _Run:
    def __init__(self, standings: Sequence[Standing], ends_at: float, progress: Progress) -> None:
        self.standings = list(standings)
        self._ends_at, self._progress = ends_at, progress

    def run_all(self) -> None:
        """One experiment after the other, while one fits the time that is left."""
        while True:
            waiting = [each.waiting for each in self.standings if not each.is_out]
            turn = next_of(waiting, self._left_s())
            if turn is None:
                return
            name = turn.chosen.name
            number = next(n for n, each in enumerate(self.standings) if each.file.name == name)
            self.standings[number] = self._one(self.standings[number], turn)

    def refresh(self) -> None:
        """Read what an interrupted experiment has recorded."""
        for number, each in enumerate(self.standings):
            if layout.attempt_folders(each.folder):
                self.standings[number] = measured(each, load(each.folder))

    def noted(self) -> list[Standing]:
        """With a reason for every experiment that has open claims and was never run."""
        return [
            replace(each, note=_left_out(each))
            if each.open_claims and not (each.blocks or each.note)
            else each
            for each in self.standings
        ]

    def _left_s(self) -> float:
        return self._ends_at - time.monotonic()

    def _one(self, found: Standing, turn: Turn) -> Standing:
        """Run or continue one experiment for its share of the time."""
        wanted, began_s = found.open_claims, time.monotonic()
        self._progress.message(
            f"{found.file.path}: {plural(len(wanted), 'claim')} to decide ({join(wanted)}), "
            f"about {duration_rounded(turn.share_s)} for it now"
        )
        before = len(layout.attempt_folders(found.folder))
        try:
            after = measured(found, self._measure(found, turn))
        except UsageError as error:
            if before:
                return replace(self._failed(found, str(error)), is_out=True)
            lacking = {claim.id: str(error) for claim in found.file.claims}
            return replace(without(found, lacking), is_out=True)
        except (MeasurementError, OSError) as error:
            # One that fails must not cost the others their time; the page says why it has no more.
            self._progress.message(f"{found.file.path}: not run further: {error}")
            return replace(self._failed(found, str(error)), is_out=True)
        for claim in after.judged:
            if claim.id in wanted:
                self._progress.message(f"{claim.id}: {claim.verdict}; {claim.why}")
        asked = found.request.blocks
        # Of an experiment that has all blocks that its file asks for, another turn would only load the data.
        is_out = len(layout.attempt_folders(found.folder)) == before or after.blocks >= (asked or math.inf)
        setup_s = time.monotonic() - began_s - (after.seconds_used - found.seconds_used)
        fruitless = found.fruitless + 1 if len(after.open_claims) == len(wanted) else 0
        return replace(after, setup_s=max(0.0, setup_s), fruitless=fruitless, is_out=is_out)

    def _measure(self, found: Standing, turn: Turn) -> StoredExperiment:
        budget = _Budget(found.file.claims, found.blocks, turn, self._ends_at)
        limits = RunLimits(BLOCKS_DEFAULT, self._left_s(), ends_at=self._ends_at, wanted=budget)
        asked = found.request.blocks
        if (found.folder / layout.EXPERIMENT_FILE).is_file():
            blocks = asked if asked is not None else found.blocks + BLOCKS_DEFAULT
            _, used_s, _ = load_state(found.folder)
            limits = replace(limits, blocks_max=blocks, time_max_s=used_s + self._left_s())
            connections = ServerConnections(reconnect(load(found.folder).experiment))
            return resume_held(found.folder, limits, self._progress, connections, began_s=time.monotonic())
        keep_file(found.file, found.folder)
        if asked is not None:
            limits = replace(limits, blocks_max=asked)
        # On copies of the data that are used for several blocks a first verdict takes as many times longer.
        time_s = min(found.request.max_time_s, max(turn.share_s, PLANNED_FOR_MIN_S))
        request = replace(found.request, max_time_s=time_s)
        check_folder(request.out)
        parsed = parse_told(request, self._progress)
        began_s = time.monotonic()
        return run_parsed(parsed, self._progress, limits=limits, began_s=began_s, copies_each_block=True)

    def _failed(self, found: Standing, reason: str) -> Standing:
        if layout.attempt_folders(found.folder):
            return replace(measured(found, load(found.folder)), note=reason)
        return replace(found, note=reason)


def _left_out(found: Standing) -> str:
    if found.least_s is None:
        return "no time was left for it"
    return f"takes {duration_rounded(found.least_s)} at least, and less was left"


def _result(options: ClaimsOptions, out: Path, standings: Sequence[Standing]) -> ClaimsResult:
    claims = tuple(
        claim if claim.verdict is not None else claim.model_copy(update={"why": each.note or claim.why})
        for each in standings
        for claim in each.judged
    )
    experiments = tuple(
        ClaimedExperiment(
            file=str(each.file.path),
            folder=str(each.folder) if each.blocks else "",
            blocks=each.blocks,
            seconds_used=each.seconds_used,
            note=each.note,
            cache=each.cache,
            caveats=each.caveats,
        )
        for each in standings
    )
    one = options.files[0].path if len(options.files) == 1 else ""
    return ClaimsResult(file=str(one), folder=str(out), family=FAMILY, claims=claims, experiments=experiments)
