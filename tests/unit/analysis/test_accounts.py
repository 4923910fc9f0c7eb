"""Time accounts from made-up threads whose true times are known."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import report_examples
from pgassay.analysis.accounts.arm_accounts import arm_accounts, connection_accounts, trial_accounts
from pgassay.analysis.accounts.items import account
from pgassay.analysis.accounts.threads import Span, trial_times
from pgassay.analysis.accounts.times import Times
from pgassay.model.account import Account
from pgassay.model.trial import TrialFacts
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial

S = 1_000_000_000
MS = 1_000_000
THREAD_DEFAULTS = {
    "start_ns": 1 * S,
    "edge": 0,
    "alive": 1,
    "slices": 1,
    "process_cpu_ns": 0,
    "children_cpu_ns": 0,
    "read_bytes": 0,
    "write_bytes": 0,
    "block_delay_ns": 0,
}


def thread(
    clock_s: float, pid: int, kind: str, run_s: float, delay_s: float = 0.0, **more: Any
) -> dict[str, Any]:
    clock_ns = round(clock_s * S)
    own = {"clock_ns": clock_ns, "from_ns": clock_ns - 1, "pid": pid, "thread": pid, "kind": kind}
    counters = {"run_ns": round(run_s * S), "delay_ns": round(delay_s * S), "seen_ns": clock_ns}
    return THREAD_DEFAULTS | own | counters | more


def wait(
    from_s: float, to_s: float, pid: int, kind: str, event: str, state: str, samples: int
) -> dict[str, Any]:
    event_type, _, name = event.partition(":")
    return {
        "from_ns": round(from_s * S),
        "clock_ns": round(to_s * S),
        "edge": 0,
        "pid": pid,
        "thread": pid,
        "kind": kind,
        "activity": "active",
        "wait_event_type": event_type,
        "wait_event": name,
        "scheduler_state": state,
        "samples": samples,
    }


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def seconds(found: Account, kind: str, event: str = "") -> float:
    return sum(
        item.seconds
        for item in found.items
        if item.kind == kind and f"{item.wait_event_type}:{item.wait_event}".strip(":") == event
    )


def test_an_account_adds_up_and_looks_share_out_what_the_scheduler_leaves() -> None:
    seen = Counter({("", "", "R"): 50, ("IO", "DataFileRead", "D"): 30, ("IO", "DataFileRead", "R"): 10})
    seen["LWLock", "WALWrite", "S"] = 10
    found = account("backend", Times(10.0, 4.0, 1.6, 0.0, seen), 2, 10.0)
    assert found.wall_s == 5.0
    assert found.threads == 1.0
    assert seconds(found, "cpu") + seconds(found, "cpu", "IO:DataFileRead") == pytest.approx(2.0)
    assert seconds(found, "cpu", "IO:DataFileRead") == pytest.approx(2.0 / 6)
    assert seconds(found, "runnable") == pytest.approx(0.8)
    assert (found.asleep_s, found.asleep_sampled_s) == pytest.approx((2.2, 2.0))
    assert seconds(found, "wait", "IO:DataFileRead") == pytest.approx(1.65)
    assert seconds(found, "wait", "LWLock:WALWrite") == pytest.approx(0.55)
    assert found.residue_s == pytest.approx(0.0)
    assert sum(item.seconds for item in found.items) + found.residue_s == pytest.approx(found.wall_s)


def test_time_that_is_neither_counted_nor_seen_asleep_is_a_residue() -> None:
    """A hypervisor took half of the CPU: the looks find the thread running, the scheduler counts less."""
    seen = Counter({("", "", "R"): 90, ("Client", "ClientRead", "S"): 10})
    found = account("backend", Times(10.0, 4.0, 0.0, 0.0, seen), 1, 10.0)
    assert seconds(found, "client", "Client:ClientRead") == pytest.approx(1.0)
    assert found.residue_s == pytest.approx(5.0)
    unseen = account("backend", Times(10.0, 4.0, 0.0, 0.0, Counter()), 1, 10.0)
    assert unseen.residue_s == pytest.approx(6.0)


def test_the_residue_may_be_negative_and_cpu_never_follows_from_a_missing_event() -> None:
    seen = Counter({("", "", "R"): 100, ("Client", "ClientRead", "S"): 100})
    found = account("backend", Times(10.0, 7.0, 4.0, 0.0, seen), 1, 10.0)
    assert seconds(found, "cpu") == pytest.approx(7.0)
    assert found.residue_s == pytest.approx(-1.0)
    early = account("backend", Times(10.0, 7.0, 0.0, 0.0, seen), 1, 10.0)
    assert seconds(early, "client", "Client:ClientRead") == pytest.approx(3.0), "no more than was left"
    assert early.asleep_sampled_s == pytest.approx(5.0)
    idle = account("backend", Times(10.0, 0.0, 0.0, 0.0, Counter({("", "", "S"): 7})), 1, 10.0)
    assert seconds(idle, "cpu") == 0
    assert seconds(idle, "wait") == pytest.approx(10.0)


def test_looks_between_two_states_go_to_the_events_of_that_sleep() -> None:
    """A thread that changes between the server's answer and the scheduler's is seen asleep in none."""
    seen = Counter({("", "", "S"): 20, ("Client", "ClientRead", "S"): 30, ("Lock", "tuple", "S"): 10})
    seen["", "", "R"] = 40
    found = account("backend", Times(10.0, 4.0, 0.0, 0.0, seen), 1, 10.0)
    assert seconds(found, "client", "Client:ClientRead") == pytest.approx(4.5)
    assert seconds(found, "wait", "Lock:tuple") == pytest.approx(1.5)
    assert seconds(found, "wait") == 0
    device = Counter({("", "", "D"): 10, ("Client", "ClientRead", "S"): 10})
    kept = account("backend", Times(2.0, 0.0, 0.0, 0.0, device), 1, 2.0)
    assert seconds(kept, "wait") == pytest.approx(1.0), "a sleep for a device is not a sleep for the client"


def test_behind_a_network_the_client_gets_no_more_than_its_cpu() -> None:
    seen = Counter({("Client", "ClientRead", "S"): 80, ("Client", "ClientWrite", "S"): 5, ("", "", "R"): 15})
    times = Times(10.0, 1.5, 0.0, 0.0, seen)
    near = account("backend", times, 1, 10.0)
    assert seconds(near, "client", "Client:ClientRead") == pytest.approx(8.0)
    far = account("backend", times, 1, 10.0, client_cpu_s=2.0)
    assert seconds(far, "client", "Client:ClientRead") == pytest.approx(2.0)
    assert seconds(far, "network", "Client:ClientRead") == pytest.approx(6.0)
    assert seconds(far, "network", "Client:ClientWrite") == pytest.approx(0.5)
    assert far.residue_s == pytest.approx(near.residue_s)


def test_a_statement_gets_what_lies_between_its_marks() -> None:
    """The marks lie outside the statement, where its session does nothing; other windows count nothing."""
    rows = [
        thread(9.0, 7, "backend", 1.0, 0.1),
        thread(10.0, 7, "backend", 1.2, 0.1),
        thread(10.2, 7, "backend", 1.3, 0.15),
        thread(10.502, 7, "backend", 1.5, 0.2),
        thread(11.0, 7, "backend", 9.0, 0.9),
    ]
    looks = [
        wait(9.0, 10.0, 7, "backend", "Client:ClientRead", "S", 50),
        wait(10.0, 10.2, 7, "backend", "IO:DataFileRead", "D", 4),
        wait(10.2, 10.502, 7, "backend", ":", "R", 6),
        wait(10.502, 11.0, 7, "backend", "Client:ClientRead", "S", 50),
    ]
    span = Span(10.001 * S, 10.5 * S, True)
    times = trial_times(columns(rows), columns(looks), [span], 20.0)
    backend = times.kinds["backend"]
    assert backend.run_s == pytest.approx(0.3)
    assert backend.delay_s == pytest.approx(0.1)
    assert backend.wall_s == pytest.approx(0.499)
    assert backend.seen == {("IO", "DataFileRead", "D"): 4, ("", "", "R"): 6}
    assert times.connections[7].run_s == backend.run_s


def test_a_load_gets_its_interval_by_interpolation() -> None:
    rows = [thread(clock, pid, "backend", clock * 0.5) for clock in (8.0, 10.0, 12.0, 14.0) for pid in (1, 2)]
    times = trial_times(columns(rows), {}, [Span(9 * S, 13 * S, False)], 20.0)
    assert times.kinds["backend"].run_s == pytest.approx(2 * 4 * 0.5)
    assert times.kinds["backend"].wall_s == pytest.approx(8.0)
    assert set(times.connections) == {1, 2}


def test_a_session_that_never_works_is_no_connection_of_the_load() -> None:
    rows = [thread(clock, 7, "backend", clock - 10) for clock in (10, 12)]
    rows += [thread(clock, 8, "backend", run) for clock, run in ((10, 0.5), (12, 0.5001))]
    rows += [thread(clock, 9, "backend", 0.5) for clock in (10, 12)]
    looks = [
        wait(10, 12, 7, "backend", ":", "R", 100),
        wait(10, 12, 8, "backend", "Client:ClientRead", "S", 100),
        wait(10, 12, 9, "backend", "Lock:transactionid", "S", 100),
    ]
    times = trial_times(columns(rows), columns(looks), [Span(10 * S, 12 * S, False)], 50)
    assert set(times.connections) == {7, 9}
    assert times.kinds["backend"].wall_s == pytest.approx(4.0)
    assert times.kinds["idle session"].wall_s == pytest.approx(2.0)
    assert sum(times.kinds["backend"].seen.values()) == 200
    alone = trial_times(columns(rows[2:4]), columns(looks[1:2]), [Span(10 * S, 12 * S, False)], 50)
    assert (set(alone.kinds), alone.connections) == ({"idle session"}, {})


def test_a_connection_that_ended_with_the_load_went_on_at_its_own_rate() -> None:
    """It was last read a moment after a row was written, and missed only after the load."""
    rows = [thread(clock, 1, "backend", clock * 0.25) for clock in (9.0, 9.5, 10.0, 10.5, 11.0)]
    gone = thread(11.2, 1, "backend", 11.0 * 0.25 + 0.001, alive=0) | {"seen_ns": round(11.0005 * S)}
    parent = [thread(clock, 2, "postmaster", 0.0, children_cpu_ns=0) for clock in (9.0, 11.0)]
    parent.append(thread(11.2, 2, "postmaster", 0.0, children_cpu_ns=3 * S))
    times = trial_times(columns([*rows, gone, *parent]), {}, [Span(9 * S, round(11.1 * S), False)], 20.0)
    assert set(times.kinds) == {"backend", "postmaster"}, "what it used is told after the load"
    assert times.kinds["backend"].run_s == pytest.approx(2.1 * 0.25, rel=0.01)
    assert times.kinds["backend"].wall_s == pytest.approx(2.1)


def test_what_a_worker_used_after_the_last_look_is_known_from_its_parent() -> None:
    born = {"start_ns": round(10.1 * S)}
    rows = [
        thread(10.0, 1, "postmaster", 0.0, children_cpu_ns=500 * MS),
        thread(10.0, 7, "backend", 1.0),
        thread(10.2, 1, "postmaster", 0.0, children_cpu_ns=500 * MS),
        thread(10.2, 8, "parallel worker", 0.08, 0.02, **born),
        thread(10.2, 7, "backend", 1.1),
        thread(10.5, 1, "postmaster", 0.0, children_cpu_ns=800 * MS),
        thread(10.5, 8, "parallel worker", 0.2, 0.05, **born, alive=0) | {"seen_ns": round(10.38 * S)},
        thread(10.5, 7, "backend", 1.3),
    ]
    times = trial_times(columns(rows), {}, [Span(10.001 * S, 10.499 * S, True)], 25.0)
    worker = times.kinds["parallel worker"]
    assert worker.unseen_s == pytest.approx(0.1)
    assert worker.run_s == pytest.approx(0.3), "all that the postmaster was told of its child"
    assert worker.wall_s == pytest.approx(10.4 - 10.1), "until half a look after it was last seen"
    assert worker.delay_s == pytest.approx(0.05)
    shown = account("parallel worker", worker, 1, times.measured_s)
    assert shown.cpu_unseen_s == pytest.approx(0.1)
    assert seconds(shown, "runnable") == pytest.approx(0.075), "in proportion to the CPU time"


def test_a_worker_of_the_next_statement_is_none_of_this_one() -> None:
    rows = [
        thread(10.0, 7, "backend", 1.0),
        thread(10.5, 7, "backend", 1.3),
        thread(10.6, 7, "backend", 1.3),
        thread(10.8, 9, "parallel worker", 0.1, start_ns=round(10.61 * S)),
        thread(11.1, 7, "backend", 1.5),
        thread(11.1, 9, "parallel worker", 0.3, start_ns=round(10.61 * S)),
    ]
    first = trial_times(columns(rows), {}, [Span(10.001 * S, 10.499 * S, True)], 20.0)
    assert set(first.kinds) == {"backend"}
    second = trial_times(columns(rows), {}, [Span(10.601 * S, 11.099 * S, True)], 20.0)
    assert second.kinds["parallel worker"].run_s == pytest.approx(0.3)


def test_nothing_observed_is_no_account() -> None:
    assert trial_times({}, {}, [Span(0, S, False)], 20.0).kinds == {}
    stored = report_examples.stored(blocks=2)
    assert arm_accounts(stored) == ()
    assert trial_accounts(stored.trials[0]) == ()
    assert connection_accounts(stored.trials[0]) == {}


def observed_experiment(folder: Path) -> StoredExperiment:
    """Two blocks whose trials have one statement of a second: CPU 0.25 s, and for sync a wait of 0.5 s."""
    stored = report_examples.stored(levels=["worker", "sync"], blocks=2, statement_names=("scan",))
    arms = {arm.id: arm for arm in stored.experiment.arms}
    trials = []
    for place, trial in enumerate(stored.trials):
        own = folder / str(place)
        (own / "observations").mkdir(parents=True)
        event = "IO:DataFileRead" if "sync" in arms[trial.record.arm_id].name else "IO:AioIoCompletion"
        rows = [thread(10.0, 7, "backend", 1.0), thread(11.0, 7, "backend", 1.25)]
        looks = [wait(10.0, 11.0, 7, "backend", event, "S", 5), wait(10.0, 11.0, 7, "backend", ":", "R", 5)]
        for name, content in (("threads", rows), ("waits", looks)):
            data = to_parquet(columns(content), sampler=name, version=1)
            (own / "observations" / f"{name}.parquet").write_bytes(data)
        statement = trial.record.statements[0].model_copy(update={"clock_ns": (10 * S, 11 * S)})
        record = trial.record.model_copy(
            update={"statements": (statement,), "facts": TrialFacts(observer={"rate_hz": 10.0})}
        )
        trials.append(StoredTrial(record=record, plans={}, folder=own))
    return StoredExperiment(folder, stored.experiment, tuple(trials), "decided", 1.0)


def test_arms_have_the_means_of_their_trials_and_a_damaged_file_costs_one(tmp_path: Path) -> None:
    stored = observed_experiment(tmp_path)
    found = arm_accounts(stored)
    assert [arm.arm for arm in found] == ["io_method=worker", "io_method=sync"]
    for arm, event in zip(found, ("IO:AioIoCompletion", "IO:DataFileRead"), strict=True):
        assert (arm.trials, arm.measured_s) == (2, 1.0)
        (backend,) = arm.accounts
        assert seconds(backend, "cpu") == pytest.approx(0.25)
        assert seconds(backend, "wait", event) == pytest.approx(0.75)
        assert backend.residue_s == pytest.approx(0.0)
        assert backend.samples == 20
    broken = next(trial for trial in stored.trials if trial.record.arm_id == stored.experiment.arms[0].id)
    fresh = broken.record.model_copy(update={"started_at": "2026-01-01T00:00:00"})
    (broken.folder / "observations" / "waits.parquet").write_bytes(b"no columns")
    changed = tuple(
        StoredTrial(record=fresh, plans={}, folder=broken.folder) if trial is broken else trial
        for trial in stored.trials
    )
    again = arm_accounts(StoredExperiment(tmp_path, stored.experiment, changed, "decided", 1.0))
    assert [arm.trials for arm in again] == [1, 2]
