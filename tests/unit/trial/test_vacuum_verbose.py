"""VACUUM (VERBOSE) of four majors, recorded from real servers, read into one structure; hostile text."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.trial.measure.vacuum_verbose import read_vacuum

FOLDER = Path(__file__).parent / "vacuum_verbose"
MAJORS = (16, 17, 18, 19)


def messages(major: int, command: str) -> list[str]:
    document: dict[str, Any] = json.loads((FOLDER / f"{major}.json").read_text("utf-8"))
    return [message["message"] for message in document["messages"][command]]


@pytest.mark.parametrize("major", MAJORS)
def test_what_all_versions_say_is_read_alike(major: int) -> None:
    table, toast = read_vacuum(messages(major, "vacuum"))
    assert table.name == "postgres.public.t" and toast.name.startswith("postgres.pg_toast.")
    assert (table.pages_removed, table.pages_remain, table.pages_scanned) == (0, 616, 616)
    assert (table.tuples_removed, table.tuples_remain, table.tuples_dead_not_removable) == (5342, 26667, 0)
    assert (table.index_passes, table.index_scan, table.dead_items) == (1, "needed", 18667)
    assert [(index.name, index.pages) for index in table.indexes] == [("t_id", 112), ("t_v", 112)]
    assert table.buffers_dirtied == 841 and table.buffer_reads == 0 and (table.buffer_hits or 0) > 2000
    assert (table.wal_bytes or 0) > 4_000_000 and (table.wal_full_page_images or 0) > 800
    assert table.read_ms is not None and table.elapsed_s is not None and table.cpu_user_s is not None
    assert (table.write_rate_mb_per_s or 0) > 10
    assert not table.aggressive and not table.failsafe
    assert toast.pages_scanned == 0 and toast.index_scan == "not needed"


@pytest.mark.parametrize("major", MAJORS)
def test_other_ways_of_vacuum(major: int) -> None:
    assert read_vacuum(messages(major, "freeze"))[0].aggressive
    truncated = read_vacuum(messages(major, "parallel"))[0]
    assert (truncated.pages_removed, truncated.pages_remain) == (614, 2)
    assert [index.pages_newly_deleted for index in truncated.indexes] == [108, 108]
    bypassed = read_vacuum(messages(major, "bypass2"))[0]
    assert (bypassed.index_scan, bypassed.dead_items, bypassed.index_passes) == ("bypassed", 1, 0)
    for command in ("analyze", "cluster", "reindex", "full"):
        assert read_vacuum(messages(major, command)) == ()


@pytest.mark.parametrize("major", MAJORS)
def test_what_only_some_versions_say(major: int) -> None:
    table = read_vacuum(messages(major, "vacuum"))[0]
    assert (table.pages_frozen, table.tuples_frozen) == (616, 26667)
    since_18 = (table.pages_eagerly_scanned, table.pages_set_all_visible, table.pages_set_all_frozen)
    assert since_18 == ((0, 616, 616) if major >= 18 else (None, None, None))
    assert (table.wal_buffers_full is not None) == (major >= 18)
    assert (table.wal_full_page_image_bytes is not None) == (major >= 19)
    assert table.memory_limit_bytes == (1024 * 1024 if major >= 19 else None)
    assert table.parallel_workers_launched == (1 if major >= 19 else None)
    delayed = read_vacuum(messages(major, "parallel"))[0]
    assert (delayed.delay_ms is not None and delayed.delay_ms > 1) == (major >= 18)


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    assert read_vacuum([text]) == ()
    found = read_vacuum([f'finished vacuuming "a": index scans: 2\n{text}'])
    assert [(relation.name, relation.index_passes) for relation in found] == [("a", 2)]


@given(st.data())
def test_damaged_messages_are_survived(data: st.DataObject) -> None:
    major = data.draw(st.sampled_from(MAJORS))
    message = next(text for text in messages(major, "vacuum") if text.startswith("finished"))
    cut = data.draw(st.integers(0, len(message)))
    extra = data.draw(st.text(max_size=20))
    found = read_vacuum([message[:cut] + extra + message[cut + data.draw(st.integers(0, 20)) :]])
    assert len(found) <= 1


@given(name=st.text(min_size=1), removed=st.integers(0, 2**63), pages=st.integers(0, 2**32 - 1))
def test_figures_and_names_come_back_whole(name: str, removed: int, pages: int) -> None:
    text = (
        f'finished vacuuming "{name}": index scans: 0\n'
        f"pages: 0 removed, {pages} remain, {pages} scanned (100.00% of total), 7 eagerly scanned\n"
        f"tuples: {removed} removed, 1 remain, 2 are dead but not yet removable, oldest xmin: 5"
    )
    (relation,) = read_vacuum([text])
    assert (relation.name, relation.tuples_removed, relation.pages_scanned) == (name, removed, pages)
    assert (relation.pages_eagerly_scanned, relation.tuples_dead_not_removable) == (7, 2)
