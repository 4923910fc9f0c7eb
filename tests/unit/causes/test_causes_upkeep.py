"""Causes by what tables hold and who keeps it there: dead space, missing indexes, autovacuum, connections."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cause_samples import FLOW, LIMIT, account, evidence, item, load_arm, load_record, record
from pgassay.analysis.causes.base import Found, Missing
from pgassay.analysis.causes.evidence import Evidence, Processors
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.rules.autovacuum import AUTOVACUUM
from pgassay.analysis.causes.trial_evidence import evidence_of_trial
from pgassay.model.arm import RemoteServer
from pgassay.model.experiment import ArmCeiling
from pgassay.model.vacuum_state import Holder, TableState, VacuumState
from pgassay.record.experiment import StoredTrial
from pgassay.trial.snapshots.vacuum_state import row_bytes, with_ages

# A million rows of 128 bytes need 15 874 pages.
PACKED = TableState(
    schema_name="public", name="t", pages=16_000, live_rows=1e6, dead_rows=0, row_bytes=128.0, vacuumed_s=50.0
)
BLOATED = PACKED.model_copy(update={"pages": 80_000})
DEAD = BLOATED.model_copy(update={"dead_rows": 4e6})
SESSION = Holder(kind="session", name="process 7 (report)", transactions=40, seconds=100.0)
SLOT = Holder(kind="replication slot", name="standby", transactions=9)


def scanned(
    table: TableState, holders: tuple[Holder, ...] = (), times: float = 3, **changes: Any
) -> Evidence:
    """A trial of ten seconds in which a statement read the table from the disk so many times."""
    name = {"schemaname": table.schema_name, "relname": table.name}
    counters = {
        "pg_stat_database": [{"tup_returned": times * table.live_rows}],
        "pg_stat_user_tables": [{**name, "seq_scan": times, "seq_tup_read": times * table.live_rows}],
        "pg_statio_user_tables": [{**name, "heap_blks_read": times * table.pages, "heap_blks_hit": 0.0}],
    }
    base: dict[str, Any] = {
        "read_s": 8.0,
        "cpu_s": 2.0,
        "cpu_in_reads_s": 1.0,
        "record": record(counters=counters),
        "bytes_read": times * table.pages * 8192,
        "bytes_hit": 0.0,
        "vacuum_state": VacuumState(tables=(table,), holders=holders),
    }
    return evidence(**base | changes)


def faults_of(found: Evidence) -> dict[str, Found]:
    return {rule.cause: answer for rule, answer in trial_causes(found).faults}


def test_pages_that_hold_nothing_alive_are_bloat_and_a_packed_table_is_not() -> None:
    found = faults_of(scanned(BLOATED))
    assert set(found) == {"bloat"}
    figures = found["bloat"].figures
    assert (figures["table"], figures["pages"], figures["live_rows"]) == ("public.t", 80_000, 1e6)
    assert figures["pages_needed"] == pytest.approx(15_874, abs=1)
    # Four fifths of what is read are not needed; of the other CPU time it is the pages' part.
    assert found["bloat"].seconds == pytest.approx(0.8 * 9 + 0.8 * 80 * 11 / (80 * 11 + 1000), abs=0.02)
    assert found["bloat"].gain == pytest.approx(10 / (10 - (found["bloat"].seconds or 0)), rel=0.01)
    assert not faults_of(scanned(PACKED))


def test_a_table_is_bloated_for_who_reads_all_of_it() -> None:
    """The same table, read by an index: each row costs a page, whatever else lies in the file."""
    by_index = {
        "pg_stat_database": [{"tup_returned": 3e5}],
        "pg_stat_user_tables": [
            {
                "schemaname": "public",
                "relname": "t",
                "idx_scan": 3e5,
                "idx_tup_fetch": 3e5,
                "seq_tup_read": 0.0,
            }
        ],
        "pg_statio_user_tables": [
            {"schemaname": "public", "relname": "t", "heap_blks_read": 3e5, "heap_blks_hit": 0.0}
        ],
    }
    assert not faults_of(scanned(BLOATED, record=record(counters=by_index)))


def test_what_a_fifth_of_dead_rows_takes_is_no_fault() -> None:
    """As autovacuum leaves tables between its rounds."""
    usual = PACKED.model_copy(update={"pages": 20_000, "dead_rows": 2.5e5})
    assert not faults_of(scanned(usual))


def test_time_that_goes_elsewhere_makes_no_fault() -> None:
    elsewhere = scanned(BLOATED, read_s=0.3, cpu_s=0.2, cpu_in_reads_s=0.1, wal_s=9.5)
    assert not faults_of(elsewhere)


STANDBY = Holder(kind="standby", name="process 9 (replica)", transactions=9, seconds=1000.0)
PREPARED = Holder(kind="prepared transaction", name="x", transactions=9, seconds=1000.0)


@pytest.mark.parametrize(
    ("holder", "told", "never"),
    [
        (SESSION, "End the transaction of this session", "slot"),
        (PREPARED, "ROLLBACK PREPARED", "session"),
        # What holds the rows is a query of the standby: without its slot it would have to be made anew.
        (STANDBY, "end that query", "Drop a slot only"),
        (SLOT, "no standby uses it any more", "End the transaction"),
    ],
    ids=lambda value: value.kind if isinstance(value, Holder) else "",
)
def test_the_remedy_is_for_who_holds_the_rows(holder: Holder, told: str, never: str) -> None:
    remedy = faults_of(scanned(DEAD, (holder,)))["bloat-held"].remedy
    assert told in remedy and never not in remedy and remedy.endswith(("VACUUM.", "pg_replication_slots)."))


@pytest.mark.parametrize(
    ("version", "knows", "knows_not"),
    [
        ("17.10", "VACUUM FULL", "autovacuum_vacuum_max_threshold"),
        ("18.6", "autovacuum_vacuum_max_threshold", "REPACK ("),
        ("19rc1", "REPACK (CONCURRENTLY)", "VACUUM FULL"),
    ],
)
def test_bloat_is_removed_by_what_the_version_has(version: str, knows: str, knows_not: str) -> None:
    remedy = faults_of(scanned(BLOATED, version=version))["bloat"].remedy
    assert knows in remedy
    assert knows_not not in remedy


def test_autovacuum_is_not_to_be_slowed_down() -> None:
    assert "Do not raise autovacuum_vacuum_cost_delay" in AUTOVACUUM.remedy


@pytest.mark.parametrize("holder", [SESSION, SLOT], ids=lambda holder: holder.kind)
def test_dead_rows_that_somebody_holds_are_told_with_the_holder(holder: Holder) -> None:
    found = faults_of(scanned(DEAD, (holder,)))
    assert set(found) == {"bloat-held"}
    assert found["bloat-held"].figures["held_by"] == f"{holder.kind} {holder.name}"
    assert found["bloat-held"].figures["dead_rows"] == 4e6


@pytest.mark.parametrize(
    ("changes", "holder"),
    [
        ({"vacuumed_s": 200.0}, SESSION),
        ({"vacuumed_s": None}, SESSION),
        ({}, SESSION.model_copy(update={"transactions": 0})),
        ({"dead_rows": 0.0}, SESSION),
    ],
    ids=["began after the last VACUUM", "no VACUUM yet", "nothing came after it", "nothing is dead"],
)
def test_a_session_that_holds_nothing_is_not_blamed(changes: dict[str, Any], holder: Holder) -> None:
    assert set(faults_of(scanned(DEAD.model_copy(update=changes), (holder,)))) == {"bloat"}


def test_an_old_holder_needs_no_vacuum_as_its_witness() -> None:
    old = SESSION.model_copy(update={"seconds": 4000.0})
    assert set(faults_of(scanned(DEAD.model_copy(update={"vacuumed_s": None}), (old,)))) == {"bloat-held"}


def test_without_widths_dead_rows_tell_and_without_counts_nothing_is_made_up() -> None:
    no_widths = DEAD.model_copy(update={"row_bytes": None})
    assert "bloat" in faults_of(scanned(no_widths))
    neither = BLOATED.model_copy(update={"row_bytes": None, "dead_rows": None})
    assert not faults_of(scanned(neither))
    unknown = scanned(BLOATED, vacuum_state=None)
    assert any(words.startswith("bloat: ") for words in trial_causes(unknown).missing)


def plan(rows: float, table: str = "t", condition: str | None = "(k = 5)", **node: Any) -> dict[str, Any]:
    scan = {"Node Type": "Seq Scan", "Relation Name": table, "Schema": "public", "Plan Rows": rows, **node}
    if condition:
        scan["Filter"] = condition
    return {"Plan": {"Node Type": "Aggregate", "Plans": [scan]}}


def test_a_filter_that_keeps_next_to_nothing_wants_an_index() -> None:
    found = faults_of(scanned(PACKED, plans={"scan": plan(100)}))
    assert set(found) == {"discarding-scan"}
    figures = found["discarding-scan"].figures
    assert (figures["rows_examined"], figures["rows_kept"]) == (1e6, 100)
    assert figures["filter"] == "(k = 5)"
    assert (found["discarding-scan"].seconds or 0) > 9
    for harmless in (plan(100, condition=None), plan(4e5), plan(100, table="other")):
        assert not faults_of(scanned(PACKED, plans={"scan": harmless}))


def test_what_io_workers_do_for_a_scan_goes_with_it() -> None:
    """ "Could be 3.87 × as fast, then limited by the processors", where the index measured 48 ×."""
    helping = {
        "accounts": {"backend": account("backend"), "io worker": account("io worker", item("cpu", 8.0))}
    }
    scan = {"plans": {"scan": plan(100)}, "processors": Processors(2.0, 20.0, 10.0, 0.1)}
    alone = faults_of(scanned(PACKED, **scan))["discarding-scan"]
    helped = faults_of(scanned(PACKED, **scan, **helping))["discarding-scan"]
    assert alone.next_limit == "the machine's processors" and (alone.gain or 0) < 3
    assert helped.next_limit == "" and (helped.gain or 0) > 50


def test_more_rows_returned_than_estimated_are_believed() -> None:
    counted = scanned(PACKED, plans={"scan": plan(100)})
    assert faults_of(counted)
    returned = counted.work.statements[0].model_copy(update={"rows": 300_000})
    assert not faults_of(replace(counted, work=replace(counted.work, statements=(returned,))))


def test_an_estimate_from_before_the_rows_were_written_is_not_believed() -> None:
    stale = PACKED.model_copy(update={"changed_rows": 1e6})
    found = scanned(stale, plans={"scan": plan(1)})
    assert not faults_of(found)
    assert any("ANALYZE t" in words for words in trial_causes(found).missing)
    assert faults_of(scanned(PACKED.model_copy(update={"changed_rows": 1e5}), plans={"scan": plan(1)}))


def test_of_a_parallel_scan_the_rows_are_those_of_all_participants() -> None:
    scan = plan(30_000, **{"Parallel Aware": True})["Plan"]
    gather = {"Plan": {"Node Type": "Gather", "Workers Planned": 2, "Plans": scan["Plans"]}}
    wide = PACKED.model_copy(update={"row_bytes": 1000.0, "pages": 125_000})
    # 2.4 × 30 000 are more than a twentieth.
    assert not faults_of(scanned(wide, plans={"scan": gather}))
    assert faults_of(scanned(wide, plans={"scan": plan(30_000)}))


def test_one_of_several_scans_explains_its_part() -> None:
    plans = {"one": plan(1), "two": plan(0, condition=None)}
    found = faults_of(scanned(PACKED, plans=plans))["discarding-scan"]
    assert found.seconds == pytest.approx(5.0, rel=0.05)
    many = plans | {str(number): plan(0, condition=None) for number in range(3)}
    assert not faults_of(scanned(PACKED, plans=many)), "a fifth of the time is worth no word"


VACUUM = account("autovacuum", item("cpu", 4.0), item("wait", 5.0, "Timeout:VacuumDelay"), threads=2)
IDLE = account("autovacuum", item("wait", 9.9, "Activity:AutovacuumMain"), item("cpu", 0.01))


def load(counters: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    base = {"arm": load_arm(), "record": load_record(counters=counters or {}), "total_s": 80.0}
    return evidence(**base | changes)


def test_autovacuum_that_takes_processors_is_told_where_they_are_full() -> None:
    full = {
        "cpu_s": 12.0,
        "runnable_s": 60.0,
        "processors": Processors(2.0, 20.0, 18.0, 0.0),
        "accounts": {"backend": account("backend", threads=8), "autovacuum": VACUUM},
    }
    found = faults_of(load(**full))
    assert set(found) == {"autovacuum"}
    assert found["autovacuum"].seconds == pytest.approx(80 * 4 / 18)
    assert found["autovacuum"].gain == pytest.approx(18 / 14, rel=0.01)
    assert not faults_of(load(**full | {"accounts": {"autovacuum": IDLE}}))
    assert not faults_of(load(**full | {"processors": Processors(8.0, 80.0, 18.0, 0.0)}))


def test_autovacuum_s_share_of_a_full_device_is_told_by_bytes_of_any_version() -> None:
    def rows(**io: float) -> dict[str, Any]:
        worker = {"backend_type": "autovacuum worker", "object": "relation", **io}
        return {"pg_stat_io": [worker, {**worker, "backend_type": "client backend"}]}

    base = {
        "read_s": 60.0,
        "cpu_s": 5.0,
        "device": FLOW,
        "ceiling": LIMIT,
        "accounts": {"backend": account("backend", threads=8), "autovacuum": VACUUM},
    }
    for counted in (rows(read_bytes=4e6, reads=30.0), rows(reads=400.0, op_bytes=8192.0)):
        found = faults_of(load(counted, **base))
        assert found["autovacuum"].seconds == pytest.approx(30.0)
        assert found["autovacuum"].figures["share_of_bytes"] == pytest.approx(0.5)
    # A volume that counts writes with reads is waited for by those who write as well.
    mixed = replace(FLOW, reads_s=1000.0, writes_s=1000.0, write_mb_s=8.0)
    volume = ArmCeiling(read_iops=2000, read_iops_from="limit")
    writing = {"data write": {"DataFileWrite": 30.0}, "extension": {"DataFileExtend": 10.0}}
    both = base | {"read_s": 20.0, "writing": writing, "device": mixed, "ceiling": volume}
    found = faults_of(load(rows(read_bytes=4e6), **both, shares_ceiling=True))
    assert found["autovacuum"].seconds == pytest.approx(30.0)
    apart = faults_of(load(rows(read_bytes=4e6), **both))
    assert "autovacuum" not in apart
    found = faults_of(load(rows(read_bytes=4e6), **base))
    assert "autovacuum_worked_s" not in found["autovacuum"].figures
    worked = {"relname": "t", "total_autovacuum_time": 1500.0, "total_autoanalyze_time": 250.0}
    told = faults_of(load(rows(read_bytes=4e6) | {"pg_stat_user_tables": [worked]}, **base))
    assert told["autovacuum"].figures["autovacuum_worked_s"] == pytest.approx(1.75)
    unknown = trial_causes(load(rows(read_bytes=4e6), **base | {"ceiling": evidence().machine.ceiling}))
    assert any(words.startswith("autovacuum: ") for words in unknown.missing)


def test_hundreds_at_work_on_few_processors_are_too_many_connections() -> None:
    many = {"backend": account("backend", threads=100)}
    crowd = {"cpu_s": 19.0, "runnable_s": 900.0, "total_s": 1000.0, "accounts": many}
    processors = Processors(2.0, 20.0, 19.5, 0.0)
    found = faults_of(load(**crowd, processors=processors))
    assert set(found) == {"connections"}
    assert found["connections"].figures["connections_at_work"] == pytest.approx(91.9)
    assert found["connections"].seconds is None
    # The same number that waits for rows, or on a machine for so many, is none.
    waiting = crowd | {"runnable_s": 50.0, "row_lock_s": 900.0}
    few = crowd | {"accounts": {"backend": account("backend", threads=30)}, "runnable_s": 260.0}
    assert "connections" not in faults_of(load(**few, processors=processors))
    assert "connections" not in faults_of(load(**waiting, processors=processors))
    assert "connections" not in faults_of(load(**crowd, processors=Processors(64.0, 640.0, 19.5, 0.0)))


def test_connections_opened_for_each_transaction_explain_what_opening_takes() -> None:
    done = {"pg_stat_database": [{"xact_commit": 500.0, "xact_rollback": 10.0}]}
    found = faults_of(load(done, sessions_opened=500.0, connect_s=0.01, total_s=10.0))
    assert found["connections"].seconds == pytest.approx(5.0)
    assert found["connections"].gain == pytest.approx(2.0)
    assert faults_of(load(done, sessions_opened=500.0))["connections"].seconds is None
    assert not faults_of(load(done, sessions_opened=50.0, connect_s=0.01))
    answers = trial_causes(load(done)).missing
    assert any(words.startswith("connections: ") for words in answers)


def test_the_network_explains_no_more_than_its_round_trips() -> None:
    """A client with one thread for fifty connections lets them wait as well, and is not the network."""
    from pgassay.analysis.causes.rules.network import NETWORK
    from pgassay.analysis.descriptive.round_trips import RoundTrips

    slow = load(network_s=70.0, over_network=True, trips=RoundTrips(7000, 0.004))
    answer = NETWORK.find(slow)
    assert isinstance(answer, Found)
    assert answer.seconds == pytest.approx(28.0)
    assert answer.figures["round_trips_per_transaction"] == pytest.approx(7)
    assert NETWORK.find(load(network_s=70.0, over_network=False)) is None
    assert isinstance(NETWORK.find(load(client_s=70.0)), Missing)


# pgbench_accounts: aid int, bid int, abalance int, filler char(84) of 85 bytes.
ACCOUNTS = [(4, "i", False, 4, 0.0)] * 3 + [(-1, "i", False, 85, 0.0)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (ACCOUNTS, 4 + 128),
        ([(1, "c", False, 1, 0.0), (8, "d", False, 8, 0.0)], 4 + 24 + 16),
        ([(4, "i", False, 4, 1.0)], 4 + 24),
        ([(4, "i", True, None, None), (4, "i", False, 4, 0.0)], 4 + 32),
        ([(-1, "i", False, None, None)], None),
    ],
    ids=["pgbench", "aligned", "null", "dropped", "never analysed"],
)
def test_what_a_row_takes(columns: list[tuple[Any, ...]], expected: float | None) -> None:
    assert row_bytes(columns) == expected


def test_of_a_remote_trial_the_round_trips_are_known_and_nothing_is_made_up_of_the_rest(
    tmp_path: Path,
) -> None:
    """Eight connections, 1000 transactions of seven round trips of 8 ms, in ten seconds."""
    where = {"name": "far", "connection": "host=far", "host": "far", "port": 5432, "dbname": "d", "user": "u"}
    far = RemoteServer.model_validate(where | {"version": "18.1", "major": 18})
    temporary = {"pg_stat_database": [{"temp_bytes": 9e8, "temp_files": 2.0}]}
    measured = load_record(facts={"server": {"round_trip_ms": 8.0}}, counters=temporary)
    seen = evidence_of_trial(StoredTrial(measured, {}, tmp_path), load_arm(server=far), {})
    assert seen is not None
    causes = trial_causes(seen)
    assert causes.limit is not None
    rule, found = causes.limit
    assert (rule.cause, found.seconds) == ("network", pytest.approx(56.0))
    assert found.gain == pytest.approx(80 / 24)
    # What the statistics views say is told, without the seconds that nobody saw.
    ((fault, spilled),) = causes.faults
    assert (fault.cause, spilled.seconds) == ("temp-spill", None)
    near = load_record(facts={"server": {"round_trip_ms": 0.1}}, counters=temporary)
    seen = evidence_of_trial(StoredTrial(near, {}, tmp_path), load_arm(server=far), {})
    assert seen is not None
    assert trial_causes(seen).limit is None
    assert evidence_of_trial(StoredTrial(measured, {}, tmp_path), load_arm(), {}) is None, (
        "a local one was not observed"
    )


@pytest.mark.parametrize("who", [STANDBY, SLOT], ids=lambda who: who.kind)
def test_a_standby_that_keeps_up_holds_no_dead_rows(who: Holder) -> None:
    """Its feedback is always some seconds old, however long it has been connected."""
    holder = who.model_copy(update={"transactions": 5000, "seconds": None})
    (young,) = with_ages([holder], 500.0)
    assert young.seconds == pytest.approx(10.0)
    assert set(faults_of(scanned(DEAD, (young,)))) == {"bloat"}
    (old,) = with_ages([holder], 5.0)
    assert set(faults_of(scanned(DEAD, (old,)))) == {"bloat-held"}


def test_the_age_of_who_tells_it_stays_and_without_transactions_none_is_made_up() -> None:
    assert with_ages([SESSION, SLOT], 0.0) == (SESSION, SLOT)
    assert with_ages([SESSION, PREPARED], 500.0) == (SESSION, PREPARED)
