"""The doctor: judgements of what was found, its page, and checks of what can be simulated."""

import json
import time
from array import array
from pathlib import Path

import pytest

from pgassay.environment.doctor import groups, kernel, noise, processor, storage
from pgassay.environment.doctor.base import missing, ok, warning
from pgassay.environment.linux import free_memory
from pgassay.errors import UsageError
from pgassay.model.machines.doctor import DoctorReport, Finding
from pgassay.report.listings import doctor_page


def report_of(*findings: Finding) -> DoctorReport:
    return DoctorReport(schema=1, pgassay_version="0", hostname="host", seconds=1, findings=findings)


def test_the_page_says_each_with_its_remedy() -> None:
    findings = (
        ok("storage", "loop", "loop devices: can be created"),
        missing("kernel", "psi", "no \x1b[31mpsi", "boot with psi=1"),
        warning("kernel", "swap", "swap: 3 µs", "swapoff -a"),
    )
    made = doctor_page(report_of(*findings))
    page = made.terminal(unicode=False)
    assert page.startswith("Storage\n\n ok  loop devices: can be created\n")
    assert " MISSING  no \\x1b[31mpsi\n          -> boot with psi=1\n" in page
    assert "swap: 3 us" in page
    assert "1 ok, 1 warning, 1 missing" in page
    assert "\x1b[1;31mMISSING" in made.terminal(colour=True)
    assert "| MISSING | no &#92;x1b&#91;31mpsi | boot with psi=1 |" in made.markdown()
    assert "boot with psi=1" in made.html() and "-&gt; boot" not in made.html()
    assert report_of(*findings).lacking(("loop", "psi", "swap")) == (findings[1],)


def test_numbers_that_are_not_finite_are_null() -> None:
    text = doctor_page(report_of(ok("noise", "steal", "steal", steal_fraction=float("nan")))).json()
    assert json.loads(text)["findings"][0]["figures"] == {"steal_fraction": None}


def test_a_hypervisor_that_takes_free_memory_back_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "_BALLOONS", tmp_path)
    assert [each.status for each in kernel.free_memory()] == ["ok"]
    for name, features in (("virtio0", "011001010"), ("virtio1", "111110111"), ("module", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "features").write_text(features + "\n")
    (found,) = kernel.free_memory()
    assert (found.status, found.figures["devices"]) == ("warning", ["virtio0"])


def test_gaps_are_judged_by_the_longest() -> None:
    calm = noise._gaps(array("q", [50_000] * 99 + [900_000]), 1.0)
    assert (calm.status, calm.figures["max_ms"]) == ("ok", 0.9)
    assert calm.figures["p99_ms"] == 0.05
    assert noise._gaps(array("q", [40_000_000]), 1.0).status == "warning"
    assert noise._gaps(array("q"), 1.0).figures["max_ms"] == 0.0


def test_an_interruption_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop on a clock that stands still for 30 ms once."""
    real, calls = time.perf_counter_ns, 0

    def clock() -> int:
        nonlocal calls
        calls += 1
        if calls == 1000:
            time.sleep(0.03)
        return real()

    monkeypatch.setattr(noise.time, "perf_counter_ns", clock)
    assert max(noise.spin(0.1)) >= 30_000_000


def test_speed_and_steal_are_judged() -> None:
    assert noise._tasks([0.1, 0.1001, 0.1002]).status == "ok"
    assert noise._tasks([0.1, 0.2, 0.1]).status == "warning"
    assert noise._steal(0.0, 5.0).status == "ok"
    assert noise._steal(0.5, 5.0).figures == {"steal_fraction": 0.1}
    assert len(noise.repeat_task(0.0)) == 2


def test_the_processor_is_judged_by_what_the_kernel_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processor, "_CPUS", tmp_path)
    assert processor.governor()[0].status == processor.turbo()[0].status == "ok"
    (tmp_path / "cpu0/cpufreq").mkdir(parents=True)
    (tmp_path / "cpu0/cpufreq/scaling_governor").write_text("powersave\n")
    assert "frequency-set" in processor.governor()[0].remedy
    (tmp_path / "cpu0/cpufreq/scaling_governor").write_text("performance\n")
    assert processor.governor()[0].status == "ok"
    (tmp_path / "intel_pstate").mkdir()
    (tmp_path / "intel_pstate/no_turbo").write_text("0\n")
    assert processor.turbo()[0].remedy.startswith(f"echo 1 > {tmp_path}/intel_pstate/no_turbo")


def test_the_kernels_switches_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, status in (("1", "ok"), ("0", "warning"), ("", "warning")):
        monkeypatch.setattr(kernel, "read", lambda _, value=value: value)
        assert kernel.delay_accounting()[0].status == status
    monkeypatch.setattr(processor, "read", lambda _: "hpet")
    assert "track_io_timing" in processor.clock()[0].remedy
    facts = {
        "transparent_huge_pages": "always",
        "huge_pages": 4,
        "huge_page_bytes": 2 << 20,
        "swap_bytes": 1 << 30,
    }
    monkeypatch.setattr(kernel.machine, "facts", lambda: facts)
    assert [each.status for each in kernel.huge_pages()] == ["warning", "ok"]
    assert kernel.swap()[0].remedy == "swapoff -a while measuring"


def test_little_room_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "free_bytes", lambda _: 1 << 30)
    assert [each.status for each in storage.free_space()] == ["warning", "warning"]


def test_a_group_that_the_kernel_refuses_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    if any(each.status == "missing" for each in groups.control_groups()):
        pytest.skip("this machine has no control groups to refuse")

    def refuse(*_: object) -> None:
        raise UsageError("The kernel refused the limit")

    monkeypatch.setattr(groups.Cgroup, "create", refuse)
    assert {each.status for each in groups.control_groups()} == {"missing"}


def test_a_remedy_by_loop_devices_says_where_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = storage.KINDS["loop"]
    monkeypatch.setattr(type(kind), "capability", lambda _: "Loop storage needs XFS: use --storage host.")
    [found, *_] = storage.loop()
    assert (found.status, found.text) == ("missing", "loop devices: Loop storage needs XFS")
    assert found.remedy == "use --storage host"
    assert storage._loop_remedy("use it").startswith("use it (not possible here")
    monkeypatch.setattr(type(kind), "capability", lambda _: None)
    assert storage._loop_remedy("use it") == "use it"
