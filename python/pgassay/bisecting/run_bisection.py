"""The search over real builds: ends first, then rounds, each an experiment; what is recorded is continued."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pgassay.analysis.bisection.search import Round, Search
from pgassay.analysis.verdicts.compare import analyse
from pgassay.bisecting.bisect_answer import Answered, answer
from pgassay.bisecting.commit_line import CommitLine, check_builds
from pgassay.bisecting.ends import ends_verdict
from pgassay.bisecting.revert_check import judged, reverted_build, run_reverted
from pgassay.bisecting.rounds import (
    NEW_FOLDER,
    PROFILE_FOLDER,
    STATE_FILE,
    FolderHold,
    RoundProgress,
    RoundRun,
    announced,
    blocks_of,
    failing_places,
    places_that_do_not_start,
    recalled,
    run_profiled,
    run_round,
)
from pgassay.environment.builds.registry import SOURCE_ORIGIN, measured_by_make, resolve
from pgassay.environment.builds.source import server_of
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError
from pgassay.environment.source_builds.layouts import find_linker
from pgassay.environment.source_builds.tree_syntax import is_source
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import host_lock
from pgassay.model.build import Build
from pgassay.model.further_results.bisection import BisectionResult, BisectionRound, BisectionState, Reverted
from pgassay.progress import Progress
from pgassay.record import layout
from pgassay.record.documents import to_json, write_file
from pgassay.record.experiment import StoredExperiment, load
from pgassay.words import join, plural

ENDS_BLOCKS_MAX = 200
# The same few layouts of a commit, met again and again, count as its speed: of searches for a step of 3 %
# where layouts spread by 2 %, 4 layouts named a wrong commit in 16 of 40, 8 in 5, 16 in none
# (`tests/statistics/bisection`).
LAYOUTS_OF_SEARCH = 16


@dataclass(frozen=True)
class BisectOptions:
    """What was asked. `compare`: the trials, and `max_time_s` of this run; `asked`: the options that make
    another search of it, as typed; `command`: what repeats it; `profile_rounds`: of the found step, 0: none.
    """

    line: CommitLine
    compare: CompareRequest
    out: Path
    asked: Mapping[str, str]
    command: str
    jobs: int | None = None
    profile_rounds: int = 0


def run_bisection(options: BisectOptions, progress: Progress, *, wait: bool) -> tuple[BisectionResult, bool]:
    """Search until it is found or the time is used up: the answer as it stands, and whether interrupted.

    Raises UsageError before anything is built or measured for what can't be meant, MeasurementError for
    trials that fail. The folder of an earlier run of the same search is continued.
    """
    run = _Run(options, progress, wait=wait)
    is_interrupted = False
    with run.holding:
        try:
            run.run_all()
        except (KeyboardInterrupt, InterruptionError):
            is_interrupted = True
        run.read_last()
        run.remember()
        return answer(run.answered()), is_interrupted


def beside_the_answer(step: Callable[[], None], progress: Progress) -> None:
    """Take a step that adds to an answer: where it fails, that is said and the answer stands."""
    try:
        step()
    except (UsageError, MeasurementError) as error:
        progress.message(f"the answer stands, but what follows it could not be run: {error}")


class _Run:
    """One run: the state on disk, the search that follows from it, the builds at hand."""

    def __init__(self, options: BisectOptions, progress: Progress, *, wait: bool) -> None:
        self._options, self._progress, self._wait = options, progress, wait
        self._begun = time.monotonic()
        self._ends_at = self._begun + options.compare.max_time_s
        self._out = options.out.resolve()
        self._said: set[str] = set()
        self._built: dict[int, str] = {}
        self._building_s: list[float] = []
        self._by_make: bool | None = None
        self.holding = FolderHold(self._out)
        self.holding.take()
        line = options.line
        self.state = recalled(
            self._out, BisectionState(kind=line.kind, places=line.places, asked=dict(options.asked))
        )
        self._used_before_s = self.state.seconds_used
        self._search = Search(len(self.state.places) - 1)
        self._stored: dict[str, StoredExperiment] = {}
        self._counted: dict[str, int] = {}
        self._told_alike = 0
        # In the order in which all became known: otherwise the line may be parted elsewhere than it was, and
        # rounds of its parts would be of none.
        for number, found in enumerate(self.state.rounds):
            if number == 1:
                self._search.ends_differ()
            self._tell(found.alike, found.untestable)
            self._read(found)
        self._tell(None, None)

    @cached_property
    def _request(self) -> CompareRequest:
        """The trials, with the layouts of builds from source: as typed, else as many as a search needs."""
        compare = self._options.compare
        is_of_trees = any(is_source(place.build) for place in self.state.places)
        if compare.layouts is not None or not is_of_trees or find_linker(self._progress.stage) is None:
            return compare
        return replace(compare, layouts=LAYOUTS_OF_SEARCH)

    def _tell(self, alike: int | None, untestable: int | None) -> None:
        """Tell the search so many of the pairs and places that the state remembers; None: all."""
        for low, high in self.state.alike[self._told_alike : alike]:
            self._search.alike(low, high)
        self._told_alike = len(self.state.alike[:alike])
        self._search.untestable |= {*self.state.untestable[:untestable]}

    def run_all(self) -> None:
        """Ends, then round after round while time is left."""
        check_builds(self._options.line)
        if self._options.line.warning:
            self._progress.message(self._options.line.warning)
        if self._ends_are_alike():
            return
        if not self._ends_differ():
            return
        chosen_again = 0
        # A choice that comes to nothing has found a place that does not build, or builds what another does.
        while self._has_time() and chosen_again <= self._search.last:
            step = self._search.next_round()
            if step is None:
                break
            found = self._unfinished() or self._prepared(step)
            chosen_again += 1
            if found is not None:
                stored, chosen_again = self._one(found), 0
                # Its next block would end too late, and so would that of another try.
                if stored is not None and stored.stopped == "max-time":
                    break
        for further in (self._confirm, self._profile):
            if self._has_time():
                beside_the_answer(further, self._progress)

    def _confirm(self) -> None:
        """Revert the one commit that was found on the bad end, and compare."""
        parts, places = self._search.told_parts, self.state.places
        known = self.state.reverted
        is_done = known is not None and (bool(known.why) or known.is_confirmed is not None)
        if self.state.kind != "commits" or len(parts) != 1 or len(parts[0].left()) != 1 or is_done:
            return
        if not self._search.is_found(parts[0]) or self._search.is_gradual:
            return
        culprit, bad = places[parts[0].left()[0]], places[-1]
        self._progress.message(f"{culprit.name} reverted on the bad end, to confirm it")

        def provide(text: str) -> Build:
            return self._from_source(text)

        build = reverted_build(culprit, bad, self._out, provide)
        if isinstance(build, Reverted):
            self._write(reverted=build)
            return
        self._write(reverted=Reverted(name=culprit.name))
        told = RoundProgress(self._progress, "reverted", self._said)
        with self._lock() as left_s:
            stored = run_reverted(self._request, bad, build, RoundRun(self._out, told, left_s))
        is_slow_down = parts[0].line.bet().step < 0
        self._stored["revert"] = stored
        self._write(reverted=judged(culprit, stored, is_slow_down=is_slow_down))

    def _profile(self) -> None:
        """Profile both sides of the one step that was found."""
        parts, rounds = self._search.told_parts, self._options.profile_rounds
        if not rounds or len(parts) != 1 or not self._search.is_found(parts[0]) or self._search.is_gradual:
            return
        sides = [self.state.places[place] for place in self._search.sides(parts[0])]
        self._progress.message(f"profile of {join([place.name for place in sides])}")
        told = RoundProgress(self._progress, "profile", self._said)
        with self._lock() as left_s:
            run = RoundRun(self._out, told, left_s)
            stored = self._stored[PROFILE_FOLDER] = run_profiled(self._request, rounds, sides, run)
        if (begun := stored.experiment.protocol.profile_rounds) != rounds:
            again = f"remove {self._out / PROFILE_FOLDER} to have {rounds}"
            self._progress.message(f"the profile was begun with {plural(begun, 'round')}: {again}")

    @contextmanager
    def _lock(self) -> Iterator[float]:
        """Hold the host's lock; gives the seconds left, of which what others measured meanwhile is none."""
        waiting_since = time.monotonic()
        with host_lock(self._progress, wait=self._wait):
            self._ends_at += time.monotonic() - waiting_since
            yield max(1.0, self._ends_at - time.monotonic())

    def read_last(self) -> None:
        """Count what an interrupted round has recorded, which is the last."""
        for found in self.state.rounds[-1:]:
            self._read(found)

    def remember(self) -> None:
        """Write the state, with the time used."""
        used_s = self._used_before_s + time.monotonic() - self._begun
        self._write(seconds_used=round(used_s, 1))

    def answered(self) -> Answered:
        """All that the answer is made from."""
        ends = self._stored.get(self.state.rounds[0].folder) if self.state.rounds else None
        return Answered(
            state=self.state,
            search=self._search,
            ends=None if ends is None else analyse(ends),
            stored=tuple(self._stored.values()),
            folder=str(self._options.out),
            margin=self._options.compare.margin,
            aside=self._options.line.aside,
            building_s=tuple(self._building_s),
            command=self._options.command,
            profiled=self._stored.get(PROFILE_FOLDER),
        )

    def _write(self, **changed: object) -> None:
        try:
            self._out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"can't record in {self._out} ({error.strerror}): {NEW_FOLDER}") from error
        self.holding.take()
        self.state = self.state.model_copy(update=changed)
        write_file(self._out / STATE_FILE, to_json(self.state))

    def _has_time(self) -> bool:
        return time.monotonic() < self._ends_at

    def _provide(self, place: int) -> str | None:
        """What names the server of a place, built where it is not yet; None where the tree does not build."""
        if place in self._built:
            return self._built[place]
        text = self.state.places[place].build
        begun = time.monotonic()
        try:
            if is_source(text):
                build = self._from_source(text)
                self._building_s.append(time.monotonic() - begun)
            else:
                build = resolve(text)
        except TreeDoesNotBuildError as error:
            if place in (0, self._search.last):
                raise
            why = str(error).partition("does not build: ")[2].partition(": name another")[0]
            self._leave_out(place, f"it does not build: {why}")
            return None
        self._built[place] = server_of(build)
        return self._built[place]

    def _leave_out(self, place: int, why: str) -> None:
        """Search on without a place that can't be measured."""
        self._progress.message(f"{self.state.places[place].name} is left out, {why}")
        self._search.untestable.add(place)
        if place not in self.state.untestable:
            self._write(untestable=(*self.state.untestable, place))

    def _from_source(self, text: str) -> Build:
        jobs, stage = self._options.jobs, self._progress.stage
        if self._by_make is None:
            # Commits between the ends are built as they are.
            places = self.state.places[:: self._search.last if self.state.kind == "commits" else 1]
            self._by_make = measured_by_make([each.build for each in places if is_source(each.build)])
        return SOURCE_ORIGIN.provide(text, jobs, stage, self._request.layouts, by_make=self._by_make)

    def _ends_are_alike(self) -> bool:
        first, last = self._provide(0), self._provide(self._search.last)
        if first == last:
            self._note_alike(0, self._search.last)
        return first == last

    def _note_alike(self, first: int, second: int) -> None:
        pair = (min(first, second), max(first, second))
        if pair not in self.state.alike:
            self._search.alike(*pair)
            self._write(alike=(*self.state.alike, pair))

    def _ends_differ(self) -> bool:
        """Run the ends' own experiment to its verdict; whether there is something to find."""
        last = self._search.last
        rounds = self.state.rounds
        ends = (
            rounds[0]
            if rounds
            else BisectionRound(
                folder="ends", low=0, high=last, places=(), blocks=ENDS_BLOCKS_MAX, alike=0, untestable=0
            )
        )
        if len(rounds) < 2:
            stored = self._one(ends)
            if stored is None or ends_verdict(analyse(stored)) not in ("slower", "faster"):
                return False
        self._search.ends_differ()
        return True

    def _unfinished(self) -> BisectionRound | None:
        """A round that was interrupted, which is continued first."""
        last = self.state.rounds[-1]
        has_all = not last.places or self._counted.get(last.folder, 0) >= last.blocks
        stopped = self._stored[last.folder].stopped if last.folder in self._stored else ""
        is_over = stopped == "blocks" or not self._search.untestable.isdisjoint(last.places)
        # What it measured parted the line.
        is_of_none = all((part.low, part.high) != (last.low, last.high) for part in self._search.parts)
        return None if has_all or is_over or is_of_none else last

    def _prepared(self, step: Round) -> BisectionRound | None:
        """The round with all its builds at hand; None where what was built makes another choice."""
        low, high = step.part.low, step.part.high
        for end in (low, high):
            self._provide(end)
        kept: list[int] = []
        for place in step.places:
            found = self._provide(place)
            if found is None:
                return None
            known = [other for other, built in self._built.items() if built == found and other != place]
            for other in known:
                self._note_alike(place, other)
            if not any(self._built.get(other) == found for other in (low, high, *kept)):
                kept.append(place)
        if not kept and step.places:
            return None
        number = len(self.state.rounds)
        return BisectionRound(
            folder=f"round-{number:03d}",
            low=low,
            high=high,
            places=tuple(kept),
            blocks=step.blocks,
            alike=len(self.state.alike),
            untestable=len(self.state.untestable),
        )

    def _one(self, found: BisectionRound) -> StoredExperiment | None:
        """Run a round, or continue it, and count its blocks; None where a place of it does not start."""
        for place in (found.low, *found.places, found.high):
            self._provide(place)
        if found not in self.state.rounds:
            self._write(rounds=(*self.state.rounds, found))
        what, message = announced(found, self.state, sum(len(part.left()) for part in self._search.parts))
        self._progress.message(message)
        told = RoundProgress(self._progress, what, self._said)
        with self._lock() as left_s:
            failing = places_that_do_not_start(found, self.state.places)
            if not failing:
                run_round(self._request, found, self.state.places, RoundRun(self._out, told, left_s))
        self._read(found)
        stored = self._stored.get(found.folder)
        failing |= {} if stored is None else failing_places(stored, found, self.state.places)
        for place, why in failing.items():
            self._leave_out(place, why)
        if stored is not None and stored.stopped == "failed" and not failing:
            reasons = [trial.record.reason for trial in stored.trials if trial.record.status != "ok"]
            raise MeasurementError(
                f"{what} failed{f': {reasons[-1]}' if reasons else ''}: 'pgassay report "
                f"{self._out / found.folder}' shows its trials"
            )
        return stored

    def _read(self, found: BisectionRound) -> None:
        """Take what a round has recorded that was not counted yet."""
        folder = self._out / found.folder
        if not (folder / layout.EXPERIMENT_FILE).is_file():
            return
        stored = load(folder)
        self._stored[found.folder] = stored
        blocks = blocks_of(stored, found, self.state.places)
        before = self._counted.get(found.folder, 0)
        for block in blocks[before:]:
            parts = [p for p in self._search.parts if (p.low, p.high) == (found.low, found.high)]
            if parts:
                self._search.observe(parts[0], block)
        self._counted[found.folder] = len(blocks)
