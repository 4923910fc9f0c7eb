"""The baseline: settings alike in all arms, or each version's own with no more than a server needs."""

from pathlib import Path

import pytest
from plans_for_tests import base_spec

from pgassay.design.arms import Candidate, apply_levels, combinations
from pgassay.environment.builds.default_differences import default_differences
from pgassay.environment.server.setting_values import SettingFact
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_baseline import (
    differing_checksums,
    settings_of_all,
    with_connections,
    with_shipped_checksums,
    with_wal_sizes,
)
from pgassay.experiment.planning.arm_builds import dataset_loads
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.workloads.registry import parse_workload

GB = 1024**3


def version_of(spec: ArmSpec, major: int) -> ArmSpec:
    build = Build(origin="npm", version=f"{major}.1", major=major, bin_directory=f"/npm/{major}/bin")
    return spec.model_copy(update={"build": build})


def candidates(*texts: str, base: ArmSpec) -> list[Candidate]:
    factors = parse_factors(list(texts))
    return [(levels, apply_levels(factors, levels, base)) for levels in combinations(factors)]


def bare(workload: str = "full-scan") -> ArmSpec:
    return base_spec(workload).model_copy(update={"settings": {}})


def test_shipped_sets_nothing_and_fixed_what_the_guide_lists() -> None:
    build, workload = base_spec().build, parse_workload("full-scan")
    assert settings_of_all(CompareRequest(factors=(), baseline="shipped"), build, workload, 8 * GB) == {}
    fixed = settings_of_all(CompareRequest(factors=()), build, workload, 8 * GB)
    assert (fixed["shared_buffers"], fixed["effective_io_concurrency"]) == ("1024MB", "16")


def test_a_file_chooses_the_baseline_and_names_levels_of_initdb(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        'baseline = "shipped"\n[factors]\nchecksums = [true, false]\nwal_segsize = [16, "64MB"]\n'
    )
    request = read_file(file, None, ())
    assert request.baseline == "shipped"
    assert request.factors == ("checksums=on,off", "wal_segsize=16,64MB")
    file.write_text('baseline = "own"\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    with pytest.raises(UsageError, match="baseline: 'own' is not known: use fixed, shipped"):
        read_file(file, None, ())


def test_shipped_connections_are_given_only_where_the_clients_need_more() -> None:
    few = candidates("clients=1,50", base=bare("select-only"))
    assert all(spec.settings == {} for _, spec in with_connections(few, is_shipped=True))
    fixed = with_connections(few, is_shipped=False)
    assert [spec.settings for _, spec in fixed] == [{"max_connections": "100"}] * 2
    many = candidates("clients=1,200", base=bare("select-only"))
    for is_shipped in (True, False):
        made = with_connections(many, is_shipped=is_shipped)
        assert [spec.settings for _, spec in made] == [{"max_connections": "220"}] * 2
    varied = candidates("max_connections=150,300", base=bare("select-only:clients=200"))
    kept = with_connections(varied, is_shipped=False)
    assert [spec.settings["max_connections"] for _, spec in kept] == ["150", "300"]


def test_shipped_checksums_are_those_of_each_version_s_initdb_unless_they_are_a_factor() -> None:
    versions = [({"version": str(major)}, version_of(bare(), major)) for major in (16, 17, 18, 19)]
    made = with_shipped_checksums(versions)
    assert [spec.dataset.checksums for _, spec in made] == [False, False, True, True]
    varied = candidates("checksums=on,off", base=version_of(bare(), 17))
    assert [spec.dataset.checksums for _, spec in with_shipped_checksums(varied)] == [True, False]
    copied = bare().model_copy(update={"dataset": DatasetSpec(kind="folder", source="/a", checksums=False)})
    assert not with_shipped_checksums([({}, copied)])[0][1].dataset.checksums


def test_large_wal_segments_bring_the_sizes_without_which_a_server_does_not_start() -> None:
    sizes = candidates("wal_segsize=16MB,64MB", base=bare())
    fixed = with_wal_sizes(sizes, {}, is_shipped=False)
    assert [spec.settings for _, spec in fixed] == [{"min_wal_size": "128MB"}] * 2, "alike in all arms"
    shipped = with_wal_sizes(sizes, {}, is_shipped=True)
    assert [spec.settings for _, spec in shipped] == [
        {},
        {"min_wal_size": "320MB", "max_wal_size": "4096MB"},
    ]
    small = candidates("wal_segsize=1MB,32MB", base=bare())
    assert all(spec.settings == {} for _, spec in with_wal_sizes(small, {}, is_shipped=False))


def test_a_wal_size_that_was_given_stays_or_is_refused() -> None:
    given = {"min_wal_size": "1GB"}
    base = bare().model_copy(update={"settings": given})
    sizes = candidates("wal_segsize=16MB,64MB", base=base)
    for is_shipped in (True, False):
        made = with_wal_sizes(sizes, given, is_shipped=is_shipped)
        assert {spec.settings["min_wal_size"] for _, spec in made} == {"1GB"}
    too_small = {"max_wal_size": "64MB"}
    base = bare().model_copy(update={"settings": too_small})
    with pytest.raises(UsageError, match=r"max_wal_size=64MB is too small .* use max_wal_size=128MB or more"):
        with_wal_sizes(candidates("wal_segsize=16MB,64MB", base=base), too_small, is_shipped=False)


def test_clusters_that_are_made_differently_are_loaded_twice_as_those_of_two_builds() -> None:
    def arms(*texts: str) -> list[Arm]:
        return [
            Arm(id=str(number), name=str(number), levels=levels, spec=spec)
            for number, (levels, spec) in enumerate(candidates(*texts, base=bare()))
        ]

    assert dataset_loads(arms("work_mem=4MB,8MB")) == 1
    assert dataset_loads(arms("checksums=on,off")) == 2
    assert dataset_loads(arms("wal_segsize=16MB,64MB")) == 2


def test_checksums_of_two_versions_are_among_the_defaults_that_differ() -> None:
    specs = [
        spec
        for _, spec in with_shipped_checksums([({}, version_of(bare(), 17)), ({}, version_of(bare(), 18))])
    ]
    control, arm = (Arm(id=str(number), name="", levels={}, spec=spec) for number, spec in enumerate(specs))
    made = differing_checksums(control, arm)
    assert made == {"data_checksums": ("off", "on")}
    assert differing_checksums(arm, arm) == {}
    assert differing_checksums(control, arm.model_copy(update={"levels": {"checksums": "on"}})) == {}

    def fact(name: str, value: str) -> SettingFact:
        return SettingFact(name, "user", "integer", None, value, None, None, (), value)

    described = [
        (spec.build, {"effective_io_concurrency": fact("effective_io_concurrency", value)})
        for spec, value in zip(specs, ("1", "16"), strict=True)
    ]
    pair = default_differences(described[0], described[1], (), made)
    assert list(pair.values.items()) == [
        ("effective_io_concurrency", ("1", "16")),
        ("data_checksums", ("off", "on")),
    ]
    said = pair.sentence(writes=False)
    assert said.startswith("defaults that differ between 17.1 and 18.1: ")
    assert said.endswith("effective_io_concurrency (1, 16), data_checksums (off, on)")
