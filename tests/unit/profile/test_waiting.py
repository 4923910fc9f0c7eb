"""Waiting off the processor by function: who it is told of, and which differ between arms."""

from pathlib import Path

import pytest
from profile_for_tests import TRANSACTIONS, profiled

from pgassay.analysis.profile import one_server
from pgassay.analysis.profile.off_cpu import NOT_RECORDED, waiter, why_not_recorded
from pgassay.analysis.profile.result import profile_result
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.model.profile.result import ProfileFacts, ProfileResult
from pgassay.record import layout
from pgassay.record.stacks import WAITS_FILE
from pgassay.report.compare.page import page_of
from pgassay.report.profile.one_server import section_of

_KERNEL = "entry_[k];schedule_[k]"
FLUSH = f"main;PostgresMain;CommitTransaction;XLogFlush;LWLockAcquireOrWait;PGSemaphoreLock;{_KERNEL}"
ROW = f"main;PostgresMain;heap_update;XactLockTableWait;LockAcquire;ProcSleep;WaitLatch;epoll_wait;{_KERNEL}"
CLIENT = f"main;PostgresMain;secure_read;WaitEventSetWait;epoll_wait;{_KERNEL}"
IDLE = f"main;CheckpointerMain;WaitLatch;WaitEventSetWait;{_KERNEL}"
WAITS = {FLUSH: 2e6, ROW: 1e6, CLIENT: 5e7, IDLE: 9e6}


def result(folder: Path, **changes: object) -> ProfileResult:
    found = profile_result(profiled(folder, waits=WAITS, **changes))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        (FLUSH, "XLogFlush"),
        (ROW, "XactLockTableWait"),
        (CLIENT, None),
        (IDLE, None),
        (f"main;PostgresMain;mdreadv;FileReadV;pg_preadv;preadv64;{_KERNEL}", "mdreadv"),
        (f"main;PostgresMain;ExecHashJoin;asm_exc_page_fault_[k];{_KERNEL}", "ExecHashJoin"),
        ("main;ParallelWorkerMain;[libc.so.6];schedule_[k]", "ParallelWorkerMain"),
        ("schedule_[k]", None),
    ],
)
def test_who_waits_is_the_function_that_asked_for_what_all_wait_by(stack: str, name: str | None) -> None:
    assert waiter(stack) == name


def test_a_function_that_waits_longer_is_told_with_its_interval(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=12, factors={"XLogFlush": 1.5})
    assert {each.name for each in found.waiting} == {"XLogFlush", "XactLockTableWait"}
    flush = found.waiting[0]
    assert flush.name == "XLogFlush"
    control, arm = flush.arms
    assert control.us == pytest.approx(2e6 / TRANSACTIONS, rel=0.05)
    assert (arm.verdict, arm.ratio) == ("more", pytest.approx(1.5, abs=0.08))
    assert arm.interval is not None and arm.interval[0] is not None and arm.interval[0] > 1
    assert found.waiting[1].arms[1].verdict == "inconclusive"
    assert found.sentences[0].startswith("XLogFlush waits 49 % more [")
    assert "per transaction in io_method=method1" in found.sentences[0]
    assert not any("not known by function" in note for note in found.notes)


def test_equal_arms_have_no_wait_that_differs(tmp_path: Path) -> None:
    false = sum(bool(result(tmp_path / str(seed), rounds=10, seed=seed).sentences) for seed in range(20))
    assert false <= 3


def test_the_report_has_a_table_of_what_waits(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=12, factors={"XLogFlush": 1.5}, waits=WAITS)
    shown = " ".join(page_of(analyse(stored), stored).terminal(width=100, unicode=False).split())
    assert "Waiting per transaction by the function that waits, off the processor" in shown
    assert "waits in" in shown and "XactLockTableWait" in shown


def test_of_one_server_it_is_told_too() -> None:
    """Per statement, and of all such time; without it the profile says why there is none."""
    waits = {stack: int(us) for stack, us in WAITS.items()}
    sampled = one_server.Sampled({CLIENT: 997}, 0, 997, "cpu-clock", "frame pointers", None, waits, 13)
    found = one_server.profile_of(sampled, 1000, "statement")
    assert [(each.name, each.us, round(each.share, 3)) for each in found.waiting] == [
        ("XLogFlush", 2000.0, 0.667), ("XactLockTableWait", 1000.0, 0.333),
    ]  # fmt: skip
    assert not any("not known by function" in note for note in found.notes)
    shown = str(section_of(found, "here", None).blocks)
    assert "Waiting per statement by the function that waits" in shown and "XactLockTableWait" in shown
    without = one_server.Sampled({CLIENT: 997}, 0, 997, "cpu-clock", "unwound")
    none = one_server.profile_of(without, 1000, "statement")
    assert none.waiting == () and NOT_RECORDED["frames"] in none.notes
    assert "waiting" not in none.model_dump()


def test_nothing_that_waits_is_no_table_and_no_note(tmp_path: Path) -> None:
    found = profile_result(profiled(tmp_path, rounds=10, waits={CLIENT: 1e6}))
    assert found is not None
    assert found.waiting == ()
    assert not any("not known by function" in note for note in found.notes)


def test_what_could_not_be_recorded_is_said_once_it_was_asked_for() -> None:
    asked = ProfileFacts(switch_period=0, stacks="unwound")
    assert why_not_recorded([asked]) == NOT_RECORDED["frames"]
    assert why_not_recorded([asked.updated(stacks="frame pointers")]) == NOT_RECORDED["kernel"]
    assert why_not_recorded([ProfileFacts(stacks="unwound")]) == ""


def test_damage_is_told(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=10, waits=WAITS)
    assert stored.profile is not None
    place = stored.profile.trials[0].folder / layout.OBSERVATIONS_FOLDER / WAITS_FILE
    place.write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="is damaged"):
        profile_result(stored)
