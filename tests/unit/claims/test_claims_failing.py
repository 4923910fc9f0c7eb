"""A run of claims goes on where an experiment fails, and says why that one has no more."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plans_for_tests
import pytest

from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.cli.main import main
from pgassay.design.shared_data import on_shared_data
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.claims import claim_status
from pgassay.experiment.claims import run_claims as running
from pgassay.experiment.claims.claim_files import claimed_files
from pgassay.experiment.claims.run_claims import ClaimsOptions, run_claims
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.progress import NullProgress
from pgassay.record.experiment import write_experiment

CLAIM = '[[claim]]\nid = "{0}"\ntext = "t"\nsource = {{ title = "A page" }}\n{1}\nsays = "faster"\n'
ARMS = 'arm = "work_mem=8MB"\nagainst = "work_mem=4MB"'
TEXT = '{0}\nscale = 1\nmax-time = "1m"\n\n[factors]\nwork_mem = ["4MB", "8MB"]\n\n'


def options(folder: Path, *names: str) -> ClaimsOptions:
    paths = [folder / f"{name}.toml" for name in names]
    for path in paths:
        content = TEXT.format('workload = "full-scan"') + CLAIM.format(f"of-{path.stem}", ARMS)
        path.write_text(content, "utf-8")
    return ClaimsOptions(files=claimed_files(paths), time_max_s=60.0, out=folder / "out", seed=1)


@pytest.mark.parametrize(
    "error",
    [
        MeasurementError("a server did not start"),
        UsageError("this build has no such setting"),
        OSError(28, "No space left on device"),
    ],
)
def test_the_others_are_run_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    begun: list[str] = []

    def parse_told(request: Any, *_: Any, **__: Any) -> None:
        begun.append(request.out.name)
        raise error

    monkeypatch.setattr(running, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(running, "parse_told", parse_told)
    monkeypatch.setattr(running, "with_plan", lambda found, *_, **__: found)
    result, is_interrupted = run_claims(options(tmp_path, "first", "second"), NullProgress(), wait=True)
    assert sorted(begun) == ["first", "second"] and not is_interrupted
    reason = str(error)
    expected = "can't be tried here" if isinstance(error, UsageError) else None
    assert [each.verdict for each in result.claims] == [expected] * 2
    assert all(reason in each.why for each in result.claims)


def test_an_experiment_that_can_t_be_planned_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(request: Any, *_: Any) -> Any:
        if request.out.name == "first":
            raise MeasurementError("its server did not start")
        raise UsageError("this build has no such setting")

    monkeypatch.setattr(running, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(claim_status, "parse_request", lambda request, *_: request)
    monkeypatch.setattr(claim_status, "plan", plan)
    result, _ = run_claims(options(tmp_path, "first", "second"), NullProgress(), wait=True)
    assert [each.why for each in result.claims] == [
        "its server did not start",
        "this build has no such setting",
    ]


def test_strata_of_which_no_claim_can_be_tried_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grid.toml"
    content = TEXT.format('workload = "select-only"') + 'jit = ["on", "off"]\n'
    for jit in ("on", "off"):
        content += CLAIM.format(f"at-{jit}", f'{ARMS}\nstratum = "jit={jit}"') + "\n"
    path.write_text(content.replace('"8MB"]\n\njit', '"8MB"]\njit'), "utf-8")
    (file,) = claimed_files([path])
    found = claim_status.standing_of(file, tmp_path / "out", 1)
    assert found.request.chosen is None
    monkeypatch.setattr(claim_status, "parse_request", lambda request, *_: request)
    experiment = plans_for_tests.make_experiment(["work_mem=4MB,8MB,16MB", "jit=on,off"])
    monkeypatch.setattr(claim_status, "plan", lambda *_: experiment)
    known = TrialHistory(5.0, 0.01)
    monkeypatch.setattr(claim_status.earlier_experiments, "recall", lambda _: known)
    monkeypatch.setattr(
        claim_status, "missing_for", lambda claim, *_: "skipped" if claim.id == "at-off" else ""
    )
    after = claim_status.with_plan(found, NullProgress())
    assert after.request.chosen is not None
    arms, contrasts = after.request.chosen(experiment.arms, experiment.contrasts)
    assert {arm.name for arm in arms} == {"work_mem=4MB jit=on", "work_mem=8MB jit=on"}
    # A family of one comparison, with its control and twin: three trials of 5 s in each of the fewest blocks.
    assert len(contrasts) == 1 and after.least_s == 5.0 * 3 * minimum_blocks(pooled=True)
    assert after.request.command == ("pgassay", "claims", "run", str(path))
    assert [each.verdict for each in after.judged] == [None, "can't be tried here"]


def test_an_experiment_with_all_blocks_that_its_file_asks_for_has_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    def measure(_: Any, found: Any, __: Any) -> None:
        turns.append(len(turns))
        (found.folder / "trials" / f"{len(turns):06d}" / "attempt-1").mkdir(parents=True)

    chosen = options(tmp_path, "first")
    (file,) = chosen.files
    file.path.write_text(f"blocks = 3\n{file.path.read_text('utf-8')}", "utf-8")
    monkeypatch.setattr(running, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(running._Run, "_measure", measure)
    monkeypatch.setattr(running, "measured", lambda found, _: replace(found, blocks=3))
    monkeypatch.setattr(running, "with_plan", lambda found, *_, **__: found)
    run_claims(chosen, NullProgress(), wait=True)
    assert turns == [0]


def test_waiting_for_another_experiment_takes_none_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    ends: list[float] = []

    @contextmanager
    def host_lock(*_: Any, **__: Any) -> Iterator[None]:
        clock[0] += 3600.0
        yield

    def measure(run: Any, *_: Any) -> None:
        ends.append(run._ends_at)
        raise MeasurementError("that is enough")

    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(running, "host_lock", host_lock)
    monkeypatch.setattr(running, "with_plan", lambda found, *_, **__: found)
    monkeypatch.setattr(running._Run, "_measure", measure)
    run_claims(options(tmp_path, "first"), NullProgress(), wait=True)
    assert ends == [100.0 + 3600.0 + 60.0]


@pytest.mark.parametrize("changed", ["query.sql", "index.sql"])
def test_a_file_of_sql_that_was_changed_since_needs_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """The arms share a server, so that the data of all have the index."""
    path, query, index = (tmp_path / name for name in ("first.toml", "query.sql", "index.sql"))
    arms = 'arm = "prepare=index.sql"\nagainst = "prepare=none"'
    head = TEXT.format('workload = "sql:query.sql"').partition("[factors]")[0]
    factors = '[factors]\nprepare = ["none", "index.sql"]\n'
    path.write_text(head + factors + CLAIM.format("of-first", arms), "utf-8")
    query.write_text("SELECT 1;\n")
    index.write_text("CREATE INDEX of_abalance ON pgbench_accounts (abalance);\n")
    texts, workload = [f"prepare=none,{index}"], f"sql:{query}"

    def parsed(*_: Any) -> Any:
        made, _ = plans_for_tests.make_arms(texts, workload=workload)
        return SimpleNamespace(candidates=[(arm.levels, arm.spec) for arm in made])

    monkeypatch.setattr(claim_status, "parse_request", parsed)
    monkeypatch.setattr(claim_status, "measured", lambda found, _: found)
    made, contrasts = plans_for_tests.make_arms(texts, workload=workload)
    shared = on_shared_data(made)
    assert shared.switched
    plan = plans_for_tests.make_experiment(["io_method=sync,worker"])
    update = {"arms": shared.arms, "contrasts": contrasts}
    write_experiment(tmp_path / "out" / "first", plan.model_copy(update=update))
    (file,) = claimed_files([path])
    claim_status.standing_of(file, tmp_path / "out", 7)
    text = (tmp_path / changed).read_text("utf-8")
    (tmp_path / changed).write_text(text.replace("1;", "2;").replace("(abalance)", "(bid, abalance)"))
    with pytest.raises(UsageError, match=r"a file that .* names was changed since"):
        claim_status.standing_of(file, tmp_path / "out", 7)


def test_verdicts_are_shown_where_their_page_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = options(tmp_path, "first").files[0].path

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(running, "host_lock", lambda *_, **__: nullcontext())
    monkeypatch.setattr(running, "with_plan", lambda found, *_, **__: replace(found, note="no server here"))
    monkeypatch.setattr(running._Run, "run_all", lambda _: None)
    monkeypatch.setattr("pgassay.record.documents.replace_file", full)
    assert main(["claims", "run", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 1
    printed = capsys.readouterr()
    assert "of-first: not run, no server here" in printed.out
    assert (
        "No space left on device" in printed.err and f"claims {path} {tmp_path / 'out'} shows" in printed.err
    )
