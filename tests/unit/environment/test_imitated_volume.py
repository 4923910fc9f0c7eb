"""What is told of an imitated volume: its ceiling, its series, and what makes it doubtful."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import analysis_samples as samples
from pgassay.cli.commands.volumes_mount import _empty_folder
from pgassay.cli.main import main
from pgassay.cloud_volumes.parse import parse_volume
from pgassay.cloud_volumes.sustained_volumes import sustained_volumes
from pgassay.environment.cgroup import caps
from pgassay.environment.linux import machine, mounts
from pgassay.environment.linux.device import BlockDevice
from pgassay.errors import UsageError
from pgassay.experiment.planning.provisioned_servers import within_reach
from pgassay.factors.storage import split
from pgassay.model.storage import StorageSpec
from pgassay.model.volumes.offer import VolumeModel
from pgassay.native.volume import CreditLevel, Overhead, Second
from pgassay.storage import image, imitated_device
from pgassay.storage.imitated_device import Ceiling, ServedImage, Taken, ceiling_refusal
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import KINDS, provide
from pgassay.storage.request_trace import unlimited_model
from pgassay.storage.volume import (
    ImitatedVolume,
    catalogue,
    columns_of,
    failure_of,
    model_for,
    summary,
    unsteady_way,
    warnings_of,
    way_delay_us,
)
from pgassay.storage.volume_facts import given_until, peaks_of, would_last


def model(text: str) -> VolumeModel:
    return model_for(parse_storage(f"volume:{text}"), catalogue())


def second(clock_s: int, **changes: object) -> Second:
    credits: list[CreditLevel] = [
        {
            "limiter": "operations",
            "volume": volume,
            "unit": "operations",
            "credits": 1000 * clock_s,
            "capacity": 5_400_000,
            "emptied_ns": None if volume else 1_500_000_000,
        }
        for volume in range(2)
    ]
    made: Second = {
        "clock_ns": clock_s * 1_000_000_000,
        "elapsed_s": 1.0,
        "reads": 80,
        "writes": 20,
        "flushes": 0,
        "operations": 100,
        "bytes_read": 80 * 8192,
        "bytes_written": 20 * 8192,
        "queued_ms": 40.0,
        "latency_ms": 60.0,
        "overhead_us": 26.0,
        "in_flight": 1,
        "own_delay_us": {"mean": 10.0, "p50": 1.0, "p99": 90.0, "max": 100.0},
        "late": 2,
        "failed": 0,
        "error": 0,
        "cpu_s": 0.001,
        "credits": credits,
    }
    return made | changes  # type: ignore[return-value]  # the test names the keys


@pytest.mark.parametrize(
    ("text", "reads_per_s", "bytes_per_s", "said"),
    [
        ("gp3,size=100GiB", 3000, 1e9, None),
        (
            "gp3,size=100GiB",
            2999,
            1e9,
            "3,000 random reads a second and this machine can imitate 2,999",
        ),
        # The burst counts, and of bytes what the volume gives at once.
        ("gp2,size=40GiB", 2999, 1e9, "3,000 random reads"),
        ("gp3,size=100GiB", 3000, 131_072_000, None),
        ("gp3,size=100GiB", 3000, 131_000_000, "131,072,000 bytes a second"),
        # An instance may allow less than its volume.
        ("gp3,size=400GiB,iops=16000,instance=m6g.large", 20_000, 1e9, None),
    ],
)
def test_a_volume_above_the_ceiling_is_told(
    text: str, reads_per_s: float, bytes_per_s: float, said: str | None
) -> None:
    found = ceiling_refusal(model(text), Ceiling(reads_per_s, bytes_per_s))
    if said is None:
        assert found is None
    else:
        assert found is not None and said in found and "closest=yes" in found


@pytest.mark.parametrize(
    ("text", "mib_s"), [("io1,size=100GiB,iops=1000", 250), ("gp3,size=100GiB", 125), ("st1,size=1TiB", 250)]
)
def test_a_volume_gives_no_more_bytes_than_its_operations_transfer(text: str, mib_s: int) -> None:
    """Of 256 KiB each, at most."""
    assert peaks_of(model(text))[1] == mib_s * 2**20


def test_the_series_has_a_value_for_each_second_and_bucket() -> None:
    columns = columns_of([second(1), second(2)])
    assert {len(values) for values in columns.values()} == {2}
    assert columns["clock_ns"] == [1_000_000_000, 2_000_000_000]
    assert columns["credits_operations"] == [2000, 4000]  # of both volumes of the stripe set
    assert columns["own_delay_p99_us"] == [90, 90]
    assert columns_of([])["clock_ns"] == []


def test_the_summary_weighs_by_requests() -> None:
    late = {"mean": 110.0, "p50": 1.0, "p99": 1.0, "max": 1.0}
    figures = summary([second(1), second(2, reads=280, own_delay_us=late)])
    assert figures["requests"] == 400
    assert figures["own_delay_us"] == (100 * 10 + 300 * 110) / 400
    assert figures["latency_ms"] == 200 / 400
    assert figures["credits_ended_s"] == 1.5
    assert summary([])["requests"] == 0


def test_what_makes_it_doubtful_is_a_warning() -> None:
    assert warnings_of(summary([second(1)]), "gp3") == []
    assert warnings_of(summary([]), "gp3") == []
    # 60 µs beside a latency of 1 ms.
    late = {"mean": 60.0, "p50": 60.0, "p99": 60.0, "max": 60.0}
    (said,) = warnings_of(summary([second(1, own_delay_us=late)]), "gp3")
    assert "60 µs" in said and "6%" in said
    (said,) = warnings_of({**summary([second(1)]), "cpu_share": 0.3}, "gp3")
    assert "30%" in said


def test_levels_of_volumes_are_told_apart_from_their_options() -> None:
    text = "volume:gp2,size=40GiB,volume:gp3,size=400GiB,iops=12000,throughput=500"
    assert split("storage", text) == (
        "volume:gp2,size=40GiB",
        "volume:gp3,size=400GiB,iops=12000,throughput=500",
    )


@pytest.mark.parametrize("lacks", ["root", "fuse", "loop devices", "XFS"])
def test_what_a_machine_lacks_is_said_with_the_simulator_in_its_place(
    lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if lacks == "root" else 0)
    monkeypatch.setattr(os, "access", lambda *_: lacks != "fuse")
    monkeypatch.setattr(image.Path, "exists", lambda _: lacks != "loop devices")
    monkeypatch.setattr(image, "_has_xfs", lambda: lacks != "XFS")
    monkeypatch.setattr(image.shutil, "which", lambda program: f"/usr/sbin/{program}")
    reason = KINDS["volume"].capability()
    assert reason is not None and len(reason.splitlines()) == 1
    assert "pgassay volumes VOLUME --simulate" in reason and reason.startswith("An imitated volume")
    with pytest.raises(UsageError, match="--simulate"):
        provide(parse_storage("volume:gp3,size=100GiB"), 1)


def test_what_a_volume_gave_tells_what_would_have_lasted() -> None:
    loaded = catalogue()
    gp2 = parse_volume("gp2,size=40GiB", loaded.catalogue)
    # 100 operations and 820 kB in each of two seconds before the end.
    busy = [second(clock, operations=2500, bytes_read=20_000_000, bytes_written=0) for clock in (1, 2, 3)]
    figures = {"credits_ended_s": 2.5, "credits_ended_of": "operations"}
    assert given_until(busy, 2.5) == (2500, 20e6)
    found = would_last(gp2, loaded, model("gp2,size=40GiB"), busy, figures)
    assert [each["volume"] for each in found] == ["gp2,size=834GiB", "gp3,size=40GiB"]
    assert [each["per_month"] for each in found] == [83.4, 3.2]
    assert would_last(gp2, loaded, model("gp2,size=40GiB"), busy, figures | {"credits_ended_s": None}) == []
    # Ended at once: as many of the same requests as its peak lets through.
    at_once = would_last(gp2, loaded, model("gp2,size=40GiB"), busy, figures | {"credits_ended_s": 0.1})
    assert at_once[0]["volume"] == "gp2,size=1000GiB"
    # No volume is faster than the instance that it belongs to.
    of_instance = figures | {"credits_ended_of": "instance operations"}
    text = "gp3,size=400GiB,iops=16000,instance=m6g.large"
    assert would_last(parse_volume(text, loaded.catalogue), loaded, model(text), busy, of_instance) == []
    # The volume of the WAL shares that limit, which is not in its own model.
    assert would_last(gp2, loaded, model("gp2,size=40GiB"), busy, of_instance) == []


@pytest.mark.parametrize(
    ("text", "operations", "transferred", "expected"),
    [
        # Random pages on a disk that charges a megabyte for each.
        ("gp2,size=200GiB", 3000, 24e6, ["gp2,size=1000GiB", "gp3,size=200GiB"]),
        # More than the included throughput is ordered.
        # 200 MiB/s are 800 operations of 256 KiB, the largest.
        ("gp2,size=100GiB", 500, 200 * 2**20, ["gp2,size=267GiB", "gp3,size=100GiB,throughput=200"]),
        # So much throughput is sold with so many operations alone.
        ("gp2,size=100GiB", 1000, 800 * 2**20, ["gp3,size=100GiB,iops=3200,throughput=800"]),
        ("P4", 3000, 50e6, ["P30,size=1024GiB"]),
        # Of a managed service only its own.
        ("rds-gp2,size=40GiB", 2900, 23e6, ["rds-gp2,size=967GiB", "rds-gp3,size=40GiB"]),
        ("gp2,size=40GiB", 70_000, 1e6, ["gp3,size=140GiB,iops=70000"]),
        ("gp2,size=40GiB", 1e9, 1e6, []),
        # Smaller than the least that io1 and io2 are sold with.
        ("gp2,size=2GiB", 3000, 24e6, ["gp2,size=1000GiB", "gp3,size=2GiB"]),
    ],
)
def test_what_lasts_is_the_cheapest_that_gives_as_much(
    text: str, operations: float, transferred: float, expected: list[str]
) -> None:
    loaded = catalogue()
    found = sustained_volumes(parse_volume(text, loaded.catalogue), loaded.catalogue, operations, transferred)
    assert [each.volume for each in found] == expected


def test_a_wal_with_a_storage_of_its_own_is_one_level() -> None:
    text = "volume:gp3,size=100GiB,volume:gp3,size=100GiB,wal=volume:io2,size=10GiB,iops=3000,host"
    assert split("storage", text) == (
        "volume:gp3,size=100GiB",
        "volume:gp3,size=100GiB,wal=volume:io2,size=10GiB,iops=3000",
        "host",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gp3,size=100GiB"], "needs a volume and a folder"),
        (["gp9,size=100GiB", "FOLDER"], "There is no volume 'gp9'"),
        (["gp3,size=100GiB", "FULL"], "is not an empty folder"),
        (["gp3,size=100GiB", "MISSING"], "is not an empty folder"),
        (["gp3,size=1GiB", "FOLDER", "--used", "2GB"], "is more than gp3,size=1GiB holds"),
        # No more than it holds is wanted where nothing is said.
        (["gp3,size=1GiB", "FOLDER"], "no FUSE here"),
    ],
)
def test_what_cannot_be_mounted_is_said_in_a_sentence(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(imitated_device, "why_not", lambda: "no FUSE here")
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FULL" / "something").mkdir(parents=True)
    typed = [str(tmp_path / word) if word.isalpha() else word for word in words]
    assert main(["volumes", "mount", *typed]) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert len(complaint.splitlines()) == 1


def test_options_of_mount_are_no_options_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["volumes", "gp3,size=100GiB", "--closest"]) == 2
    assert "needs 'pgassay volumes mount'" in capsys.readouterr().err


def test_the_way_through_the_kernel_is_told_where_the_device_s_requests_are_the_server_s() -> None:
    # 100 requests of 1 ms each, of which the device took 110 ms.
    figures = summary([second(1)])
    assert way_delay_us(figures, Taken(50, 7), Taken(150, 117)) == pytest.approx(100)
    # The device had half as many, as large ones are parted on their way.
    assert way_delay_us(figures, Taken(50, 7), Taken(100, 117)) is None
    assert way_delay_us(summary([]), Taken(0, 0), Taken(0, 0)) is None
    (said,) = warnings_of({**figures, "way_delay_us": -51.0}, "gp3")
    assert "51 µs a request less" in said and "5%" in said
    assert warnings_of({**figures, "way_delay_us": -49.0}, "gp3") == []
    (said,) = warnings_of({**figures, "way_delay_us": 100.0}, "gp3")
    assert "100 µs a request" in said and "10%" in said and "2% of the answers" in said


def test_rounds_that_disagree_about_the_way_are_told() -> None:
    gp3 = model("gp3,size=100GiB")
    steady: Overhead = {"p50_ns": 27_000, "p99_ns": 60_000, "low_ns": 26_000, "high_ns": 56_000}
    assert unsteady_way(steady, gp3) is None
    said = unsteady_way({**steady, "high_ns": 62_000}, gp3)
    assert said is not None and "from 26 to 62 µs" in said and "6% of the latency of gp3" in said
    assert (
        unsteady_way({**steady, "high_ns": 90_000}, unlimited_model(parse_storage("volume:unlimited")))
        is None
    )


def test_requests_that_the_image_could_not_serve_are_told() -> None:
    assert failure_of([second(1)], "gp3") is None
    said = failure_of([second(1), second(2, failed=2, error=28), second(3, failed=1, error=5)], "gp3")
    assert said == "the imitated volume gp3 answered 3 requests with: No space left on device"


class Measured:
    """A server that is asked for its ceiling; the real one is in tests/server/environment."""

    def __init__(self) -> None:
        self.times = 0

    def measure_ceiling(self, _device: Path) -> tuple[float, float]:
        self.times += 1
        return 20_000.0 + self.times, 1e9


def test_the_ceiling_is_measured_anew_for_another_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGASSAY_HOME", str(tmp_path))
    monkeypatch.setattr(imitated_device, "home", lambda: tmp_path)
    monkeypatch.setattr(imitated_device, "build_id", lambda: "one")
    monkeypatch.setattr(imitated_device.ServedImage, "server", Measured())
    monkeypatch.setattr(imitated_device.ServedImage, "node", tmp_path)
    image = object.__new__(imitated_device.ServedImage)
    first = image.ceiling()
    # The best of three times, and what the volume's user leaves of it.
    assert first == Ceiling(imitated_device.CEILING_SHARE * 20_003, 1e9)
    assert image.ceiling() == first
    monkeypatch.setattr(imitated_device, "build_id", lambda: "another")
    assert image.ceiling().random_reads_per_s == imitated_device.CEILING_SHARE * 20_006


def test_a_volume_of_the_wal_above_the_ceiling_is_skipped_as_one_of_the_data_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(spec: StorageSpec, _clients: object) -> str | None:
        return "it is too fast." if dict(spec.own)["volume"] == "io2" else None

    monkeypatch.setattr(KINDS["volume"], "unreachable", unreachable)
    monkeypatch.setattr(KINDS["volume"], "capability", lambda: None)
    spec = samples.experiment().arms[0].spec
    texts = (
        "volume:gp3,size=10GiB",
        "volume:io2,size=10GiB,iops=3000",
        "volume:gp3,size=10GiB,wal=volume:io2,size=10GiB,iops=3000",
    )
    arms = [({"storage": text}, spec.model_copy(update={"storage": parse_storage(text)})) for text in texts]
    kept, sentences = within_reach(arms)
    assert kept == arms[:1] and len(sentences) == 2
    assert all(sentence.endswith("was skipped: it is too fast.") for sentence in sentences)


def test_what_imitating_took_is_a_share_of_the_processors_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container of half a processor on a large machine: its server lacks as much."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(machine, "cores_usable", lambda: 4)
    for quota, processors in ((None, 4.0), (0.5, 0.5), (16.0, 4.0)):
        monkeypatch.setattr(caps, "caps_of", lambda _pid, quota=quota: caps.Caps(cpus=quota))
        cpu_s = second(1)["cpu_s"]
        assert summary([second(1)])["cpu_share"] == pytest.approx(cpu_s / processors)


def test_a_file_system_of_the_user_s_is_no_place_for_a_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    assert _empty_folder(folder) == folder.resolve()
    table = tmp_path / "mountinfo"
    table.write_text(f"40 30 8:17 / {folder} rw,relatime shared:1 - xfs /dev/sdb1 rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    # At the end both would have to be unmounted, and pgassay leaves what is not its own alone.
    with pytest.raises(UsageError, match=f"/dev/sdb1 is mounted at {folder}: create a folder in it"):
        _empty_folder(folder)


class Served:
    """A device without one: it notes what is asked of it."""

    overhead = None

    def __init__(self, root: Path) -> None:
        self.attached = SimpleNamespace(root=root, device=BlockDevice(None, 0, 0))
        self.asked: list[str] = []

    def impose(self, *_: object) -> None:
        self.asked.append("impose")

    def taken(self) -> Taken:
        return Taken(0, 0)

    def release(self) -> list[Second]:
        self.asked.append("release")
        return []


def test_a_volume_that_is_interrupted_answers_at_once_again(tmp_path: Path) -> None:
    """The server has yet to stop, and what its last checkpoint writes needn't take the volume's time."""
    served, spec = Served(tmp_path), parse_storage("volume:gp2,size=40GiB")
    volume = ImitatedVolume(
        spec, cast("ServedImage", served), model_for(spec, catalogue()), catalogue(), None
    )
    with pytest.raises(KeyboardInterrupt), volume.measured():
        raise KeyboardInterrupt
    assert served.asked == ["impose", "release"]
