"""The whole of tune on a real server: a missing index is found, proven, applied and taken back."""

from pathlib import Path

import psycopg
import pytest

from pgassay.environment.server.sessions import ControlSession
from pgassay.experiment.planning.request import CompareRequest
from pgassay.terminal.progress import NullProgress
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.plan import TuneRequest
from pgassay.tune.run import run_tune
from pgassay.tune.tools import Tools
from server_helpers import best_build

pytestmark = pytest.mark.server

DATA = """
CREATE TABLE orders (id int, customer int, note text);
INSERT INTO orders SELECT n, n * 7919 % 20000, repeat('x', 60) FROM generate_series(1, 150000) n;
"""
SLOW = "-- name: slow\nSELECT count(*), max(note) FROM orders WHERE customer = 4242;\n"


def facts(session: ControlSession) -> SchemaFacts:
    return SchemaFacts(
        version=session.info.server_version, database="postgres", encoding="UTF8", collation="C"
    )


def find(symptom: Symptom) -> tuple[Candidate, ...]:
    """One that helps, one that the planner does not use, one that fails."""
    assert symptom.share == {"slow": 1.0}

    def index(name: str, sql: str) -> Candidate:
        return Candidate(
            id=f"index:{name}",
            layer="design",
            kind="btree",
            title=f"index {name}",
            reason="rows are discarded",
            statements=("slow",),
            sql=(sql,),
            undo=(f"DROP INDEX {name}",),
        )

    return (
        index("by_note", "CREATE INDEX by_note ON orders (id) WHERE note IS NULL"),
        index("by_customer", "CREATE INDEX by_customer ON orders (customer)"),
        index("wrong", "CREATE INDEX wrong ON orders (nothing)"),
    )


def test_a_missing_index_is_found_and_proven(tmp_path: Path) -> None:
    (tmp_path / "data.sql").write_text(DATA)
    (tmp_path / "slow.sql").write_text(SLOW)
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{tmp_path / 'slow.sql'}",
        dataset=f"script:{tmp_path / 'data.sql'}",
        settings=("shared_buffers=64MB",),
        build=best_build().bin_directory,
        max_time_s=60,
        seed=1,
    )
    request = TuneRequest(compare, out=tmp_path / "out")
    result = run_tune(request, Tools(facts, find), NullProgress(), wait=True, isolates=False)
    print(result.model_dump_json(indent=1))
    assert [(fix.id, fix.verdict) for fix in result.fixes][0] == ("index:by_customer", "recommended")
