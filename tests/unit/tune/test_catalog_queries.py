"""The queries of the catalogs, as they are put together for each version."""

import pytest
from pglast import ast, parse_sql

from pgassay.tune.facts.catalog_queries import DATABASE, query
from pgassay.tune.rewrites.tree import names_of, walk


@pytest.mark.parametrize("major", range(14, 20))
def test_scans_are_counted_since_a_crash_lost_the_counts(major: int) -> None:
    """Not since the postmaster started, which a crash of a backend survives: an index may just look idle."""
    (root,) = parse_sql(query(DATABASE, 10_000 * major))
    called = {names_of(node.funcname)[-1] for node in walk(root.stmt) if isinstance(node, ast.FuncCall)}
    assert {"pg_stat_get_db_stat_reset_time", "pg_stat_get_bgwriter_stat_reset_time"} <= called
