"""A grid of versions and a setting that some of them lack: which arms there are, and what is said."""

import itertools

import pytest
from plans_for_tests import base_spec

from pgassay.design.arms import Candidate, build_arms, choose_control, without_partner
from pgassay.environment.server.setting_values import SettingFact
from pgassay.experiment.planning import arm_builds
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm
from pgassay.model.build import Build

METHODS = ("sync", "worker")
# What each version knows, of the settings that are factors here.
KNOWN = {"16": (), "17": (), "18": ("io_method",)}


def build_settings(build: Build) -> dict[str, SettingFact]:
    names = ("work_mem", "shared_buffers", *KNOWN[build.version])
    return {name: SettingFact(name, "user", "string", None, "", None, None, (), "") for name in names}


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_builds, "build_settings", build_settings)


def candidates_of(**factors: tuple[str, ...]) -> list[Candidate]:
    """Every combination, each version on a build of its own, the other levels as settings."""
    found = []
    for combination in itertools.product(*factors.values()):
        levels = dict(zip(factors, combination, strict=True))
        version = levels.get("version", "18")
        build = Build(origin="npm", version=version, major=int(version), bin_directory=f"/npm/{version}")
        settings = {name: level for name, level in levels.items() if name not in ("version", "clients")}
        spec = base_spec()
        update = {"build": build, "settings": spec.settings | settings}
        found.append((levels, spec.model_copy(update=update)))
    return found


def arms_of(texts: list[str], candidates: list[Candidate], control: str | None = None) -> tuple[Arm, ...]:
    factors = parse_factors(texts)
    return build_arms(factors, choose_control(factors, control), candidates, 1)[0]


def named(arms: tuple[Arm, ...]) -> list[tuple[str, str, str]]:
    return [(arm.role, arm.stratum, arm.name) for arm in arms]


def test_a_version_without_the_setting_is_one_arm_and_the_other_has_one_for_each_level() -> None:
    candidates, said = arm_builds.one_arm_where_lacking(
        candidates_of(version=("17", "18"), io_method=METHODS), "version"
    )
    arms = arms_of(["version=17,18", "io_method=sync,worker"], candidates)
    assert named(arms) == [
        ("control", "", "version=17"),
        ("arm", "", "version=18 io_method=sync"),
        ("arm", "", "version=18 io_method=worker"),
        ("twin", "", "version=17"),
    ]
    assert [arm.spec.settings.get("io_method") for arm in arms] == [None, "sync", "worker", None]
    assert said == [
        "version=17 io_method=sync,worker was skipped: PostgreSQL 17 has no setting io_method, so version=17 "
        "is one arm without it"
    ]
    assert without_partner(candidates, arms, "version") == ()


def test_the_published_matrix_is_four_arms_in_each_stratum() -> None:
    candidates, said = arm_builds.one_arm_where_lacking(
        candidates_of(version=("17", "18"), io_method=("sync", "worker", "io_uring"), clients=("1", "8")),
        "version",
    )
    texts = ["version=17,18", "io_method=sync,worker,io_uring", "clients=1,8"]
    arms = arms_of(texts, candidates)
    assert [name for role, stratum, name in named(arms) if stratum == "clients=8" and role != "twin"] == [
        "version=17 clients=8",
        "version=18 io_method=sync clients=8",
        "version=18 io_method=worker clients=8",
        "version=18 io_method=io_uring clients=8",
    ]
    assert {arm.stratum for arm in arms} == {"clients=1", "clients=8"}
    assert len(said) == 1


def test_the_newer_version_as_control_is_the_first_of_its_levels() -> None:
    candidates, _ = arm_builds.one_arm_where_lacking(
        candidates_of(version=("17", "18"), io_method=METHODS), "version"
    )
    arms = arms_of(["version=17,18", "io_method=sync,worker"], candidates, "18")
    assert {name for role, _, name in named(arms) if role in ("control", "twin")} == {
        "version=18 io_method=sync"
    }
    assert [name for role, _, name in named(arms) if role == "arm"] == [
        "version=17",
        "version=18 io_method=worker",
    ]


def test_what_is_compared_stays_for_the_server_to_judge() -> None:
    """Within version 17 there is nothing to compare: its cells are dropped, and what is left says so."""
    given = candidates_of(io_method=METHODS, version=("17", "18"))
    candidates, said = arm_builds.one_arm_where_lacking(given, "io_method")
    assert candidates == given and said == []
    judged = [each for each in candidates if each[0]["version"] == "18"]
    arms = arms_of(["io_method=sync,worker", "version=17,18"], judged)
    assert {stratum for _, stratum, _ in named(arms)} == {"version=18"}


def test_a_third_factor_is_compared_within_each_version() -> None:
    """The older version has a stratum of its own, without the setting that it lacks."""
    candidates, _ = arm_builds.one_arm_where_lacking(
        candidates_of(work_mem=("4MB", "8MB"), version=("17", "18"), io_method=METHODS), "work_mem"
    )
    arms = arms_of(["work_mem=4MB,8MB", "version=17,18", "io_method=sync,worker"], candidates)
    assert {stratum for _, stratum, _ in named(arms)} == {
        "version=17",
        "version=18 io_method=sync",
        "version=18 io_method=worker",
    }


def test_what_is_left_alone_is_said() -> None:
    candidates = [
        each
        for each in candidates_of(io_method=METHODS, clients=("1", "8"))
        if each[0] != {"io_method": "worker", "clients": "8"}
    ]
    arms = arms_of(["io_method=sync,worker", "clients=1,8"], candidates)
    assert without_partner(candidates, arms, "io_method") == (
        "io_method=sync clients=8 was skipped: no other level of io_method is left to compare it with",
    )


def test_one_build_and_a_setting_that_nobody_has_change_nothing() -> None:
    given = candidates_of(io_method=METHODS)
    assert arm_builds.one_arm_where_lacking(given, "io_method") == (given, [])
    unknown = candidates_of(version=("16", "17"), io_method=METHODS)
    assert arm_builds.one_arm_where_lacking(unknown, "version") == (unknown, [])
