"""What the tests of the whole tool share: running it as its user does, and looking for what it left."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

from pgassay.cli import main
from pgassay.environment.atomic_folder import locked
from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import snapshots
from pgassay.environment.home import home_path
from pgassay.environment.linux.mounts import mounts
from pgassay.environment.server import validation
from pgassay.model.arm import DatasetSpec
from warm_tool import WarmTool

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "pgassay.cli.main")
# A busy machine is given time: only what hangs for good comes to it.
TIMEOUT_S = 500
# The smallest server on which every method may still pin its buffers; quick to start.
SMALL = ("--scale", "1", "--set", "shared_buffers=64MB")


@contextmanager
def private_home() -> Iterator[Path]:
    """A home of its own that sees the tools and the charts' library of the machine's; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    folder.chmod(0o755)
    for shared in (home_path() / name for name in ("tools", "chart-library")):
        if shared.is_dir():
            (folder / shared.name).symlink_to(shared)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def prepared_home() -> Iterator[Path]:
    """A private home with copies of what `build` and SMALL need: the data, and a cluster to judge settings.

    For tests that are not about loading: making both takes as long as some trials.
    """
    chosen = validation.with_data_format(resolve("18"))
    validation.build_settings(chosen)
    folders = [
        snapshots.ensure(chosen, DatasetSpec(scale=int(SMALL[1])), (), lambda *_: None).path,
        validation.small_cluster(chosen),
    ]
    with private_home() as folder:
        for source in folders:
            parent = folder / source.parent.relative_to(home_path())
            subprocess.run(["install", "-d", *_owned_like(source), parent.parent, parent], check=True)
            # With the lock, because a server may be running on the small cluster.
            with locked(source.with_name(f"{source.name}.lock")):
                subprocess.run(["cp", "-a", "--reflink=auto", source, parent], check=True)
        yield folder


def _owned_like(path: Path) -> list[str]:
    """The words that make `install` give a folder the owner of `path`, closed to all others."""
    status = path.stat()
    return ["-m", "700", "-o", str(status.st_uid), "-g", str(status.st_gid)]


def build(version: str = "18") -> tuple[str, str]:
    """`--pg` and the machine's best build: a home of one's own knows only the builds unpacked in it."""
    return "--pg", resolve(version).bin_directory


def environment(home: Path | None = None, **variables: str) -> dict[str, str]:
    """The environment of a child that runs this checkout, with `home` as its PGASSAY_HOME."""
    own = {"PYTHONPATH": python_path(ROOT / "python"), **variables}
    return os.environ | own | ({"PGASSAY_HOME": str(home)} if home else {})


def python_path(*folders: Path) -> str:
    """PYTHONPATH with these folders before what it holds now."""
    return os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


_warm = WarmTool(ROOT / "python")
atexit.register(_warm.end)


def run(
    *words: str | Path,
    home: Path | None = None,
    pictures: bool = False,
    group: Path | None = None,
    constants: Mapping[str, float] | None = None,
    **options: Any,
) -> "subprocess.CompletedProcess[str]":
    """Run `pgassay words…` to its end, in a process of its own.

    `pictures`: its pages have those that a user's have, and not blank ones (`tests/warm_tool.py`).
    `group`: the control group in which it runs. `constants`: other values of modules' constants, such as how
    long a part lasts at least where any time will do.
    """
    options = {"env": environment(home), "timeout": TIMEOUT_S, **options}
    if options.keys() == {"env", "timeout"}:
        typed = [str(word) for word in words]
        how = {"pictures": pictures, "group": group, "constants": constants}
        return _warm.run(typed, options["env"], options["timeout"], **how)
    assert group is None and constants is None
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def run_here(capsys: Any, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """As `run`, in this process: for the many cases that end before anything is started."""
    handlers = {number: signal.getsignal(number) for number in main.SIGNALS}
    try:
        status = main.main([str(word) for word in words])
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capsys.readouterr()
    return subprocess.CompletedProcess(words, status, said.out, said.err)


def start(*words: str | Path, home: Path | None = None, **options: Any) -> "subprocess.Popen[str]":
    """Start `pgassay words…` in a process group of its own, both outputs as pipes."""
    options = {"env": environment(home), "process_group": 0, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        text=True,
        **options,
    )


def result_of(finished: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The JSON document that a run with --json printed; fails with its standard error."""
    assert finished.returncode in (0, 3), finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def assert_one_sentence(finished: "subprocess.CompletedProcess[str]", exit_status: int) -> str:
    """No traceback, the given exit status, and a last line that is the complaint; returns that line."""
    assert finished.returncode == exit_status, finished.stderr
    assert "Traceback" not in finished.stderr, finished.stderr
    lines = finished.stderr.strip().splitlines()
    complaints = [line for line in lines if line.startswith("pgassay")]
    assert len(complaints) == 1, finished.stderr
    assert complaints[0] == lines[-1]
    assert finished.stdout == ""
    return complaints[0]


def wait_for(
    condition: Any, what: str, timeout_s: float = 300, process: "subprocess.Popen[str] | None" = None
) -> Any:
    """Call `condition` until it answers something true; returns that. Fails when `process` ends first."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if process is not None and process.poll() is not None:
            raise AssertionError(f"{what}: the run ended before: {process.communicate()[1]}")
        if time.monotonic() >= deadline:
            if process is not None:
                # It would go on, and hold the host's lock against every test that follows.
                process.kill()
                process.communicate()
            raise AssertionError(f"{what}: not within {timeout_s} s")
        time.sleep(0.02)
    return answer


def servers_below(home: Path) -> list[int]:
    """The processes of PostgreSQL whose data directory lies below `home`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            folder, program = (entry / "cwd").readlink(), (entry / "exe").readlink()
        except OSError:
            continue
        if folder.is_relative_to(home) and program.name.startswith("postgres"):
            found.append(int(entry.name))
    return sorted(found)


def postmaster_of(home: Path) -> int | None:
    """The postmaster of the measuring server below `home`, once it accepts connections."""
    for file in (home / "data" / "work").rglob("postmaster.pid"):
        try:
            lines = file.read_text("ascii").splitlines()
        except OSError:
            continue
        if len(lines) > 7 and lines[7].strip() == "ready":
            return int(lines[0])
    return None


def socket_folders() -> set[Path]:
    """The folders of servers' sockets that exist now, whoever's they are."""
    return set(Path("/tmp").glob("pgassay-????????????")) | set(Path("/tmp").glob("pgassay-????????"))


def others_folders(home: Path) -> set[Path]:
    """The folders that runs with another home have registered: theirs to remove."""
    registries = {
        home_path() / "registry",
        # Not Path.glob, which fails where a folder goes away meanwhile.
        *map(Path, glob("/tmp/*/registry")),  # noqa: PTH207
        *map(Path, glob("/tmp/*/*/registry")),  # noqa: PTH207
    }
    found = set()
    for file in (file for other in registries - {home / "registry"} for file in other.glob("folder-*.json")):
        try:
            found.add(Path(json.loads(file.read_bytes())["details"]["path"]))
        except (OSError, ValueError):
            continue  # removed, or being written, at this very moment
    return found


def leftovers(home: Path, folders_before: Iterable[Path], pids: Iterable[int]) -> list[str]:
    """What runs with this home left: servers, mounts, loop devices, cgroups, entries, folders in /tmp."""
    left = [f"process {pid}" for pid in servers_below(home)]
    left += [f"mount {mount.point}" for mount in mounts() if home in mount.point.parents]
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        if home in Path(device.read_text()).parents:
            left.append(f"loop device {device.parts[3]}")
    roots = [str(mount.point) for mount in mounts() if mount.kind in ("cgroup", "cgroup2")]
    groups = subprocess.run(
        ["find", *roots, "-type", "d", "-name", "pgassay-*"], capture_output=True, text=True
    ).stdout.split()
    ours = {str(pid) for pid in pids}
    left += [f"cgroup {group}" for group in groups if group.rpartition("-")[2] in ours]
    left += [f"entry {path.name}" for path in (home / "registry").glob("*")]
    # A folder is registered before it is made and for longer than it exists: this order finds no other's.
    seen = socket_folders() - set(folders_before)
    registered = others_folders(home)
    left += [f"folder {folder}" for folder in seen if folder not in registered and folder.exists()]
    return left


def trials(folder: Path) -> list[dict[str, Any]]:
    """Every recorded attempt of an experiment, in order."""
    return [json.loads(file.read_bytes()) for file in sorted(folder.glob("trials/*/attempt-*/trial.json"))]


def valid_trials(folder: Path) -> list[dict[str, Any]]:
    """Those that count: an attempt that other processes on the machine spoilt is repeated."""
    return [record for record in trials(folder) if record["status"] == "ok"]
