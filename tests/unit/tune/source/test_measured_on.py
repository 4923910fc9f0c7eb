"""With `--dataset` nothing is known of the server: its settings are told for one like this machine."""

from types import SimpleNamespace
from typing import cast

import pytest

from pgassay.model.storage import StorageSpec
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate
from pgassay.tune.symptom import _machine_words
from pgassay.tune.tune_plan import PlannedTune

GB = 1 << 30
COSTS = Candidate(
    id="c", layer="infrastructure", kind="planner-costs", title="random_page_cost = 1.1", reason="",
    statements=(), settings={"random_page_cost": "1.1"},
)  # fmt: skip
INDEX = Candidate(
    id="i", layer="design", kind="btree", title="an index", reason="", statements=(),
    sql=("CREATE INDEX i ON public.t (a)",), undo=("DROP INDEX public.i",),
)  # fmt: skip


def planned(cache: str) -> PlannedTune:
    spec = SimpleNamespace(memory_bytes=2 * GB, cpus=2.0, storage=StorageSpec())
    return cast(
        "PlannedTune",
        SimpleNamespace(spec=spec, base=SimpleNamespace(protocol=SimpleNamespace(cache=cache))),
    )


@pytest.mark.parametrize(
    ("cache", "where"), [("warm-buffers", "its data in memory"), ("cold", "its data on host, read cold")]
)
def test_the_machine_and_the_cache_state_that_the_advice_rests_on_are_said(cache: str, where: str) -> None:
    words = _machine_words(planned(cache))
    assert words == f"2.00 GB of memory, 2 processors, {where}"
    applied = apply_script([COSTS, INDEX], None, words)
    assert f"-- Measured on: {words}. If your server is similar, set" in applied
    assert "-- ALTER SYSTEM SET random_page_cost = '1.1';" in applied


def test_no_setting_follows_from_the_memory_of_another_machine() -> None:
    words = _machine_words(planned("warm-buffers"))
    for script in (apply_script, undo_script):
        run = [line for line in script([COSTS, INDEX], None, words).splitlines() if not line.startswith("--")]
        assert not any("ALTER SYSTEM" in line or "pg_reload_conf" in line for line in run)
        assert any("INDEX" in line for line in run), "what is no setting is in it"
