"""Replication slots that hold more WAL than a server should keep, and what ends that."""

from collections.abc import Iterator, Mapping, Sequence

from pgassay.analysis.diagnosis.interval import ReplicationSlot
from pgassay.errors import UsageError
from pgassay.value_syntax.quantities import size_bytes
from pgassay.words import size

# What pg_replication_slots says of one whose WAL is beyond max_slot_wal_keep_size.
_LOST, _SOON_LOST = "lost", "unreserved"


def slots_that_hold(slots: Sequence[ReplicationSlot], settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence with the remedy for each that has lost WAL, soon loses it, or holds much for nobody."""
    for each in slots:
        drop = f"SELECT pg_drop_replication_slot('{each.name}');"
        if each.wal_status == _LOST:
            yield (
                f"The replication slot {each.name} has lost WAL that its consumer needs (wal_status lost): "
                f"make the consumer anew, and drop the slot: {drop}"
            )
            continue
        is_soon_lost = each.wal_status == _SOON_LOST
        held = size(each.held_bytes or 0.0)
        soon = ", which the next checkpoint may remove (wal_status unreserved)" if is_soon_lost else ""
        if each.is_active and is_soon_lost:
            yield (
                f"The replication slot {each.name} holds {held} of WAL{soon}: make its consumer faster, or "
                "raise max_slot_wal_keep_size."
            )
        elif not each.is_active and (is_soon_lost or _is_much(each, settings)):
            yield (
                f"The replication slot {each.name} has no consumer and holds {held} of WAL{soon}: start its "
                f"consumer, or drop the slot: {drop}"
            )


def _is_much(slot: ReplicationSlot, settings: Mapping[str, str]) -> bool:
    try:
        usual_bytes = size_bytes(settings.get("max_wal_size", ""), default_unit="MB")
    except UsageError:
        return False
    return (slot.held_bytes or 0.0) > usual_bytes
