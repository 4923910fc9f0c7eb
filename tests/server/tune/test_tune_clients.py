"""Tune with several clients: the proof executes the statements at once; a source says how many there are."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgassay.progress import NullProgress
from pgassay.record.experiment import load
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finders.registry import find
from pgassay.tune.run_tune import run_tune
from pgassay.tune.search.executions import AT_ONCE_MIN
from pgassay.tune.source.counted import read_counted
from pgassay.tune.source.sessions import read_at_work
from pgassay.tune.source.source_server import open_source
from pgassay.tune.tools import TuneTools
from server_helpers import best_build
from source_servers import connection_string, counting_server
from tuned_orders import SLOW, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SLEEPING = "SELECT pg_sleep(60)"
OF_SLEEPERS = f"FROM pg_stat_activity WHERE query = '{SLEEPING}'"
WRITES = """
-- name: placed
-- weight: 3
INSERT INTO orders SELECT 200001, 17, 'placed';
"""


@pytest.mark.slow
def test_the_proof_executes_the_statements_by_clients_at_once(tmp_path: Path) -> None:
    asked = replace(request(tmp_path, SLOW + WRITES, max_time_s=120), clients=3)
    result = run_tune(asked, TuneTools(read_facts, find), NullProgress(), wait=True, isolates=False)
    best = result.fixes[0]
    assert (best.verdict, best.kind) == ("recommended", "btree") and "(customer" in best.sql
    assert result.symptom.clients == 3 and "with 3 clients at once" in result.verdict
    stored = load(tmp_path / "out" / "proof")
    assert {arm.spec.workload.clients for arm in stored.experiment.arms} == {3}
    for trial in stored.trials:
        assert trial.record.status == "ok", trial.record.reason
        at_once = {each.name: each.at_once for each in trial.record.statements}
        assert at_once["slow"] >= AT_ONCE_MIN and at_once["placed"] >= AT_ONCE_MIN
        # Rolled back each time, so every trial finds the rows that the first one found.
        (orders,) = (
            row for row in trial.record.counters["pg_stat_user_tables"] if row["relname"] == "orders"
        )
        assert orders.get("n_tup_ins") == at_once["placed"]


def test_sessions_at_work_are_counted_on_the_source() -> None:
    with counting_server(best_build()) as (server, session):
        source = open_source(connection_string(server))
        with source.reading() as own:
            quiet = read_at_work(own, read_counted(source, own, 5))
            assert quiet.clients(2) == 1 and quiet.since is not None and quiet.since < 1
            threads = [threading.Thread(target=sleeping, args=(connection_string(server),)) for _ in range(3)]
            for thread in threads:
                thread.start()
            while session.execute(f"SELECT count(*) {OF_SLEEPERS}").fetchone() != (3,):
                time.sleep(0.02)
            busy = read_at_work(own, read_counted(source, own, 5))
            assert busy.seen == 3 and busy.clients(2) == 3 and "--clients 3" in busy.note(2)
        session.execute(f"SELECT pg_terminate_backend(pid) {OF_SLEEPERS}")
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def sleeping(connection: str) -> None:
    with psycopg.connect(connection) as session:
        try:
            session.execute(SLEEPING)
        except psycopg.errors.AdminShutdown:
            return
