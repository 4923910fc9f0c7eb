"""Why a workload was slow, as its answer says it, and what was seen of statements without a proof."""

import pytest

import tune_samples as samples
from pgassay.model.tuning.tune_answer import FixStatement, TuneCause
from pgassay.tune.answer.by_statement import answers, with_what_was_seen
from pgassay.tune.answer.verdicts import _write_ratio, ranked
from pgassay.tune.search.selection import Tried
from pgassay.tune.symptom import told_cause


def test_a_plans_finding_says_more_than_a_busy_processor() -> None:
    busy = TuneCause(layer="design", cause="backend-core", sentence="16% of the time")
    disk = TuneCause(layer="infrastructure", cause="storage-iops", sentence="60% of the time")
    removed = TuneCause(layer="design", cause="rows-removed", sentence="threw 99 % of them away")
    work = TuneCause(layer="design", cause="work", sentence="list: Sort")
    assert told_cause(busy, removed) is removed
    assert told_cause(busy.model_copy(update={"cause": "cpu-quota"}), removed) is removed
    assert told_cause(busy, work) is busy
    assert told_cause(disk, removed) is disk
    assert told_cause(None, work) is work


def test_what_was_seen_to_help_says_why_it_was_slow_and_is_told_with_its_statement() -> None:
    """One that was tried and left out of the proof: its statement has its gain, and the cause is its own."""
    searched = samples.searched(tried={"index:useless": Tried("index:useless", {"list": 0.001})})
    known = samples.of_one(**searched)
    (fix,) = ranked(known)
    busy = TuneCause(layer="design", cause="cpu-quota", sentence="52% of the time")
    assert told_cause(busy, busy, (fix,)).sentence == f"list: {fix.reason}"
    before = answers(known.baseline, {}, (), {}, (fix,), None)
    seen = {each.name: each for each in with_what_was_seen(before, (fix,))}
    assert (seen["list"].fixes, seen["list"].verdict) == (("index:useless",), "measured once")
    assert seen["list"].seconds_after == pytest.approx(0.001) and seen["report"].ratio is None
    # An interval of the proof is of a set without that fix.
    proven = [each.model_copy(update={"interval": (0.2, 4.7)}) for each in before]
    assert {each.name: each.interval for each in with_what_was_seen(proven, (fix,))}["list"] is None


def test_the_reason_is_told_of_the_statement_whose_plan_it_is_of() -> None:
    """An index may gain most by another statement than the one whose plan said what was missing."""
    searched = samples.searched(tried={"index:useless": Tried("index:useless", {"list": 0.001})})
    (fix,) = ranked(samples.of_one(**searched))
    of_report = fix.model_copy(update={"reason_of": "report"})
    busy = TuneCause(layer="design", cause="cpu-quota", sentence="52% of the time")
    assert told_cause(busy, busy, (of_report,)).sentence == f"report: {fix.reason}"


@pytest.mark.parametrize(
    ("ends", "is_told"),
    [((1.1, 40.0), True), ((0.1, 0.9), True), ((0.9, 1.1), True), ((0.0001, 17_741.0), False), (None, True)],
)
def test_noise_is_not_told_as_what_writes_cost(ends: tuple[float, float] | None, is_told: bool) -> None:
    known = samples.judged()
    place = FixStatement(name="place", ratio=1.97, interval=ends)
    assert (_write_ratio(known.baseline, (place,), ()) is not None) is is_told
