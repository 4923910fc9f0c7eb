"""Tune on real servers from what was there before: an experiment, a proof's first stage, another version."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tune_samples as samples
from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import snapshots
from pgassay.environment.server.validation import with_data_format
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import host_lock
from pgassay.progress import NullProgress
from pgassay.record.experiment import write_experiment
from pgassay.tune.answer.compose import Told, compose
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.read import read_facts
from pgassay.tune.finders.registry import find
from pgassay.tune.proof.stages import ProofStages, deadline, planned_again, remove_copies
from pgassay.tune.run_tune import run_tune
from pgassay.tune.running.resume import resume_tune
from pgassay.tune.search import search
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import Baseline, FixSelection, SelectionStep
from pgassay.tune.stored_search import StoredSearch, stored_search, write_search
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import TuneRequest, plan_tune, request_from
from pgassay.tune.tuned_statements import measured
from tuned_orders import SLOW, data_of_its_own, index, kept_data, request

pytestmark = pytest.mark.server

MARGIN = 0.1
# 18 removes the join of a table with itself, and 17 carries it out.
SELF_JOIN = "SELECT count(a.note) FROM orders a JOIN orders b ON a.id = b.id;\n"


@pytest.mark.shares_machine
def test_a_compared_workload_is_tuned_with_the_data_and_settings_of_its_record(tmp_path: Path) -> None:
    """The experiment need not be run: what was planned says all that is taken from it."""
    compare = replace(request(tmp_path).compare, factors=("work_mem=4MB,8MB",), cache="warm-pages", seed=1)
    parsed = parse_request(compare)
    write_experiment(tmp_path / "compared", plan(parsed, lambda *_: None))
    asked = TuneRequest(CompareRequest(factors=(), max_time_s=60), out=tmp_path / "out")
    made = request_from(tmp_path / "compared", asked, {}, "work_mem=8MB")
    planned = plan_tune(made, lambda *_: None)
    assert planned.given["shared_buffers"] == "64MB" and planned.given["work_mem"] == "8MB"
    assert planned.spec.dataset.source == str(tmp_path / "data.sql")
    seen = []

    def finders(symptom: Symptom) -> tuple[Candidate, ...]:
        seen.append(symptom.facts.settings)
        return ()

    result = run_tune(made, TuneTools(read_facts, finders), NullProgress(), wait=True, isolates=False)
    assert (result.symptom.cache, result.symptom.statements[0].name) == ("warm-pages", "slow")
    assert seen[0]["work_mem"] == "8192"
    assert "its arm work_mem=8MB" in result.warnings[0]


BY_CUSTOMER = index("by_customer", "CREATE INDEX by_customer ON orders (customer)")
BY_NOTE = index("by_note", "CREATE INDEX by_note ON orders (note)", statements=("noted",))
NOTED = "-- name: noted\nSELECT count(*) FROM orders WHERE note = 'y';\n"


@pytest.mark.shares_machine
@pytest.mark.timeout(600)
def test_what_was_not_tried_is_tried_later_and_proven_with_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run has no time for any candidate; a later one tries both, and a third proves nothing new."""
    tools = TuneTools(read_facts, lambda _: (BY_CUSTOMER, BY_NOTE))
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(search, "ALONE_SHARE", 0.0)
        asked = request(tmp_path, SLOW + NOTED, max_time_s=240, data=data_of_its_own(tmp_path))
        first = run_tune(asked, tools, NullProgress(), wait=True, isolates=False)
    assert {fix.verdict for fix in first.fixes} == {"not decided"} and first.proof is None
    assert first.go_on.startswith(f"pgassay tune {out} --max-time ")
    assert f"Continue with {first.go_on}." in first.verdict
    second = resume_tune(out, 240, NullProgress(), tools, wait=True, isolates=False)
    assert {fix.id: fix.verdict for fix in second.fixes} == {
        "index:by_customer": "recommended",
        "index:by_note": "recommended",
    }
    assert second.go_on == "" and second.seconds_used > first.seconds_used
    # A search that came to a proof, and left something out, is set aside for the larger set.
    stored = StoredSearch.model_validate_json((out / "search.json").read_bytes())
    more = index("more", "CREATE INDEX more ON orders (id)")
    write_search(out, stored.model_copy(update={"candidates": (*stored.candidates, more)}))
    tools = TuneTools(read_facts, lambda _: (BY_CUSTOMER, BY_NOTE, more))
    third = resume_tune(out, 240, NullProgress(), tools, wait=True, isolates=False)
    verdicts = {fix.id: fix.verdict for fix in third.fixes}
    assert verdicts["index:more"] == "screened out" and verdicts["index:by_note"] == "recommended"
    # Nothing further was chosen: the proof that is there stands.
    assert third.proof == second.proof and not (out / "earlier").exists()
    assert kept_data(tmp_path) == [], "nothing was there before, so nothing is left"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_larger_set_is_proven_anew_and_the_earlier_proof_is_kept(tmp_path: Path) -> None:
    out, asked = tmp_path / "out", request(tmp_path, SLOW + NOTED, max_time_s=120)
    one, both = (
        TuneTools(read_facts, lambda _: (BY_CUSTOMER,)),
        TuneTools(read_facts, lambda _: (BY_CUSTOMER, BY_NOTE)),
    )
    first = run_tune(asked, one, NullProgress(), wait=True, isolates=False)
    assert [fix.verdict for fix in first.fixes] == ["recommended"]
    stored = StoredSearch.model_validate_json((out / "search.json").read_bytes())
    write_search(out, stored.model_copy(update={"candidates": (*stored.candidates, BY_NOTE)}))
    second = resume_tune(out, 120, NullProgress(), both, wait=True, isolates=False)
    assert {fix.id for fix in second.fixes if fix.verdict == "recommended"} == {
        "index:by_customer",
        "index:by_note",
    }
    assert second.proof is not None and len(second.proof.members) == 2
    earlier = StoredSearch.model_validate_json((out / "earlier" / "1" / "search.json").read_bytes())
    assert earlier.selection.ids == ("index:by_customer",)
    assert (out / "earlier" / "1" / "proof" / "experiment.json").is_file()


def waiting(name: str, seconds: float) -> str:
    """SQL of a function that waits so long."""
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS int LANGUAGE plpgsql AS "
        f"'BEGIN PERFORM pg_sleep({seconds}); RETURN 1; END'"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_is_left_of_a_set_that_lost_two_members_is_confirmed_in_fresh_blocks(tmp_path: Path) -> None:
    """One member takes a wait away and two bring one: far more than a machine's noise."""
    names = ("mended", "broken", "spoilt")
    members = tuple(index(name, waiting(name, 0.0 if name == "mended" else 0.3)) for name in names)
    asked = request(tmp_path, "-- name: slow\nSELECT mended(), broken(), spoilt();\n", max_time_s=1000)
    (tmp_path / "data.sql").write_text(
        f"CREATE TABLE orders (id int);\n{waiting('mended', 0.9)};\n"
        f"{waiting('broken', 0.0)};\n{waiting('spoilt', 0.0)};\n"
    )
    compare = replace(asked.compare, margin=MARGIN, cache="warm-pages")
    planned = plan_tune(replace(asked, compare=compare), lambda *_: None).with_data_format()
    baseline = Baseline(measured(planned.statements), {"slow": 0.02}, {})
    steps = tuple(SelectionStep(each.id, 0.01, {"slow": 0.01}) for each in members)
    record = SearchRecord(candidates=members, selection=FixSelection(steps))
    found = stored_search(planned.statements, baseline, record, None, MARGIN)
    (tmp_path / "out").mkdir()
    proving = ProofStages(tmp_path / "out", found, planned)
    ends = deadline(time.monotonic(), 900)
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        with host_lock(NullProgress(), wait=True):
            proving.run(ends, NullProgress())
    finally:
        remove_copies([planned.spec, *proving.specs()], before)
    assert proving.first is not None and proving.second is not None
    assert proving.search.remaining == ("index:mended",)
    assert [each.experiment.contract.alpha for each in (proving.first, proving.second)] == [0.025, 0.025]
    told = Told(tmp_path / "out", samples.answer().symptom, samples.answer().cause, 1.0)
    result = compose(proving.search, told, proving.first, proving.second)
    assert {fix.id: fix.verdict for fix in result.fixes} == {
        "index:mended": "recommended",
        "index:broken": "worse",
        "index:spoilt": "worse",
    }
    assert result.confirmation is not None and result.confirmation.members == ("index:mended",)
    stored = StoredSearch.model_validate_json((tmp_path / "out" / "search.json").read_bytes())
    assert stored.remaining == proving.search.remaining
    # Going on reads both stages; nothing is left to decide.
    again = ProofStages(tmp_path / "out", stored)
    again.read()
    assert again.second is not None and again.second.stopped == "decided"
    assert planned_again(tmp_path / "out" / "proof", stored).spec.settings == planned.spec.settings


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_newer_version_is_tried_on_data_of_its_own_and_goes_away_again(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("versions-17-18")
    older, newer = resolve("17"), resolve("18")
    compare = replace(request(tmp_path).compare, build=older.bin_directory, cache="warm-pages")
    planned = plan_tune(TuneRequest(compare), lambda *_: None).with_data_format()
    upgrade = index("v", sql=(), undo=(), undoable=False, build=with_data_format(newer))
    by_customer = index("by_customer", "CREATE INDEX by_customer ON orders (customer)")
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    try:
        with TrialCopy(
            planned.spec, cache="warm-pages", statement_timeout_s=60, on_stage=lambda *_: None
        ) as copy:

            def version() -> str:
                row = copy.session.execute("SHOW server_version").fetchone()
                return str(row[0]).split(" ")[0] if row else ""

            def settings() -> dict[str, str]:
                found = copy.session.execute("SELECT name, setting FROM pg_settings").fetchall()
                return {str(name): str(value) for name, value in found}

            fixed = {name: value for name, value in settings().items() if name in planned.spec.settings}
            rows = copy.rows(planned.statements[0].sql)
            assert version() == older.version
            copy.push(by_customer)
            copy.push(upgrade)
            assert version() == newer.version
            other = settings()
            assert {name: other[name] for name in fixed if name in other} == {
                name: value for name, value in fixed.items() if name in other
            }
            # What was applied before is there on the other server too.
            assert any(node.index == "by_customer" for node in copy.estimate(SLOW, "slow").nodes)
            assert rows.is_same_as(copy.rows(planned.statements[0].sql))
            copy.pop()
            assert version() == older.version
            assert any(node.index == "by_customer" for node in copy.estimate(SLOW, "slow").nodes)
    finally:
        elsewhere = planned.spec.model_copy(update={"build": upgrade.build})
        remove_copies([planned.spec, elsewhere], before)
    assert {snapshot.key for snapshot in snapshots.list_snapshots()} == before


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_eighteen_does_by_itself_what_seventeen_does_not(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("versions-17-18")
    asked = request(tmp_path, SELF_JOIN, max_time_s=900)
    (tmp_path / "data.sql").write_text(
        "CREATE TABLE orders (id int PRIMARY KEY, note text);\n"
        "INSERT INTO orders SELECT n, repeat('x', 20) FROM generate_series(1, 200000) n;\n"
    )
    compare = replace(asked.compare, build=resolve("17").bin_directory)
    before = {snapshot.key for snapshot in snapshots.list_snapshots()}
    result = run_tune(
        replace(asked, compare=compare),
        TuneTools(read_facts, find),
        NullProgress(),
        wait=True,
        isolates=False,
    )
    found = {fix.id: fix for fix in result.fixes}["version:18"]
    assert (found.kind, found.layer, found.applied_by) == ("version", "infrastructure", "hand")
    assert "leaves out a join of a table with itself" in found.reason
    assert (found.verdict, found.same_results) == ("recommended", "equal on 1 instance")
    assert "pg_upgrade to PostgreSQL 18" in result.apply_sql
    assert {snapshot.key for snapshot in snapshots.list_snapshots()} == before
