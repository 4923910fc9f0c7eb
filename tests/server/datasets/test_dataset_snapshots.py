"""Snapshots: made once, reused, whole or not at all, whatever happens while they are made."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from pgassay.environment import datasets
from pgassay.environment.cleanup import registry
from pgassay.environment.datasets import snapshots
from pgassay.environment.home import account
from pgassay.environment.server import server_folder, server_processes
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from server_helpers import TINY_SETTINGS, answer_of, best_build, child, kill_child, own_home, socket_folders

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
ONE = DatasetSpec(scale=1)
INDEX = ("CREATE INDEX by_branch ON pgbench_accounts (bid)", "VACUUM pgbench_accounts")


@pytest.fixture(scope="module")
def build():
    return best_build()


@pytest.fixture
def home(build):
    assert build  # found in the machine's home, before this one replaces it
    with own_home() as folder:
        yield folder
        assert list((folder / "registry").glob("*.json")) == []
        assert list(folder.rglob("*.partial-*")) == []
        assert socket_folders(folder) == []


def quiet(stage, fraction):
    del stage, fraction


def test_made_once_and_reused(build, home):
    stages = []
    first = snapshots.ensure(build, ONE, (), lambda stage, fraction: stages.append((stage, fraction)))
    assert ("loading accounts", 1.0) in stages
    assert first.path == home / "data" / "snapshots" / snapshots.key(build, ONE)
    if account() is not None:
        assert first.path.stat().st_uid == account().uid
    assert first.path.stat().st_mode & 0o777 == 0o700
    assert not (first.path / "postmaster.pid").exists()
    stages.clear()
    assert snapshots.ensure(build, ONE, (), lambda *stage: stages.append(stage)) == first
    assert stages == []
    assert snapshots.list_snapshots() == [first]
    snapshots.remove(first.key)
    assert snapshots.list_snapshots() == []
    assert list((home / "data" / "snapshots").iterdir()) == []
    with pytest.raises(UsageError, match="There is no snapshot"):
        snapshots.remove(first.key)
    with pytest.raises(UsageError, match="There is no snapshot"):
        snapshots.remove("../../..")


@pytest.fixture(scope="module")
def base(build):
    """Data that several tests prepare further, in a home of their own."""
    with own_home():
        yield snapshots.ensure(build, ONE, (), quiet)


def test_a_prepare_is_a_layer_on_the_same_data(build, base):
    stages = []
    made = snapshots.ensure(build, ONE, INDEX, lambda stage, _: stages.append(stage))
    assert "loading accounts" not in stages
    assert made.key != base.key
    assert "by_branch" in made.facts["relations"]
    assert "by_branch" not in base.facts["relations"]
    with Server(build, made.path, TINY_SETTINGS) as server, control(server) as session:
        plan = "EXPLAIN SELECT count(*) FROM pgbench_accounts WHERE bid = 1"
        session.execute("SET enable_seqscan = off")
        assert any("by_branch" in line for (line,) in session.execute(plan).fetchall())


@pytest.mark.usefixtures("base")
def test_a_vacuum_of_a_prepare_marks_and_counts_what_came_just_before(build):
    """Rows that were inserted and deleted a moment ago: their commits are written, their changes counted."""
    statements = (
        "CREATE TABLE t AS SELECT i AS id, repeat('x', 80) AS f FROM generate_series(1, 10000) i",
        "DELETE FROM t WHERE id % 5 <> 0",
        "/* at once */ VACUUM (ANALYZE) t",
    )
    made = snapshots.ensure(build, ONE, statements, quiet)
    with Server(build, made.path, TINY_SETTINGS) as server, control(server) as session:
        counted = session.execute(
            "SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relname = 't'"
        ).fetchone()
        marked = session.execute(
            "SELECT relallvisible, relpages FROM pg_class WHERE relname = 't'"
        ).fetchone()
    assert counted == (2000, 0)
    assert marked is not None and marked[0] == marked[1] > 50


def test_a_prepare_that_fails_leaves_the_base_alone(build, base):
    before = snapshots.list_snapshots()
    with pytest.raises(UsageError, match=r"'CREATE INDEX ON nowhere .x.' failed .*does not exist"):
        snapshots.ensure(build, ONE, ("CREATE INDEX ON nowhere (x)",), quiet)
    assert snapshots.list_snapshots() == before and base in before


def test_the_key_depends_on_every_layer(build):
    variants = [
        (build, ONE, ()),
        (build, DatasetSpec(scale=2), ()),
        (build, DatasetSpec(scale=1, checksums=False), ()),
        (build, DatasetSpec(scale=1, wal_segment_mb=32), ()),
        (build, ONE, INDEX),
        (build, ONE, INDEX[:1]),
        (build.model_copy(update={"version": "99.1"}), ONE, ()),
        (build.model_copy(update={"configure": build.configure + " '--with-blocksize=16'"}), ONE, ()),
        (build.model_copy(update={"extensions": ()}), ONE, ()),
    ]
    keys = [snapshots.key(*variant) for variant in variants]
    assert len(set(keys)) == len(keys)
    elsewhere = build.model_copy(update={"origin": "path", "bin_directory": "/elsewhere", "cflags": "-O3"})
    assert snapshots.key(elsewhere, ONE) == keys[0]


@pytest.mark.usefixtures("home")
def test_too_little_space_is_said_before_any_work(build):
    stages = []
    with pytest.raises(UsageError, match=r"need [\d.]+ \wB .* are free: choose a smaller --scale"):
        snapshots.ensure(build, DatasetSpec(scale=10_000_000), (), lambda *stage: stages.append(stage))
    assert stages == []
    with pytest.raises(UsageError, match="The scale 0 is not possible"):
        snapshots.ensure(build, DatasetSpec(scale=0), (), quiet)
    with pytest.raises(UsageError, match="power of two"):
        snapshots.ensure(build, DatasetSpec(wal_segment_mb=3), (), quiet)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_the_space_asked_for_suffices(build):
    spec = DatasetSpec(scale=8)
    made = snapshots.ensure(build, spec, (), quiet)
    assert 0.5 * datasets.needed_bytes(spec) < made.bytes <= datasets.needed_bytes(spec)


def test_disk_full_while_loading(build, home, require):
    require("root")
    data = home / "data"

    def fill(stage, fraction):
        if stage == "loading accounts" and fraction < 0.1:
            with pytest.raises(OSError, match="No space left"), (data / "filler").open("wb") as filler:
                while True:
                    filler.write(bytes(1024**2))

    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m,mode=0700", "none", str(data)], check=True)
    try:
        if account() is not None:
            os.chown(data, account().uid, account().gid)
        with pytest.raises(MeasurementError, match=r"is full while .*: free some space there") as caught:
            snapshots.ensure(build, DatasetSpec(scale=20), (), fill)
        assert "\n" not in str(caught.value)
        left = [path.name for path in (data / "snapshots").iterdir()]
        assert [name for name in left if not name.endswith(".lock")] == []
        (data / "filler").unlink()
        assert snapshots.ensure(build, ONE, (), quiet).key == snapshots.key(build, ONE)
    finally:
        subprocess.run(["umount", str(data)], check=True)


def test_killed_while_loading_leaves_nothing_after_the_next_sweep(build, home):
    reached = home / "data" / "reached"

    def stop_there(stage, _):
        if stage == "building primary keys":
            reached.touch()
            time.sleep(600)

    pid, pipe = child(lambda: snapshots.ensure(build, ONE, (), stop_there))
    deadline = time.monotonic() + 300
    while not reached.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert reached.exists()
    kill_child(pid, pipe)
    partial = next((home / "data" / "snapshots").glob("*.partial-*"))
    assert server_processes.processes_of(partial)
    registry.sweep()
    assert not server_processes.processes_of(partial)
    assert not partial.exists()
    assert snapshots.list_snapshots() == []
    assert snapshots.ensure(build, ONE, (), quiet).key == snapshots.key(build, ONE)


@pytest.mark.usefixtures("home")
def test_two_processes_make_it_once(build):
    def make():
        stages = []
        path = snapshots.ensure(build, ONE, (), lambda stage, _: stages.append(stage)).path
        return str(path), len(stages)

    answers = [answer_of(*started) for started in [child(make), child(make)]]
    assert answers[0][0] == answers[1][0]
    assert sorted(count == 0 for _, count in answers) == [False, True]


def test_an_unprivileged_user_goes_the_whole_way(build, require):
    require("root")
    folder = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    folder.chmod(0o777)

    def whole_cycle():
        os.environ["PGASSAY_HOME"] = str(folder / "home")
        # A fixture of this file may have one that only root writes to.
        server_folder.PARENT = folder
        made = snapshots.ensure(build, ONE, (), quiet)
        with Server(build, made.path, TINY_SETTINGS) as server, control(server) as session:
            # More than once: CPU time is counted in ticks of some milliseconds where no group counts it.
            for _ in range(20):
                rows = session.execute("SELECT count(*) FROM pgbench_accounts").fetchone()[0]
            cpu_s = server.server_cpu_seconds()
            owner = Path(f"/proc/{server.pid}").stat().st_uid
        return rows, cpu_s > 0, owner == os.geteuid(), server.process_ids()

    try:
        assert answer_of(*child(whole_cycle, user="nobody")) == (100_000, True, True, [])
    finally:
        shutil.rmtree(folder)
