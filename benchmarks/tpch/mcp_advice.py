"""What postgres-mcp advises: run by the Python of its own environment, as its own package needs others.

    python mcp_advice.py < {"url": "postgresql://…", "statements": [{"query", "calls", "avg_exec_time"}],
                            "budget_mb": -1, "seconds": 300}

Prints a JSON list of {"sql", "gain"}: the indexes that its Database Tuning Advisor recommends, and how many
times cheaper each alone makes the workload by the planner's cost. `budget_mb` −1 sets no bound.
"""

import asyncio
import json
import sys
import typing

import typing_extensions

# The package asks for Python 3.12 for this alone.
if not hasattr(typing, "override"):
    setattr(typing, "override", typing_extensions.override)  # noqa: B010

from postgres_mcp.index.dta_calc import DatabaseTuningAdvisor
from postgres_mcp.sql import DbConnPool, SqlDriver


async def advise(asked: dict[str, typing.Any]) -> list[dict[str, typing.Any]]:
    """Its recommendations for the statements, weighed as it weighs what pg_stat_statements counted."""
    pool = DbConnPool(asked["url"])
    await pool.pool_connect()
    try:
        advisor = DatabaseTuningAdvisor(SqlDriver(conn=pool), max_runtime_seconds=asked["seconds"])
        found = await advisor.analyze_workload(
            workload=asked["statements"], max_index_size_mb=asked["budget_mb"]
        )
    finally:
        await pool.close()
    if found.error:
        raise SystemExit(f"postgres-mcp: {found.error}")
    return [
        {"sql": each.definition, "gain": float(each.individual_improvement_multiple)}
        for each in found.recommendations
    ]


if __name__ == "__main__":
    json.dump(asyncio.run(advise(json.load(sys.stdin))), sys.stdout)
