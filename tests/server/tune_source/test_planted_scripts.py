"""apply.sql and undo.sql of every kind of fix, by psql, on a server that has what the fix is for.

The plants are those of `benchmarks/planted_tunes.py`. What undo.sql takes back is all that apply.sql made:
schema, storage parameters and what ALTER SYSTEM had set are as before.
"""

import subprocess
import sys

import pytest

import whole_tool
from pgassay.model.build import Build
from pgassay.tune.answer.scripts import apply_script, undo_script
from server_helpers import run_script

# The bench is no package: its table is found as its own script finds it.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from tune_plants.base import Plant
from tune_plants.table import PLANTS
from tune_plants.trial import Laboratory

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# An index, one that nobody needs, options of a table, statistics and settings: the shortest of each.
DEFAULT = ("index-expression", "unneeded-prefix", "vacuum-visibility", "fillfactor-hot", "work-mem-subplan")
SEED = 1
ALTER_SYSTEM = (
    "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf' ORDER BY 1;"
)


def state(client: Build, lab: Laboratory) -> tuple[list[str], str]:
    """The schema by pg_dump, without its own random word and what is the same in any order; the settings."""
    given = " ".join(f"{name}={value}" for name, value in lab.parameters().items())
    words = [f"{client.bin_directory}/pg_dump", "-s", given]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # An extension stays, and the script says so.
    leaves = ("", "--")
    lines = (line for line in text.splitlines() if line not in leaves and "EXTENSION" not in line)
    schema = sorted(line for line in lines if "restrict" not in line)
    return schema, run_script(client, ALTER_SYSTEM, lab.parameters())


def check(client: Build, lab: Laboratory, plant: Plant) -> None:
    found = lab.run(plant, SEED, decoy=False)
    assert found.fix is not None
    fix, facts = found.fix, found.symptom.facts
    if fix.described or fix.why_not:
        return  # it is told, and in no script
    before = state(client, lab)
    # Twice: who is not sure whether it was run runs it again.
    applied = apply_script([fix], facts)
    assert applied and "\\set ON_ERROR_STOP on" in applied and "lock_timeout" in applied
    for _ in range(2):
        run_script(client, applied, lab.parameters())
    changed = state(client, lab)
    undone = undo_script([fix], facts)
    for _ in range(2):
        run_script(client, undone, lab.parameters())
    if fix.undoable:
        assert state(client, lab) == before
    if (fix.undo and fix.undoable) or fix.settings:
        assert changed != before, "it did nothing"


@pytest.mark.parametrize(
    "plant", [each for each in PLANTS if each.name in DEFAULT], ids=lambda each: each.name
)
def test_scripts_run_by_psql_and_are_taken_back(client: Build, lab: Laboratory, plant: Plant) -> None:
    check(client, lab, plant)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", [each for each in PLANTS if each.name not in DEFAULT], ids=lambda each: each.name
)
def test_every_other_script_does_too(client: Build, lab: Laboratory, plant: Plant) -> None:
    check(client, lab, plant)
