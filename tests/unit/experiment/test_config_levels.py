"""Levels that set several things: how they are read, what they set, and what is refused."""

from types import SimpleNamespace

import pytest

from pgassay.design.arms import apply_levels, build_arms, choose_control, combinations
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.config import names_of, parts_of
from pgassay.factors.registry import parse_factors
from pgassay.model.build import Build
from pgassay.workloads.registry import parse_workload
from report_examples import spec

MATRIX = "config=17,18+io_method=sync,18+io_method=worker+effective_io_concurrency=16"


def built(level: str) -> Build:
    return Build(
        origin="apt", version=f"{level}.1", major=int(level), bin_directory=f"/pg/{level}", has_io_uring=True
    )


def test_a_level_has_a_version_and_whatever_a_factor_can_be():
    assert parts_of("18+io_method=sync") == {"version": "18", "io_method": "sync"}
    assert parts_of("17.10") == {"version": "17.10"}
    assert parts_of("build=apt:18+clients=8") == {"build": "apt:18", "clients": "8"}
    assert parts_of("storage=loop:size=4GB,read_mb_s=125+jit=off")["storage"] == "loop:size=4GB,read_mb_s=125"


def test_a_plus_sign_in_a_value_stays_there():
    assert parts_of("18+application_name=a+b") == {"version": "18", "application_name": "a+b"}
    assert parts_of("18+timezone=UTC+3") == {"version": "18", "timezone": "UTC+3"}


def test_each_arm_is_patched_by_all_parts_of_its_level(monkeypatch):
    from pgassay.factors import version

    def bind(_name: str, levels: tuple[str, ...]):
        builds = {level: built(level) for level in levels}
        return SimpleNamespace(
            builds=builds,
            is_base=True,
            apply=lambda _n, level, one: one.model_copy(update={"build": builds[level]}),
        )

    monkeypatch.setattr(version, "KIND", SimpleNamespace(bind=bind))
    (factor,) = parse_factors([MATRIX])
    bound = factor.kind.bind(factor.name, factor.levels)
    assert sorted(build.major for build in bound.builds.values()) == [17, 18]
    specs = [bound.apply("config", level, spec({})) for level in factor.levels]
    assert [each.build.major for each in specs] == [17, 18, 18]
    assert [each.settings.get("io_method") for each in specs] == [None, "sync", "worker"]
    assert specs[2].settings["effective_io_concurrency"] == "16"


def test_parts_are_read_as_the_levels_of_a_factor_are():
    (factor,) = parse_factors(["config='search_path=''a,b''+work_mem=4MB',work_mem=8MB"])
    assert factor.kind.apply("config", factor.levels[0], spec({})).settings == {
        "search_path": "a,b",
        "work_mem": "4MB",
    }
    # Names of variables differ by case.
    assert parts_of("var.Rows=1+WORK_MEM=4MB") == {"var.Rows": "1", "work_mem": "4MB"}


def test_arrivals_rest_on_the_rate_of_their_level_in_whichever_order():
    (factor,) = parse_factors(["config=arrivals=constant+rate=10,rate=20"])
    base = spec({}).model_copy(update={"workload": parse_workload("tpcb:clients=2")})
    load = factor.kind.apply("config", factor.levels[0], base).workload.load
    assert (load.pace.text, load.pace.arrivals) == ("10", "constant")


def test_levels_without_a_version_make_one_family_in_each_stratum():
    config = "config=jit=off,jit=on+work_mem=8MB,jit=on+work_mem=16MB"
    factors = parse_factors([config, "random_page_cost=1,4"])
    levels = combinations(factors)
    candidates = [(each, apply_levels(factors, each, spec({}))) for each in levels]
    arms, contrasts = build_arms(factors, choose_control(factors, None), candidates, 1)
    assert len(contrasts) == 4
    assert {arm.name for arm in arms if arm.role == "control"} == {
        "config=jit=off random_page_cost=1",
        "config=jit=off random_page_cost=4",
    }
    last = next(arm for arm in arms if arm.name == "config=jit=on+work_mem=16MB random_page_cost=4")
    assert last.spec.settings["work_mem"] == "16MB" and last.spec.settings["jit"] == "on"
    assert names_of(last.levels) >= {"jit", "work_mem", "random_page_cost"}


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        (["config=17,18+jit=on+jit=off"], "sets jit twice"),
        (["config=17,jit=on"], "name one in every level"),
        (["config=17,18+build=apt:18"], "a version and a build"),
        (["config=17,18+nothing"], "is not part of a level"),
        (["config=17,18+sql=a.sql"], "a separate factor"),
        (["config=17,18+io_method=sync", "io_method=sync,worker"], "also set separately"),
        (["config=17,18+storage=host", "read_ahead=128,256"], "write both in config="),
        (["config=17,'18+io_method=sync,worker'"], "is 2 levels"),
        (["config=18"], "one level"),
    ],
)
def test_contradictions_are_refused_with_the_remedy(factors, said):
    with pytest.raises(UsageError, match=said):
        parse_factors(factors)


@pytest.mark.parametrize(
    ("factors", "rest", "said"),
    [
        ((MATRIX,), {"settings": ("io_method=sync",)}, "io_method is part of config="),
        ((MATRIX,), {"server": "host=nowhere"}, "config= cannot be used with --server"),
    ],
)
def test_what_is_given_to_all_arms_is_no_part(factors, rest, said):
    from pgassay.experiment.planning.experiment_plan import parse_request

    with pytest.raises(UsageError, match=said):
        parse_request(CompareRequest(factors=factors, **rest))
