"""A small shop whose list of a customer's orders lacks an index: what the tests of tune run on."""

from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.experiment.planning.request import CompareRequest
from pgassay.tune.candidate import Candidate
from pgassay.tune.tune_plan import TuneRequest
from server_helpers import best_build

DATA = """
CREATE TABLE orders (id int, customer int, note text);
INSERT INTO orders SELECT n, n * 7919 % 20000, repeat('x', 60) FROM generate_series(1, 150000) n;
"""
SLOW = "-- name: slow\nSELECT count(*), max(note) FROM orders WHERE customer = 4242;\n"


def request(
    folder: Path, statements: str = SLOW, *, max_time_s: float = 300, data: str = DATA
) -> TuneRequest:
    """`data`: what makes the shop; another text is another dataset."""
    (folder / "data.sql").write_text(data)
    (folder / "slow.sql").write_text(statements)
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{folder / 'slow.sql'}",
        dataset=f"script:{folder / 'data.sql'}",
        settings=("shared_buffers=64MB",),
        build=best_build().bin_directory,
        max_time_s=max_time_s,
        seed=1,
    )
    return TuneRequest(compare, out=folder / "out")


def data_of_its_own(folder: Path) -> str:
    """What makes the shop for one test alone: those beside it make and remove the very same data."""
    return f"{DATA}COMMENT ON TABLE orders IS '{folder}';\n"


def kept_data(folder: Path) -> list[str]:
    """The snapshots that were made of a test's own script, which `request` wrote there."""
    place = str(folder / "data.sql")
    return [
        each.key
        for each in snapshots.list_snapshots()
        if each.facts.get("dataset", {}).get("source") == place
    ]


def index(name: str, statement: str = "", **changes: object) -> Candidate:
    known: dict[str, object] = {
        "id": f"index:{name}",
        "layer": "design",
        "kind": "btree",
        "title": f"index {name}",
        "reason": "rows are discarded",
        "statements": ("slow",),
        "sql": (statement,),
        "undo": (f"DROP INDEX {name}",),
    }
    return Candidate.model_validate(known | changes)
