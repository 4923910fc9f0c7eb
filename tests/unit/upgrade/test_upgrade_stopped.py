"""What stops an upgrade half-way: a statement that crashes a server, and whoever presses Ctrl-C."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgassay.errors import InterruptionError, UsageError
from pgassay.experiment.running.result_bag import Bag
from pgassay.model.build import Build
from pgassay.model.upgrades.upgrade_answer import UpgradeFinding
from pgassay.model.workload import Statement
from pgassay.progress import NullProgress
from pgassay.tune.statement_errors import TooLongError
from pgassay.upgrade import both_versions, run_upgrade
from pgassay.upgrade.both_versions import ComparedStatement, SeenInVersion, _compared, _seen
from pgassay.upgrade.builds_of_both import BuildsOfBoth
from pgassay.upgrade.chosen_statements import StatementChoice, Wanted
from pgassay.upgrade.read_source import SourceRead, read_source
from pgassay.upgrade.upgrade_answer import answer_of, single_statements

BUILD = Build(origin="apt", version="19.1", major=19, bin_directory="/nowhere")


class Crashing:
    """A copy's server that one statement crashes, and that takes some time to come back."""

    timeout_s = 9.0

    def __init__(self, *_: object, **__: object) -> None:
        self.recovers_in = 0

    def __enter__(self) -> "Crashing":
        return self

    def __exit__(self, *_: object) -> None: ...

    @property
    def session(self) -> "Crashing":
        self.recovers_in -= 1
        if self.recovers_in >= 0:
            raise psycopg.OperationalError("the database system is in recovery mode")
        return self

    def execute(self, _: str) -> None: ...

    def rows(self, sql: str) -> Bag:
        assert self.session is self
        if "crash" in sql:
            self.recovers_in = 3
            raise psycopg.OperationalError("server closed the connection unexpectedly\n\tThis probably means")
        return Bag((), (), 0)

    def executed(self, _sql: str, name: str, *, writes: bool) -> str:
        if name == "slow-plan":
            raise TooLongError(f"statement {name} takes longer than 9 s")
        return f"a plan{writes:d}"


def test_a_statement_that_crashes_the_server_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(both_versions, "TrialCopy", Crashing)
    monkeypatch.setattr(both_versions, "_POLL_S", 0.0)
    statements = [Statement(name=each, sql=f"SELECT {each}()") for each in ("crash", "fine")]
    seen = _seen(cast("Any", SimpleNamespace(build=BUILD)), "as-is", statements, 9.0, lambda *_: None)
    assert seen.errors == {"crash": "server closed the connection unexpectedly"}
    assert set(seen.rows) == {"fine"}


def test_a_plan_that_takes_longer_than_its_statement_may_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(both_versions, "TrialCopy", Crashing)
    statements = [Statement(name=each, sql="SELECT 1") for each in ("slow-plan", "fine")]
    seen = _seen(cast("Any", SimpleNamespace(build=BUILD)), "as-is", statements, 9.0, lambda *_: None)
    assert not seen.errors and not seen.unended and set(seen.rows) == {"slow-plan", "fine"}
    assert set(seen.plans) == {"fine"}
    compared = {name: each.plan for name, each in _compared(statements, SeenInVersion(), SeenInVersion())}
    assert compared["slow-plan"] is None
    unknown = ComparedStatement("", "", True, (1, 1), None)
    (found,) = single_statements(statements[:1], {}, (), {"slow-plan": unknown}, None)
    assert "the plan is the same" not in found.reason and found.plan == ()


def test_what_was_interrupted_is_no_go(tmp_path: Path) -> None:
    statements = [Statement(name="a", sql="SELECT 1")]
    made = answer_of(
        source=("db:5432/shop", "16.1"), versions=("16.14", "18.4"), folder=tmp_path, findings=(),
        measured=single_statements(statements, {}, (), {}, None, "it was interrupted before"), mended={},
        result=None, experiment="", margin=0.1, warnings=(), is_interrupted=True,
    )  # fmt: skip
    assert made.decision == "look" and made.interrupted
    assert made.headline.startswith(
        "Interrupted: this is what was known until then. From 16.14 to 18.4: check"
    )


@pytest.mark.parametrize("stopped", [KeyboardInterrupt(), InterruptionError("interrupted")])
def test_ctrl_c_ends_with_what_is_known_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: BaseException
) -> None:
    gone = UpgradeFinding(id="setting-gone:a", severity="in the way", sentence="a is gone")
    read = SourceRead((gone,), (), Wanted((Statement(name="a", sql="SELECT 1"),), {}, ()), {}, "")

    @contextlib.contextmanager
    def copied(*_: object) -> Iterator[str]:
        yield "dump:x"

    def stop(*_: object) -> None:
        raise stopped

    for name, made in (
        ("read_source", lambda *_: read), ("copied", copied), ("_program", lambda _: BUILD),
        ("_request", stop),
    ):  # fmt: skip
        monkeypatch.setattr(run_upgrade, name, made)
    compare = SimpleNamespace(storage="host", margin=0.1, max_time_s=9.0)
    wanted = run_upgrade.UpgradeRequest("dbname=shop", "19", cast("Any", compare))
    source = SimpleNamespace(name="db1", resolved=SimpleNamespace(server=SimpleNamespace(version="16.1")))
    builds = BuildsOfBoth(BUILD, BUILD, ("16", "19"))
    run = run_upgrade._Run(wanted, cast("Any", source), builds, tmp_path, NullProgress(), 0.0)
    made = run_upgrade._look(run, [])
    assert made.interrupted and [each.id for each in made.findings] == ["setting-gone:a"]
    (statement,) = made.statements
    assert (statement.verdict, statement.reason) == ("not run", "it was interrupted before")


def test_a_source_that_goes_away_ends_it_with_a_sentence(tmp_path: Path) -> None:
    class Gone:
        def execute(self, *_: object) -> None:
            raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    server = SimpleNamespace(name="db1:5432/shop", user="app")
    source = SimpleNamespace(
        session=lambda *_: contextlib.nullcontext(Gone()), resolved=SimpleNamespace(server=server)
    )
    asked = StatementChoice("", "", 5)
    with pytest.raises(UsageError, match=r"^db1:5432/shop: its catalogs can't be read \(terminating conn"):
        read_source(asked, ("", "host"), cast("Any", source), (BUILD, BUILD, BUILD), tmp_path, NullProgress())
