"""What each version tells of a VACUUM, an ANALYZE or a CREATE INDEX, as one and the same set of figures."""

import pytest

from pgassay.watch.reading.command_progress import command_progress, query

ROW_16 = {
    "pid": 7, "phase": "vacuuming heap", "heap_blks_total": 200, "heap_blks_scanned": 200,
    "heap_blks_vacuumed": 50, "index_vacuum_count": 1, "max_dead_tuples": 291, "num_dead_tuples": 30,
}  # fmt: skip
ROW_18 = {
    "pid": 7, "phase": "vacuuming indexes", "heap_blks_total": 200, "index_vacuum_count": 0,
    "max_dead_tuple_bytes": 67108864, "dead_tuple_bytes": 4096, "num_dead_item_ids": 30,
    "indexes_total": 4, "indexes_processed": 3, "delay_time": 12.5,
}  # fmt: skip


def test_room_for_dead_rows_is_counted_in_rows_up_to_16_and_in_bytes_from_17_on() -> None:
    old = command_progress("vacuum", "shop", "t", figures=ROW_16, autovacuum=False)
    assert (old.done, old.total, old.passes) == (50, 200, 1)
    assert (old.dead_rows, old.dead_rows_max) == (30, 291)
    assert (old.dead_rows_bytes, old.dead_rows_bytes_max, old.delay_ms) == (None, None, None)
    new = command_progress("vacuum", "shop", "t", figures=ROW_18, autovacuum=True)
    assert (new.done, new.total, new.passes, new.autovacuum) == (3, 4, 0, True)
    assert (new.dead_rows, new.dead_rows_max) == (30, None)
    assert (new.dead_rows_bytes, new.dead_rows_bytes_max, new.delay_ms) == (4096, 67108864, 12.5)


def test_commands_are_named_by_the_server_where_it_does() -> None:
    index = {"pid": 1, "command": "CREATE INDEX CONCURRENTLY", "phase": "building index", "blocks_total": 0}
    made = command_progress("create_index", "shop", "t", figures=index, autovacuum=False)
    assert (made.command, made.done, made.total, made.passes) == (
        "CREATE INDEX CONCURRENTLY",
        None,
        None,
        None,
    )
    analyze = {"pid": 2, "phase": "acquiring sample rows", "sample_blks_total": 8, "sample_blks_scanned": 2}
    assert command_progress("analyze", "shop", "t", figures=analyze, autovacuum=False).command == "ANALYZE"


def test_a_row_that_this_role_may_not_see_has_a_process_and_nothing_else() -> None:
    bare = command_progress("vacuum", "shop", None, figures={"pid": 3, "phase": None}, autovacuum=False)
    assert (bare.pid, bare.phase, bare.done, bare.dead_rows) == (3, "", None, None)


@pytest.mark.parametrize(("major", "view"), [(14, "cluster"), (18, "cluster"), (19, "repack")])
def test_each_version_is_asked_for_the_views_that_it_has(major: int, view: str) -> None:
    asked = query(major)
    assert f"pg_stat_progress_{view} " in asked
    assert asked.count(" UNION ALL ") == 3
