"""Plans that are executed after the rounds of a start: their time, and one that takes the server with it."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgassay.trial import shared_start
from pgassay.trial.measure import work_plans
from pgassay.trial.measure.work_plans import PlanWork, execute_plans


class Control:
    """A control session that the first EXPLAIN ANALYZE ends, or none."""

    def __init__(self, *, is_fatal: bool) -> None:
        self._is_fatal = is_fatal
        self.closed = False

    def execute(self, query: bytes, *_: object, **__: object) -> Any:
        if self._is_fatal and query.startswith(b"EXPLAIN"):
            self.closed = True
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return SimpleNamespace(fetchone=lambda: ([{"Plan": {}}],))

    def commit(self) -> None:
        pass


def trial(**fields: Any) -> Any:
    statement = SimpleNamespace(name="q", sql="SELECT 1", parts=())
    workload = SimpleNamespace(
        is_replay=False, writes=False, kind="statements", statements=(statement,), load=None, prepared=False
    )
    abandoned: list[bool] = []
    return SimpleNamespace(
        arm=SimpleNamespace(workload=workload, build=SimpleNamespace(major=18), leaves_data_changed=False),
        spec=SimpleNamespace(protocol=SimpleNamespace(rolls_back=False)),
        observation=SimpleNamespace(
            statements=[SimpleNamespace(name="q", elapsed_s=0.1, stopped=False)], load=None, work_plans={}
        ),
        machine=object(),
        target=SimpleNamespace(abandon=lambda: abandoned.append(True)),
        abandoned=abandoned,
        started=0.0,
        fields=fields,
        stage=lambda _: None,
    )


@pytest.mark.parametrize("is_fatal", [False, True])
def test_whether_the_server_survived_is_returned(monkeypatch: pytest.MonkeyPatch, is_fatal: bool) -> None:
    monkeypatch.setattr(work_plans, "is_prepared", lambda _: False)
    made, server = trial(), SimpleNamespace(control=Control(is_fatal=is_fatal))
    work = PlanWork(is_due=lambda *_: True, budget_s=lambda _: 10.0)
    assert execute_plans(made, server, {"q": {}}, work) is not is_fatal  # type: ignore[arg-type]
    assert bool(made.abandoned) == is_fatal
    # It is kept as one that is never executed, so that no later start loses its server to it.
    assert made.observation.work_plans["q"].executed is not is_fatal
    assert not made.observation.work_plans["q"].deferred


def start_of(trials: list[Any], budget_s: float) -> tuple[Any, list[Any]]:
    work = PlanWork(is_due=lambda *_: True, budget_s=lambda wall_s: budget_s + 0 * wall_s)
    start = shared_start._Start(trials, None, [work] * len(trials))  # type: ignore[arg-type]
    prepared = SimpleNamespace(server=None, explained={})
    return start, [SimpleNamespace(trial=each, local=None, prepared=prepared) for each in trials]


def test_arms_of_a_start_have_the_time_for_plans_together(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def execute(of: Any, _server: object, _explained: object, work: PlanWork) -> bool:
        given.append(work.budget_s(1e9))
        of.fields["plans_s"] = 0.75
        return True

    monkeypatch.setattr(shared_start, "execute_plans", execute)
    monkeypatch.setattr(shared_start, "switch_to", lambda *_: None)
    start, ready = start_of([trial() for _ in range(3)], 2.0)
    assert start._survives_plans(ready)
    assert given == [2.0, 1.25, 0.5]


def test_an_arm_has_its_share_of_the_start_and_not_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    walls = []
    work = PlanWork(is_due=lambda *_: True, budget_s=lambda wall_s: walls.append(wall_s) or 1.0)
    monkeypatch.setattr(shared_start, "execute_plans", lambda *_: True)
    monkeypatch.setattr(shared_start, "switch_to", lambda *_: None)
    start, ready = start_of([trial() for _ in range(4)], 0.0)
    start._works = [work] * 4
    start._began_s -= 40.0
    assert start._survives_plans(ready)
    assert walls == [pytest.approx(10.0, abs=0.5)] * 4


def test_no_more_plans_are_executed_where_one_took_the_server_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(shared_start, "execute_plans", lambda of, *_: bool(asked.append(of)))
    monkeypatch.setattr(shared_start, "switch_to", lambda *_: None)
    trials = [trial() for _ in range(3)]
    start, ready = start_of(trials, 2.0)
    assert not start._survives_plans(ready)
    assert asked == trials[:1]
