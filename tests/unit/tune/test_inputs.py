"""From a stored experiment or a stored diagnosis to what is tuned, and what can't be gone on from."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whole_experiments
from pgassay.cli.main import main
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import RemoteServer
from pgassay.model.experiment import Experiment
from pgassay.model.running_server.diagnosis import (
    QUERY_CHARACTERS_MAX,
    Activity,
    CalledStatement,
    DiagnosedServer,
    Diagnosis,
    SampledStatement,
    Sampling,
)
from pgassay.record.experiment import write_experiment
from pgassay.record.layout import SEARCH_FILE
from pgassay.tune.inputs.base import kind_of
from pgassay.tune.tune_plan import TuneRequest, plan_tune, request_from

REQUEST = TuneRequest(CompareRequest(factors=(), max_time_s=600.0))


def experiment(folder: Path, *factors: str, workload: str = "full-scan", **changes: object) -> Path:
    planned = whole_experiments.planned(*(factors or ("work_mem=4MB,64MB",)), seed=1, workload=workload)
    write_experiment(folder, planned.model_copy(update=changes))
    return folder


def with_servers(planned: Experiment) -> Experiment:
    """The experiment as it would be on a server that runs already."""
    server = RemoteServer(
        name="db:5432/shop", connection="dbname=shop", host="db", port=5432, dbname="shop", user="me",
        version="17.2", major=17,
    )  # fmt: skip
    arms = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"server": server})})
        for arm in planned.arms
    )
    return planned.model_copy(update={"arms": arms})


def called(query: str, calls: int = 1) -> CalledStatement:
    return CalledStatement(
        query_id="1", query=query, calls=calls, total_s=1.0, mean_ms=1.0, rows=1, read_bytes=0,
        temporary_bytes=0,
    )  # fmt: skip


def diagnosis(
    file: Path, *statements: CalledStatement, sampled: tuple[str, ...] = (), has_calls: bool = True
) -> Path:
    document = Diagnosis.model_validate(
        {
            "schema": 1,
            "pgassay_version": "0",
            "started_at": "2026-03-01T12:00:00+00:00",
            "seconds_asked": 30.0,
            "seconds": 30.0,
            "interrupted": False,
            "server": DiagnosedServer(
                name="db:5432/shop", version="17.2", role="me", is_local=False, is_standby=False,
                postmaster_pid=None, data_directory=None, device=None,
            ),
            "activity": Activity(
                connections_busy=1.0, connections_idle=0.0, transactions_s=1.0, rollbacks_s=0.0,
                postgres_read_mb_s=0.0, postgres_hit_mb_s=0.0, temporary_mb_s=0.0, wal_mb_s=0.0,
                server_read_mb_s=None, device_read_mb_s=None, server_cpus=None, clients_cpus=None,
                others_cpus=None, others={},
            ),
            **dict.fromkeys(
                ("causes", "next", "accounts", "blockers", "holders", "changes", "missing", "warnings"), ()
            ),
            "sampled": tuple(
                SampledStatement(query_id=None, query=query, seconds=1.0, share=1.0, waits={})
                for query in sampled
            ),
            "statements": statements if has_calls else None,
            "sampling": Sampling(
                rate_hz=2.0, samples=60, missed=0, tool_cpu_s=0.0, observer_cpu_s=0.0, sessions_cpu_s=None,
                share_of_core=0.0,
            ),
        }
    )  # fmt: skip
    file.write_text(document.model_dump_json(by_alias=True))
    return file


def test_an_experiment_brings_the_statements_cache_and_settings_of_its_control(tmp_path: Path) -> None:
    planned = request_from(experiment(tmp_path / "it"), REQUEST, {}, None)
    start = planned.start
    assert start is not None and start.spec is not None
    assert [each.name for each in start.statements][:2] == ["count", "sum"]
    assert start.spec.settings["work_mem"] == "4MB"
    assert (planned.compare.cache, planned.compare.workload) == ("warm-pages", "full-scan")
    assert planned.compare.build == "18"  # the recorded folder is not here
    assert "no longer here" in " ".join(start.notes)


def test_another_arm_is_taken_by_its_name_and_an_unknown_one_lists_them(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "it")
    start = request_from(folder, REQUEST, {}, "work_mem=64MB").start
    assert start is not None and start.spec is not None
    assert start.spec.settings["work_mem"] == "64MB"
    with pytest.raises(UsageError, match=r"has no arm 'x': name one with --arm, of 'work_mem=4MB', "):
        request_from(folder, REQUEST, {}, "x")


def test_with_several_controls_one_arm_must_be_named(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "it", "work_mem=4MB,64MB", "clients=1,2", workload="select-only")
    with pytest.raises(UsageError, match=r"has several controls: name one with --arm"):
        request_from(folder, REQUEST, {}, None)
    start = request_from(folder, REQUEST, {}, "work_mem=4MB clients=2").start
    assert start is not None
    assert start.workload.clients == 2 and start.workload.is_mix


def test_a_load_brings_its_statements_one_by_one_as_often_as_a_transaction_has_them(tmp_path: Path) -> None:
    start = request_from(experiment(tmp_path / "it", workload="oltp_read_only"), REQUEST, {}, None).start
    assert start is not None
    assert {each.name: each.weight for each in start.statements}["point-select"] == 10
    assert (start.workload.kind, start.workload.load, start.workload.writes) == ("statements", None, False)
    written = request_from(experiment(tmp_path / "other", workload="tpcb"), REQUEST, {}, None).start
    assert written is not None
    assert written.workload.writes
    assert [each.name for each in written.statements if not each.writes] == ["select-account"]


def test_a_maintenance_experiment_has_nothing_to_tune(tmp_path: Path) -> None:
    file = tmp_path / "it.sql"
    file.write_text("VACUUM pgbench_accounts;\n")
    with pytest.raises(UsageError, match="which has no statements with a plan to tune"):
        request_from(experiment(tmp_path / "it", workload=f"maintenance:{file}"), REQUEST, {}, None)


def test_what_the_record_decides_can_not_be_typed_beside_it(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "it")
    with pytest.raises(UsageError, match=r"--cache cannot be used with .*: leave it out, or start again"):
        request_from(folder, REQUEST, {"cache": "cold"}, None)


def test_a_running_servers_experiment_needs_a_copy_of_its_data(tmp_path: Path) -> None:
    planned = whole_experiments.planned("work_mem=4MB,64MB", seed=1, workload="full-scan")
    write_experiment(tmp_path / "it", with_servers(planned))
    with pytest.raises(UsageError, match=r"measured on db:5432/shop, which is only read: .*--dataset dump:"):
        request_from(tmp_path / "it", REQUEST, {}, None)
    made = request_from(tmp_path / "it", REQUEST, {"dataset": "dump:x"}, None)
    assert made.start is not None and made.start.spec is None
    assert (made.compare.build, made.compare.settings) == ("17", ("work_mem=4MB",))


def test_recorded_settings_count_as_given_and_the_baseline_does_not(tmp_path: Path) -> None:
    """Else an advice on autovacuum would be for pgassay's own server, which has it off."""
    request = request_from(experiment(tmp_path / "it"), REQUEST, {}, "work_mem=64MB")
    planned = plan_tune(request, lambda *_: None)
    assert planned.given == {"work_mem": "64MB"}
    assert planned.spec.settings == {"work_mem": "64MB"}
    assert planned.base.spec is planned.spec


def test_a_diagnosed_statement_is_taken_as_it_is_or_with_the_values_of_a_file(tmp_path: Path) -> None:
    long = "SELECT " + ", ".join(f"column_{n}" for n in range(60)) + " FROM orders WHERE id = $1"
    document = diagnosis(
        tmp_path / "it.json",
        called("SELECT count(*) FROM orders", 3),
        called("select * from orders where customer = $1 and status = $2", 50),
        called("SELECT id FROM orders WHERE total > $1", 7),
        called(long[:QUERY_CHARACTERS_MAX], 2),
        called("COMMIT", 99),
        called("SELECT pg_read_file($1)"),
        called("SELECT pg_ls_dir('x')"),
        called("SELEKT"),
    )
    file = tmp_path / "slow.sql"
    file.write_text(
        "-- name: list\n-- parameters: 42, 'open'\n-- parameters: 7, 'closed'\n"
        "SELECT * FROM orders WHERE customer = $1 AND status = $2;\n"
        f"-- name: wide\n-- parameters: 1\n{long};\n-- name: idle\nSELECT 1;\n"
    )
    made = request_from(document, REQUEST, {"dataset": "pgbench", "workload": f"sql:{file}"}, None)
    assert made.start is not None
    assert {each.name: each.weight for each in made.start.statements} == {
        "statement-1": 3.0,
        "list": 50.0,
        "wide": 2.0,
    }
    assert made.start.statements[1].parameters == (("42", "open"), ("7", "closed"))
    said = " ".join(made.start.notes)
    assert "has parameters whose values are not known: 'SELECT id FROM orders WHERE total > $1'" in said
    assert "has no plan: 'COMMIT'" in said
    assert "accesses something outside the database: 'SELECT pg_ls_dir(?)'" in said
    assert "is not SQL that can be parsed: 'SELEKT'" in said
    assert "has no figures for them: idle" in said
    assert made.compare.build == "17"


@pytest.mark.parametrize(("version", "build"), [("18.6 (Debian 18.6-1)", "18"), ("19beta4", "19")])
def test_the_build_is_the_major_version_of_the_diagnosed_server(
    tmp_path: Path, version: str, build: str
) -> None:
    document = diagnosis(tmp_path / "it.json", called("SELECT count(*) FROM orders"))
    document.write_text(document.read_text().replace('"17.2"', f'"{version}"'))
    assert request_from(document, REQUEST, {"dataset": "pgbench"}, None).compare.build == build


def test_statements_that_were_only_sampled_count_alike(tmp_path: Path) -> None:
    """A sample has a mark in the place of each constant: a statement of the file is the same without them."""
    document = diagnosis(
        tmp_path / "it.json", sampled=("SELECT * FROM orders WHERE id = ?",), has_calls=False
    )
    file = tmp_path / "slow.sql"
    file.write_text("-- name: one\nSELECT * FROM orders WHERE id = 7;\n")
    made = request_from(document, REQUEST, {"dataset": "pgbench", "workload": f"sql:{file}"}, None)
    assert made.start is not None
    assert [(each.name, each.weight) for each in made.start.statements] == [("one", 1.0)]
    assert "all have the same weight" in " ".join(made.start.notes)
    with pytest.raises(UsageError, match="has no statement whose values are known"):
        request_from(document, REQUEST, {"dataset": "pgbench"}, None)


def test_statements_of_a_file_without_names_take_no_place_of_those_that_need_no_values(
    tmp_path: Path,
) -> None:
    """Both are numbered where they have no name."""
    queries = called("SELECT count(*) FROM orders", 7), called("SELECT id FROM orders WHERE id = $1", 50)
    document = diagnosis(tmp_path / "it.json", *queries)
    (tmp_path / "values.sql").write_text("-- parameters: 42\nSELECT id FROM orders WHERE id = $1;\n")
    given = {"dataset": "pgbench", "workload": f"sql:{tmp_path / 'values.sql'}"}
    start = request_from(document, REQUEST, given, None).start
    assert start is not None
    assert {(each.name, each.sql, each.weight) for each in start.statements} == {
        ("statement-1-diagnosed", "SELECT count(*) FROM orders", 7.0),
        ("statement-1", "SELECT id FROM orders WHERE id = $1", 50.0),
    }


def test_a_diagnosis_needs_data_and_has_no_arms(tmp_path: Path) -> None:
    document = diagnosis(tmp_path / "it.json", called("SELECT 1"))
    with pytest.raises(UsageError, match=r"is a diagnosis, which has no data: .*--dataset"):
        request_from(document, REQUEST, {}, None)
    with pytest.raises(UsageError, match="--arm cannot be used with a diagnosis"):
        request_from(document, REQUEST, {"dataset": "pgbench"}, "x")


def test_how_long_to_look_means_nothing_of_a_stored_diagnosis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(diagnosis(tmp_path / "before.json", called("SELECT 1")))
    assert main(["diagnose", file]) == 0
    for option, value in (("--seconds", "60"), ("--vcpus", "4")):
        capsys.readouterr()
        assert main(["diagnose", file, option, value]) == 2
        assert f"{option} cannot be used with a stored diagnosis" in capsys.readouterr().err


def test_a_path_says_what_it_is(tmp_path: Path) -> None:
    assert kind_of(experiment(tmp_path / "experiment")) == "experiment"
    assert kind_of(diagnosis(tmp_path / "diagnosis.json")) == "diagnosis"
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune" / SEARCH_FILE).write_text("{}")
    assert kind_of(tmp_path / "tune") == "tune"
    for name, words in {
        "gate.json": "the results of a gate",
        "probe.json": "a probe's results",
        "PG_VERSION": "write --dataset folder:",
        "other": "holds no results of pgassay",
    }.items():
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        (folder / name).write_text("")
        with pytest.raises(UsageError, match=words) as refused:
            kind_of(folder)
        assert "tune continues from its own results, from an experiment" in str(refused.value)
    (tmp_path / "slow.sql").write_text("SELECT 1")
    with pytest.raises(UsageError, match=r"is a file but not a diagnosis: .* --workload sql:FILE"):
        kind_of(tmp_path / "slow.sql")


def test_what_is_far_too_large_or_too_deep_for_a_diagnosis_is_none(tmp_path: Path) -> None:
    deep, large = tmp_path / "deep.json", tmp_path / "shop.dump"
    deep.write_text("[" * 100_000)
    with large.open("wb") as file:
        file.truncate(2**40)  # no machine has the memory to read it whole
    for path in (deep, large):
        with pytest.raises(UsageError, match="is a file but not a diagnosis"):
            kind_of(path)


@given(st.lists(st.text(max_size=80), max_size=3))
def test_any_text_of_a_statement_is_taken_or_named(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    document = diagnosis(tmp_path_factory.mktemp("d") / "it.json", *map(called, texts), called("SELECT 1"))
    made = request_from(document, REQUEST, {"dataset": "pgbench"}, None)
    assert made.start is not None
    assert any(each.sql == "SELECT 1" for each in made.start.statements)


def test_a_set_has_room_for_every_statement_where_its_proof_has_them_all_in_one_server() -> None:
    """An arm for each fix is dear; arms in one server are two to four, however many fixes there are."""
    assert REQUEST.members_max_of(20, shares=True) >= 20
    assert REQUEST.members_max_of(20) == 10
    assert REQUEST.members_max_of(4) == 8
