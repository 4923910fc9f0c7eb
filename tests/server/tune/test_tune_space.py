"""Tune with a limit of space: what the disk has no room for is tried, named, and not chosen."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.progress import NullProgress
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finders.registry import find
from pgassay.tune.run_tune import run_tune
from pgassay.tune.tools import TuneTools
from tuned_orders import SLOW, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def test_an_index_that_has_no_room_is_not_chosen(tmp_path: Path) -> None:
    asked = replace(request(tmp_path, SLOW, max_time_s=60), max_space_bytes=100 << 10)
    result = run_tune(asked, TuneTools(read_facts, find), NullProgress(), wait=True, isolates=False)
    assert not result.nothing_to_do and result.proof is None
    (index,) = (fix for fix in result.fixes if fix.kind == "btree" and "(customer)" in fix.sql)
    assert (index.verdict, index.evidence) == ("screened out", "search")
    assert index.gain is not None and index.gain > 2
    assert index.cost.bytes is not None and index.cost.bytes > 100 << 10
    assert index.note.endswith("and of --max-space there is 100 kB left")
    assert "fit into --max-space" in result.verdict
