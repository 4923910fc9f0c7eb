"""What other arms of an experiment say of a remedy, and where a predicted gain ends."""

from typing import Any

import pytest

from cause_samples import ELAPSED_S, FLOW, account, evidence, item, on_machine
from pgassay.analysis.causes.evidence import DeviceFlow, EvidenceCaps, Processors
from pgassay.analysis.causes.rank import gain_interval, trial_causes
from pgassay.analysis.causes.remedies import judged
from pgassay.model.cause import Cause
from pgassay.model.experiment import ArmCeiling
from pgassay.model.result import ArmResult
from pgassay.report.compare.causes import sentence

BASE = ArmResult(
    name="",
    levels={},
    ratio=1.0,
    interval=(1.0, 1.0),
    verdict="control",
    meaningful=False,
    trials=5,
    failures=0,
    median=1.0,
    values=(),
)


def arm(ratio: float, verdict: str = "control", half: float = 0.02, **levels: str) -> ArmResult:
    """An arm of these levels; its interval reaches `half` to both sides."""
    name = " ".join(f"{key}={value}" for key, value in levels.items())
    interval = (1.0, 1.0) if verdict == "control" else (ratio - half, ratio + half)
    found = {"name": name, "levels": levels, "ratio": ratio, "verdict": verdict, "interval": interval}
    return BASE.model_copy(update=found)


def spill(arm_name: str, cause: str = "temp-spill") -> Cause:
    return Cause(
        arm=arm_name,
        kind="fault",
        cause=cause,
        layer="infrastructure",
        seconds=1.0,
        share=0.4,
        gain_if_lifted=1.5,
        remedy="Raise work_mem, or sort and hash less.",
        trials=5,
        observed=5,
    )


def answer(arms: list[ArmResult], of: int = 0, cause: str = "temp-spill") -> Cause:
    return judged([spill(arms[of].name, cause)], arms)[0]


def test_a_remedy_that_another_arm_refutes_is_withdrawn() -> None:
    found = answer([arm(1.0, work_mem="4MB"), arm(0.9, "slower", work_mem="256MB")])
    assert found.remedy_status == "refuted"
    assert found.remedy == (
        "Raising work_mem did not help here: work_mem=256MB is 10 % slower than work_mem=4MB. "
        "Sort or hash less."
    )
    assert "up to" not in sentence(found, "work_mem=4MB"), "what did not come about is not promised"
    same = answer([arm(1.0, work_mem="4MB"), arm(1.001, "equivalent", work_mem="256MB")])
    assert same.remedy_status == "refuted"
    assert "work_mem=256MB is as fast as work_mem=4MB" in same.remedy


def test_the_advice_for_index_reads_outlives_a_setting_that_was_tried() -> None:
    arms = [arm(1.0, effective_io_concurrency="16"), arm(1.0, "equivalent", effective_io_concurrency="64")]
    cause = spill(arms[0].name, "storage-latency")
    advice = "Its index scans read one page after another: fetch fewer rows."
    of_index = cause.model_copy(update={"evidence": {"share_of_reads_by_index": 0.9}, "remedy": advice})
    found = judged([of_index], arms)[0]
    assert found.remedy_status == "refuted"
    assert found.remedy.startswith("Raising effective_io_concurrency did not help here")
    assert found.remedy.endswith(advice)
    assert advice not in judged([cause], arms)[0].remedy


def test_one_that_helped_is_proved_and_named() -> None:
    arms = [
        arm(1.0, work_mem="4MB"),
        arm(1.3, "faster", work_mem="64MB"),
        arm(0.9, "slower", work_mem="1GB"),
    ]
    found = answer(arms)
    assert found.remedy_status == "proved"
    assert found.remedy.endswith("It helped here: work_mem=64MB (is 30 % faster than work_mem=4MB).")
    # From 64 MB on, more was tried and was slower than that, which the two intervals tell.
    assert answer(arms, of=1).remedy_status == "refuted"
    # From the most, nothing more was tried.
    assert answer(arms, of=2).remedy_status == "not tried"


@pytest.mark.parametrize(
    ("arms", "status"),
    [
        ([arm(1.0, work_mem="64MB"), arm(1.2, "faster", work_mem="4MB")], "not tried"),
        ([arm(1.0, work_mem="4MB"), arm(1.0, "inconclusive", work_mem="64MB")], "not decided"),
        (
            [
                arm(1.0, work_mem="4MB"),
                arm(1.2, "faster", work_mem="64MB").model_copy(update={"withheld": True}),
            ],
            "not decided",
        ),
        # Two things changed at once: neither is proved.
        (
            [arm(1.0, work_mem="4MB", jit="on"), arm(1.2, "faster", work_mem="64MB", jit="off")],
            "not tried",
        ),
        ([arm(1.0, work_mem="4MB"), arm(1.2, "faster", work_mem="default")], "not tried"),
        # In units that differ 1 GB is more than 64 MB.
        ([arm(1.0, work_mem="64MB"), arm(1.2, "faster", work_mem="1GB")], "proved"),
        ([arm(1.0, work_mem="4MB"), arm(1.2, "faster", jit="off")], "not tried"),
    ],
    ids=["other way", "undecided", "withheld", "two factors", "no number", "units", "other factor"],
)
def test_what_counts_as_having_tried_it(arms: list[ArmResult], status: str) -> None:
    assert answer(arms).remedy_status == status


def test_a_word_as_a_remedy_and_a_cause_of_which_nothing_can_be_tried() -> None:
    arms = [arm(1.0, synchronous_commit="on"), arm(2.5, "faster", synchronous_commit="off")]
    assert answer(arms, cause="wal-fsync").remedy_status == "proved"
    assert answer(arms, of=1, cause="wal-fsync").remedy_status == "not tried"
    # It waits for the same flush here, and says nothing of not waiting for it.
    alike = [arm(1.0, synchronous_commit="on"), arm(1.0, "equivalent", synchronous_commit="local")]
    assert answer(alike, cause="wal-fsync").remedy_status == "not tried"
    assert answer(arms, cause="row-locks").remedy_status is None
    assert judged([spill("no such arm")], arms)[0].remedy_status is None


FEW_WORKERS: dict[str, Any] = {
    "read_s": 5.6,
    "cpu_s": 2.0,
    "device": FLOW,
    "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=9000),
    "accounts": {
        "backend": account("backend"),
        "io worker": account("io worker", item("wait", 29.5, "IO:DataFileRead"), threads=3),
    },
}


def test_a_gain_ends_where_the_processors_are_full_whoever_uses_them() -> None:
    """1.94 of 2 processors are busy, 0.88 with the work: 2.27 times by the waits, 1.14 by half of them."""
    found = evidence(**FEW_WORKERS, processors=Processors(2.0, 20.0, 8.8, 10.6))
    limit = trial_causes(found).limit
    assert limit is not None
    assert limit[0].cause == "too-few-io-workers"
    assert limit[1].gain == pytest.approx(10 / 8.8)
    assert limit[1].next_limit == "the machine's processors"
    fewer = trial_causes(on_machine(found, processors=Processors(2.0, 20.0, 8.8, 4.0))).limit
    assert fewer is not None
    assert fewer[1].gain == pytest.approx((20 - 4) / 8.8)
    idle = trial_causes(on_machine(found, processors=Processors(64.0, 640.0, 8.8, 10.6))).limit
    assert idle is not None
    assert idle[1].gain == pytest.approx(10 / 4.4)
    assert idle[1].next_limit == ""


def test_a_gain_ends_at_the_device_s_other_ceiling() -> None:
    planted: dict[str, Any] = {
        "read_s": 9.0,
        "cpu_s": 0.5,
        "device": DeviceFlow(3e9, 300.0, 98.0, ELAPSED_S, 0.4),
        "ceiling": ArmCeiling(read_mb_s=500.0, read_iops=100),
    }
    limit = trial_causes(evidence(**planted)).limit
    assert limit is not None
    assert limit[0].cause == "storage-iops"
    assert limit[1].gain == pytest.approx(500 / 300)
    assert limit[1].next_limit == "the bandwidth of its storage"
    # Read for half of the time only, it has room for twice as much.
    half = on_machine(evidence(**planted), device=DeviceFlow(1.5e9, 300.0, 98.0, ELAPSED_S / 2, 0.4))
    again = trial_causes(half).limit
    assert again is not None
    assert again[1].gain == pytest.approx(2 * 500 / 300)


def test_scans_that_need_not_read_are_not_bounded_by_the_device() -> None:
    waiting = {"row_lock_s": 8.0, "device": FLOW, "ceiling": ArmCeiling(read_mb_s=32.0, read_iops=1e6)}
    limit = trial_causes(evidence(**waiting)).limit
    assert limit is not None
    assert (limit[0].cause, limit[1].gain) == ("row-locks", pytest.approx(2.0))
    memory = {
        "read_s": 9.9,
        "device": FLOW,
        "ceiling": ArmCeiling(read_mb_s=32.0, read_iops=1e6),
        "group": {"workingset_refault_file": 39_000.0},
        "caps": EvidenceCaps(memory_bytes=64 << 20),
    }
    faults = trial_causes(evidence(**memory)).faults
    gains = {rule.cause: found.gain for rule, found in faults}
    assert gains["memory"] is not None
    assert gains["memory"] > 10


def test_an_interval_of_gains_ends_at_the_bound() -> None:
    wide = gain_interval(1.1, [1.05, 1.1, 1.4])
    assert wide is not None
    assert wide[1] > 1.5
    bounded = gain_interval(1.1, [1.05, 1.1, 1.4], 1.45)
    assert bounded is not None
    assert bounded[1] == pytest.approx(1.45)
    assert bounded[0] == wide[0]


def test_a_sentence_names_the_next_limit() -> None:
    cause = spill("a").model_copy(update={"next_limit": "the machine's processors"})
    assert "up to about 1.5 × as fast, then limited by the machine's processors." in sentence(cause, "a")
    full = cause.model_copy(update={"gain_if_lifted": 1.0})
    assert "without that, the machine's processors would limit it just as much" in sentence(full, "a")


@pytest.mark.parametrize(
    "cause", ["storage-iops", "backend-writes", "extension", "wal-insert", "checkpoint-wait"]
)
def test_a_measured_gain_replaces_the_predicted_one(cause: str) -> None:
    """An arm with more IOPS is 91 % faster where 10 % were predicted: both are said, and nobody else's is."""
    slow, fast = arm(1.0, storage="small"), arm(1.91, "faster", 0.3, storage="large")
    third = arm(0.99, "equivalent", work_mem="64MB", storage="small")
    iops = spill(slow.name, cause).model_copy(
        update={"kind": "limit", "gain_if_lifted": 1.1, "gain_interval": (1.05, 1.19)}
    )
    other = spill(third.name, "backend-core")
    found, withdrawn = judged([iops, other], [slow, fast, third])
    assert (found.gain_if_lifted, found.gain_predicted, found.lifted_by) == (1.91, 1.1, "storage=large")
    assert found.gain_interval == pytest.approx((1.61, 2.21))
    said = sentence(found, "storage=small")
    assert "with storage=large it is 1.91 × as fast" in said
    assert "where 10 % faster had been predicted" in said
    assert "up to about" not in said
    assert withdrawn.gain_if_lifted is None


def test_a_prediction_that_held_leaves_the_others_alone() -> None:
    slow, fast = arm(1.0, storage="small"), arm(1.5, "faster", 0.1, storage="large")
    iops = spill(slow.name, "storage-iops").model_copy(update={"kind": "limit", "gain_if_lifted": 1.45})
    other = spill(fast.name, "backend-core")
    found, kept = judged([iops, other], [slow, fast])
    assert found.lifted_by == "storage=large"
    assert "predicted" not in sentence(found, "storage=small")
    assert kept.gain_if_lifted == 1.5


def test_an_arm_that_has_the_limit_still_did_not_lift_it() -> None:
    slow, fast = arm(1.0, storage="small"), arm(1.05, "faster", 0.01, storage="middle")
    causes = [spill(each.name, "storage-iops") for each in (slow, fast)]
    found = judged(causes, [slow, fast])
    assert [each.lifted_by for each in found] == [None, None]
    assert found[0].gain_if_lifted == 1.5


def test_what_only_relieved_a_limit_refutes_a_smaller_prediction_all_the_same() -> None:
    """ "Up to about 10 % faster" beside an arm of more IOPS at +91 %, which IOPS limit as well."""
    slow, fast = arm(1.0, storage="small"), arm(1.91, "faster", 0.1, storage="large")
    causes = [
        spill(each.name, "storage-iops").model_copy(
            update={"gain_if_lifted": 1.1, "gain_interval": (1.05, 1.19)}
        )
        for each in (slow, fast)
    ]
    refuted, withdrawn = judged(causes, [slow, fast])
    assert (refuted.gain_if_lifted, refuted.lifted_by) == (1.91, "storage=large")
    assert "where 10 % faster had been predicted" in sentence(refuted, "small")
    assert withdrawn.gain_if_lifted is None


def test_a_prediction_that_missed_between_two_arms_beside_the_control_is_told_too() -> None:
    """Neither is the control, so there is no interval of one over the other: the gain itself is judged."""
    control = arm(1.0, storage="none")
    slow, fast = arm(2.0, "faster", storage="small"), arm(3.8, "faster", storage="large")
    iops = spill(slow.name, "storage-iops").model_copy(update={"kind": "limit", "gain_if_lifted": 1.1})
    other = spill(control.name, "backend-core")
    found, withdrawn = judged([iops, other], [control, slow, fast])
    assert found.lifted_by == "storage=large"
    assert found.gain_if_lifted == pytest.approx(1.9)
    assert found.gain_interval is None
    assert "with storage=large it is 1.9 × as fast, where 10 % faster had been" in sentence(found, "small")
    assert withdrawn.gain_if_lifted is None
    held = iops.model_copy(update={"gain_if_lifted": 1.9})
    again, kept = judged([held, other], [control, slow, fast])
    assert "predicted" not in sentence(again, "small")
    assert kept.gain_if_lifted == 1.5


def lesser(share: float, of: str, cause: str = "wal-fsync") -> Cause:
    found = spill(of, cause)
    return found.model_copy(update={"kind": "limit", "share": share, "gain_if_lifted": 1.25})


def limit(of: str, cause: str) -> Cause:
    found = spill(of, cause)
    return found.model_copy(update={"kind": "limit", "gain_if_lifted": None, "remedy": "Look."})


SLOW = arm(1.0, synchronous_commit="on")
FAST = arm(2.5, "faster", synchronous_commit="off")


def test_what_another_arm_lifted_is_the_limit_where_none_was_known() -> None:
    causes = [limit(SLOW.name, "unknown"), limit(FAST.name, "unknown")]
    found = judged(causes, [SLOW, FAST], [lesser(0.2, SLOW.name)])
    assert [(cause.arm, cause.kind, cause.cause) for cause in found] == [
        (SLOW.name, "limit", "wal-fsync"),
        (FAST.name, "limit", "unknown"),
    ]
    assert (found[0].lifted_by, found[0].remedy_status) == ("synchronous_commit=off", "proved")
    assert (found[0].gain_if_lifted, found[0].gain_predicted) == (2.5, 1.25)
    assert "with synchronous_commit=off it is 2.5 × as fast" in sentence(found[0], "on")


def test_beside_another_limit_it_is_told_too() -> None:
    arms = [arm(1.0, shared_buffers="2MB"), arm(1.6, "faster", shared_buffers="512MB")]
    causes = [limit(each.name, "wal-fsync") for each in arms]
    found = judged(causes, arms, [lesser(0.25, arms[0].name, "backend-writes")])
    assert [(cause.kind, cause.cause) for cause in found] == [
        ("limit", "wal-fsync"),
        ("fault", "backend-writes"),
        ("limit", "wal-fsync"),
    ]
    assert sentence(found[1], "2MB").startswith("2MB: writing out pages of shared buffers to make room:")
    assert "with shared_buffers=512MB it is 1.6 × as fast" in sentence(found[1], "2MB")


@pytest.mark.parametrize(
    ("other", "left"),
    [
        (arm(0.8, "slower", synchronous_commit="off"), ()),
        (arm(1.6, "inconclusive", synchronous_commit="off"), ()),
        (FAST, (lesser(0.15, FAST.name),)),
        (arm(2.5, "faster", synchronous_commit="local"), ()),
    ],
    ids=["slower", "undecided", "it is there too", "no remedy"],
)
def test_what_no_arm_lifted_stays_unsaid(other: ArmResult, left: tuple[Cause, ...]) -> None:
    causes = [limit(SLOW.name, "unknown"), limit(other.name, "unknown")]
    found = judged(causes, [SLOW, other], [lesser(0.2, SLOW.name), *left])
    assert [cause.cause for cause in found] == ["unknown", "unknown"]
