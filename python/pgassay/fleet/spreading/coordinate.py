"""The loop over all machines: visits, looks, the end.

Each machine is visited in turn by a thread of a pool, so that one that gives no answer keeps nobody waiting.
After a visit that brought trials the whole is combined and looked at; the result is valid at any look. What
the coordinator knows lies in the folder, so one that was killed is resumed by doing the same again; meanwhile
the machines went on by themselves, up to their limits.
"""

import re
import shlex
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from pgassay.analysis.verdicts.warnings import changed_speeds, machine_sentences
from pgassay.errors import InterruptionError, PgassayError, UsageError
from pgassay.fleet.machine_runs import RunRequest
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.cell_assignment import left_to_do, lines_of_orphans, orphans, taken_over
from pgassay.fleet.spreading.member import Member, Visit
from pgassay.fleet.spreading.results import (
    blocks_done,
    combined,
    home_of_absent,
    is_settled,
    read_looks,
    why_all_ended,
    write_looks,
)
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadExperiment, SpreadStratum
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment, load_state, write_state
from pgassay.terminal.fleet import FleetView, MachineRow
from pgassay.words import join

_THREADS_MAX = 32
# A look that takes long is made less often: it may take a fifth of the time.
_LOOK_SHARE = 5
_LOW_DISK_BYTES = 1 << 30
_DONE = ("ended", "failed")
_WARNINGS_TOLD_MAX = 5
_TOLD_AGAIN = 1.25
_FIGURES = re.compile(r"[\d.,]+")
# The least that a run can be given.
_TIME_LEAST_S = 1.0


@dataclass(frozen=True)
class PollingPace:
    """How long it waits, in seconds.

    visit_s: between two visits of a machine; visit_each_s: so much more for each of many. lost_s: until a
    lost machine is asked again. patience_s: for lost machines when all others have ended. stop_s: for
    machines that were told to stop. copy_s: for a machine that gives no answer while data travel.
    """

    visit_s: float = 1.0
    visit_each_s: float = 0.02
    lost_s: float = 5.0
    patience_s: float = 120.0
    stop_s: float = 120.0
    copy_s: float = 30.0


@dataclass
class _Place:
    """A machine in the loop: when it is due, and what its last visit found."""

    member: Member
    due: float = 0.0
    visit: Visit = field(default_factory=lambda: Visit("asked"))
    lost_since: float | None = None
    is_told_of_disk: bool = False
    # By what was said of it, without its figures, at how many blocks.
    told: dict[str, int] = field(default_factory=dict)
    blocks_told: int = 1


def request_of(plan: SpreadExperiment, member: Member) -> RunRequest:
    """What a machine is to run; of a grid's strata in the time that its earlier runs left."""
    is_grid = plan.grid is not None
    used_s = member.seconds_used_before() if is_grid else 0.0
    return RunRequest(
        words=plan.words,
        seed=member.run.seed,
        blocks=plan.blocks_max,
        max_time_s=max(_TIME_LEAST_S, plan.time_max_s - used_s) if is_grid else plan.time_max_s,
        files={name: file.sha256 for name, file in plan.files.items()},
        strata=member.run.strata,
        until_decided=is_grid and plan.until_decided,
        decided_rest=plan.decided_rest and plan.until_decided,
    )


class Coordinator:
    """Runs a spread experiment to its end; one for a folder at a time."""

    def __init__(
        self,
        folder: Path,
        plan: SpreadExperiment,
        members: Mapping[str, Member],
        view: FleetView,
        pace: PollingPace | None = None,
    ) -> None:
        """members: by their machines' names; of the plan's machines those that the fleet has."""
        self._folder, self._plan, self._view = folder, plan, view
        self._pace = pace or PollingPace()
        self._places = {name: _Place(member) for name, member in members.items()}
        self._absent = home_of_absent(plan, folder, members)
        self._result: CombinedResult | None = None
        self._look_due = 0.0
        self._has_news = True
        self._said_differences = False
        self._begun = time.monotonic()
        self._ended_before, self._used_before_s, _ = load_state(folder)
        self._looks = read_looks(folder)
        self._visits: dict[Future[Visit], _Place] = {}

    def run(self) -> CombinedResult:
        """The result when it is settled, the limits are used up, or no machine goes on.

        Raises InterruptionError where it is interrupted, with everything stopped and brought home, and
        UsageError where no machine could begin.
        """
        write_state(self._folder, stopped="running", seconds_used=self._used_before_s)
        pool = ThreadPoolExecutor(min(_THREADS_MAX, max(1, len(self._places))))
        try:
            # One that is resumed may have nothing left but to bring home what a lost machine finished.
            stopped = self._look() or self._time_is_up() or self._measure(pool)
            self._stop_all(pool)
            return self._finish(stopped)
        except KeyboardInterrupt as interruption:
            self._view.message("stopping the machines; their finished results are fetched")
            self._stop_all(pool)
            self._keep_state("interrupted")
            raise InterruptionError(
                "interrupted; nothing is left running on machines that answer: continue with 'pgassay "
                f"resume {self._folder}'"
            ) from interruption
        except PgassayError:
            # What can't be combined is not measured on.
            self._stop_all(pool)
            self._keep_state("failed")
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _time_is_up(self) -> str:
        is_up = self._ended_before == "max-time" and self._used_before_s >= self._plan.time_max_s
        return "max-time" if is_up else ""

    def _measure(self, pool: ThreadPoolExecutor) -> str:
        """Visit and look until something ends it; why it ended."""
        visits = self._visits
        while True:
            now = time.monotonic()
            busy = {id(place) for place in visits.values()}
            for place in self._places.values():
                if id(place) not in busy and place.due <= now and place.visit.state not in _DONE:
                    visits[pool.submit(self._visit, place.member, stops=False)] = place
            for visited in wait(visits, timeout=0.2, return_when=FIRST_COMPLETED).done:
                self._took(visits.pop(visited), visited.result())
            stopped = self._look() or self._has_ended()
            if stopped:
                return stopped
            if not visits:
                time.sleep(0.02)

    def _visit(self, member: Member, *, stops: bool) -> Visit:
        return member.visit(request_of(self._plan, member), self._plan.files, stops=stops)

    def _took(self, place: _Place, visit: Visit) -> None:
        """Take in what a visit found, and say what a person should know."""
        now, name, before = time.monotonic(), place.member.name, place.visit.state
        place.due = now + self._pace.visit_s + self._pace.visit_each_s * len(self._places)
        place.visit = visit
        self._has_news |= visit.new > 0
        if visit.state == "lost":
            place.due = now + self._pace.lost_s
            if place.lost_since is None:
                place.lost_since = now
                self._view.message(
                    f"{name} does not answer: the others continue, and what it finishes is on its disk"
                )
            return
        if place.lost_since is not None:
            self._view.message(f"{name} is back")
            place.lost_since = None
        if visit.state == "forgotten":
            self._begin_anew(place)
        if visit.state == "failed" and before != "failed":
            self._view.message(f"{name} ended: {visit.sentence}")
        free = visit.disk_free_bytes
        if free is not None and free < _LOW_DISK_BYTES and not place.is_told_of_disk:
            place.is_told_of_disk = True
            self._view.message(f"{name} has {free >> 20} MB of disk left")
        self._tell_warnings(place)

    def _begin_anew(self, place: _Place) -> None:
        """A machine that knows nothing of what came home from it begins another run, with another seed."""
        left = left_to_do(self._plan, place.member.name, self._result)
        if self._plan.grid is not None and not left:
            place.visit = Visit("ended", stopped="blocks")
            return
        self._begin(place, left)
        self._view.message(f"{place.member.name} has lost its earlier trials: it starts again")

    def _begin(self, place: _Place, strata: tuple[str, ...]) -> None:
        self._plan, run = plans.with_further_run(self._plan, place.member.name, strata)
        plans.write(self._folder, self._plan)
        place.member.begin(run)
        place.due, place.visit = 0.0, Visit("asked")

    def _orphans(self) -> list[SpreadStratum]:
        """Undecided strata whose machines don't go on."""
        return orphans(self._plan, self._away(), self._result)

    def _away(self) -> list[str]:
        """The machines that are not there, have failed, or have given no answer for too long."""
        now = time.monotonic()
        return [
            machine.name
            for machine in self._plan.machines
            if (place := self._places.get(machine.name)) is None
            or place.visit.state == "failed"
            or (place.lost_since is not None and now - place.lost_since > self._pace.patience_s)
        ]

    def _hand_over(self) -> bool:
        """Give the strata of machines that are away to those that have ended; whether any was given."""
        left = self._orphans()
        idle = {
            name: place
            for name, place in self._places.items()
            if place.visit.state == "ended" and place.visit.stopped != "max-time"
        }
        given = taken_over(self._plan, left, idle) if left else {}
        for name, strata in given.items():
            self._view.message(f"{name} takes over {join(strata)}, whose machine is not reachable")
            self._begin(idle[name], strata)
        return bool(given)

    def _tell_warnings(self, place: _Place) -> None:
        """What a machine's own analysis says of it, each time that its blocks have grown by a quarter.

        What was told is told again, with its new figures, when the blocks have doubled since.
        """
        stored = place.member.experiments.get(place.member.run.id)
        blocks = len({trial.record.block for trial in stored.trials}) if stored else 0
        if stored is None or blocks < _TOLD_AGAIN * place.blocks_told:
            return
        place.blocks_told = blocks
        said = {_FIGURES.sub("", line): line for line in machine_sentences(stored)}
        fresh = [kind for kind in said if blocks >= 2 * place.told.get(kind, 0)]
        place.told.update(dict.fromkeys(fresh, blocks))
        for kind in fresh[:_WARNINGS_TOLD_MAX]:
            self._view.message(f"{place.member.name}: {said[kind]}")

    def _look(self) -> str:
        """Combine what came home where there is something new; why it ends now, or ''."""
        self._view.standing(self._rows(), self._result)
        now = time.monotonic()
        if not self._has_news or now < self._look_due:
            return ""
        self._has_news = False
        experiments = self._home()
        if not experiments:
            return ""
        self._result = combined(self._plan, self._folder, experiments, self._looks, is_final=False)
        self._look_due = time.monotonic() + _LOOK_SHARE * (time.monotonic() - now)
        self._view.standing(self._rows(), self._result)
        if self._plan.until_decided and is_settled(self._result):
            return "decided"
        return "blocks" if blocks_done(self._result) >= self._plan.blocks_max else ""

    def _has_ended(self) -> str:
        """Why nothing goes on any more, or ''."""
        places = list(self._places.values())
        # What a last visit brought is looked at first.
        if self._has_news and any(place.visit.new for place in places):
            return ""
        if self._plan.grid is not None and self._hand_over():
            return ""
        going = [place for place in places if place.visit.state not in _DONE]
        if not going:
            ended = {place.visit.stopped for place in places if place.visit.state == "ended"}
            return why_all_ended(ended, is_something_left=bool(self._orphans()))
        lost_s = [time.monotonic() - place.lost_since for place in going if place.lost_since is not None]
        if len(lost_s) == len(going) and min(lost_s) > self._pace.patience_s:
            return "interrupted"
        return ""

    def _stop_all(self, pool: ThreadPoolExecutor) -> None:
        """Stop what runs and bring home what it finished, as far as machines answer."""
        until = time.monotonic() + self._pace.stop_s
        # One that gives no answer keeps nobody waiting.
        wait([each for each, place in self._visits.items() if place.lost_since is None], self._pace.stop_s)
        for visited, place in self._visits.items():
            if visited.done():
                self._took(place, visited.result())
            else:
                place.visit = Visit("lost")
        away = [place for each, place in self._visits.items() if not each.done()]
        left = [place for place in self._places.values() if place.visit.state not in _DONE]
        left = [place for place in left if not any(place is each for each in away)]
        while left and time.monotonic() < until:
            visits = [(place, pool.submit(self._visit, place.member, stops=True)) for place in left]
            for place, visited in visits:
                place.visit = visited.result()
                self._has_news |= place.visit.new > 0
            left = [place for place in left if place.visit.state == "running"]
            self._view.standing(self._rows(), self._result)
            if left:
                time.sleep(min(0.2, self._pace.visit_s))

    def _finish(self, stopped: str) -> CombinedResult:
        warnings = tuple(self._warnings())
        for place in self._places.values():
            if place.visit.state != "lost":
                self._say_it_ended(place.member)
        if stopped != "interrupted":
            for place in self._places.values():
                if place.visit.state in ("ended", "interrupted"):
                    place.member.forget()
        self._keep_state(stopped, warnings)
        experiments = self._home()
        if not experiments:
            said = next((place.visit.sentence for place in self._places.values() if place.visit.sentence), "")
            raise UsageError(
                said
                or f"no machine started: check them, then run pgassay resume {shlex.quote(str(self._folder))}"
            )
        return combined(
            self._plan,
            self._folder,
            experiments,
            self._looks,
            is_final=True,
            stopped=stopped,
            warnings=warnings,
        )

    def _home(self) -> list[StoredExperiment]:
        """All that came home, noted as looked at: what comes later counts after it."""
        found = {run: stored for place in self._places.values() for run, stored in place.member.at_home()}
        if found:
            found |= self._absent
        looks = self._looks.with_look({run: len(stored.trials) for run, stored in found.items()})
        if looks is not self._looks:
            write_looks(self._folder, looks)
            self._looks = looks
        runs = [run.id for machine in self._plan.machines for run in machine.runs]
        return [found[run] for run in runs if run in found]

    def _say_it_ended(self, member: Member) -> None:
        """Write of a run that was killed before it could say so itself."""
        for run in member.runs:
            home = member.home(run)
            if (home / layout.EXPERIMENT_FILE).is_file():
                said, seconds_used, warnings = load_state(home)
                if said == "running":
                    write_state(home, stopped="interrupted", seconds_used=seconds_used, warnings=warnings)

    def _warnings(self) -> list[str]:
        lines = []
        for place in self._places.values():
            name = place.member.name
            lines += place.visit.words_of_end(name, self._folder)
            for _, stored in place.member.at_home():
                lines += [f"{name}: {line}" for line in changed_speeds(stored)]
        lines += lines_of_orphans(self._orphans(), self._folder)
        return lines

    def _keep_state(self, stopped: str, warnings: tuple[str, ...] = ()) -> None:
        used_s = self._used_before_s + time.monotonic() - self._begun
        write_state(self._folder, stopped=stopped, seconds_used=used_s, warnings=warnings)

    def _rows(self) -> list[MachineRow]:
        return [
            MachineRow(
                name,
                place.visit.state,
                sum(
                    len({trial.record.block for trial in stored.trials})
                    for stored in place.member.experiments.values()
                ),
                place.visit.progress,
            )
            for name, place in self._places.items()
        ]
