"""Reading a gate's file, finding its baseline, and what the two make of a comparison; git is the real one."""

from pathlib import Path

import pytest
from gate_files_for_tests import SERVER, SMALL, git, plan, write
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.cli.main import main
from pgassay.errors import UsageError
from pgassay.experiment.gating.gate_baseline import find_baseline, revision_of
from pgassay.experiment.gating.gate_file import GateFile, read_gate_file
from pgassay.experiment.gating.requests import refuse_double_settings
from pgassay.experiment.gating.run_gate import PARENT, GateOptions, run_gate
from pgassay.terminal.live_progress import choose


def test_the_whole_time_is_shared_by_those_without_a_time_of_their_own(folder: Path) -> None:
    content = 'max-time = "10m"\nmargin = 0.04\nmust-find = 0.1\n' + SMALL
    content += '[workloads.b]\nworkload = "select-only"\nmax-time = "2m"\nmargin = 0.1\nmust-find = 0.2\n'
    content += '[workloads.c]\nworkload = "select-only"\nblocks = 9\nplans = "work"\n'
    gate = read_gate_file(write(folder, content))
    assert {name: each.max_time_s for name, each in gate.workloads.items()} == {
        "orders": 240.0,
        "b": 120.0,
        "c": 240.0,
    }
    assert {name: each.margin for name, each in gate.workloads.items()} == {
        "orders": 0.04,
        "b": 0.1,
        "c": 0.04,
    }
    assert gate.must_find == {"orders": 0.1, "b": 0.2, "c": 0.1}
    assert (gate.workloads["c"].blocks, gate.workloads["c"].plans) == (9, "work")
    # All of the time is used, and a tenth of it is not given to plans.
    assert (gate.workloads["orders"].blocks, gate.workloads["orders"].plans) == (10_000, "estimate")
    assert gate.workloads["orders"].workload == f"sql:{folder / 'orders.sql'}"


def test_whether_both_sides_share_starts_is_said_once_for_all_or_by_a_workload(folder: Path) -> None:
    content = 'restart = "needed"\n' + SMALL + '[workloads.b]\nworkload = "select-only"\nrestart = "each"\n'
    gate = read_gate_file(write(folder, content))
    assert {name: each.restart for name, each in gate.workloads.items()} == {"orders": "needed", "b": "each"}
    with pytest.raises(UsageError, match="restart: 'never' is not known: use needed, each"):
        read_gate_file(write(folder, 'restart = "never"\n' + SMALL))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "no workloads"),
        ("workloads = 3", "no workloads"),
        ("[workloads.a]\nscale = 1", "has no workload"),
        ("[workloads]\na = 1", "is not a table"),
        ('["workloads"."../a"]\nworkload = "select-only"', "not a valid workload name"),
        (SMALL + "control = 1", "no key 'control' in [workloads.orders]"),
        ("minutes = 1\n" + SMALL, "no key 'minutes'"),
        ("runs-per-year = 0\n" + SMALL, "runs-per-year = 0"),
        ("must-find = true\n" + SMALL, "must-find = True"),
        ("margin = 0.9\n" + SMALL, "margin: '0.9' is out of range: use 0.001 to 0.5"),
        ('max-time = "1m"\n[workloads.b]\nworkload = "x"\nmax-time = "1m"\n' + SMALL, "is used up"),
        ("system = 1\n" + SMALL, "system is not a table"),
        (SMALL + '[system]\nversion = "18"', "no key 'version' in [system]"),
        (SMALL + '[system]\nserver = "host=a"\npg = "18"', "leave one of them out"),
        (SMALL + '[system]\nprepare = ["none/*.sql"]', "no file matches"),
        ("[workloads.orders", "is not valid TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(folder: Path, content: str, complaint: str) -> None:
    path = write(folder, content)
    with pytest.raises(UsageError, match=r"gate\.toml") as raised:
        read_gate_file(path)
    assert complaint in str(raised.value)


@settings(max_examples=150)
@given(st.text(max_size=200) | st.sampled_from(["[system]\nset = 1", "[workloads.a]\nworkload = []"]))
def test_any_text_is_a_gate_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    path = write(tmp_path_factory.mktemp("fuzzed"), "")
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=r"gate\.toml"):
        read_gate_file(path)


def test_a_pattern_names_its_files_in_their_order(folder: Path) -> None:
    for name in ("002-b.sql", "001-a.sql", "notes.txt"):
        write(folder, "SELECT 1;", f"migrations/{name}")
    gate = read_gate_file(write(folder, SMALL + '[system]\nprepare = ["migrations/*.sql", "ANALYZE"]'))
    assert gate.system.prepare == (
        *(str(folder / "migrations" / name) for name in ("001-a.sql", "002-b.sql")),
        "ANALYZE",
    )


def test_sides_that_differ_in_settings_are_two_arms_with_their_own(folder: Path) -> None:
    one = read_gate_file(write(folder, SMALL + '[system.set]\nwork_mem = "4MB"\njit = "off"'))
    two = read_gate_file(write(folder, SMALL + '[system.set]\nwork_mem = "64MB"\njit = "off"', "b.toml"))
    (made,) = plan(one, two).planned
    (factor,) = made.request.made_factors
    assert factor.levels == ("baseline", "change")
    assert made.units == ("", "one", "two")
    assert made.request.out == Path("/out/orders")
    assert plan(one, one).planned == ()
    assert plan(one, one).equal == ("orders",)


def test_builds_that_are_one_are_none_of_the_difference(folder: Path) -> None:
    one = read_gate_file(write(folder, SMALL + '[system]\npg = "./a/bin"'))
    two = read_gate_file(write(folder, SMALL + '[system]\npg = "./b/bin"', "b.toml"))
    (made,) = plan(one, two).planned
    assert [build.bin_directory[-5:] for build in made.request.made_factors[0].kind.builds.values()] == [
        "a-bin",
        "b-bin",
    ]
    assert plan(one, one).equal == ("orders",)


def test_a_setting_that_is_given_twice_is_refused(folder: Path) -> None:
    content = SMALL + '[workloads.orders.set]\nwork_mem = "1MB"\n[system.set]\nWork_Mem = "2MB"'
    change = read_gate_file(write(folder, content))
    other = read_gate_file(write(folder, content.replace("2MB", "3MB"), "b.toml"))
    with pytest.raises(UsageError, match="work_mem is set in"):
        refuse_double_settings(plan(other, change), {"change": change.system})


def test_two_servers_are_the_factor_and_their_passwords_are_not_shown(folder: Path) -> None:
    change = read_gate_file(write(folder, SMALL + SERVER))
    found = find_baseline("host=old dbname=app password=geheim", change, folder / "read")
    assert found.system.kind == "server"
    assert "geheim" not in found.system.name + repr(found)
    (made,) = plan(found.file, change).planned
    assert made.request.factors == ("server='host=old dbname=app password=geheim','host=new dbname=app'",)
    assert "geheim" not in repr(made.request.server)


def test_one_server_with_settings_of_the_session(folder: Path) -> None:
    one = read_gate_file(write(folder, SMALL + SERVER + '[system.set]\nwork_mem = "1MB"'))
    two = read_gate_file(write(folder, SMALL + SERVER + '[system.set]\nwork_mem = "2MB"', "b.toml"))
    (made,) = plan(one, two).planned
    assert made.request.server == "host=new dbname=app"
    with pytest.raises(UsageError, match="has no server"):
        plan(read_gate_file(write(folder, SMALL, "c.toml")), two)
    guard = '[system.set]\ndefault_transaction_read_only = "off"'
    with pytest.raises(UsageError, match="allow-writes"):
        plan(one, read_gate_file(write(folder, SMALL + SERVER + guard, "d.toml")))


@pytest.fixture
def repository(folder: Path) -> GateFile:
    """Two commits: the second has one more migration, another query and another setting."""
    gate = SMALL + '[system]\npg = "./build"\nprepare = ["../db/*.sql"]\n[system.set]\nwork_mem = "4MB"'
    write(folder, gate, "app/gate.toml")
    write(folder, "-- name: one\nSELECT 1;", "app/orders.sql")
    write(folder, "CREATE INDEX a ON t (a);", "db/001.sql")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1")
    write(folder, "CREATE INDEX b ON t (b);", "db/002.sql")
    write(folder, "-- name: one\nSELECT 11;", "app/orders.sql")
    write(folder, gate.replace("4MB", "8MB"), "app/gate.toml")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")
    return read_gate_file(folder / "app" / "gate.toml")


def test_a_revision_is_read_as_it_was_without_a_touch_of_the_repository(
    repository: GateFile, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = tmp_path_factory.mktemp("gate")
    before = sorted(path for path in folder.rglob("*") if path.is_file())
    found = find_baseline("v1", repository, kept)
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == before
    assert found.system.kind == "revision"
    assert len(found.system.revision) == 40
    assert found.file.system.settings == {"work_mem": "4MB"}
    assert [Path(name).name for name in found.file.system.prepare] == ["001.sql"]
    assert [Path(name).name for name in repository.system.prepare] == ["001.sql", "002.sql"]
    # What was built is not in the repository: the same path is the change's.
    assert found.file.system.pg == repository.system.pg
    (made,) = plan(found.file, repository).planned
    systems = made.request.made_factors[0].kind.apply.args[0]
    assert systems["baseline"].prepare == ("CREATE INDEX a ON t (a)",)
    assert systems["baseline"].workload.statements[0].sql == "SELECT 1"
    assert len(systems["change"].prepare) == 2
    assert plan(repository, repository).equal == ("orders",)


def test_another_checkout_is_read_where_its_gate_lies(repository: GateFile, folder: Path) -> None:
    other = folder.parent / f"{folder.name}-other"
    git(folder, "worktree", "add", "-q", str(other), "v1")
    found = find_baseline(str(other), repository, folder / "unused")
    assert found.system.kind == "checkout"
    assert found.file.path == other / "app" / "gate.toml"
    assert found.system.revision == revision_of(other)
    write(other, "-- name: one\nSELECT 3;", "app/orders.sql")
    assert revision_of(other) == f"{found.system.revision}+"


def test_a_source_tree_is_the_baseline_s_build(folder: Path) -> None:
    change = read_gate_file(write(folder, SMALL + '[system]\npg = "git:../postgres@my-patch"\n'))
    # As every path in a gate's file, from where the file lies.
    assert change.system.pg == f"git:{folder}/../postgres@my-patch"
    found = find_baseline("git:~/postgres@origin/master", change, folder / "unused")
    assert (found.system.kind, found.file.system.pg) == ("build", "git:~/postgres@origin/master")
    running = read_gate_file(write(folder, SMALL + SERVER, "running.toml"))
    with pytest.raises(UsageError, match=r"is a build, but .* names a running server"):
        find_baseline("git:~/postgres@origin/master", running, folder / "unused")


def test_a_folder_with_a_server_is_the_baseline_s_build(folder: Path) -> None:
    change = read_gate_file(write(folder, SMALL))
    write(folder, "", "old/bin/postgres")
    found = find_baseline(str(folder / "old"), change, folder / "unused")
    assert (found.system.kind, found.file.system.pg) == ("build", str(folder / "old"))
    assert len(plan(found.file, change).planned) == 1


def test_a_checkout_with_a_folder_called_postgres_is_no_build(repository: GateFile, folder: Path) -> None:
    other = folder.parent / f"{folder.name}-with-postgres"
    git(folder, "worktree", "add", "-q", str(other), "v1")
    (other / "postgres").mkdir()
    assert find_baseline(str(other), repository, folder / "unused").system.kind == "checkout"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("nowhere", "neither a folder nor a git revision"),
        ("--upload-pack=x", "has none for the change"),
        ("-v1", "neither a folder nor a git revision"),
        ("host=old", "has none for the change"),
        ("{folder}/db", "has neither gate.toml nor a build"),
        ("{folder}/app/gate.toml", "is a file"),
        ("{folder}/stored", "earlier gate"),
    ],
)
def test_what_is_no_baseline_is_told_so(
    repository: GateFile, folder: Path, text: str, complaint: str
) -> None:
    write(folder, "{}", "stored/gate.json")
    with pytest.raises(UsageError) as raised:
        find_baseline(text.format(folder=folder), repository, folder / "unused")
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('workloads = ["orders"]\n', "no workloads"),
        ("workloads = 3\n", "no workloads"),
        (f"{SMALL}prepare = 5\n", "prepare = 5"),
        (f"system = 7\n{SMALL}", "system is not a table"),
    ],
)
def test_a_file_that_was_wrong_in_its_revision_is_refused_in_a_sentence(
    repository: GateFile, folder: Path, content: str, complaint: str
) -> None:
    write(folder, content, "app/gate.toml")
    git(folder, "commit", "--quiet", "--all", "--message", "wrong")
    with pytest.raises(UsageError, match=complaint):
        find_baseline("HEAD", repository, folder / "as it was")


def test_a_dry_run_says_where_nothing_could_be_written(
    repository: GateFile, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gate", str(repository.path), "--baseline", "v1", "--dry-run"]
    for option, complaint in (("--junit", "can't write JUnit XML"), ("--out", "is not empty")):
        value = folder if option == "--out" else folder / "nowhere" / "gate.xml"
        assert main([*words, option, str(value)]) == 2
        assert complaint in capsys.readouterr().err


def test_a_dry_run_has_no_json_that_a_program_could_read(
    repository: GateFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(repository.path), "--baseline", "v1", "--dry-run", "--json"]) == 2
    assert "--json cannot be used with --dry-run" in capsys.readouterr().err


def test_a_gate_that_a_revision_does_not_have_yet(repository: GateFile, folder: Path) -> None:
    del repository
    change = read_gate_file(write(folder, SMALL, "new.toml"))
    with pytest.raises(UsageError, match=r"new\.toml is not in that revision"):
        find_baseline("v1", change, folder / "unused")


def test_files_outside_of_the_repository_have_no_revision(repository: GateFile, folder: Path) -> None:
    del repository
    for name, complaint in (("../../outside.sql", "outside the repository"), ("/x.sql", "no revision")):
        change = write(folder, SMALL.replace("orders.sql", name), "out.toml")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "out")
        with pytest.raises(UsageError, match=complaint):
            find_baseline("HEAD", read_gate_file(change), folder / "read")


def test_a_gate_that_is_refused_leaves_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    file = write(folder, "margin = 3\n")
    options = GateOptions(file, "main", history=None, out=None, command=("pgassay", "gate"))
    for others in ((), (folder / PARENT / "of-another",)):
        for each in others:
            each.mkdir(parents=True)
        with pytest.raises(UsageError):
            run_gate(options, choose(quiet=True), wait=False)
        left = [folder / PARENT, *others] if others else []
        assert sorted(folder.rglob("*")) == sorted([*before, file, *left])
