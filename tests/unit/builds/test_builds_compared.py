"""Version and build as factors, their binaries' differences, and the loads of their data; no server."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from plans_for_tests import base_spec, make_experiment, make_record

from analysis_samples import experiment, simulate, stored
from pgassay.analysis.descriptive.binary_differences import builder_difference
from pgassay.analysis.verdicts.blocks import complete_blocks, primary_measure
from pgassay.analysis.verdicts.compare import analyse
from pgassay.design.arms import arms_of_all_loads
from pgassay.design.schedule import next_step
from pgassay.environment.builds.base import Origin, parse_version
from pgassay.environment.builds.default_differences import (
    CHANGED_MAX,
    NO_SUCH_SETTING,
    default_differences,
    pair_names,
)
from pgassay.environment.server.setting_values import SettingFact
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_builds import choose_builds
from pgassay.factors import version
from pgassay.factors.registry import parse_factor, parse_factors
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Environment, Experiment
from pgassay.model.trial import TrialFacts, TrialRecord
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of
from pgassay.upgrade.builds_of_both import NeededOfBuild, chosen_builds

DEBIAN = "-Wall -fwrapv -g -O2 -ffile-prefix-map=/build/{}=. -fcf-protection"


def build_of(origin: str, text: str, cflags: str = "") -> Build:
    major = parse_version(text)[0]
    where = f"/{origin}/{text}"
    return Build(origin=origin, version=text, major=major, bin_directory=where, cflags=cflags)


class Shelf(Origin):
    """An origin with builds at hand and majors to install."""

    def __init__(self, name: str, *versions: str, offered: tuple[str, ...] = ()) -> None:
        self.name = name  # type: ignore[misc]
        self._builds = [build_of(name, text) for text in versions]
        self._offered = offered

    def builds(self) -> Sequence[Build]:
        return self._builds

    def obtainable(self) -> Sequence[str]:
        return self._offered


def test_the_first_origin_that_has_every_version_is_the_builder() -> None:
    shelves = (
        Shelf("installed", "18.7"),
        Shelf("apt", "17.4", "18.6", offered=("16",)),
        Shelf("npm", "16.9", "17.9", "17.10", "18.4"),
    )
    kind = version.bind("version", ("16", "17", "18"), shelves)
    assert [build.bin_directory for build in kind.builds.values()] == ["/npm/16.9", "/npm/17.10", "/npm/18.4"]
    assert kind.apply("version", "17", base_spec()).build.version == "17.10"
    assert version.bind("version", ("17", "18"), shelves).builds["18"].origin == "apt"
    assert version.bind("version", ("17.9", "18"), shelves).builds["17.9"].version == "17.9"


def test_without_such_an_origin_the_line_to_type_is_given() -> None:
    shelves = (Shelf("apt", "18.6", offered=("17", "19")), Shelf("npm", "17.10", offered=("16", "18")))
    with pytest.raises(UsageError, match=r"version=16,17,18: .*run 'pgassay builds install npm:16 npm:18'$"):
        version.bind("version", ("16", "17", "18"), shelves)
    with pytest.raises(UsageError, match=r"run 'pgassay builds install apt:19'$"):
        version.bind("version", ("18", "19"), shelves)
    with pytest.raises(UsageError, match=r"no single origin .* \(apt 17, 18, 19; npm 16, 17, 18\): .*build="):
        version.bind("version", ("16", "19"), shelves)
    # `upgrade` has no build= to name.
    needed = NeededOfBuild((), False)
    with pytest.raises(UsageError, match=r"PostgreSQL 16 and 19: no single origin .*: choose another --to$"):
        chosen_builds(("16", "19"), needed, shelves)
    with pytest.raises(UsageError, match="older than 16"):
        version.bind("version", ("15", "16"), [Shelf("npm", "15.9", "16.9")])


@pytest.mark.parametrize(
    ("texts", "pg", "sentence"),
    [
        (["version=apt:17,18"], None, "yourself with build=apt:17,"),
        (["version=/opt/bin,18"], None, "yourself with build=/opt/bin,"),
        (["version=15,16"], None, "version=15: pgassay measures PostgreSQL 16 and newer"),
        (["version=seventeen,18"], None, "not a PostgreSQL version"),
        (["version=18"], None, "fix it for all arms with --pg 18"),
        (["version=17,18", "build=apt:17,npm:18"], None, "both choose the server's binaries"),
        (["version=17,18"], "18", "--pg 18 chooses one build for all arms, version= one for each"),
        (["build=nothing:18,apt:18"], None, "not an origin"),
    ],
)
def test_builds_that_cannot_be_meant_are_refused(texts: list[str], pg: str | None, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        choose_builds(parse_factors(texts), pg)


def test_two_names_of_one_build_are_no_comparison(require: Callable[..., None]) -> None:
    require("build")
    at_hand = choose_builds(parse_factors(["work_mem=1MB,2MB"]), None)[1]
    factor = parse_factor(f"build={at_hand.bin_directory},{at_hand.major}")
    with pytest.raises(UsageError, match="are the same build"):
        choose_builds((factor,), None)


def test_blocks_take_turns_with_the_loads_of_the_data() -> None:
    plan = make_experiment(["io_method=sync,worker"]).model_copy(update={"dataset_loads": 2})
    assert loads_of(plan, blocks=3) == [0, 1, 0]
    assert loads_of(plan.model_copy(update={"dataset_loads": 1}), blocks=3) == [0, 0, 0]
    copies = arms_of_all_loads(plan)
    assert [(arm.id, arm.spec.dataset.load) for arm in copies] == [
        (arm.id, load) for load in (0, 1) for arm in plan.arms
    ]


def loads_of(plan: Experiment, blocks: int) -> list[int]:
    """The load that each block's trials are given; all arms of a block the same."""
    records: list[TrialRecord] = []
    loads: dict[int, set[int]] = {}
    for _ in range(blocks * len(plan.arms)):
        spec = next_step(plan, records).spec
        loads.setdefault(spec.block, set()).add(spec.arm.spec.dataset.load)
        records.append(make_record(spec))
    assert all(len(found) == 1 for found in loads.values())
    return [found.pop() for found in loads.values()]


def fact(name: str, boot_value: str, context: str = "user", unit: str | None = None) -> SettingFact:
    return SettingFact(name, context, "string", unit, boot_value, None, None, (), boot_value)


def described(build: Build, *facts: SettingFact) -> tuple[Build, dict[str, SettingFact]]:
    return build, {each.name: each for each in facts}


def test_differing_defaults_are_one_sentence_the_most_relevant_first() -> None:
    old = described(
        build_of("npm", "17.10"),
        fact("log_connections", "off"),
        fact("effective_io_concurrency", "1"),
        fact("vacuum_buffer_usage_limit", "256", unit="kB"),
        fact("work_mem", "512", unit="8kB"),
        fact("shared_memory_size", "1", context="internal"),
        fact("debug_assertions", "off", context="internal"),
        fact("data_directory", "/old"),
        fact("archive_mode", "off"),
    )
    new = described(
        build_of("npm", "18.4"),
        fact("log_connections", ""),
        fact("effective_io_concurrency", "16"),
        fact("vacuum_buffer_usage_limit", "2048", unit="kB"),
        fact("work_mem", "512", unit="8kB"),
        fact("shared_memory_size", "2", context="internal"),
        fact("debug_assertions", "on", context="internal"),
        fact("data_directory", "/new"),
        fact("io_method", "worker"),
        fact("wal_novelty", "on"),
    )
    found = default_differences(old, new, given=())
    assert found.sentence(writes=True) == (
        "defaults that differ between 17.10 and 18.4: vacuum_buffer_usage_limit (256kB, 2048kB), "
        "debug_assertions (off, on), effective_io_concurrency (1, 16); only 18.4 has wal_novelty (on), "
        "io_method (worker); 2 more are listed in experiment.json"
    )
    # A changed value is named; what only one has, when the workload can meet it.
    assert found.sentence(writes=False) == (
        "defaults that differ between 17.10 and 18.4: debug_assertions (off, on), effective_io_concurrency "
        "(1, 16), vacuum_buffer_usage_limit (256kB, 2048kB); only 18.4 has io_method (worker); "
        "3 more are listed in experiment.json"
    )
    assert list(found.values) == [
        *("debug_assertions", "effective_io_concurrency", "io_method", "vacuum_buffer_usage_limit"),
        *("wal_novelty", "archive_mode", "log_connections"),
    ]
    assert found.values["effective_io_concurrency"] == ("1", "16")
    assert found.values["archive_mode"] == ("off", NO_SUCH_SETTING)
    given = {"effective_io_concurrency", "debug_assertions", "vacuum_buffer_usage_limit", "io_method"}
    left = default_differences(old, new, given)
    assert list(left.values) == ["wal_novelty", "archive_mode", "log_connections"]
    assert left.sentence(writes=False) == ""
    assert default_differences(old, old, given=()).values == {}


def test_a_long_list_of_defaults_is_bounded() -> None:
    names = [f"enable_{number:02}" for number in range(CHANGED_MAX + 3)]
    old = described(build_of("apt", "18.6"), *(fact(name, "on") for name in names))
    new = described(build_of("npm", "18.6"), *(fact(name, "off") for name in names))
    sentence = default_differences(old, new, given=()).sentence(writes=False)
    assert sentence.startswith("defaults that differ between apt:18.6 and npm:18.6: enable_00 (on, off), ")
    assert sentence.endswith("enable_07 (on, off); 3 more are listed in experiment.json")


def test_two_builds_of_one_version_and_origin_are_told_apart() -> None:
    one, other = (
        build_of("path", "18.6").model_copy(update={"bin_directory": name}) for name in ("/a", "/b")
    )
    found = default_differences(
        described(one, fact("jit", "on")), described(other, fact("io_new", "1")), given=()
    )
    assert found.sentence(writes=False) == (
        "defaults that differ between /a and /b: only /a has jit (on); only /b has io_new (1)"
    )


def two_builds(control: Build, other: Build, told: tuple[str, str] = ("gcc 14.2.0", "gcc 14.2.0")):
    """An experiment of 12 blocks whose arm runs on another build and is 20 % faster."""
    plan = experiment()
    arms = tuple(
        arm.model_copy(
            update={"spec": arm.spec.model_copy(update={"build": other if arm.role == "arm" else control})}
        )
        for arm in plan.arms
    )
    plan = plan.model_copy(update={"arms": arms})
    roles = {arm.id: arm.role for arm in arms}
    records = [
        record.model_copy(
            update={
                "facts": TrialFacts(
                    settings={"version": f"compiled by {told[roles[record.arm_id] == 'arm']}, 64-bit"}
                )
            }
        )
        for record in simulate(plan, 12, {"s0-1": math.log(1.2)})
    ]
    return stored(plan, records, "decided")


@pytest.mark.parametrize(
    ("control", "other", "told", "difference"),
    [
        (("apt", DEBIAN.format("17")), ("apt", DEBIAN.format("18")), ("gcc 14.2.0", "gcc 14.3.0"), ""),
        (("apt", "-O2"), ("npm", "-Os"), ("gcc 14.2.0", "gcc (Ubuntu 7.5.0-3) 7.5.0"),
         "builder (npm against apt), options (-Os against -O2), compiler (gcc 7.5.0 against gcc 14.2.0)"),
        (("apt", "-g -O2"), ("apt", "-O2 -O3 -march=native"), ("gcc 14", "Debian clang version 19.1.7"),
         "options (-O3 -march=native against -O2), compiler (clang 19.1.7 against gcc)"),
        (("path", ""), ("path", ""), ("gcc 14.2.0", "gcc 14.2.0"), "options (unknown)"),
    ],
)  # fmt: skip
def test_what_differs_between_binaries_beside_the_version(
    control: tuple[str, str], other: tuple[str, str], told: tuple[str, str], difference: str
) -> None:
    found = two_builds(build_of(control[0], "17.1", control[1]), build_of(other[0], "18.1", other[1]), told)
    plan = found.experiment
    table = complete_blocks(found, primary_measure(plan.contract.metric))
    by_role = {arm.role: arm for arm in plan.arms}
    assert builder_difference(by_role["arm"], by_role["control"], table) == difference
    assert builder_difference(by_role["twin"], by_role["control"], table) == ""


def test_a_comparison_across_builders_carries_it_in_its_verdict_and_claims_no_cpu() -> None:
    result = analyse(two_builds(build_of("apt", "18.6", "-O2"), build_of("npm", "18.4", "-Os")))
    assert result.verdict.endswith(
        "; their binaries also differ in builder (npm against apt), options (-Os against -O2)."
    )
    assert "faster than" in result.verdict
    assert any("the binaries of" in sentence for sentence in result.confounds)
    cpu = next(arm for arm in result.secondary[0].arms if arm.verdict != "control")
    assert cpu.verdict == "inconclusive"
    assert "their CPU can't be compared" in cpu.note
    alike = analyse(two_builds(build_of("apt", "17.1", "-O2"), build_of("apt", "18.6", "-O2")))
    assert "binaries" not in alike.verdict
    assert not alike.confounds
    assert next(arm for arm in alike.secondary[0].arms if arm.verdict != "control").verdict == "less"


def as_shipped(baseline: str, **planned: object) -> StoredExperiment:
    """17 and 18 of one builder; the servers differ in checksums, and in a setting that each has by itself."""
    plan = two_builds(build_of("npm", "17.1", "-O2"), build_of("npm", "18.1", "-O2"))
    arms = {arm.id: arm for arm in plan.experiment.arms}
    trials = []
    for trial in plan.trials:
        is_new = arms[trial.record.arm_id].role == "arm"
        settings = {**trial.record.facts.settings, "data_checksums": "on" if is_new else "off"}
        settings["wal_decode"] = "new" if is_new else "old"
        facts = TrialFacts(settings=settings)
        trials.append(replace(trial, record=trial.record.model_copy(update={"facts": facts})))
    made = [
        arm.model_copy(
            update={"spec": arm.spec.model_copy(update={"dataset": DatasetSpec(checksums=arm.role == "arm")})}
        )
        for arm in plan.experiment.arms
    ]
    update = {"arms": tuple(made), "baseline": baseline, **planned}
    return replace(plan, experiment=plan.experiment.model_copy(update=update), trials=tuple(trials))


def test_pairs_that_would_be_called_alike_are_called_by_their_folders() -> None:
    """Two commits behind a release's stamp beside one before it."""
    first, second, third = (
        build_of("source", version).model_copy(update={"bin_directory": f"/{place}/bin"})
        for place, version in enumerate(("18.6", "18.7", "18.7"))
    )
    assert pair_names([(first, second)]) == {("/0/bin", "/1/bin"): ("18.6", "18.7")}
    folders = [("/0/bin", "/1/bin"), ("/0/bin", "/2/bin")]
    assert pair_names([(first, second), (first, third)]) == dict(zip(folders, folders, strict=True))


def test_defaults_as_shipped_are_part_of_what_is_compared_and_no_confound() -> None:
    sentence = "defaults that differ between 17.1 and 18.1: data_checksums (off, on)"
    differing = {"17.1 and 18.1": {"jit": ("on", "off"), "data_checksums": ("off", "on")}}
    environment = Environment.model_validate({"differing_defaults": differing})
    compared = as_shipped("shipped", compared=(sentence,), environment=environment)
    result = analyse(compared)
    assert result.baseline == "shipped"
    assert not result.confounds
    assert result.compared == (
        sentence,
        "io_method=method1 differs from io_method=sync on its own: wal_decode (new against old)",
    )
    assert [each.settings for each in result.compared_defaults] == [differing["17.1 and 18.1"]]
    page = page_of(result, compared).markdown()
    assert "Baseline shipped: each version runs on its own defaults" in page
    assert page.count("Part of the comparison") == 1 and "Confounds" not in page
    html = page_of(result, compared).html()
    assert "2 defaults that differ between 17.1 and 18.1" in html


def test_with_fixed_settings_the_same_differences_are_confounds() -> None:
    stored_experiment = as_shipped("fixed", confounds=("defaults that differ between 17.1 and 18.1: x",))
    result = analyse(stored_experiment)
    assert (result.baseline, result.compared, result.compared_defaults) == ("fixed", (), ())
    assert result.confounds == (
        "defaults that differ between 17.1 and 18.1: x",
        # The clusters differ as their arms say, so checksums are no surprise.
        "io_method=method1 differs from io_method=sync in settings not asked for: wal_decode "
        "(new against old)",
    )
    assert "Baseline fixed" in page_of(result, stored_experiment).markdown()
    alone = stored(experiment(), simulate(experiment(), 4))
    assert "Baseline" not in page_of(analyse(alone), alone).markdown(), "one build: it makes no difference"
    one = replace(alone, experiment=alone.experiment.model_copy(update={"baseline": "shipped"}))
    page = page_of(analyse(one), one).markdown()
    assert "Baseline shipped: the servers run on their version's own defaults" in page
    assert "part of the comparison" not in page


def test_a_baseline_of_before_is_fixed_and_is_not_written() -> None:
    plan = experiment()
    assert "baseline" not in plan.model_dump_json()
    assert '"baseline":"shipped"' in plan.model_copy(update={"baseline": "shipped"}).model_dump_json()
