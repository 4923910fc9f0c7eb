"""Why a workload was slow, as its answer says it, and what was seen of statements without a proof."""

import pytest

import tune_samples as samples
from pgassay.model.tuning.tune_answer import TuneCause
from pgassay.tune.answer.by_statement import answers, with_what_was_seen
from pgassay.tune.answer.verdicts import ranked
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
