"""`pgassay diagnose` on servers with one trouble each: the first sentence names it, and the command runs."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from diagnosed_servers import PLANTS, DiagnosedPlant, Load, fill, under_load
from pgassay.report import schema
from server_helpers import best_build
from source_servers import SourceServer, source_server, tuned

pytestmark = pytest.mark.server
SECONDS = "4"
# The others are run by `make test-all`.
ALWAYS = ("missing index under OLTP", "N+1", "lock queue", "idle in transaction holds vacuum")
TUNE_S = "60s"
# What differs a hundredfold is proven in short rounds.
SHORT_PROOF = {"pgassay.experiment.running.start_blocks.ROUNDS_S_MAX": 2.0}


@pytest.fixture(scope="module")
def server() -> Iterator[SourceServer]:
    # Flushes are a part of what a storm of checkpoints costs.
    with source_server(best_build(), {"fsync": "on", "max_connections": "40"}) as server:
        fill(server)
        yield server


def diagnosed(server: SourceServer) -> dict[str, Any]:
    return whole_tool.result_of(whole_tool.run("diagnose", server.dsn(), "--seconds", SECONDS, "--json"))


@pytest.mark.shares_machine
def test_a_superuser_plans_nothing_that_calls_a_user_s_function(server: SourceServer) -> None:
    """The planner would execute what is declared immutable, with a superuser's rights."""
    server.execute(
        "CREATE TABLE IF NOT EXISTS called (at timestamptz)",
        "CREATE OR REPLACE FUNCTION trap(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE WARNING 'trapped'; PERFORM pg_sleep(0.01); RETURN id; END $$",
        "CREATE ROLE looker LOGIN IN ROLE pg_monitor, pg_read_all_data",
    )
    load = Load("SELECT count(*) FROM orders WHERE customer_id = trap(3);")
    plant = DiagnosedPlant("trap", (load,), frozenset(), (), ())
    with under_load(server, plant):
        (mine,) = of_text(diagnosed(server), "trap")
        words = ("diagnose", server.dsn(user="looker"), "--seconds", SECONDS, "--json")
        (theirs,) = of_text(whole_tool.result_of(whole_tool.run(*words)), "trap")
    assert mine["plan"] is None
    assert "it calls trap, which planning may execute" in mine["plan_missing"]
    assert theirs["plan"]["nodes"]


@pytest.mark.shares_machine
def test_a_role_without_rights_hears_that_first(server: SourceServer) -> None:
    server.execute("CREATE ROLE nobody LOGIN")
    with under_load(server, PLANTS[0]):
        document = whole_tool.result_of(
            whole_tool.run("diagnose", server.dsn(user="nobody"), "--seconds", "2", "--json")
        )
    headline = document["headline"]
    assert headline["sentence"].startswith("The role nobody sees only its own sessions and statements")
    assert headline["sql"] == "GRANT pg_monitor TO nobody;"
    assert document["by_statement"] == []
    assert "of other roles took" in " ".join(document["passed_over"])


@pytest.mark.shares_machine
def test_before_and_after_an_index(server: SourceServer, tmp_path: Path) -> None:
    """Two stored diagnoses beside each other, in the terminal and as a page."""
    before, after, page = (tmp_path / name for name in ("before.json", "after.json", "change.html"))
    with under_load(server, PLANTS[0]):
        before.write_text(json.dumps(diagnosed(server)))
        server.execute("CREATE INDEX planted ON orders (customer_id)")
        try:
            after.write_text(json.dumps(diagnosed(server)))
        finally:
            server.execute("DROP INDEX planted")
    said = whole_tool.run("diagnose", before, after, "--html", page)
    assert said.returncode == 0, said.stderr
    assert "Before: SELECT id, total FROM orders" in said.stdout
    document = whole_tool.result_of(whole_tool.run("diagnose", before, after, "--json"))
    jsonschema.validate(document, schema.DIAGNOSIS_CHANGE.schema(), cls=jsonschema.Draft202012Validator)
    (changed,) = [each for each in document["statements"] if "FROM orders WHERE customer_id" in each["query"]]
    assert changed["times_as_fast"] > 5
    assert "before and after" in page.read_text("utf-8")
    assert "orders is read completely" in whole_tool.run("diagnose", before).stdout


def of_text(document: dict[str, Any], word: str) -> list[dict[str, Any]]:
    return [each for each in document["by_statement"] if word in each["query"]]


def run_command(server: SourceServer, command: str, out: Path) -> None:
    """Run what the headline offers as it is printed; a tune of one statement with less time than it takes."""
    words = shlex.split(command)
    if words[0] == "psql":
        words[0] = str(server.bin / "psql")
        subprocess.run([*words[:2], "-v", "ON_ERROR_STOP=1", *words[2:]], check=True, capture_output=True)
        return
    if words[:2] == ["pgassay", "diagnose"]:
        assert whole_tool.result_of(whole_tool.run(*words[1:], "--seconds", "1", "--json"))["seconds"] >= 1
        return
    assert words[:3] == ["pgassay", "tune", server.dsn()], command
    document = tuned(server.dsn(), out, *words[3:], max_time=TUNE_S, constants=SHORT_PROOF)
    assert document["statements"]


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=plant.name, marks=() if plant.name in ALWAYS else pytest.mark.slow)
        for plant in PLANTS
    ],
)
def test_the_first_sentence_names_it(server: SourceServer, plant: DiagnosedPlant, tmp_path: Path) -> None:
    with under_load(server, plant):
        document = diagnosed(server)
        headline = document["headline"]
        assert headline["cause"] in plant.causes, headline
        for words in plant.says:
            assert words in headline["sentence"], headline
        assert headline["sql"].startswith(plant.sql)
        for words in plant.next_command:
            assert words in headline["command"]
    run_command(server, headline["command"], tmp_path / "out")


@pytest.mark.shares_machine
def test_a_role_that_may_read_the_partitioned_table_alone(server: SourceServer) -> None:
    """pg_stats hides the statistics of its partitions, which were said to be none."""
    server.execute(
        "CREATE TABLE visits (at date, who int) PARTITION BY RANGE (at)",
        "CREATE TABLE visits_2024 PARTITION OF visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
        "CREATE TABLE visits_2025 PARTITION OF visits FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
        "INSERT INTO visits SELECT date '2024-01-01' + n % 700, n FROM generate_series(1, 100000) n",
        "ANALYZE visits",
        "CREATE ROLE of_the_desk LOGIN IN ROLE pg_monitor",
        "GRANT SELECT ON visits TO of_the_desk",
    )
    load = Load("SELECT count(*) FROM visits WHERE who = 7;")
    with under_load(server, DiagnosedPlant("visits", (load,), frozenset(), (), ())):
        words = ("diagnose", server.dsn(user="of_the_desk"), "--seconds", SECONDS, "--json")
        (only,) = of_text(whole_tool.result_of(whole_tool.run(*words)), "FROM visits")
    (finding,) = only["findings"]
    assert finding["sentence"].startswith("each partition of visits in question is read completely")
    server.execute(finding["sql"])
