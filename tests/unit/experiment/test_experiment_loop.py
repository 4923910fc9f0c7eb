"""The loop of an experiment: repeats, voids, stops, resumes; the trials are replayed, the rest is real."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import replay
from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.remote.settings_swap import ServerFacts
from pgassay.experiment.running import loop, remote_swap
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.progress import NullProgress
from pgassay.record.experiment import StoredExperiment, load, write_swap
from pgassay.report.page import json_text

LIMITS = RunLimits(blocks_max=10, time_max_s=600.0, until_decided=False)


def document(folder: Path) -> dict[str, object]:
    """The JSON document of a stored experiment, without its folder."""
    result = analyse(load(folder)).model_copy(update={"folder": ""})
    return dict(result.model_dump(mode="json")) | {"text": json_text(result)}


def run_to_the_end(folder: Path, runner: replay.Replay, limits: RunLimits = LIMITS) -> str:
    return run_experiment(load(folder), runner, limits, NullProgress()).stopped


def statuses(folder: Path) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for trial in load(folder).trials:
        found.setdefault(trial.record.number, []).append(trial.record.status)
    return found


def killed_when(folder: Path, is_time: Callable[[], object], runner: replay.Replay) -> bool:
    """Run in a child and SIGKILL it when `is_time`; False when it had ended before."""
    child = os.fork()
    if child == 0:
        try:
            run_to_the_end(folder, runner)
            os._exit(0)
        finally:
            os._exit(1)
    while not is_time():
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert status == 0
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def killed_after(folder: Path, seconds: float, runner: replay.Replay) -> bool:
    """As `killed_when`, after a time."""
    moment = time.monotonic() + seconds
    return killed_when(folder, lambda: time.monotonic() >= moment, runner)


@pytest.mark.parametrize("kills_wanted", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed_it_ends_as_if_undisturbed(
    kills_wanted: int, tmp_path: Path
) -> None:
    """Recorded outcomes with failures in them, replayed; SIGKILL, resume, until so many kills have hit."""
    undisturbed = replay.new_experiment(tmp_path / "undisturbed", seed=11)
    runner = replay.Replay(seed=3, sleep_s=0.004, failing_fraction=0.12)
    begun = time.monotonic()
    assert run_to_the_end(undisturbed, runner) == "blocks"
    took_s = time.monotonic() - begun
    expected = document(undisturbed)
    attempts = statuses(undisturbed)
    assert any(len(tries) == 2 and tries[1] == "ok" for tries in attempts.values())
    assert any(len(tries) == 2 and tries[1] != "ok" for tries in attempts.values())
    moments, kills, runs, resumed_runs = random.Random(20), 0, 0, 0
    while kills < kills_wanted:
        runs += 1
        folder = replay.new_experiment(tmp_path / f"run-{runs}", seed=11)
        hits = 0
        # Ever longer, so that a machine which has become slow comes to the end as well.
        while killed_after(folder, moments.uniform(0, took_s * (0.4 + 0.05 * hits)), runner):
            kills, hits = kills + 1, hits + 1
        resumed_runs += hits > 0
        assert document(folder) == expected
        assert statuses(folder) == attempts
        assert not list(folder.rglob("*.tmp"))
    assert resumed_runs >= 1


def test_a_kill_while_a_trial_is_written_leaves_no_part_of_it(tmp_path: Path) -> None:
    """A runner killed between two files of a trial's folder; what it began is gone after the resume."""
    folder = replay.new_experiment(tmp_path / "half", seed=11)
    written = (folder / "trials").rglob
    runner = replay.Replay(seed=3, sleep_s=600)
    assert killed_when(folder, lambda: list(written("*.tmp/plans.json")), runner)
    half = [path for path in (folder / "trials").rglob("*.tmp") if path.is_dir()]
    assert len(half) == 1
    assert list(half[0].iterdir())
    assert run_to_the_end(folder, replay.Replay(seed=3)) == "blocks"
    assert not list(folder.rglob("*.tmp"))
    assert not half[0].exists()


def test_a_failed_trial_is_repeated_once_in_its_block(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "one", seed=5)
    runner = replay.Replay(seed=1, failing={(4, 1)})
    assert run_to_the_end(folder, runner, RunLimits(3, 600.0)) == "blocks"
    assert statuses(folder)[4] == ["failed", "ok"]
    # The second attempt follows at once, in its place.
    order = runner.ran
    assert order[order.index((4, 1)) + 1] == (4, 2)
    result = analyse(load(folder))
    assert result.blocks == 3
    assert result.failures == 1


def test_a_second_failure_voids_the_block_and_the_experiment_goes_on(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "void", seed=5)
    runner = replay.Replay(seed=1, failing={(4, 1), (4, 2)})
    assert run_to_the_end(folder, runner, RunLimits(3, 600.0)) == "blocks"
    assert statuses(folder)[4] == ["failed", "failed"]
    assert 5 not in statuses(folder) or statuses(folder)[5] == ["ok"]
    assert analyse(load(folder)).blocks == 2


def test_two_voided_blocks_end_it_and_a_resume_tries_again(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "failed", seed=5)
    broken = {(number, attempt) for number in range(100) for attempt in (1, 2)}
    assert run_to_the_end(folder, replay.Replay(seed=1, failing=broken), RunLimits(6, 600.0)) == "failed"
    assert load(folder).stopped == "failed"
    # Still broken: two more blocks are tried, then it ends again.
    tried = len(load(folder).trials)
    assert run_to_the_end(folder, replay.Replay(seed=1, failing=broken), RunLimits(8, 600.0)) == "failed"
    assert len(load(folder).trials) == 2 * tried
    # Mended: it goes on to its end.
    assert run_to_the_end(folder, replay.Replay(seed=1), RunLimits(8, 600.0)) == "blocks"
    assert analyse(load(folder)).blocks == 4


def test_an_interruption_is_written_down_and_raised_on(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "interrupted", seed=5)
    with pytest.raises(KeyboardInterrupt):
        run_to_the_end(folder, replay.Replay(seed=1, interrupted_at=7))
    assert load(folder).stopped == "interrupted"
    assert len(load(folder).trials) == 7
    assert run_to_the_end(folder, replay.Replay(seed=1), RunLimits(4, 600.0)) == "blocks"


def test_the_limit_of_time_counts_all_runs(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "time", seed=5)
    slow = replay.Replay(seed=1, sleep_s=0.02, wall_s=0.03)
    assert run_to_the_end(folder, slow, RunLimits(500, 0.5, until_decided=False)) == "max-time"
    first = load(folder)
    assert first.seconds_used > 0
    assert run_to_the_end(folder, slow, RunLimits(500, 0.5, until_decided=False)) == "max-time"
    assert len(load(folder).trials) == len(first.trials)
    # More time lets it go on.
    more = RunLimits(analyse(first).blocks + 1, first.seconds_used + 300.0, until_decided=False)
    assert run_to_the_end(folder, slow, more) == "blocks"
    assert len(load(folder).trials) > len(first.trials)


def test_what_came_before_the_blocks_counts_in_the_time() -> None:
    limits = RunLimits(60, 180.0)
    after = limits.after_preparing(20.0)
    assert 150 < after.time_max_s < 160 and after.blocks_max == 60
    # Loading may have been timed a little longer than all that came before.
    assert limits.after_preparing(-0.1).time_max_s == limits.after_preparing(0.0).time_max_s < 180
    assert RunLimits(60, 10.0).after_preparing(0.0).time_max_s == pytest.approx(9.5)


def test_no_block_begins_that_would_not_end_by_then(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "ends", seed=5)
    runner = replay.Replay(seed=1, wall_s=30.0)
    late = RunLimits(10, 6000.0, ends_at=time.monotonic() + 5.0)
    assert run_to_the_end(folder, runner, late) == "max-time"
    # The first block says what one takes.
    assert analyse(load(folder)).blocks == 1
    past = RunLimits(10, 6000.0, ends_at=time.monotonic() - 1.0)
    other = replay.new_experiment(tmp_path / "past", seed=5)
    assert run_to_the_end(other, runner, past) == "max-time"
    assert not load(other).trials
    assert run_to_the_end(other, runner, RunLimits(2, 6000.0)) == "blocks"


def test_an_experiment_stops_once_nothing_of_it_is_wanted(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "wanted", seed=5)
    arm = next(arm.id for arm in load(folder).experiment.arms if arm.role == "arm")
    runner = replay.Replay(seed=1, spread=0.01, speed_up=2.0)
    # Decided after fewer blocks than these; the arm doesn't rest as long as something of it is wanted.
    more = RunLimits(60, 600.0, wanted=lambda result, _: () if result.blocks >= 25 else (arm,))
    assert run_to_the_end(folder, runner, more) == "decided"
    assert analyse(load(folder)).blocks == 25
    # Nothing is wanted of it from the first: it stays undecided, and can be resumed.
    other = replay.new_experiment(tmp_path / "other", seed=5)
    none = RunLimits(60, 600.0, wanted=lambda _result, _experiment: ())
    assert run_to_the_end(other, runner, none) == "interrupted"
    assert run_to_the_end(other, runner, RunLimits(60, 600.0)) == "decided"


def test_a_decided_experiment_stops_and_more_blocks_may_be_added(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "decided", seed=5)
    runner = replay.Replay(seed=1, spread=0.01, speed_up=2.0)
    assert run_to_the_end(folder, runner, RunLimits(60, 600.0)) == "decided"
    result = analyse(load(folder))
    assert {arm.verdict for arm in result.arms} == {"control", "faster"}
    assert result.blocks < 20
    more = RunLimits(result.blocks + 3, 600.0, until_decided=False)
    assert run_to_the_end(folder, runner, more) == "blocks"
    assert analyse(load(folder)).blocks == result.blocks + 3


def test_what_comes_before_the_trials_of_a_block_counts_in_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of 12 arms that are copied anew take longer than the trials on them."""
    folder = replay.new_experiment(tmp_path / "copied", seed=5)
    passed_s = 0.0

    def copy(_step: object) -> None:
        nonlocal passed_s
        passed_s += 60.0

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: passed_s))
    limits = RunLimits(blocks_max=10, time_max_s=200.0, until_decided=False)
    ended = run_experiment(load(folder), replay.Replay(seed=3), limits, NullProgress(), copy)
    assert ended.stopped == "max-time" and ended.seconds_used == 180.0


def test_an_arm_that_can_t_run_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    """Its trials fail in two blocks in a row; once that ended the whole experiment."""
    folder = replay.new_experiment(tmp_path / "dropped", seed=5, writes_blocks=True)
    runner = replay.Replay(seed=3, failing_arms=("work_mem=2MB",))
    assert run_to_the_end(folder, runner) == "blocks"
    stored = load(folder)
    dropped = next(arm.id for arm in stored.experiment.arms if arm.name == "work_mem=2MB")
    blocks = [block for block, plan in stored.block_plans.items() if dropped in plan.arm_ids]
    assert blocks == [0, 1]
    assert len(stored.block_plans) == LIMITS.blocks_max
    result = analyse(stored)
    (sentence,) = [each for each in result.warnings if "is dropped" in each]
    assert sentence.startswith("work_mem=2MB is dropped, since its trials fail: as recorded")
    verdicts = {arm.name: arm.verdict for arm in result.arms}
    assert verdicts["work_mem=2MB"] == "inconclusive"
    assert result.blocks == LIMITS.blocks_max - 2


@pytest.mark.parametrize("seed", range(6))
def test_several_arms_that_can_t_run_are_dropped_in_whatever_order_they_fail(
    tmp_path: Path, seed: int
) -> None:
    """Which of them voids a block is chance: one each in two blocks in a row once ended the experiment."""
    typed = "work_mem=1MB,2MB,4MB,8MB,16MB"
    folder = replay.new_experiment(tmp_path / "dropped", seed=seed, writes_blocks=True, typed=typed)
    failing = ("work_mem=2MB", "work_mem=8MB")
    assert run_to_the_end(folder, replay.Replay(seed=3, failing_arms=failing)) == "blocks"
    said = [each for each in analyse(load(folder)).warnings if "is dropped" in each]
    assert len(said) == len(failing)


@pytest.mark.parametrize("role", ["control", "twin"])
def test_a_stratum_whose_control_can_t_run_is_dropped(tmp_path: Path, role: str) -> None:
    typed = "work_mem=1MB,2MB shared_buffers=128MB,256MB"
    folder = replay.new_experiment(tmp_path / "grid", seed=5, writes_blocks=True, typed=typed)
    stratum = "shared_buffers=256MB"
    arms = load(folder).experiment.arms
    (failing,) = [arm.id for arm in arms if arm.role == role and arm.stratum == stratum]
    assert run_to_the_end(folder, replay.Replay(seed=3, failing_arms=(failing,))) == "blocks"
    stored = load(folder)
    plans = stored.block_plans.values()
    assert sum(plan.stratum == stratum for plan in plans) == 2
    assert sum(plan.stratum != stratum for plan in plans) == LIMITS.blocks_max


def test_the_others_verdicts_end_it(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "dropped", seed=5, writes_blocks=True)
    runner = replay.Replay(seed=3, failing_arms=("work_mem=2MB",), speed_up=3.0)
    assert run_to_the_end(folder, runner, RunLimits(60, 600.0)) == "decided"
    verdicts = {arm.name: arm.verdict for arm in analyse(load(folder)).arms}
    assert verdicts["work_mem=4MB"] == "faster"


def test_where_every_arm_fails_it_fails(tmp_path: Path) -> None:
    folder = replay.new_experiment(tmp_path / "failed", seed=5, writes_blocks=True)
    runner = replay.Replay(seed=3, failing_arms=("work_mem=2MB", "work_mem=4MB"))
    assert run_to_the_end(folder, runner) == "failed"
    control = replay.new_experiment(tmp_path / "control", seed=5, writes_blocks=True)
    assert run_to_the_end(control, replay.Replay(seed=3, failing_arms=("work_mem=1MB",))) == "failed"


def test_copies_are_expected_before_a_set_and_not_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of time is kept though a block that begins a set takes minutes more than one that goes on."""
    clock = 0.0
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock)

    def prepare(step: SimpleNamespace) -> None:
        nonlocal clock
        clock += step.takes_s

    prepared = loop._Prepared(prepare)  # type: ignore[arg-type]
    for block in range(8):
        replicate = block // 4
        plan = SimpleNamespace(block=block, stratum=None, replicate=replicate)
        # The first set is made before the experiment.
        step = SimpleNamespace(plan=plan, takes_s=100.0 if block == 4 else 0.1)
        prepared.make_ready(step)  # type: ignore[arg-type]
        prepared.make_ready(step)  # type: ignore[arg-type]
    assert clock == pytest.approx(100.7)
    for block, expected_s in ((8, 100.0), (7, 0.1)):
        plan = SimpleNamespace(block=block, stratum=None, replicate=block // 4)
        expected = prepared.expected_s(SimpleNamespace(plan=plan))  # type: ignore[arg-type]
        assert expected == pytest.approx(expected_s)


def swapped_halfway(
    folder: Path, limits: RunLimits, monkeypatch: pytest.MonkeyPatch, command: Callable[[], None]
) -> str:
    """How an experiment of two servers stops, whose settings `command` swaps halfway."""

    def swap(stored: StoredExperiment, block: int, *_: object) -> None:
        command()
        write_swap(stored.folder, {"at_block": block, "swapped": ["work_mem"], "stayed": []})

    monkeypatch.setattr(remote_swap, "swap_servers", swap)
    target, servers = SimpleNamespace(abandon=lambda: None), SimpleNamespace(parameters={})
    runner = replay.Replay(seed=1, sleep_s=0.01, wall_s=0.01)
    return remote_swap.run_halves(load(folder), runner, limits, NullProgress(), target, servers).stopped  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "stopped"), [(RunLimits(1, 600.0), "blocks"), (RunLimits(9, 0.001), "max-time")]
)
def test_settings_are_not_swapped_where_no_block_would_follow(
    limits: RunLimits, stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = replay.new_experiment(tmp_path / "e", seed=5)
    swaps: list[int] = []
    assert swapped_halfway(folder, limits, monkeypatch, lambda: swaps.append(1)) == stopped
    assert (swaps, analyse(load(folder)).blocks, load(folder).stopped) == ([], 1, stopped)
    # Who gives it more blocks and time has both halves.
    assert swapped_halfway(folder, RunLimits(4, 600.0), monkeypatch, lambda: swaps.append(1)) == "blocks"
    swap = load(folder).swap
    blocks = {trial.record.block for trial in load(folder).trials}
    assert (swaps, swap and swap.at_block, len(blocks)) == ([1], 2, 4)


def test_an_interruption_while_settings_are_swapped_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = replay.new_experiment(tmp_path / "e", seed=5)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swapped_halfway(folder, RunLimits(4, 600.0), monkeypatch, interrupted)
    assert load(folder).stopped == "interrupted"


def test_servers_that_took_long_to_come_back_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first was asked before it restarted: what it said then is not the last word."""
    now_s = [0.0]

    def facts(value: str) -> ServerFacts:
        return ServerFacts("18.4", {"work_mem": value}, {}, {})

    answers = iter([(0.1, facts("4MB")), (90.0, facts("4MB")), (20.0, facts("8MB")), (0.1, facts("4MB"))])

    def read_again(_resolved: object) -> ServerFacts:
        took_s, found = next(answers)
        now_s[0] += took_s
        return found

    monkeypatch.setattr(remote_swap, "_read_again", read_again)
    monkeypatch.setattr(
        remote_swap, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda _: None)
    )
    before, servers = (facts("4MB"), facts("8MB")), {"one": Mock(), "two": Mock()}
    swap, _ = remote_swap._observe(before, servers)
    assert (swap.swapped, swap.stayed, swap.else_changed) == (("work_mem",), (), ())
