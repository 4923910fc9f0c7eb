"""Replication slots that hold WAL, as a diagnosis tells them."""

from pathlib import Path

import pytest
from running_server.test_diagnosis_headline import interval

from pgassay.analysis.diagnosis.diagnose import diagnose, slots_that_hold
from pgassay.analysis.diagnosis.interval import ReplicationSlot
from pgassay.report.diagnosis import diagnosis_page as report

MB = 1024**2
SETTINGS = {"max_wal_size": "64MB"}
DROP = "SELECT pg_drop_replication_slot('spare');"


@pytest.mark.parametrize(
    ("active", "wal_status", "held", "told"),
    [
        (False, "extended", 365 * MB, f"holds 365 MB of WAL: start its consumer, or drop the slot: {DROP}"),
        (False, "unreserved", 30 * MB, "which the next checkpoint may remove (wal_status unreserved): start"),
        (True, "unreserved", 365 * MB, "make its consumer faster, or raise max_slot_wal_keep_size."),
        (False, "lost", None, f"set the consumer up again, and drop the slot: {DROP}"),
        # One whose consumer is away for a moment, one that lags, one that was never used.
        (False, "reserved", 10 * MB, ""),
        (True, "extended", 365 * MB, ""),
        (False, "", None, ""),
    ],
)
def test_a_slot_that_holds_wal_is_told_with_its_remedy(
    active: bool, wal_status: str, held: float | None, told: str
) -> None:
    slot = ReplicationSlot("spare", active, wal_status, held)
    said = list(slots_that_hold((slot,), SETTINGS))
    assert len(said) == bool(told)
    assert not told or (told in said[0] and "spare" in said[0])


def test_it_is_among_what_to_check_next(tmp_path: Path) -> None:
    slot = ReplicationSlot("spare", False, "extended", 365.0 * MB)
    found = diagnose(interval(folder=tmp_path, slots=(slot,), settings=SETTINGS))
    assert "spare has no consumer and holds 365 MB" in " ".join(report.page_of(found).terminal().split())
