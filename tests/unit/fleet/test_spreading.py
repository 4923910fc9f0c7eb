"""The pure parts of spreading: words, plans, what machines differ in, when the question is settled."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from direct_machines import Heard
from pgassay.errors import UsageError
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.machine_command import machine_command
from pgassay.fleet.spreading.machine_differences import check_shared_hosts, differences, speed_facts
from pgassay.fleet.spreading.results import FleetLooks, blocks_done, is_settled, read_looks, write_looks
from pgassay.fleet.spreading.run_spread import resume_spread
from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.model.machines.spread import SpreadExperiment, SpreadMachine
from pgassay.model.workload import Metric
from pgassay.record.experiment_lock import held
from pgassay.workloads.registry import parse_workload


def test_what_the_coordinator_decides_is_no_machine_s() -> None:
    typed = ["io_method=sync,worker", "--fleet", "fleet.toml", "--blocks=9", "--seed", "4", "--json", "--out"]
    typed += ["here", "--max-time", "1h", "--margin", "0.02", "--fail-if=slower", "--no-pool", "--all-blocks"]
    found = machine_command(typed)
    assert found.words == ["io_method=sync,worker", "--margin", "0.02", "--no-pool"]
    assert found.files == {}


@pytest.mark.parametrize(
    "form", ["--text", "--markdown", "--details", "--html=page.html", "--html page.html"]
)
def test_a_machine_prints_for_its_coordinator_alone(form: str) -> None:
    """It prints JSON, which goes with no other form; a page would be written where it runs."""
    found = machine_command(["work_mem=1MB,2MB", *form.split(), "--margin", "0.02"])
    assert found.words == ["work_mem=1MB,2MB", "--margin", "0.02"]


def test_files_keep_their_names_where_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sql").mkdir()
    elsewhere = tmp_path / "far.dump"
    elsewhere.write_bytes(b"data")
    (tmp_path / "sql/a.sql").write_text("\\ir b.sql\nSELECT 1;\n")
    (tmp_path / "sql/b.sql").write_text("SELECT 2;\n")
    words = ["a=1,2", "--workload", "sql:sql/a.sql,writes=no", f"--dataset=dump:{elsewhere}", "--prepare"]
    found = machine_command([*words, "CREATE INDEX ON t (a)"])
    assert found.words[:3] == ["a=1,2", "--workload", "sql:sql/a.sql,writes=no"]
    assert found.words[3:5] == ["--dataset", "dump:files/far.dump"]
    assert found.words[5:] == ["--prepare", "CREATE INDEX ON t (a)"]
    assert found.files == {
        "sql/a.sql": Path("sql/a.sql"),
        "sql/b.sql": Path("sql/b.sql"),
        "files/far.dump": elsewhere,
    }


def test_ways_to_write_a_question_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("SELECT 1;\n")
    found = machine_command(["sql=a.sql,b.sql"])
    assert found.words == ["sql=a.sql,b.sql"]
    assert list(found.files) == ["a.sql", "b.sql"]
    far = tmp_path / "far"
    far.mkdir()
    (far / "it's, c.sql").write_text("SELECT 1;\n")
    typed = "'a.sql,writes=no','{}'".format(f"{far}/it's, c.sql,writes=no".replace("'", "''"))
    found = machine_command([f"SQL ={typed}"])
    assert found.words == ["sql='a.sql,writes=no','files/it''s, c.sql,writes=no'"]
    assert list(found.files) == ["a.sql", "files/it's, c.sql"]


@pytest.mark.parametrize("form", ["--control {}", "--control={}"])
@pytest.mark.parametrize("named", ["{}", "sql={}"])
def test_the_control_is_called_as_its_file_is_on_the_machines(
    form: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far = tmp_path / "far"
    far.mkdir()
    for name in ("a.sql", "b.sql"):
        (far / name).write_text("SELECT 1;\n")
    chosen = form.format(named.format(f"{far}/b.sql,writes=no")).split(" ")
    found = machine_command([*chosen, f"sql='{far}/a.sql,writes=no','{far}/b.sql,writes=no'"])
    assert found.words[:2] == ["--control", named.format("files/b.sql,writes=no")]
    assert list(found.files) == ["files/a.sql", "files/b.sql"]


def test_sql_that_prepares_is_sent_where_it_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far = tmp_path / "far.sql"
    far.write_text("CREATE INDEX ON t (a);\n")
    typed = "prepare=none,CREATE INDEX ON t (a, b),'SELECT ''a'', 1'"
    assert machine_command([typed]).words == [typed]
    found = machine_command([f"{typed},{far}"])
    assert found.words == ["prepare=none,'CREATE INDEX ON t (a, b)','SELECT ''a'', 1',files/far.sql"]
    assert list(found.files) == ["files/far.sql"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=1,2", "--server", "host=db"], "leave --fleet out"),
        (["server=host=a,host=b"], "leave --fleet out"),
        (["Server =host=a,host=b"], "leave --fleet out"),
        (["a=1,2", "--workload", "sql:no-such-file.sql"], "is not a file here"),
        (["a=1,2", "--set", "primary_conninfo=host=h password=geheim"], "password file"),
    ],
)
def test_what_a_fleet_can_t_run_is_a_sentence(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        machine_command(words)
    assert "geheim" not in str(refused.value)


@given(words=st.lists(st.text(max_size=20), max_size=8))
def test_no_words_break_the_words(words: list[str]) -> None:
    try:
        found = machine_command(words)
    except (UsageError, OSError, ValueError):
        return
    assert not {"--fleet", "--seed", "--json"} & set(found.words)


@given(seed=st.integers(0, 2**31), names=st.lists(st.text(min_size=1), min_size=2, unique=True))
def test_each_run_has_a_seed_of_its_own(seed: int, names: list[str]) -> None:
    seeds = [plans.seed_of(seed, name, run) for name in names for run in (1, 2)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= each < 2**31 for each in seeds)


def machine(name: str, **facts: object) -> SpreadMachine:
    return SpreadMachine.model_validate({"name": name, "host": name, "runs": (), "facts": facts})


def made_plan(tmp_path: Path, *names: str) -> SpreadExperiment:
    return plans.new_plan(
        command=("pgassay", "compare"),
        words=("a=1,2",),
        files={},
        fleet_file=tmp_path / "fleet.toml",
        seed=7,
        blocks_max=10,
        time_max_s=60.0,
        until_decided=True,
        facts={name: {"host": name} for name in names},
    )


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = made_plan(tmp_path, "one", "two")
    further, run = plans.with_further_run(plan, "two")
    plans.write(tmp_path, further)
    assert plans.read(tmp_path) == further
    assert run.folder == "machines/two+2"
    ids = [each.id for machine in further.machines for each in machine.runs]
    assert len(set(ids)) == 3
    (tmp_path / plans.FILE).write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        plans.read(tmp_path)


def test_equal_machines_differ_in_nothing_and_unequal_ones_in_what_is_named() -> None:
    doctor = {"findings": [{"name": "io_uring", "status": "ok"}]}
    alike = {"machine": {"kernel": "6.1", "hostname": "x"}, "doctor": doctor, "speed": {"processor_s": 0.1}}
    assert differences([machine("one", **alike), machine("two", **alike)]) == []
    other = {
        "machine": {"kernel": "6.2", "hostname": "y"},
        "doctor": {"findings": [{"name": "io_uring", "status": "missing"}]},
        "speed": {"processor_s": 0.2},
    }
    found = differences([machine("one", **alike), machine("two", **alike), machine("three", **other)])
    assert "kernel: 6.1 on one and two; 6.2 on three" in found
    assert "doctor, io uring: ok on one and two; missing on three" in found
    assert "speed, processor: as most on one and two; 2 × as slow as most on three" in found
    assert len(found) == 3


def test_parts_of_one_host_read_what_is_in_memory_and_nothing_else() -> None:
    parts = [machine("one", is_part_of_host=True), machine("two", is_part_of_host=True)]
    reading, writing = parse_workload("select-only"), parse_workload("tpcb")
    check_shared_hosts(parts, [reading], "warm-pages")
    check_shared_hosts([machine("whole")], [writing], "cold-each")
    with pytest.raises(UsageError, match="tpcb writes"):
        check_shared_hosts(parts, [reading, writing], "warm-pages")
    with pytest.raises(UsageError, match="--cache cold-each they would read it at once"):
        check_shared_hosts(parts, [reading], "cold-each")


def result(these: CommonEffect, *own: MachineResult) -> CombinedResult:
    arm = CombinedArm(
        name="arm", levels={"a": "2"}, control="control", these_machines=these, machines_like_these=these
    )
    return CombinedResult(
        folders=("x",),
        workload="w",
        metric=Metric(name="throughput", unit="transactions/s", better="higher"),
        margin=0.03,
        alpha=0.05,
        arms=(arm,),
        machines=own,
    )


def effect(verdict: str, **values: object) -> CommonEffect:
    document = {"machines": 2, "blocks": 8, "ratio": 1.1, "interval": (1.05, 1.2), "verdict": verdict}
    return CommonEffect.model_validate(document | values)


def own(name: str, verdict: str) -> MachineResult:
    return MachineResult.model_validate(
        {"name": name, "arm": "arm", "blocks": 4, "ratio": 1.1, "interval": (1.0, 1.2), "verdict": verdict}
    )


def test_the_question_is_settled_by_a_verdict_or_by_each_machine_s_where_they_disagree() -> None:
    assert is_settled(result(effect("faster")))
    assert is_settled(result(effect("equivalent")))
    assert not is_settled(result(effect("inconclusive")))
    disagree = effect("inconclusive", ratio=None, interval=None, withheld=True)
    assert is_settled(result(disagree, own("one", "faster"), own("two", "slower")))
    assert not is_settled(result(disagree, own("one", "faster"), own("two", "inconclusive")))
    assert not is_settled(result(effect("inconclusive", ratio=None, interval=None, machines=0, blocks=0)))
    assert blocks_done(result(effect("faster"))) == 8


@given(
    visits=st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 30), max_size=3), max_size=12),
)
def test_looks_are_as_many_for_every_run_and_never_go_back(visits: list[dict[str, int]]) -> None:
    looks, most = FleetLooks(), dict[str, int]()
    for trials in visits:
        before = looks
        looks = looks.with_look(trials)
        found_more = any(count > most.get(run, 0) for run, count in trials.items())
        assert (looks is not before) == found_more
        most = {run: max(most.get(run, 0), trials.get(run, 0)) for run in {**most, **trials}}
    assert {len(counts) for counts in looks.runs.values()} <= {looks.count}
    for run, counts in looks.runs.items():
        assert list(counts) == sorted(counts)
        assert counts[-1] == most[run]


def test_looks_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_looks(tmp_path) == FleetLooks()
    looks = FleetLooks().with_look({"a": 3}).with_look({"a": 3, "b": 1})
    assert looks.runs == {"a": (3, 3), "b": (0, 1)}
    write_looks(tmp_path, looks)
    assert read_looks(tmp_path) == looks
    (tmp_path / "looks.json").write_text('{"format": 1, "runs": 7}')
    with pytest.raises(UsageError, match="is damaged"):
        read_looks(tmp_path)


def test_a_machine_that_is_several_times_as_slow_is_told_as_a_multiple() -> None:
    readings = {name: {"fdatasync_per_s": [1000.0, 1010.0, 990.0]} for name in "abc"}
    readings["b"] = {"fdatasync_per_s": [250.0, 252.0, 248.0]}
    readings["c"] = {"fdatasync_per_s": [4000.0, 4040.0, 3960.0]}
    said = {name: found["storage", "fdatasync"] for name, found in speed_facts(readings).items()}
    assert said == {"a": "about 1,000/s", "b": "4 × as slow (250/s)", "c": "4 × as fast (4,000/s)"}


class Nobody:
    """A fleet whose machines have all gone."""

    def machines(self) -> tuple[()]:
        return ()


@pytest.mark.parametrize("is_coordinated", [True, False])
def test_a_resume_that_is_refused_changes_nothing(tmp_path: Path, *, is_coordinated: bool) -> None:
    plan = made_plan(tmp_path, "one")
    plans.write(tmp_path, plan)
    said = "coordinated by another process" if is_coordinated else "the fleet lacks one"
    with held(tmp_path) if is_coordinated else nullcontext(), pytest.raises(UsageError, match=said):
        resume_spread(tmp_path, Nobody(), Heard(), blocks_max=99)
    assert plans.read(tmp_path) == plan
