"""The text of a storage and its meaning."""

import math
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.host import HostKind
from pgassay.storage.parse import describe, format_bytes, parse_storage
from pgassay.storage.registry import KINDS
from pgassay.storage.volume import catalogue, model_for

paths = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).map(
    lambda text: "/" + text.strip("/").replace("//", "/") + "x"
)
rates = st.floats(min_value=1e-5, max_value=1e9, allow_nan=False)
limits = {
    "read_mb_s": st.none() | rates,
    "write_mb_s": st.none() | rates,
    "read_iops": st.none() | st.integers(1, 10**9),
    "write_iops": st.none() | st.integers(1, 10**9),
    "path": st.none() | paths,
}
specs = st.builds(StorageSpec, kind=st.just("host"), **limits) | st.builds(
    StorageSpec,
    kind=st.just("loop"),
    size_bytes=st.none() | st.integers(1, 2**50),
    read_ahead_kb=st.none() | st.integers(0, 2**20),
    **limits,
)


def normal(spec: StorageSpec) -> StorageSpec:
    """The same storage with its path as the operating system's library writes it (// and /./ dropped)."""
    if spec.path is None:
        return spec
    return parse_storage(describe(StorageSpec(kind=spec.kind, path=spec.path))).model_copy(
        update=spec.model_dump(exclude={"path"})
    )


@given(specs)
def test_what_describe_writes_parse_reads(spec: StorageSpec) -> None:
    assert parse_storage(describe(spec)) == normal(spec)


def test_the_published_example() -> None:
    spec = parse_storage("loop:size=4GB,read_ahead=128,read_mb_s=125,read_iops=3000")
    assert spec.size_bytes == 4 * 1024**3
    assert spec.read_ahead_kb == 128
    assert spec.read_mb_s == 125.0
    assert spec.read_iops == 3000
    assert spec.is_limited
    assert describe(spec) == "loop:size=4GB,read_ahead=128,read_mb_s=125,read_iops=3000"


def test_units_and_escapes() -> None:
    assert parse_storage("loop:size=1.5gb").size_bytes == 1536 * 1024**2
    assert parse_storage("loop:read_ahead=1MB").read_ahead_kb == 1024
    assert parse_storage(r"host:path=/a\,b\\c").path == "/a,b\\c"
    assert parse_storage("host:path=/a=b,read_iops=5").path == "/a=b"


def test_a_relative_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_storage("host:path=data").path == str(tmp_path / "data")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disk", "the kinds are host, loop, volume"),
        ("host:", "Nothing after the colon"),
        ("loop:bogus=1", "Unknown storage option 'bogus'"),
        ("loop:bogus=1", "size, read_ahead"),
        ("host:read_ahead=128", "loop:read_ahead="),
        ("host:size=1GB", "loop:size="),
        ("loop:size", "has no value"),
        ("loop:size=", "has no value"),
        ("loop:size=4", "kB, MB, GB or TB"),
        ("loop:size=0GB", "must be above 0"),
        ("loop:size=4XB", "is not a size"),
        ("loop:size=1GB,size=2GB", "twice"),
        ("loop:read_ahead=100B", "whole kB"),
        ("loop:read_mb_s=fast", "MiB per second"),
        ("loop:read_mb_s=nan", "MiB per second"),
        ("loop:read_mb_s=-1", "MiB per second"),
        ("loop:read_mb_s=1e305", "MiB per second"),
        ("loop:read_iops=1.5", "requests per second"),
        ("loop:read_iops=0", "requests per second"),
        (f"loop:read_iops={'9' * 5000}", "requests per second"),
        ("volume", "type volume:gp3,size=100GiB"),
        ("volume:gp9,size=40GiB", "There is no volume 'gp9'"),
        ("volume:gp3,size=20GiB,iops=12000", "gp3 gives at most 500 IOPS per GiB: 20GiB allows 10000"),
        ("volume:gp3,size=100GiB,credits=empty", "gp3 has no burst credits"),
        ("volume:gp3,size=100GiB,closest=no", "type closest=yes"),
        ("volume:gp3,size=100GiB,read_iops=100", "pgassay volumes"),
        ("volume:gp3,gp2", "Unknown storage option 'gp2'"),
        ("loop:gp3", "Unknown storage option 'gp3'"),
        ("volume:gp3,size=9GiB,flush_latency=200", "write for example 2ms"),
        ("host:wal=", "Nothing after wal="),
        ("host:wal=disk", "Unknown storage 'disk'"),
        ("host:wal=host:wal=host", "'wal' is given twice"),
        ("host:wal=loop:write_iops=10", "can't have limits of a control group"),
        (
            "volume:gp3,size=9GiB,wal=volume:gp3,size=9GiB,instance=m6g.large",
            "belongs to the volume of the data",
        ),
        (
            "volume:gp3,size=9GiB,instance=m6g.large,wal=volume:P20",
            "m6g.large is an instance of aws and P20 a volume of azure",
        ),
    ],
)
def test_an_error_names_the_part_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_storage(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.integers(1, 2**60))
def test_a_formatted_size_is_exact(size: int) -> None:
    text = format_bytes(size)
    number, unit = next((text[: -len(u)], u) for u in ("TB", "GB", "MB", "kB", "B") if text.endswith(u))
    assert int(number) * 1024 ** ["B", "kB", "MB", "GB", "TB"].index(unit) == size
    assert math.isclose(int(number), size / 1024 ** ["B", "kB", "MB", "GB", "TB"].index(unit))


class Painted(HostKind):
    """A folder with a key that no other kind has."""

    name = "painted"
    keys = ("colour", "path")
    own_keys: ClassVar[dict[str, Callable[[str, str, str], str]]] = {
        "colour": lambda _, value, __: value.lower()
    }


def test_a_kind_has_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stored with the others; a storage without any is stored as before there were some."""
    monkeypatch.setitem(KINDS, "painted", Painted())
    spec = parse_storage("painted:path=/data,colour=Dark\\, Red")
    assert spec.own == (("colour", "dark, red"),)
    assert describe(spec) == "painted:colour=dark\\, red,path=/data"
    assert parse_storage(describe(spec)) == spec == StorageSpec.model_validate_json(spec.model_dump_json())
    assert "own" not in StorageSpec(path="/data").model_dump()
    with pytest.raises(UsageError, match=r"'painted:.*option colour is given twice"):
        parse_storage("painted:colour=red,colour=blue")
    with pytest.raises(UsageError, match="Unknown storage option 'colour'"):
        parse_storage("host:colour=red")


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("volume:gp2,size=40GiB,credits=full", "gp2,size=40GiB"),
        ("volume:gp3,size=400GiB,iops=12000,throughput=500", "gp3,size=400GiB,iops=12000,throughput=500"),
        (
            "volume:gp2,size=100GiB,instance=m6g.large,read_ahead=256,closest=yes",
            "gp2,size=100GiB,instance=m6g.large",
        ),
    ],
)
def test_a_volume_is_named_first_and_found_in_the_catalogue(text: str, model: str) -> None:
    spec = parse_storage(text)
    assert parse_storage(describe(spec)) == spec
    assert parse_storage(text.replace("volume:", "volume:volume=")) == spec
    assert model_for(spec, catalogue()).name == model


@pytest.mark.parametrize(
    ("text", "data", "wal"),
    [
        ("host:wal=host", "host", "host"),
        (
            "loop:size=4GB, wal=volume:gp2,size=40GiB,credits=empty",
            "loop:size=4GB",
            "volume:gp2,size=40GB,credits=empty",
        ),
        (r"host:path=/a\,wal=b,wal=host:path=/c\\", r"host:path=/a\,wal=b", r"host:path=/c\\"),
        (
            "volume:gp3,size=100GiB,flush_latency=2ms,wal=volume:io2,size=10GiB,iops=3000,first_touch=20ms",
            "volume:gp3,size=100GB,flush_latency=2ms",
            "volume:io2,size=10GB,iops=3000,first_touch=20ms",
        ),
    ],
)
def test_the_wal_may_lie_elsewhere_and_its_storage_stands_last(text: str, data: str, wal: str) -> None:
    spec = parse_storage(text)
    assert spec.wal is not None
    assert describe(spec.model_copy(update={"wal": None})) == data
    assert describe(spec.wal) == wal
    assert parse_storage(describe(spec)) == spec == StorageSpec.model_validate_json(spec.model_dump_json())
    assert "wal" not in spec.wal.model_dump()


@given(specs, specs)
def test_what_describe_writes_of_two_storages_parse_reads(data: StorageSpec, wal: StorageSpec) -> None:
    unlimited = dict.fromkeys(("read_mb_s", "write_mb_s", "read_iops", "write_iops"))
    both = normal(data).model_copy(update={"wal": normal(wal.model_copy(update=unlimited))})
    assert parse_storage(describe(both)) == both
