"""The server's progress of a maintenance command, in words."""

import pytest

from pgassay.trial.measure.maintenance_progress import PhaseClock, progress_words, union_of_views

SCANNING = {"phase": "scanning heap", "heap_blks_scanned": 45, "heap_blks_total": 100}
INDEXES = {"phase": "vacuuming indexes", "indexes_processed": 1, "indexes_total": 4}
BUILDING = {"blocks_done": 9, "blocks_total": 9, "tuples_done": 10, "tuples_total": 1000}
SAMPLING = {"phase": "acquiring sample rows", "sample_blks_scanned": 3000, "sample_blks_total": 30000}
LOADING, SORTING = "building index: loading tuples in tree", "building index: sorting live tuples"


@pytest.mark.parametrize(
    ("view", "figures", "words"),
    [
        ("vacuum", SCANNING, "t: scanning heap, 45 %"),
        ("vacuum", {**SCANNING, "index_vacuum_count": 0}, "t: scanning heap, 45 %"),
        ("vacuum", {**SCANNING, "index_vacuum_count": 2}, "t: scanning heap (pass 3), 45 %"),
        ("vacuum", {**SCANNING, "heap_blks_total": 0}, "t: scanning heap"),
        ("vacuum", {**SCANNING, "phase": "truncating heap"}, "t: truncating heap"),
        ("vacuum", {**INDEXES, "index_vacuum_count": 0}, "t: vacuuming indexes, 25 %"),
        # 16 doesn't count the indexes.
        ("vacuum", {"phase": "vacuuming indexes", "index_vacuum_count": 1}, "t: vacuuming indexes (pass 2)"),
        ("create_index", {**BUILDING, "phase": LOADING}, f"t: {LOADING}, 1 %"),
        ("create_index", {**BUILDING, "phase": SORTING}, f"t: {SORTING}"),
        ("analyze", SAMPLING, "t: acquiring sample rows, 10 %"),
        # A table that grew meanwhile.
        ("analyze", {**SAMPLING, "sample_blks_scanned": 30001}, "t: acquiring sample rows, 100 %"),
        ("repack", {"phase": None}, "t: "),
    ],
)
def test_progress_in_words(view: str, figures: dict[str, object], words: str) -> None:
    assert progress_words(view, "t", figures) == words
    assert progress_words(view, "", figures) == words.removeprefix("t: ")


@pytest.mark.parametrize(("major", "last"), [(16, "cluster"), (18, "cluster"), (19, "repack")])
def test_a_command_is_in_one_view_only(major: int, last: str) -> None:
    """19 shows REPACK and CLUSTER in pg_stat_progress_repack, and CLUSTER in the older view as well."""
    asked = union_of_views(major, "{view}").split(" UNION ALL ")
    assert asked == ["vacuum", "analyze", "create_index", last]


def test_the_time_between_two_samples_belongs_to_both_phases_by_halves() -> None:
    clock = PhaseClock(10.0)
    for at_s, phase in ((10.2, "scanning heap"), (10.4, "scanning heap"), (10.6, "vacuuming indexes")):
        clock.seen(at_s, phase)
    clock.end(11.0)
    assert clock.phases_s == pytest.approx({"scanning heap": 0.5, "vacuuming indexes": 0.5})
    unseen = PhaseClock(10.0)
    unseen.end(10.1)
    assert unseen.phases_s == {}
