"""Requests of an imitated volume, recorded: all are in the file, and say what others would take."""

import json
import os
from collections.abc import Callable, Iterator
from mmap import mmap
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.linux.settle import sync_tree
from pgassay.model.volumes.offer import Distribution, Latency, Stripes, VolumeModel
from pgassay.native.simulate import replay
from pgassay.storage.base import Delivered
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide
from pgassay.storage.request_trace import TRACE_FILE
from storage_fixtures import MB, assert_nothing_left, private_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

BLOCK = 8192
BLOCKS = 300


@pytest.fixture
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("loop")
    require("fuse")
    with private_home() as folder:
        yield folder
        assert_nothing_left(folder)


def constant(latency_ms: float) -> dict[str, object]:
    one = Distribution(median_ns=latency_ms * 1e6, sigma=0.0, bytes_per_second=None)
    latency = Latency(read=one, write=one, flush=one)
    stripes = Stripes(count=1, width_bytes=1 << 18)
    return VolumeModel(name="constant", stripes=stripes, limiters=(), latency=latency).model_dump(mode="json")


def recorded_reads(storage: str) -> Delivered:
    """What a volume delivers while single blocks are read around the page cache, one after the other."""
    volume = provide(parse_storage(storage), 100 * MB)
    buffer = mmap(-1, BLOCK)
    try:
        file = volume.root / "blocks"
        file.write_bytes(os.urandom(BLOCKS * BLOCK))
        opened = os.open(file, os.O_RDONLY | os.O_DIRECT)
        sync_tree(volume.root)
        with volume.measured() as delivered:
            for number in range(BLOCKS):
                assert os.preadv(opened, [buffer], (number * 79 % BLOCKS) * BLOCK) == BLOCK
        os.close(opened)
    finally:
        volume.remove()
    assert delivered is not None
    return delivered


def test_a_trace_says_what_the_same_takes_elsewhere(home: Path) -> None:
    delivered = recorded_reads("volume:unlimited,latency=1ms,trace=yes")
    assert delivered.facts["traced"] == {"requests": delivered.facts["requests"], "lost": 0}
    file = home / "trace"
    file.write_bytes(delivered.files[TRACE_FILE])
    models = [constant(ms) for ms in (1, 3, 10)]
    facts, answers = replay(models, {"path": str(file), "processors": 1.0})
    assert facts["is_complete"] and facts["reads"] >= BLOCKS and facts["bytes"] >= BLOCKS * BLOCK
    one, three, ten = (answer["elapsed_s"] for answer in answers)
    # One at a time: each read is as much longer as the volume is slower, and the computing is the same.
    assert three - one == pytest.approx(0.002 * facts["reads"], rel=0.02)
    assert ten - one == pytest.approx(0.009 * facts["reads"], rel=0.02)
    assert one >= 0.001 * BLOCKS
    # The folder in which it was written has nothing left of it.
    assert not list((home / "data" / "work").glob("trace-*"))


@pytest.mark.slow
def test_a_size_from_the_workload_to_the_proof(require: Callable[..., None]) -> None:
    """Seconds of a load on small data: the words and the folder; no time is judged."""
    require("loop")
    require("fuse")
    require("build")
    with whole_tool.prepared_home() as home:
        words = ["size", "--workload", "select-only:clients=2,duration=3s,warmup=1s", "--scale", "1"]
        words += [*whole_tool.build(), "--cache", "cold", "--plans", "off", "--json", "--quiet"]
        words += ["--set", "shared_buffers=1MB"]
        words += ["--volume", "gp3,size=100GiB", "--volume", "gp2,size=100GiB,credits=empty", "--prove"]
        finished = whole_tool.run(*words, "--slow-down", "1000%", "--out", str(home / "sized"), home=home)
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        (group,) = document["groups"]
        assert {each["storage"] for each in group["recordings"]} == {"unlimited", "unlimited,latency=1ms"}
        assert all(each["is_complete"] and each["reads"] > 0 for each in group["recordings"])
        assert group["recommended"] and group["neighbours"]
        proved = {check["storage"] for check in group["checks"] if check["is_fair"]}
        assert proved >= {"gp3,size=100GiB"}
        assert (home / "sized" / "size.html").read_text("utf-8").count("<svg") >= 4


@pytest.mark.slow
def test_a_size_of_volumes_for_data_and_wal_from_the_workload_to_the_proof(
    require: Callable[..., None],
) -> None:
    """As above, where the WAL has a volume of its own; no time is judged."""
    require("loop")
    require("fuse")
    require("build")
    with whole_tool.prepared_home() as home:
        words = ["size", "--workload", "tpcb:clients=2,duration=3s,warmup=1s", "--scale", "1"]
        words += [*whole_tool.build(), "--plans", "off", "--json", "--quiet", "--slow-down", "1000%"]
        words += ["--instance", "r7i.2xlarge", "--volume", "gp3,size=100GiB", "--volume", "gp2,size=100GiB"]
        words += ["--wal", "gp3,size=20GiB", "--wal", "io2,size=10GiB,iops=1000", "--prove"]
        finished = whole_tool.run(*words, "--out", str(home / "sized"), home=home)
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        (group,) = document["groups"]
        apart = {f"{each},wal=volume:{each}" for each in ("unlimited", "unlimited,latency=1ms")}
        assert {each["storage"] for each in group["recordings"]} == apart
        # Both traces: a table that is in memory is not read, and its WAL is written to the other.
        assert all(each["is_complete"] and each["log_writes"] > 0 for each in group["recordings"])
        assert len(group["volumes"]) == 4
        instance = 0.5292 * 730
        for volume in group["volumes"]:
            data = 8.0 if volume["volume"].startswith("gp3") else 10.0
            assert volume["wal_per_month"] in (1.6, 1.25 + 65.0)
            assert volume["price_per_month"] == pytest.approx(
                data + volume["wal_per_month"] + instance, abs=0.01
            )
        assert not any("only the data's volume" in warning for warning in document["warnings"])
        proved = {check["storage"] for check in group["checks"] if check["is_fair"]}
        # As they are imitated: with no credits left, also not those of the instance.
        emptied = [name.replace("100GiB,", "100GiB,credits=empty,") for name in group["recommended"][:1]]
        assert {each.partition(",wal=")[0] for each in emptied} <= {
            each.partition(",wal=")[0] for each in proved
        }


@pytest.mark.slow
def test_a_proof_on_an_instance_has_the_memory_of_the_recording(require: Callable[..., None]) -> None:
    """An instance of so little memory would cap the servers of the proof, and what they read would differ."""
    require("loop")
    require("fuse")
    require("build")
    with whole_tool.prepared_home() as home:
        (home / "volumes.toml").write_text(
            '[instances.small]\nprovider = "aws"\nmemory_gib = 1\n'
            "operations = { base = 2000, quantum_kib = 256 }\n"
            "[prices.aws-us-east-1.instances_per_hour]\nsmall = 0.1\n"
        )
        words = ["size", "--workload", "select-only:clients=2,duration=3s,warmup=1s", "--scale", "1"]
        words += [*whole_tool.build(), "--cache", "cold", "--plans", "off", "--json", "--quiet"]
        words += [
            "--set",
            "shared_buffers=1MB",
            "--volume",
            "gp3,size=100GiB",
            "--instance",
            "small",
            "--prove",
        ]
        finished = whole_tool.run(*words, "--slow-down", "1000%", "--out", str(home / "sized"), home=home)
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        (group,) = document["groups"]
        proved = {check["storage"] for check in group["checks"] if check["is_fair"]}
        assert proved >= {"gp3,size=100GiB,instance=small"}
        assert any("small has 1GB of memory" in each for each in document["warnings"])
