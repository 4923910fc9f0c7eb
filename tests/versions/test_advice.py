"""Remedies that arise from the evidence name only what the server's version has."""

import re
from typing import Any

import pytest
from planted_for_tests import FAULTS, LIMITS

from cause_samples import evidence
from pgassay.analysis.causes.rank import trial_causes
from versions import facts

PLANTED = LIMITS | FAULTS
EVERY = frozenset().union(*(found.names for found in facts.recorded().values()))
# Causes that no server of an older version can have.
ARISES_SINCE = {"too-few-io-workers": 18, "too-many-io-workers": 18, "no-aio": 18}
# What has a size of its own from 17 on.
SLRU_SETTINGS = {
    "SubtransBuffer": {"subtransaction_buffers"},
    "MultiXactOffsetSLRU": {"multixact_offset_buffers", "multixact_member_buffers"},
    "MultiXactMemberBuffer": {"multixact_offset_buffers", "multixact_member_buffers"},
    "NotifySLRU": {"notify_buffers"},
    "SerialBuffer": {"serializable_buffers"},
    "CommitTsSLRU": {"commit_timestamp_buffers"},
    "XactSLRU": {"transaction_buffers"},
}


def remedies(major: int, planted: dict[str, Any]) -> dict[str, str]:
    """What is advised for each cause that is found, as a reader sees it."""
    causes = trial_causes(evidence(**planted, version=f"{major}.1"))
    found = [*causes.faults, *([causes.limit] if causes.limit else [])]
    return {rule.cause: answer.remedy or rule.remedy for rule, answer in found}


def lacking(sentence: str, major: int) -> set[str]:
    """The names in it that other versions have and this one has not, but for those said to be newer."""
    named = EVERY.intersection(facts.WORD.findall(sentence)) - facts.recorded()[major].names
    since = rf" (?:\(|from |needs PostgreSQL )\d\d| \(\w+ from {major} on\)"
    return {word for word in named if not re.search(word + since, sentence)}


@pytest.mark.parametrize("major", facts.MAJORS)
@pytest.mark.parametrize("cause", PLANTED)
def test_what_is_advised_is_there(cause: str, major: int) -> None:
    if major < ARISES_SINCE.get(cause, facts.OLDEST):
        return
    found = remedies(major, PLANTED[cause][0])
    assert cause in found
    assert {
        name: lacking(sentence, major) for name, sentence in found.items() if lacking(sentence, major)
    } == {}


@pytest.mark.parametrize("major", facts.MAJORS)
@pytest.mark.parametrize("event", SLRU_SETTINGS)
def test_caches_of_a_status_are_made_larger_where_a_setting_has_their_size(event: str, major: int) -> None:
    waits = {"writing": {"slru": {event: 39.0, "SlruRead": 1.0}}, "total_s": 80.0}
    sentence = remedies(major, waits)["slru"]
    named = {word for word in facts.WORD.findall(sentence) if word.endswith("_buffers")}
    assert named == (SLRU_SETTINGS[event] if major >= 17 else set())
    assert named <= facts.recorded()[major].settings.keys() and not lacking(sentence, major)


def test_a_name_that_is_lacking_would_be_noticed() -> None:
    assert lacking("Raise io_combine_limit.", 16) == {"io_combine_limit"}
    assert not lacking("Raise io_combine_limit.", 17)
    assert not lacking("Raise io_workers (io_max_workers from 19 on).", 19)
    assert lacking("Raise io_workers (io_max_workers from 19 on).", 17) == {"io_workers"}
