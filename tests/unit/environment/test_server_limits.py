"""Caps as typed, what they do to the settings of all arms, and what is refused."""

from pathlib import Path

import pytest
from plans_for_tests import base_spec

from pgassay.design.arms import build_arms, choose_control, combinations
from pgassay.environment.cgroup import group
from pgassay.environment.linux import machine
from pgassay.environment.server import server_caps
from pgassay.environment.server.server_caps import check_limits, describe_limits, parse_cpus, parse_memory
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning import arm_baseline
from pgassay.experiment.planning.arm_baseline import (
    caps_by_arm,
    instance_sentences,
    with_buffers_for_the_smallest,
    with_caps,
    with_memory_of_instances,
)
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.registry import parse_factor
from pgassay.trial.trial_caps import assert_limits

MB, GB = 1 << 20, 1 << 30


def test_sizes_and_processors_are_read() -> None:
    assert parse_memory("2GB", "--memory") == 2 * GB
    assert parse_memory("1.5 gb", "--memory") == 1536 * MB
    assert parse_memory("unlimited", "--memory") is None
    assert parse_cpus("0.5", "--cpus") == 0.5
    assert parse_cpus("Unlimited", "--cpus") is None


@pytest.mark.parametrize("text", ["2", "2XB", "", "-1GB", "10MB", "GB"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        parse_memory(text, "--memory")


@pytest.mark.parametrize("text", ["0", "-1", "two", "nan", "inf", "0.001"])
def test_what_is_no_number_of_processors_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--cpus"):
        parse_cpus(text, "--cpus")


def test_levels_cap_the_arm_and_are_described() -> None:
    memory, cpus = parse_factor("memory=512MB,unlimited"), parse_factor("cpus=0.5,2")
    spec = cpus.kind.apply("cpus", "0.5", memory.kind.apply("memory", "512MB", base_spec()))
    assert (spec.memory_bytes, spec.cpus) == (512 * MB, 0.5)
    assert describe_limits(spec) == "memory 512MB, cpus 0.5"
    assert describe_limits(memory.kind.apply("memory", "unlimited", spec)) == "cpus 0.5"
    with pytest.raises(UsageError, match="factor memory: 'lots' is not a size"):
        memory.kind.apply("memory", "lots", spec)


def test_a_cap_that_caps_nothing_or_leaves_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_caps, "server_limits", lambda _: {})
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8 * GB)
    spec = base_spec().model_copy(update={"settings": {"shared_buffers": "900MB"}})
    with pytest.raises(UsageError, match="this machine has"):
        check_limits(spec.model_copy(update={"memory_bytes": 9 * GB}))
    with pytest.raises(UsageError, match=r"no room next to shared_buffers=900MB.*shared_buffers=256MB"):
        check_limits(spec.model_copy(update={"memory_bytes": GB}))
    check_limits(spec.model_copy(update={"memory_bytes": 2 * GB}))
    with pytest.raises(UsageError, match="cpus 4096 limits nothing"):
        check_limits(spec.model_copy(update={"cpus": 4096.0}))


def test_a_cap_above_that_of_the_container_is_refused_in_few_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An ordinary account is refused before the cap is looked at.
    monkeypatch.setattr(server_caps, "server_limits", lambda _: {})
    monkeypatch.setattr(server_caps, "capabilities", lambda: {"memory": group.Capability(2, tmp_path)})
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8 * GB)
    (tmp_path / "memory.max").write_text("1073741824\n")
    with pytest.raises(UsageError) as raised:
        check_limits(base_spec().model_copy(update={"memory_bytes": 2 * GB}))
    assert str(raised.value) == (
        "memory 2GB limits nothing: the container or control group that pgassay runs in is capped at 1.0 GB, "
        "so use less"
    )
    (tmp_path / "memory.max").write_text("max\n")
    check_limits(base_spec().model_copy(update={"memory_bytes": 2 * GB}))


def test_the_smallest_memory_decides_the_buffers_of_all_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 16 * GB)
    factor = parse_factor("memory=256MB,unlimited")
    base = base_spec().model_copy(update={"settings": {"shared_buffers": "1GB", "work_mem": "1MB"}})
    candidates = [
        (levels, factor.kind.apply("memory", levels["memory"], base)) for levels in combinations((factor,))
    ]
    changed = with_buffers_for_the_smallest(candidates, {})
    assert [spec.settings["shared_buffers"] for _, spec in changed] == ["64MB", "64MB"]
    assert {spec.settings["work_mem"] for _, spec in changed} == {"1MB"}
    given = with_buffers_for_the_smallest(candidates, {"shared_buffers": "1GB"})
    assert [spec.settings["shared_buffers"] for _, spec in given] == ["1GB", "1GB"]
    assert with_buffers_for_the_smallest(candidates[1:], {}) == candidates[1:]


def test_the_environment_names_the_caps_of_arms_that_have_some() -> None:
    factor = parse_factor("memory=256MB,unlimited")
    specs = [
        (levels, factor.kind.apply("memory", levels["memory"], base_spec()))
        for levels in combinations((factor,))
    ]
    arms, _ = build_arms((factor,), choose_control((factor,), None), specs, 1)
    assert caps_by_arm(arms) == {"memory=256MB": "memory 256MB", "memory=unlimited": "none"}
    plain = [(levels, base_spec()) for levels, _ in specs]
    assert caps_by_arm(build_arms((factor,), choose_control((factor,), None), plain, 1)[0]) == {}


def test_servers_have_the_memory_of_the_instance_that_their_volume_belongs_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_caps, "server_limits", lambda _: {})
    monkeypatch.setattr(server_caps, "_refuse_narrower_parent", lambda _: None)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 32 * GB)
    volume = "volume:gp3,size=100GiB"
    texts = f"storage={volume},{volume},instance=m6g.large,{volume},instance=r7i.2xlarge"
    factor = parse_factor(texts)
    candidates = [
        (levels, factor.kind.apply("storage", levels["storage"], base_spec()))
        for levels in combinations((factor,))
    ]
    request = CompareRequest(factors=(texts,))
    followed = with_memory_of_instances(candidates, request)
    assert [spec.memory_bytes for _, spec in followed] == [None, 8 * GB, None]
    arms, _ = build_arms((factor,), choose_control((factor,), None), followed, 1)
    assert list(caps_by_arm(arms).values()) == ["none", "memory of m6g.large 8GB", "none"]
    (sentence,) = instance_sentences(arms)
    assert sentence.startswith("r7i.2xlarge has 64GB of memory but its servers are not limited to that here")
    assert "this machine has 32.0 GB" in sentence
    # What was said of the memory holds, and nothing is to be warned of.
    told = CompareRequest(factors=(texts,), memory="unlimited")
    assert with_memory_of_instances(candidates, told) == candidates
    chosen = [({**levels, "memory": "2GB"}, spec) for levels, spec in candidates]
    assert with_memory_of_instances(chosen, request) == chosen


def test_the_null_factor_changes_nothing_but_the_copy_of_the_data() -> None:
    factor = parse_factor("copy=first,second,third")
    specs = [
        (levels, factor.kind.apply("copy", levels["copy"], base_spec())) for levels in combinations((factor,))
    ]
    arms, contrasts = build_arms((factor,), choose_control((factor,), None), specs, 1)
    assert all(arm.spec == base_spec() for arm in arms)
    copies = {(arm.levels["copy"], arm.role): arm.data_copy for arm in arms}
    assert copies == {
        ("first", "control"): 0,
        ("first", "twin"): 1,
        ("second", "arm"): 2,
        ("third", "arm"): 3,
    }
    assert len(contrasts) == 2


def test_a_machine_without_control_groups_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "mounts", list)
    request = CompareRequest(factors=("work_mem=1MB,2MB",), memory="1GB")
    with pytest.raises(UsageError, match="A memory cap can't be set here: no cgroup file system is mounted"):
        with_caps(request, (), base_spec())
    with pytest.raises(UsageError, match="A CPU cap can't be set here"):
        with_caps(CompareRequest(factors=("work_mem=1MB,2MB",), cpus="1"), (), base_spec())
    assert with_caps(CompareRequest(factors=("work_mem=1MB,2MB",)), (), base_spec()) == base_spec()


def test_a_cap_is_a_factor_or_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_baseline, "server_limits", lambda _: {})
    request = CompareRequest(factors=("memory=1GB,2GB",), memory="1GB")
    with pytest.raises(UsageError, match="memory is a factor and is also set by --memory"):
        with_caps(request, (parse_factor("memory=1GB,2GB"),), base_spec())
    capped = with_caps(CompareRequest(factors=(), memory="1GB", cpus="0.5"), (), base_spec())
    assert (capped.memory_bytes, capped.cpus) == (GB, 0.5)


def test_a_file_caps_by_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text('memory = "2GB"\ncpus = 1.5\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    request = read_file(file, None, ())
    assert (request.memory, request.cpus) == ("2GB", "1.5")
    file.write_text('memory = ["2GB"]\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    with pytest.raises(UsageError, match=r"memory = \['2GB'\] is not a text or a number"):
        read_file(file, None, ())
    file.write_text('memory = 2\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    with pytest.raises(UsageError, match="--memory: '2' is not a size: write a number and kB"):
        with_caps(read_file(file, None, ()), (), base_spec())


def test_caps_that_are_not_in_force_fail_the_trial() -> None:
    spec = base_spec().model_copy(update={"memory_bytes": GB})
    with pytest.raises(MeasurementError, match="not in the control group that caps it"):
        assert_limits(spec, None, 1)
    assert assert_limits(base_spec(), None, 1) == {}
