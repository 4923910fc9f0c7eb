"""Causes and explanations as sentences in every report: figures, remedies, hostile names."""

from typing import Any

import pytest

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.cause import Cause, Explanation, MovedItem
from pgassay.model.result import CompareResult
from pgassay.report.compare import page as comparison
from pgassay.report.compare.causes import cause_rows, difference_sentences

LIMIT = Cause(
    arm="io_method=sync",
    kind="limit",
    cause="storage-throughput",
    layer="infrastructure",
    seconds=1.477,
    share=0.9083,
    evidence={"read_mb_s": 16.52, "read_bytes": 2.0**20, "ceiling_from": "limit"},
    gain_if_lifted=10.9,
    remedy="Read fewer bytes.",
    trials=3,
    observed=4,
)
FAULT = LIMIT.model_copy(
    update={"kind": "fault", "cause": "checkpoint", "seconds": None, "share": None, "gain_if_lifted": None}
)
MOVED = Explanation(
    arm="io_method=worker",
    control="io_method=sync",
    moved=(
        MovedItem(process="connections", item="waiting for reads", seconds=-0.41, interval=(-0.5, -0.3)),
        MovedItem(process="I/O workers", item="on CPU", seconds=0.38, interval=(0.3, None)),
    ),
)


def result(*causes: Cause, **changes: Any) -> CompareResult:
    analysed = analyse(examples.stored(levels=["sync", "worker"], blocks=2))
    return analysed.model_copy(update={"causes": causes, **changes})


def test_a_limit_says_what_how_much_and_in_how_many_trials() -> None:
    row = cause_rows(result(LIMIT))[0]
    assert row.sentence == (
        "io_method=sync was limited by the bandwidth of its storage: 1.477 s, 90.8 % of its time; "
        "without that it could be up to about 10.9 × as fast (in 3 of 4 trials). Read fewer bytes."
    )
    other = LIMIT.model_copy(update={"arm": "io_method=worker"})
    assert "Read fewer" not in cause_rows(result(LIMIT, other))[1].sentence, "said once"
    assert row.figures == "read_mb_s 16.5, read_bytes 1.00 MB, ceiling_from limit"


@pytest.mark.parametrize(
    ("gain", "interval", "words"),
    [
        (1.86, (1.7, 1.95), "up to about 1.86 × as fast (95 % interval: between 1.7 and 1.95 × as fast)"),
        (
            2.28,
            (1.4, 3.1),
            "up to about 2.28 × as fast (95 % interval: between 1.4 and 3.1 × as fast)",
        ),
        (1.3, (1.0, 2.5), "up to about 30 % faster (95 % interval: at most 2.5 × as fast)"),
        (1.3, (1.0, 40.0), "up to about 30 % faster (too few trials for an interval)"),
        (1.3, (1.299, 1.301), "up to about 30 % faster (in 3 of 4 trials)"),
        (1.3, None, "up to about 30 % faster (in 3 of 4 trials)"),
    ],
)
def test_a_predicted_gain_is_told_with_its_interval(
    gain: float, interval: tuple[float, float] | None, words: str
) -> None:
    cause = LIMIT.model_copy(update={"gain_if_lifted": gain, "gain_interval": interval})
    assert words in cause_rows(result(cause))[0].sentence


def test_a_gain_that_the_record_leaves_open_is_told_by_its_ends() -> None:
    open_ends = LIMIT.model_copy(
        update={"gain_if_lifted": 4.3, "gain_interval": (3.2, 5.8), "gain_range": (3.2, 5.8)}
    )
    told = cause_rows(result(open_ends))[0].sentence
    assert "could be about 4.3 × as fast (between 3.2 and 5.8 × as fast: the record can't say" in told
    measured = {"gain_predicted": 4.3, "lifted_by": "storage=large"}
    hit = open_ends.model_copy(update=measured | {"gain_if_lifted": 3.6, "gain_interval": (3.4, 3.8)})
    assert "predicted" not in cause_rows(result(hit))[0].sentence
    missed = open_ends.model_copy(update=measured | {"gain_if_lifted": 9.0, "gain_interval": (8.0, 10.0)})
    assert "where between 3.2 and 5.8 × as fast had been predicted" in cause_rows(result(missed))[0].sentence


def test_of_many_arms_each_cause_is_told_once() -> None:
    many = [LIMIT.model_copy(update={"arm": f"arm {number}"}) for number in range(15)]
    rows = cause_rows(result(*many, FAULT, FAULT))
    assert [(row.kind, row.cause) for row in rows] == [
        ("limit", "storage-throughput"),
        ("fault", "checkpoint"),
    ]
    assert rows[0].sentence.startswith("15 arms were limited by the bandwidth of its storage: arm 0; arm 1;")
    assert "and 9 more" in rows[0].sentence
    assert rows[1].sentence.startswith("In 2 arms checkpoints came")


def test_a_fault_without_seconds_makes_none_up() -> None:
    row = cause_rows(result(FAULT))[0]
    assert row.sentence.startswith("io_method=sync: checkpoints came")
    assert "time" not in row.sentence


def test_a_difference_is_told_with_the_verdict_and_intervals() -> None:
    bare = result(explanations=(MOVED,))
    arms = tuple(
        arm.model_copy(update={"verdict": "faster", "ratio": 1.21}) if arm.verdict != "control" else arm
        for arm in bare.arms
    )
    told = difference_sentences(bare.model_copy(update={"arms": arms}))
    assert told == (
        "io_method=worker is 21 % faster than io_method=sync: connections waiting for reads −410 ms "
        "(−500 ms to −300 ms); I/O workers on CPU +380 ms (+300 ms to ?).",
    )
    undecided = tuple(arm.model_copy(update={"withheld": True}) for arm in arms)
    assert difference_sentences(bare.model_copy(update={"arms": undecided}))[0].startswith("Between ")


def test_every_report_says_it_and_shows_hostile_names_harmlessly() -> None:
    hostile = LIMIT.model_copy(update={"arm": examples.HOSTILE, "evidence": {"compared": examples.HOSTILE}})
    stored = examples.stored(levels=["sync", "worker"], blocks=2)
    found = result(LIMIT, hostile, FAULT, explanations=(MOVED,))
    page = comparison.page_of(found, stored).html()
    assert "limited by the bandwidth of its storage" in page
    assert 'id="causes"' in page
    assert "<script>alert" not in page
    text = comparison.page_of(found, stored).markdown()
    assert "limited by the bandwidth" in text
    assert "<script>" not in text
    shown = comparison.page_of(found, stored).terminal(width=100, unicode=False)
    assert "storage-throughput" not in shown, "a sentence says it"
    assert "limited by the bandwidth" in " ".join(shown.split())
    assert shown.isascii()


@pytest.mark.parametrize("what", [(), (LIMIT.model_copy(update={"observed": 0, "trials": 0}),)])
def test_nothing_is_said_where_nothing_was_observed(what: tuple[Cause, ...]) -> None:
    assert cause_rows(result(*what)) == ()
    assert "Why:" not in comparison.page_of(result(*what), examples.stored(blocks=2)).terminal(
        width=100, unicode=False
    )


def test_a_gain_of_the_least_is_told_as_such() -> None:
    noise = LIMIT.model_copy(update={"kind": "fault", "cause": "noise", "gain_if_lifted": 1.4})
    assert "without that it could be at least about 40 % faster" in cause_rows(result(noise))[0].sentence


def decided(*causes: Cause, verdict: str = "faster") -> str:
    """The first lines of a comparison of which the arm with workers is decided."""
    bare = result(*causes)
    arms = tuple(
        each.model_copy(update={"verdict": verdict, "ratio": 1.21}) if each.verdict != "control" else each
        for each in bare.arms
    )
    found = bare.model_copy(update={"arms": arms})
    stored = examples.stored(levels=["sync", "worker"], blocks=2)
    lines = comparison.brief_page(found, stored).terminal(width=200, unicode=True).splitlines()
    return "\n".join(lines[:5])


def test_the_first_lines_say_why_in_a_short_sentence() -> None:
    control = result().control
    limit = LIMIT.model_copy(update={"arm": control})
    assert f"Why: {control} was limited by the bandwidth of its storage (91 % of its time)." in decided(limit)
    proved = FAULT.model_copy(
        update={"arm": control, "cause": "backend-writes", "share": 0.25, "lifted_by": "shared_buffers=512MB"}
    )
    assert (
        f"Why: {control} was held back by writing out pages of shared buffers to make room "
        "(25 % of its time), which shared_buffers=512MB lifts."
    ) in decided(limit, proved)
    assert "Why:" not in decided(limit.model_copy(update={"cause": "unknown"}))
    assert "Why:" not in decided(limit, verdict="inconclusive")
    assert "Why:" not in decided(limit.model_copy(update={"arm": "io_method=worker"})), "it is the faster one"
