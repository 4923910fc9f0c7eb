"""apply.sql and undo.sql of the fixes that no plant on this machine brings about, by psql, on one server.

Compiled functions, the reads of a slow disk, an imitated volume and a newer version: the plans are real ones,
with the times of such a machine written into them. The fixes are what the finders make of these.
"""

import dataclasses
import sys
from collections.abc import Sequence

import pytest

import whole_tool
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.storage import StorageSpec
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import AdvisedMachine, Candidate, OtherStorage, OtherVersion, Symptom
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.registry import find
from server_helpers import run_script

sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from tune_plants.base import Draw, Drawn, Plant, filled, kind_is, statement
from tune_plants.trial import Laboratory

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SET = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf';"
# Of a setting for which the server must be restarted too: what it will be is not what it is.
BEFORE = {
    "jit": "off", "effective_io_concurrency": "3", "io_method": "worker", "hash_mem_multiplier": "1.25"
}  # fmt: skip
VOLUME = OtherStorage(StorageSpec(kind="loop"), "gp3:iops=6000", 6000, 2.5e8, 3000, 1.25e8, per_month=15.0)
KINDS = ("jit", "io", "hash-memory", "storage", "version")


def _drawn(_: Draw) -> Drawn:
    setup = filled(
        "notes", "id integer, k integer, filler text", 40_000, ["i", "i % 2500", "repeat('y', 30)"]
    )
    setup += ("CREATE INDEX ON notes (k)", "VACUUM ANALYZE notes")
    statements = (
        statement("SELECT count(filler || id) FROM notes WHERE k BETWEEN 1 AND 400", name="bitmap"),
        statement("SELECT k, count(*) FROM notes GROUP BY 1", name="groups"),
        statement("SELECT a.k, count(*) FROM notes a JOIN notes b ON b.id = a.k GROUP BY 1", name="joined"),
    )
    settings = {
        "work_mem": "64kB", "enable_sort": "off", "enable_seqscan": "off", "enable_indexscan": "off",
        "effective_io_concurrency": "1", "io_method": "sync",
    }  # fmt: skip
    return Drawn(setup, statements, kind_is("none"), settings=settings, executions=1)


def _as_on_a_slow_disk(plan: ExplainedPlan) -> ExplainedPlan:
    """Nine tenths of each node's time are reads of 0.1 ms, half of the statement's is compiling, and what
    went to disk did so in two batches."""
    nodes = tuple(
        each.model_copy(
            update={
                "buffers_read": 10_000, "own_buffers_read": 5_000, "own_ms": 600.0, "io_read_ms": 900.0,
                "batches": min(each.batches, 2) if each.batches else each.batches,
            }
        )
        for each in plan.nodes
    )  # fmt: skip
    return plan.model_copy(
        update={"nodes": nodes, "execution_ms": 1000.0, "jit_ms": 500.0, "jit_functions": 9}
    )


def _symptom(real: Symptom, newer: Build) -> Symptom:
    return dataclasses.replace(
        real,
        plans={name: tuple(map(_as_on_a_slow_disk, plans)) for name, plans in real.plans.items()},
        share=dict.fromkeys(real.plans, 1 / len(real.plans)),
        machine=AdvisedMachine(memory_bytes=1 << 34, random_read_us=100.0, sequential_read_mb_s=300.0),
        versions=(OtherVersion(newer),),
        storages=(VOLUME,),
    )


@pytest.fixture(scope="module")
def symptom(lab: Laboratory, client: Build) -> Symptom:
    newer = client.model_copy(update={"major": 19, "version": "19.1"})
    return _symptom(lab.run(Plant("settings", "none", _drawn), 1, decoy=False).symptom, newer)


@pytest.fixture(scope="module")
def fixes(symptom: Symptom) -> dict[str, Candidate]:
    found = {each.kind: each for each in find(symptom)}
    assert set(KINDS) <= found.keys()
    return {kind: found[kind] for kind in KINDS}


def _there_and_back(
    client: Build, lab: Laboratory, facts: SchemaFacts, fixes: Sequence[Candidate]
) -> dict[str, str]:
    """What ALTER SYSTEM has set by the fixes; each script runs twice, as by one who is not sure."""
    before = _set(client, lab)
    applied, undone = apply_script(fixes, facts), undo_script(fixes, facts)
    for script in (applied, undone):
        assert "\\set ON_ERROR_STOP on" in script and "SET lock_timeout = '5s'" in script
    for _ in range(2):
        run_script(client, applied, lab.parameters())
    changed = _set(client, lab)
    for _ in range(2):
        run_script(client, undone, lab.parameters())
        assert _set(client, lab) == before
    return changed


def _set(client: Build, lab: Laboratory) -> dict[str, str]:
    lines = run_script(client, SET, lab.parameters()).splitlines()
    return dict(line.split("|", 1) for line in lines)


@pytest.mark.parametrize("kind", ["all", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS)])
def test_each_is_applied_and_taken_back(
    client: Build, lab: Laboratory, symptom: Symptom, fixes: dict[str, Candidate], kind: str
) -> None:
    chosen = list(fixes.values()) if kind == "all" else [fixes[kind]]
    wanted = {name: value for fix in chosen for name, value in fix.settings.items()}
    assert _set(client, lab) == {}
    assert _there_and_back(client, lab, symptom.facts, chosen) == wanted
    # What the administrator had set is there again, also what waits for a restart.
    earlier = [f"ALTER SYSTEM SET {name} = '{value}';" for name, value in BEFORE.items()]
    run_script(client, "\n".join([*earlier, "SELECT pg_reload_conf();"]), lab.parameters())
    assert _set(client, lab) == BEFORE
    try:
        assert _there_and_back(client, lab, symptom.facts, chosen) == BEFORE | wanted
    finally:
        run_script(client, "ALTER SYSTEM RESET ALL; SELECT pg_reload_conf();", lab.parameters())


@pytest.mark.parametrize(
    ("kind", "tells"),
    [
        ("storage", "order the volume from the provider"),
        ("version", "pg_upgrade to PostgreSQL 19, then ANALYZE"),
        ("io", "It takes effect at the next restart of the server"),
    ],
)
def test_what_no_statement_can_do_is_told(fixes: dict[str, Candidate], kind: str, tells: str) -> None:
    assert tells in apply_script([fixes[kind]], None)


def test_of_a_machine_that_is_not_known_settings_are_told_and_not_made(
    client: Build, lab: Laboratory, fixes: dict[str, Candidate]
) -> None:
    chosen = list(fixes.values())
    for script in (apply_script, undo_script):
        text = script(chosen, None, "4 processors, 8 GB")
        run_script(client, text, lab.parameters())
        assert _set(client, lab) == {} and "\nALTER SYSTEM" not in text
    assert "to_regclass" not in text and "pgassay_settings_kept" not in text
