"""What postgres-mcp advises: run by the Python of its own environment, as its own package needs others.

    python mcp_advice.py < {"url": "postgresql://…", "statements": [{"query", "calls", "avg_exec_time"}],
                            "budget_mb": -1, "seconds": 300}

Prints {"indexes": [{"sql", "gain"}], "left_out": […]}: the indexes that its Database Tuning Advisor
recommends, how many times cheaper each alone makes the workload by the planner's cost, and the statements
that it can't take. `budget_mb` −1 sets no bound.
"""

import asyncio
import json
import logging
import sys
import typing

import typing_extensions

# The package asks for Python 3.12 for this alone.
if not hasattr(typing, "override"):
    setattr(typing, "override", typing_extensions.override)  # noqa: B010

from postgres_mcp.index.dta_calc import DatabaseTuningAdvisor
from postgres_mcp.sql import DbConnPool, SqlDriver


async def advise(asked: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Its recommendations for the statements, weighed as it weighs what pg_stat_statements counted.

    It gives up a whole workload for one statement whose columns it takes for those of another table, as
    outputs of a common table expression. Such statements are found out one by one, and left out.
    """
    pool = DbConnPool(asked["url"])
    await pool.pool_connect()
    try:
        driver = SqlDriver(conn=pool)
        understood, left_out = [], []
        for statement in asked["statements"]:
            is_understood = await _understands(driver, dict(statement))
            (understood if is_understood else left_out).append(statement)
        advisor = DatabaseTuningAdvisor(driver, max_runtime_seconds=asked["seconds"])
        found = await advisor.analyze_workload(workload=understood, max_index_size_mb=asked["budget_mb"])
    finally:
        await pool.close()
    if found.error:
        raise SystemExit(f"postgres-mcp: {found.error}")
    return {
        "left_out": [each["query"] for each in left_out],
        "indexes": [
            {"sql": each.definition, "gain": float(each.individual_improvement_multiple)}
            for each in found.recommendations
        ],
    }


async def _understands(driver: SqlDriver, statement: dict[str, typing.Any]) -> bool:
    """Whether it gets as far as its candidates with this statement alone."""
    advisor = DatabaseTuningAdvisor(driver)
    try:
        parsed = await advisor._validate_and_parse_workload([statement])
        await advisor.generate_candidates([(each["query"], each["stmt"], 1.0) for each in parsed], set())
    except Exception:  # noqa: BLE001  # whatever it says of it
        return False
    return True


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    json.dump(asyncio.run(advise(json.load(sys.stdin))), sys.stdout)
