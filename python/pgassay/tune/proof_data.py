"""The proof's data from the search's copy, where its arms share one server: no index is built a second time.

What the search executed on the copy was rolled back; the few dead rows that this leaves are in all arms
alike.
"""

import psycopg

from pgassay.environment.datasets import OnStage, relation_facts, snapshots
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy


def hand_over(copy: TrialCopy, members: list[Candidate], on_stage: OnStage) -> ArmSpec | None:
    """Leave the copy's data with the members' indexes to the proof's arms; the copy is of no more use.

    Returns the arm whose data these are; None where they can't be had so, and are made anew for the proof.
    """
    base = copy.spec
    spec = base.model_copy(
        update={"prepare": (*base.prepare, *(sql for each in members for sql in each.sql))}
    )
    if not spec.prepare[len(base.prepare) :]:
        return None
    on_stage("leaving the indexes to the proof", None)
    try:
        copy.align(members)
        copy.drop_hidden()
        relations = relation_facts(copy.server, copy.snapshot.database)
        data = copy.give_away()
        snapshots.adopt(spec.build, spec.dataset, spec.prepare, data, copy.snapshot, relations)
    except (UsageError, MeasurementError, psycopg.Error, OSError):
        return None
    return spec
