"""The one thing to do of a diagnosis, and the command to type next."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgassay.analysis.diagnosis.headline import ON_PRIMARY, headline
from pgassay.analysis.diagnosis.interval import Cost, Interval
from pgassay.model.cause import Cause, CauseKind, Layer
from pgassay.model.running_server.diagnosis import DiagnosedServer

S = 1_000_000_000
SERVER = DiagnosedServer(
    name="db:5432/shop", version="18.4", role="me", is_local=True, is_standby=False, postmaster_pid=70,
    data_directory="/data", device="sda",
)  # fmt: skip


def interval(**changes: Any) -> Interval:
    """Thirty seconds of a server."""
    base = Interval(
        server=SERVER, folder=Path("/nowhere"), started_at="2026-03-01T12:00:00.000+00:00", begin_ns=0,
        end_ns=30 * S, seconds_asked=30, interrupted=False, is_hidden=False,
        cost=Cost(0.01, 0.02, 0.03, 10, 100, 0), samples=(), counters={}, settings={},
    )  # fmt: skip
    return replace(base, **changes)


def cause(
    name: str, kind: CauseKind = "fault", layer: Layer = "operations", **evidence: float | str
) -> Cause:
    """One that half of the time goes to."""
    return Cause(
        arm="db", kind=kind, cause=name, layer=layer, seconds=5.0, share=0.5, evidence=evidence,
        gain_if_lifted=None, remedy="Do it.", trials=1, observed=1,
    )  # fmt: skip


UNKNOWN = cause("unknown", "limit", "measurement")


@pytest.mark.parametrize(
    ("holder", "seen_in"),
    [
        # Idle in transaction after a write at READ COMMITTED: no snapshot, but a number.
        ("session process 7 (app)", "WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL ORDER"),
        ("prepared transaction x17", "FROM pg_prepared_xacts"),
        ("standby process 9 (reports)", "FROM pg_stat_replication"),
        ("replication slot spare", "FROM pg_replication_slots"),
    ],
)
def test_who_holds_dead_rows_is_looked_up_where_he_is_seen(holder: str, seen_in: str) -> None:
    held = cause("bloat-held", held_by=holder, table="public.t", transactions_since=9.0)
    told = headline(interval(), [UNKNOWN, held], [], [])
    assert told.sentence.casefold().startswith(holder.removeprefix("session "))
    assert seen_in in told.command


@pytest.mark.parametrize(
    ("has", "wal_bytes", "told"),
    [
        # Twice the WAL of five minutes: 10 MB/s are 3 GB.
        ("1GB", 3e8, "8GB"),
        # A standby counts no WAL of its own, and its restartpoints come because of the primary's.
        ("10GB", None, "32GB"),
        ("1GB", None, "2GB"),
    ],
)
def test_max_wal_size_is_never_lowered(has: str, wal_bytes: float | None, told: str) -> None:
    fault = cause("checkpoint", seconds_between=7.0, max_wal_size=has)
    counters = {} if wal_bytes is None else {"pg_stat_wal": [{"wal_bytes": wal_bytes}]}
    seen = interval(settings={"max_wal_size": has}, counters=counters)
    sql = headline(seen, [UNKNOWN, fault], [], []).sql
    assert sql == f"ALTER SYSTEM SET max_wal_size = '{told}'; SELECT pg_reload_conf();"


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        # Of 8 kB each: 78 MB of 100 MB, less what their holes save.
        ({"wal_bytes": 1e8, "wal_fpi": 9521}, "; up to 78 % of the WAL is pages written whole after one"),
        # 19 counts their bytes.
        ({"wal_bytes": 1e8, "wal_fpi": 9521, "wal_fpi_bytes": 6e7}, "; 60 % of the WAL is pages"),
        ({"wal_bytes": 1e8, "wal_fpi": 99_521}, "; up to 100 % of the WAL is pages"),
        ({"wal_bytes": 1e8, "wal_fpi": 0}, ", one every 7 s: 50 %"),
        (None, ", one every 7 s: 50 %"),
    ],
)
def test_checkpoints_are_told_with_what_they_cost(counted: dict[str, float] | None, told: str) -> None:
    fault = cause("checkpoint", seconds_between=7.0, max_wal_size="64MB")
    seen = interval(counters={"pg_stat_wal": [counted]} if counted else {}, settings={"block_size": "8192"})
    found = headline(seen, [UNKNOWN, fault], [], [])
    assert told in found.sentence
    # The SQL mends it: then it is looked at again.
    assert found.command.startswith("pgassay diagnose ")


def test_sql_that_a_standby_refuses_is_for_its_primary() -> None:
    standby = interval(
        server=SERVER.model_copy(update={"is_standby": True}), settings={"max_wal_size": "1GB"}
    )
    bloat = cause("bloat", table="public.t", pages=9.0)
    wal = cause("checkpoint", seconds_between=7.0, max_wal_size="1GB")
    assert headline(standby, [UNKNOWN, bloat], [], []).remedy == f"Do it. {ON_PRIMARY}"
    assert headline(replace(standby, is_hidden=True), [UNKNOWN], [], []).remedy.endswith(ON_PRIMARY), "GRANT"
    assert headline(interval(), [UNKNOWN, bloat], [], []).remedy == "Do it."
    # ALTER SYSTEM is each server's own.
    assert headline(standby, [UNKNOWN, wal], [], []).remedy == "Do it."


def test_of_a_bloated_index_the_index_alone_is_made_anew() -> None:
    """The SQL was VACUUM (FULL) of its table, which locks it, below a remedy that says REINDEX."""
    figures = {"index": "Orders_k", "index_pages": 9000.0, "index_pages_needed": 2000.0}
    fault = cause("bloat", table="public.orders", pages=16_000.0, pages_needed=15_874.0, **figures)
    told = headline(interval(), [UNKNOWN, fault], [], [])
    assert told.sql == 'REINDEX INDEX CONCURRENTLY "Orders_k";'
    assert "the index Orders_k of public.orders has 9,000 pages for entries that fill 2,000" in told.sentence
    assert '$index$"Orders_k"$index$::regclass' in told.command


@pytest.mark.parametrize(
    ("limit", "limit_share", "fault", "fault_share", "leads"),
    [
        # Waiting for WAL at 51 % came behind a queue for processors of 28 %.
        ("wal-fsync", 0.51, "noise", 0.28, False),
        ("wal-fsync", 0.26, "noise", 0.28, True),
        ("all-cores", 0.6, "noise", 0.3, False),
        # What is read because of bloat is part of what the device delivers: the rest is what counts.
        ("storage-throughput", 0.8, "bloat", 0.5, True),
        ("storage-throughput", 0.8, "bloat", 0.3, False),
        ("unknown", None, "noise", 0.28, True),
    ],
)
def test_a_fault_leads_where_it_explains_more_than_the_limit(
    limit: str, limit_share: float | None, fault: str, fault_share: float, leads: bool
) -> None:
    first = cause(limit, "limit").model_copy(update={"share": limit_share})
    second = cause(fault, table="public.t", pages=9.0).model_copy(update={"share": fault_share})
    assert headline(interval(), [first, second], [], []).cause == (fault if leads else limit)
