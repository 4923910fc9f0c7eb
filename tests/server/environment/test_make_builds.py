"""PostgreSQL without meson: built by configure and make from its distribution's sources."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import account
from samples.builds.planted_tree import commit, distribution_sources
from samples.builds.source_tree import git

# Compiles for minutes, twice.
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(2 * 7200)]
QUERY = "SELECT 'answer ' || 6 * 7;\n"


@pytest.fixture
def home(require: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require("apt", "source-tools")
    with whole_tool.private_home() as folder:
        monkeypatch.setenv("PGASSAY_HOME", str(folder))
        yield folder


def clone_of(folder: Path, major: str) -> Path:
    """The sources of a major, committed on `master`."""
    clone = distribution_sources(folder, major)
    git(clone, "init", "--quiet", "--initial-branch=master")
    commit(clone, "released")
    return clone


def built(home: Path, *names: str) -> None:
    done = whole_tool.run("builds", "build", *names, home=home, timeout=7200)
    assert done.returncode == 0, done.stderr


def test_postgresql_15_is_built_with_its_extensions_and_layouts(home: Path, tmp_path: Path) -> None:
    name = f"git:{clone_of(tmp_path, '15')}@master"
    built(home, name)
    build = resolve(name)
    assert build.major == 15
    assert {"pg_stat_statements", "pgstattuple", "pg_buffercache"} <= set(build.extensions)
    assert {"-O2", "-g", "-fno-omit-frame-pointer", "-ffunction-sections"} <= set(build.cflags.split())
    assert build.source is not None and len(set(build.source.layouts)) == 4
    sections = subprocess.run(
        ["readelf", "-SW", f"{build.bin_directory}/postgres"], check=True, capture_output=True, text=True
    )
    assert ".debug_info" in sections.stdout
    with whole_tool.private_home() as folder:
        data = folder / "cluster"
        data.mkdir()
        owner = account()
        user = {} if owner is None else {"user": owner.uid, "group": owner.gid, "extra_groups": []}
        if owner is not None:
            for each in (folder, data):
                each.chmod(0o777)
        prepared = [f"{build.bin_directory}/initdb", "--no-sync", "-D", str(data / "pg")]
        subprocess.run(prepared, check=True, capture_output=True, **user)  # type: ignore[call-overload]
        for number in range(5):
            laid = build.at_layout(number) if number else build
            single = [f"{laid.bin_directory}/postgres", "--single", "-D", str(data / "pg"), "postgres"]
            said = subprocess.run(  # type: ignore[call-overload]
                single, input=QUERY, check=True, capture_output=True, text=True, **user
            )
            assert "answer 42" in said.stdout


def test_a_tree_without_meson_and_one_with_it_are_built_alike_and_compared(
    home: Path, tmp_path: Path
) -> None:
    clone = clone_of(tmp_path, "18")
    meson = (clone / "meson.build").read_text()
    (clone / "meson.build").unlink()
    commit(clone, "without")
    git(clone, "tag", "without")
    (clone / "meson.build").write_text(meson)
    source = clone / "src/backend/tcop/pquery.c"
    source.write_text(source.read_text() + "int unused(void);\nint unused(void) { return 1; }\n")
    commit(clone, "with")
    names = [f"git:{clone}@without", f"git:{clone}@master"]
    whole = ("compare", f"build={','.join(names)}", "--workload", "select-only:duration=1s", "--scale", "1")
    ended = whole_tool.run(
        *whole, "--blocks", "2", "--out", tmp_path / "out", "--quiet", home=home, timeout=7200
    )
    assert ended.returncode == 0, ended.stderr
    arms = json.loads((tmp_path / "out" / "experiment.json").read_text())["arms"]
    options = {tuple(arm["spec"]["build"]["source"]["options"]) for arm in arms}
    assert len(options) == 1
    assert "--enable-depend" in options.pop()
    # What changed was compiled, and nothing else of the server.
    log = (home / "builds/source-work/log.txt").read_text()
    assert "-c -o pquery.o" in log and "-c -o postgres.o" not in log
