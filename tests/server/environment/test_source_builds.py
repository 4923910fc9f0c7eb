"""PostgreSQL itself, built from its distribution's sources in a throw-away repository, and compared."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from samples.builds.planted_tree import distribution_sources
from samples.builds.source_tree import git

# Measures for long, as few others do, and compiles for minutes where there are two processors.
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(7200)]
SECOND_OF_FIRST_MAX = 0.25
CHANGED = (
    "src/backend/access/heap/heapam.c",
    "src/backend/executor/nodeAgg.c",
    "src/backend/executor/nodeSeqscan.c",
    "src/backend/storage/lmgr/lwlock.c",
    "src/backend/utils/adt/numeric.c",
)


@pytest.fixture(scope="module")
def clone(require: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose branch `changed` has a function more in five files, and `broken` a slip of one."""
    require("apt", "source-tools")
    folder = tmp_path_factory.mktemp("sources")
    unpacked = distribution_sources(folder, "18")
    git(unpacked, "init", "--quiet", "--initial-branch=master")
    git(unpacked, "add", "--all")
    git(unpacked, "commit", "--quiet", "--message=released")
    git(unpacked, "checkout", "--quiet", "-b", "changed")
    for place, name in enumerate(CHANGED):
        with (unpacked / name).open("a") as stream:
            stream.write(f"int unused_{place}(void);\nint unused_{place}(void) {{ return {place}; }}\n")
    git(unpacked, "commit", "--quiet", "--all", "--message=five files")
    git(unpacked, "checkout", "--quiet", "-b", "broken", "master")
    with (unpacked / CHANGED[0]).open("a") as stream:
        stream.write("int broken(void) { return nonesuch; }\n")
    git(unpacked, "commit", "--quiet", "--all", "--message=broken")
    git(unpacked, "checkout", "--quiet", "master")
    return unpacked


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with whole_tool.private_home() as folder:
        yield folder


def _build(home: Path, name: str) -> tuple["subprocess.CompletedProcess[str]", float]:
    begun = time.monotonic()
    done = subprocess.run(
        [*whole_tool.COMMAND, "builds", "build", name],
        env=whole_tool.environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    return done, time.monotonic() - begun


def test_two_revisions_of_postgresql_are_built_and_compared(
    clone: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"git:{clone}@master", f"git:{clone}@changed"]
    first, first_s = _build(home, names[0])
    assert first.returncode == 0, first.stderr
    second, second_s = _build(home, names[1])
    assert second.returncode == 0, second.stderr
    assert second_s < SECOND_OF_FIRST_MAX * first_s
    broken, _ = _build(home, f"git:{clone}@broken")
    assert broken.returncode == 2
    assert f"@broken does not build: {CHANGED[0]}:" in broken.stderr
    monkeypatch.setenv("PGASSAY_HOME", str(home))
    build = resolve(names[0])
    assert {"pg_stat_statements", "pgstattuple", "pg_buffercache"} <= set(build.extensions)
    assert "-fno-omit-frame-pointer" in build.cflags and "-O2" in build.cflags
    assert _has_debug_information(Path(build.bin_directory) / "postgres")
    whole = ["compare", f"build={','.join(names)}", "--workload", "select-only:duration=1s", "--scale", "1"]
    ended = whole_tool.run(
        *whole, "--blocks", "2", "--out", tmp_path / "out", "--quiet", home=home, timeout=3600
    )
    assert ended.returncode == 0, ended.stderr
    plan = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert plan["dataset_loads"] == 1
    trees = {arm["spec"]["build"]["source"]["tree"] for arm in plan["arms"]}
    assert trees == {git(clone, "rev-parse", f"{branch}^{{tree}}") for branch in ("master", "changed")}
    assert len([path for path in (home / "data" / "snapshots").iterdir() if path.is_dir()]) == 1
    assert "built from" in (tmp_path / "out" / "report.html").read_text()


def _has_debug_information(program: Path) -> bool:
    sections = subprocess.run(["readelf", "-SW", program], check=True, capture_output=True, text=True)
    return ".debug_info" in sections.stdout
