"""The statistics views of every version at hand, by the table of columns."""

from collections.abc import Callable

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.trial.snapshots.counters import VIEWS, difference, snapshot
from pgassay.trial.snapshots.vacuum_state import read_vacuum_state
from pgassay.trial.target import RunningServer
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.mark.parametrize("major", ["16", "17", "18", pytest.param("19", marks=pytest.mark.slow)])
def test_every_column_of_the_table_is_one_of_its_version(major: str, require: Callable[..., None]) -> None:
    require("version-19" if major == "19" else "versions-16-17-18")
    build = resolve(major if major == "19" else f"npm:{major}")
    with own_home() as home:
        data = empty_cluster(build, home / "data" / major)
        with Server(build, data, TINY_SETTINGS) as server:
            running = RunningServer(server, {})
            running.control.execute("CREATE TABLE seen AS SELECT i FROM generate_series(1, 1000) i")
            before = snapshot(running.control, build.major)
            running.control.execute("INSERT INTO seen SELECT i FROM generate_series(1, 1000) i")
            running.control.execute("CHECKPOINT")
            moved = difference(before, snapshot(running.control, build.major))
            running.control.execute("VACUUM (ANALYZE) seen")
            vacuumed = difference(before, snapshot(running.control, build.major))
            running.control.execute("VACUUM (FULL, ANALYZE) seen")
            upkeep = read_vacuum_state(running.control)
            running.close_control()
    assert set(before) == {view.name for view in VIEWS if view.majors[0] <= build.major <= view.majors[1]}
    (database,) = moved["pg_stat_database"]
    assert database["tup_inserted"] >= 1000
    (wal,) = moved["pg_stat_wal"]
    assert wal["wal_bytes"] > 0
    assert ("wal_write" in wal) == (build.major < 18)
    name = "pg_stat_checkpointer" if build.major >= 17 else "pg_stat_bgwriter"
    (checkpoints,) = moved[name]
    assert checkpoints["num_requested" if build.major >= 17 else "checkpoints_req"] == 1
    assert ("num_done" in checkpoints) == (build.major >= 18)
    assert any(("write_bytes" in row) == (build.major >= 18) for row in moved["pg_stat_io"])
    (table,) = (row for row in moved["pg_stat_user_tables"] if row["relname"] == "seen")
    assert table["n_tup_ins"] == 1000
    (table,) = (row for row in vacuumed["pg_stat_user_tables"] if row["relname"] == "seen")
    assert (table["vacuum_count"], table["analyze_count"]) == (1, 1)
    for name in ("total_vacuum_time", "total_analyze_time"):
        assert (name in table) == (build.major >= 18)
        assert build.major < 18 or float(table[name]) > 0
    (state,) = upkeep.tables
    assert (state.schema_name, state.name, state.live_rows, state.dead_rows) == ("public", "seen", 2000, 0)
    # A pointer, a header, and an int aligned to eight bytes: 226 in a page.
    assert (state.row_bytes, state.pages, state.pages_for(2000)) == (36, 9, 9)
    assert not upkeep.holders
