"""How much of the time each statement took, its commit with it, and what is said of the rest."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.analysis.diagnosis.headline import headline
from pgassay.analysis.diagnosis.interval import Cost, Interval, Session, SessionsSample
from pgassay.analysis.diagnosis.statement_diagnosis import by_statement
from pgassay.analysis.diagnosis.statement_times import statement_times
from pgassay.model.account import Account, AccountItem
from pgassay.model.cause import Cause
from pgassay.model.running_server.diagnosis import CalledStatement, DiagnosedServer
from pgassay.model.running_server.statement import StatementFinding
from pgassay.report.diagnosis import diagnosis_page as report
from pgassay.running_server.diagnosis import estimated_plans

S = 1_000_000_000
SERVER = DiagnosedServer(
    name="db:5432/shop", version="18.4", role="me", is_local=False, is_standby=False, postmaster_pid=None,
    data_directory=None, device=None, connection="dbname=shop",
)  # fmt: skip


def called(query_id: str, query: str, total_s: float) -> CalledStatement:
    """A thousand calls."""
    return CalledStatement(
        query_id=query_id, query=query, calls=1000, total_s=total_s, mean_ms=total_s, rows=1000,
        read_bytes=0, hit_bytes=0, temporary_bytes=0,
    )  # fmt: skip


SELECT = called("1", "SELECT b FROM t WHERE a = $1", 0.65)
UPDATE = called("2", "UPDATE t SET b = b + $1 WHERE a = $2", 0.35)
END = called("3", "END", 0.001)


def interval(*statements: CalledStatement, seen: dict[str, list[str]], **changes: Any) -> Interval:
    """Ten seconds of ten looks; seen: by a statement's number what a session of it waited for at each."""
    texts = {each.query_id: each.query for each in statements}
    sessions = [
        [
            Session(int(number), number, texts[number], "active", *waits[look].split(":"))
            for number, waits in seen.items()
            if look < len(waits)
        ]
        for look in range(10)
    ]
    base = Interval(
        server=SERVER, folder=Path("nowhere"), started_at="2026-03-01T12:00:00.000+00:00", begin_ns=0,
        end_ns=10 * S, seconds_asked=10, interrupted=False, is_hidden=False,
        cost=Cost(0.0, 0.0, None, 5.0, 0, 0), counters={}, settings={},
        samples=tuple(SessionsSample(look * S, tuple(each), 0.0) for look, each in enumerate(sessions)),
        statements=statements, statements_s=sum(each.total_s for each in statements),
    )  # fmt: skip
    return replace(base, **changes)


IN_COMMIT = {"1": [":"], "2": ["LWLock:WALWrite"] * 6 + [":"] * 2, "3": ["IO:WalSync"] * 6}


def test_a_statement_s_commit_counts_for_it() -> None:
    """The server's counts end with the executor: an UPDATE that waited for its commit came last."""
    times = statement_times(interval(SELECT, UPDATE, END, seen=IN_COMMIT))
    assert [(each.query_id, round(each.seconds, 3)) for each in times] == [("2", 8), ("3", 6), ("1", 0.65)]
    assert sum(each.share for each in times) == pytest.approx(1)
    # What was counted stands where no sample saw it, or so few that chance explains them.
    for looks in (0, 4):
        (only,) = statement_times(interval(SELECT, seen={"1": [":"] * looks}))
        assert (only.seconds, only.share) == (0.65, 1.0)


def test_a_call_of_hours_that_ended_in_the_interval_has_no_more_than_its_part_of_it() -> None:
    """Among many statements the samples of it were left out, and its whole time counted."""
    short = [called(str(number), f"SELECT a FROM t{number}", 5.0) for number in range(1, 13)]
    report = called("77", "SELECT report()", 7200.0).model_copy(update={"calls": 1, "mean_ms": 7_200_000.0})
    seen = {each.query_id: [":"] * 5 for each in short}
    times = statement_times(interval(*short, report, seen=seen | {"77": [":"] * 2}))
    assert len(times) == 13 and times[-1].query_id == "77"
    assert times[-1].seconds == 2.0 and times[-1].share == pytest.approx(2 / 62)
    # It ended before the first sample.
    first = statement_times(interval(*short, report, seen=seen))[0]
    assert (first.query_id, first.seconds) == ("77", 10.0)
    assert first.share == pytest.approx(10 / 70)


def test_no_plan_is_blamed_for_waiting_in_commit() -> None:
    seen = interval(SELECT, UPDATE, END, seen=IN_COMMIT)
    finding = StatementFinding(kind="whole-table", sentence="t is read completely", sql="CREATE INDEX …")
    limit = Cause.model_construct(
        cause="all-cores", kind="limit", share=0.3, evidence={}, remedy="Add some.", layer="infrastructure"
    )
    listed = [each.model_copy(update={"findings": (finding,)}) for each in by_statement(seen)]
    assert listed[0].share == pytest.approx(8 / 14.65)
    assert headline(seen, (limit,), listed[:1], ()).cause == "all-cores"
    busy = interval(SELECT, UPDATE, END, seen=IN_COMMIT | {"2": [":"] * 8})
    listed = [each.model_copy(update={"findings": (finding,)}) for each in by_statement(busy)]
    assert headline(busy, (limit,), listed[:1], ()).cause == "statement"


def test_what_the_listed_statements_don_t_have_is_told(tmp_path: Path) -> None:
    idle = AccountItem(kind="client", state="asleep", seconds=150.0, share=0.7)
    backend = Account.model_construct(
        process="backend", wall_s=224.0, threads=22.4, residue_s=0.0, items=(idle,)
    )
    found = diagnose(interval(SELECT, UPDATE, seen={}, folder=tmp_path))
    busy = {"activity": found.activity.model_copy(update={"connections_busy": 22.4}), "accounts": (backend,)}
    shown = " ".join(report.page_of(found.model_copy(update=busy)).terminal().split())
    assert (
        "took 1 s of the 224 s that connections were busy. The rest: 150 s idle in a transaction, 73 s in "
        "other statements, or around these (planning, commits, waiting for a CPU)." in shown
    )
    assert "The rest:" not in report.page_of(found).terminal()


def test_a_commit_asks_for_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have the place of a statement that has one, and a line that says it has none."""
    asked = Mock()
    monkeypatch.setattr(estimated_plans, "_planned", asked)
    monkeypatch.setattr(estimated_plans, "_tables", Mock(return_value=()))
    monkeypatch.setattr(
        estimated_plans, "read_facts", Mock(return_value=SimpleNamespace(functions=(), tables=()))
    )
    target = MagicMock(is_superuser=False, major=18)
    estimated_plans.with_plans(target, interval(UPDATE, END, seen=IN_COMMIT | {"1": []}), {}, {})
    assert [call.args[1].query_id for call in asked.call_args_list] == ["2"]


def test_a_page_has_few_columns_and_the_client_s_time_by_its_name(tmp_path: Path) -> None:
    """At 390 pixels the column of waits was cut; 'idle in transaction' read as a wait of the statement."""
    found = diagnose(interval(UPDATE, seen={"2": IN_COMMIT["2"]}, folder=tmp_path))
    (only,) = found.by_statement
    waits = {"idle in transaction": 0.61, "LWLock:WALWrite": 0.3}
    page = report.page_of(
        found.model_copy(update={"by_statement": (only.model_copy(update={"waits": waits}),)})
    )
    told = "its client after it (idle in transaction) 61 %, LWLock:WALWrite 30 %"
    assert told in " ".join(page.terminal(width=300).split())
    html = " ".join(page.html().split())
    assert f"waits for: {told}" in html and "of a call: rows 1, pages 0" in html
    assert ">waits for<" not in html and ">mean<" in html
