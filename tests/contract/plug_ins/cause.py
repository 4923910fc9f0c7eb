"""Toys on the floor: a fault that every trial has."""

from pgassay.analysis.causes.base import Answer, Found, Rule
from pgassay.analysis.causes.evidence import Evidence


def _toys(_evidence: Evidence) -> Answer:
    return Found(seconds=None, figures={"toys": 3.0})


TOYS = Rule(
    cause="toys-on-the-floor",
    kind="fault",
    layer="operations",
    phrase="toys lay on the floor",
    remedy="Put the toys into their box, and look again.",
    next_step="Count the toys on the floor.",
    find=_toys,
)
