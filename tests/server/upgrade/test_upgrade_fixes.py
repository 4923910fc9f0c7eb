"""A statement that is slower on the new version gets a fix that was proven there."""

from pathlib import Path

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.workload import Statement
from pgassay.progress import NullProgress
from pgassay.upgrade.fixes import proven_fixes

pytestmark = [pytest.mark.server, pytest.mark.timeout(400)]

DATA = """
CREATE TABLE orders (id int, customer int, note text);
INSERT INTO orders SELECT n, n * 7919 % 20000, repeat('x', 60) FROM generate_series(1, 150000) n;
ANALYZE orders;
"""
BY_CUSTOMER = Statement(
    name="by-customer", sql="SELECT count(*), max(note) FROM orders WHERE customer = 4242"
)


@pytest.mark.slow
def test_an_index_is_proven_on_the_new_version(tmp_path: Path) -> None:
    (tmp_path / "data.sql").write_text(DATA)
    request = CompareRequest(factors=(), dataset=f"script:{tmp_path / 'data.sql'}")
    new = resolve("18")
    mended, why = proven_fixes(request, new, [BY_CUSTOMER], tmp_path, 100.0, NullProgress())
    assert not why
    fix = mended["by-customer"]
    assert f"× as fast on {new.version}, proven there" in fix.words
    assert "CREATE INDEX" in fix.sql and "customer" in fix.sql
    # What is run on a server in use is in a script, which the sentence names.
    script = tmp_path / "fixes" / "apply.sql"
    assert f"; {script} makes it on a server in use" in fix.words
    assert "CREATE INDEX CONCURRENTLY" in script.read_text()


@pytest.mark.shares_machine
def test_without_time_it_says_so(tmp_path: Path) -> None:
    mended, why = proven_fixes(
        CompareRequest(factors=()), resolve("18"), [BY_CUSTOMER], tmp_path, 10.0, NullProgress()
    )
    assert not mended and "give a longer --max-time" in why
    assert not any(tmp_path.iterdir())
