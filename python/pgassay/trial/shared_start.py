"""One start of a server in which all arms of a block take turns; each gets a trial's record of it.

The server is started anew, each arm's sessions are checked from inside, and each arm's statements are
executed once between readings and samplers, as in a trial of its own. Then they take turns in rounds: every
arm once in each round, in a session of its own that stays open, in an order that was drawn for the round. The
figure of an arm is made of its rounds, whose seconds are all kept.

How often a turn executes a short statement, and whether its first execution after a switch is thrown away,
follows from an execution of each arm before the first round that counts for nothing, so it can't favour an
arm. A long statement has no execution to spare: what was observed is its first round, and often the only one.
How many rounds there are follows from their noise (`is_exact_enough`). Records are written when the last
round has ended: a start either counts for all arms, or for none.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.trial import TrialRecord, TrialSpec, TrialStatus
from pgassay.record import layout
from pgassay.record.experiment import TrialWriter
from pgassay.trial import steps, trial_caps
from pgassay.trial.arm_switch import show_all, switch_to
from pgassay.trial.measure.timed_statements import StatementTimer
from pgassay.trial.measure.work_plans import PlanWork, execute_plans
from pgassay.trial.observe.trial_observers import volume_imposed
from pgassay.trial.run_trial import abandon, write_trial
from pgassay.trial.snapshots import machine_speed
from pgassay.trial.target import LocalTrialServer, Target, TrialMachine
from pgassay.trial.trial_state import OnStep, TrialState, outcome

# How many rounds a start has at least, and at most; and one where the fewest would take so long.
ROUNDS_LEAST, ROUNDS_MAX, ROUNDS_S_LONG = 3, 200, 20.0
# What a start takes before its rounds beside the observed executions; the rounds take as long at most.
START_S_USUAL = 1.0
# An arm that takes longer needs no execution beside the observed one to tell how long its rounds are.
REHEARSED_BELOW_S = 0.02
# Where all arms take longer, and pages are in shared buffers, the observed execution is a round as any other.
OBSERVED_COUNTS_S = 2.0
# After a switch the processor's caches hold another arm's data, and the session learns of what is hidden,
# which costs milliseconds at most, the same for all arms.
DISCARDED_BELOW_S = 0.02
# In a turn a shorter statement is executed until it took so long, at most so often.
REPEATED_S, REPEATS_MAX = 0.01, 15

# Seconds by arm, round and statement; and the figure of each arm's statements that is made of them.
RoundSeconds = Sequence[Sequence[Sequence[float]]]
Figures = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Turns:
    """How arms take turns: their places in a round (from 0), and what is made of all rounds' seconds.

    are_enough: whether no more rounds are wanted, by the rounds so far, the seconds before the first of them
    and those that one takes. most_s: after so many seconds there is no further round.
    """

    order: Callable[[int], Sequence[int]]
    figures: Callable[[RoundSeconds], Figures]
    are_enough: Callable[[RoundSeconds, float, float], bool]
    most_s: float


@dataclass
class _Ready:
    """What the rounds need of one arm, once its own part of the start is done."""

    trial: TrialState
    prepared: steps.Prepared
    local: LocalTrialServer
    timer: StatementTimer
    rounds_s: list[tuple[float, ...]] = field(default_factory=list)


class _Start:
    """The trials of one start; `at` is the one that is at work, to which a failure belongs.

    Where arms are without some indexes of the data that all share, those are hidden before each turn, and
    settings that take a reload are reloaded (`trial/arm_switch.py`).
    """

    def __init__(self, trials: Sequence[TrialState], turns: Turns, works: Sequence[PlanWork | None]) -> None:
        self.trials = trials
        self.at = trials[0]
        self._turns = turns
        self._works = works
        self._began_s = time.monotonic()

    def measure(self, machine: TrialMachine, *, settles: bool) -> None:
        """The whole start, up to the records. settles: it waits until all is written, restored or not."""
        was_restored = steps.restore(self.at, machine, settles=settles)
        canary_s = machine_speed.canary_s()
        with ExitStack() as sessions:
            ready = []
            for trial in self.trials:
                self.at = trial
                trial.fields["canary_s"] = canary_s
                ready.append(self._measure_alone(trial, machine, sessions))
                trial.facts["restored"] = was_restored
            self._take_turns(ready)
            if ready[0].trial.spec.protocol.rolls_back:
                # What was rolled back left dead rows: the next start finds the data as they were.
                machine.taint()
            if self._survives_plans(ready):
                show_all(ready[0].trial, ready[0].prepared.server)
            for each in ready:
                each.prepared.server.close_control()

    def _survives_plans(self, ready: Sequence[_Ready]) -> bool:
        """Execute the plans that are due; whether the server is there afterwards.

        What was measured holds whatever comes of them: where one takes the server with it, no more are
        executed in this start. All of its arms together have what is left of the time for plans.
        """
        share_s, spent_s = (time.monotonic() - self._began_s) / len(ready), 0.0
        for each, work in zip(ready, self._works, strict=True):
            self.at = each.trial
            if work is None:
                continue
            self._switch(each.trial, each.local)
            left = _within(work, work.budget_s(share_s) - spent_s)
            survived = execute_plans(each.trial, each.prepared.server, each.prepared.explained, left)
            each.trial.stage("")
            spent_s += each.trial.fields.get("plans_s", 0.0)
            if not survived:
                return False
        return True

    def _measure_alone(self, trial: TrialState, machine: TrialMachine, sessions: ExitStack) -> _Ready:
        """One arm's sessions, asserted from inside, and its statements once, with all that is observed.

        That touches the shared memory which rounds need, so it is not read through first as for a trial.
        """
        trial.stage("starting")
        local = machine.start_server(trial.spec.arm, fresh=trial is self.trials[0])
        self._switch(trial, local)
        steps.assert_arm(trial, local.running)
        steps.assert_machine(trial, machine, local)
        prepared = steps.plan_statements(trial, local.running, local)
        with steps.counted_statements(prepared) as counted:
            timer = StatementTimer(
                prepared.server,
                trial.arm,
                trial.spec.protocol,
                local,
                prepared.relations,
                trial.on_step,
                rolls_back=trial.spec.protocol.rolls_back and trial.arm.workload.writes,
            )
            sessions.enter_context(timer)
            steps.finish_caches(trial, prepared)
            with volume_imposed(trial):
                before = steps.measure_between_readings(trial, prepared, counted, timer)
                trial.stage("verifying")
                steps.verify_trial(trial, prepared, before)
        if trial.spec.protocol.plans != "off":
            trial.observation.plans = prepared.explained
        trial.stage("")
        return _Ready(trial, prepared, local, timer)

    def _take_turns(self, ready: Sequence[_Ready]) -> None:
        """The rounds; each arm's observations then hold its figures, and the seconds they are made of."""
        self.trials[0].on_step("taking turns")
        rehearsed_s = [self._rehearsed_s(each) for each in ready]
        planned = planned_turns(rehearsed_s)
        begun_s, first = time.monotonic(), 0
        if self._observed_counts(ready):
            for each, seconds in zip(ready, rehearsed_s, strict=True):
                each.rounds_s.append(seconds)
            begun_s, first = begun_s - sum(map(sum, rehearsed_s)), 1
        for number in range(first, ROUNDS_MAX):
            if number >= planned.least and self._is_done(ready, number, begun_s):
                break
            for place in self._turns.order(number):
                each = ready[place]
                self.at = each.trial
                self._switch(each.trial, each.local, each.timer)
                each.rounds_s.append(each.timer.take_turn(planned.repeats[place]))
        figures = self._turns.figures([each.rounds_s for each in ready])
        for each, of_arm in zip(ready, figures, strict=True):
            observed = each.trial.observation
            observed.statements = [
                statement.model_copy(
                    update={
                        "elapsed_s": figure_s,
                        "rounds_s": seconds,
                        "stopped": statement.name in each.timer.stopped,
                    }
                )
                for statement, figure_s, seconds in zip(
                    observed.statements, of_arm, zip(*each.rounds_s, strict=True), strict=True
                )
            ]

    def _observed_counts(self, ready: Sequence[_Ready]) -> bool:
        """Whether the observed executions, in the drawn order of the block, are the first round.

        What a turn throws away before it, and that shared memory was not touched before, are milliseconds.
        """
        observed = [each.trial.observation.statements for each in ready]
        return ready[0].trial.spec.protocol.cache == "warm-buffers" and all(
            sum(each.elapsed_s for each in of_arm) >= OBSERVED_COUNTS_S
            and not any(each.stopped for each in of_arm)
            for of_arm in observed
        )

    def _is_done(self, ready: Sequence[_Ready], rounds: int, begun_s: float) -> bool:
        """Whether there is no further round, for want of time or since nothing would come of it."""
        took_s = time.monotonic() - begun_s
        if took_s * (rounds + 1) / rounds > self._turns.most_s:
            return True
        before_s = begun_s - self._began_s
        return self._turns.are_enough([each.rounds_s for each in ready], before_s, took_s / rounds)

    def _rehearsed_s(self, ready: _Ready) -> tuple[float, ...]:
        """What each of an arm's statements takes, by an execution that counts for nothing.

        Where the one that was observed took long, it is as good. What was stopped then takes
        no time in turns.
        """
        self.at = ready.trial
        observed_s = tuple(
            0.0 if each.stopped else each.elapsed_s for each in ready.trial.observation.statements
        )
        if sum(observed_s) >= REHEARSED_BELOW_S:
            return observed_s
        self._switch(ready.trial, ready.local, ready.timer)
        return ready.timer.execute_once()

    def _switch(
        self, trial: TrialState, local: LocalTrialServer, timer: StatementTimer | None = None
    ) -> None:
        """Make the server what the arm is: its indexes alone are there, its settings are read anew."""
        switch_to(trial, local, timer.session if timer is not None else None)


def _within(work: PlanWork, left_s: float) -> PlanWork:
    return replace(work, budget_s=lambda _wall_s: left_s)


@dataclass(frozen=True)
class PlannedTurns:
    """How many rounds a start has at least, and usually; by arm and place how often a turn has a statement.

    0: once, with none before it that is thrown away.
    """

    least: int
    usual: int
    repeats: tuple[tuple[int, ...], ...]


def planned_turns(rehearsed_s: Sequence[Sequence[float]]) -> PlannedTurns:
    """The turns of a start; rehearsed_s: the seconds by arm and statement.

    Where the arms have as many statements each, those at the same place are executed equally often in all.
    """
    slowest_s = rehearsed_s
    if len({len(of_arm) for of_arm in rehearsed_s}) == 1:
        slowest_s = [[max(of_place) for of_place in zip(*rehearsed_s, strict=True)]] * len(rehearsed_s)
    repeats = tuple(tuple(map(_repeats, of_arm)) for of_arm in slowest_s)
    round_s = sum(
        seconds * (often + 1)
        for of_arm, counts in zip(rehearsed_s, repeats, strict=True)
        for seconds, often in zip(of_arm, counts, strict=True)
    )
    round_s = max(round_s, 1e-6)
    least = 1 if ROUNDS_LEAST * round_s > ROUNDS_S_LONG else ROUNDS_LEAST
    usual = max(least, int((START_S_USUAL + round_s) / round_s))
    return PlannedTurns(least, min(ROUNDS_MAX, usual), repeats)


def _repeats(seconds: float) -> int:
    """A short statement beside a long one has as few rounds as that: it is executed more often in each."""
    if seconds >= DISCARDED_BELOW_S:
        return 0
    return max(1, min(REPEATS_MAX, int(REPEATED_S / max(seconds, 1e-6))))


def run_start(
    specs: Sequence[TrialSpec],
    target: Target,
    folder: Path,
    turns: Turns,
    works: Sequence[PlanWork | None],
    on_step: OnStep = lambda _: None,
    *,
    settles: bool = True,
) -> list[tuple[Path, TrialRecord]]:
    """Run one start for the arms of a block, in their order; returns the folder and record of each.

    Where an arm fails there is the record of that one alone, with its reason: nothing counts of the others.
    An interruption is recorded for the first, and goes on. settles: wait until all is written before it
    begins, as where data have just been copied; else that is waited for only where it restores some. Raises
    as `run_trial`.
    """
    begun = time.monotonic()
    machine = target.machine
    if machine is None:
        raise AssertionError("a running server is not started")
    trials = [TrialState(spec, target, on_step) for spec in specs]
    start = _Start(trials, turns, works)
    try:
        status, reason = outcome(
            lambda: start.measure(machine, settles=settles), f": see {layout.SERVER_LOG_FILE}"
        )
        if status != "ok":
            reason += trial_caps.out_of_memory_reason(start.at.arm, machine.group)
            lost = abandon(target)
            ended = _written(start.at, folder, status, reason)
            if lost is not None:
                raise lost
            return [ended]
    except UsageError:
        target.abandon()
        raise
    except (KeyboardInterrupt, SystemExit):
        target.abandon()
        _written(trials[0], folder, "interrupted", "interrupted by the user")
        raise
    plans_s = sum(trial.fields.get("plans_s", 0.0) for trial in trials)
    share_s = (time.monotonic() - begun - plans_s) / len(trials)
    for trial in trials:
        trial.share_s = share_s
    return [_written(trial, folder, "ok", "") for trial in trials]


def _written(trial: TrialState, folder: Path, status: TrialStatus, reason: str) -> tuple[Path, TrialRecord]:
    writer = TrialWriter(folder, trial.spec.number, trial.spec.attempt)
    try:
        return writer.final, write_trial(trial, writer, status, reason)
    finally:
        writer.discard()
