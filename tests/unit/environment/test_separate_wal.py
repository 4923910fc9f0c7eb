"""pg_wal on a storage of its own: moved before a server starts, and back when the copy is as it was."""

import os
from pathlib import Path

import pytest

from pgassay.storage.base import Delivered
from pgassay.storage.host import HostVolume
from pgassay.storage.parse import parse_storage
from pgassay.storage.separate_wal import SeparateWal, separate_wal
from storage_fixtures import frozen_directory

SEGMENT = "pg_wal/000000010000000000000001"


def host(root: Path) -> HostVolume:
    root.mkdir()
    return HostVolume(parse_storage(f"host:path={root}"), root)


@pytest.fixture
def volume(tmp_path: Path) -> SeparateWal:
    return SeparateWal(host(tmp_path / "data"), host(tmp_path / "wal"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = frozen_directory(tmp_path / "frozen", 1)
    (folder / "pg_wal/archive_status").mkdir()
    (folder / "pg_wal/archive_status/1.done").touch(mode=0o600)
    return folder


def as_a_server(working: Path) -> None:
    """What a start and a stop leave: WAL, and a control file that was written."""
    (working / "pg_wal/000000010000000000000002").write_bytes(b"wal")
    os.utime(working / "global/pg_control")


def test_the_wal_is_elsewhere_while_a_server_runs_and_comes_back(volume: SeparateWal, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    assert not (working / "pg_wal").is_symlink() and volume.is_clean(working)
    volume.mark(working, clean=False)
    place = (working / "pg_wal").resolve()
    assert (working / "pg_wal").is_symlink() and place.parent.name == "wal"
    assert (working / SEGMENT).read_bytes() == (source / SEGMENT).read_bytes()
    assert (place / "archive_status/1.done").is_file()
    assert not volume.is_clean(working)
    as_a_server(working)
    assert (place / "000000010000000000000002").is_file()
    volume.mark(working, clean=True)
    assert not (working / "pg_wal").is_symlink() and volume.is_clean(working)
    assert (working / "pg_wal/000000010000000000000002").read_bytes() == b"wal"
    assert (working / "pg_wal/archive_status/1.done").is_file() and not place.exists()


def test_a_copy_that_was_written_is_put_back_with_its_wal(volume: SeparateWal, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    volume.mark(working, clean=False)
    place = (working / "pg_wal").resolve()
    as_a_server(working)
    (place / SEGMENT.removeprefix("pg_wal/")).write_bytes(b"changed")
    # A server that is stopped or restarted does not move it twice.
    volume.mark(working, clean=False)
    assert (working / "pg_wal").resolve() == place and (place / "000000010000000000000002").is_file()
    assert not volume.is_clean(working)
    volume.reset(working, source)
    assert not (working / "pg_wal").is_symlink() and not place.exists()
    assert sorted(path.name for path in (working / "pg_wal").iterdir()) == [
        SEGMENT.removeprefix("pg_wal/"),
        "archive_status",
    ]
    assert (working / SEGMENT).read_bytes() == (source / SEGMENT).read_bytes()


def test_a_copy_whose_wal_went_with_its_storage_is_put_back(
    volume: SeparateWal, source: Path, tmp_path: Path
) -> None:
    """A killed pgassay leaves a link that leads nowhere, and the next arm may have its WAL with the data."""
    working = volume.clone(source, "key", 0)
    volume.mark(working, clean=False)
    (tmp_path / "wal").rename(tmp_path / "gone")
    alone = HostVolume(parse_storage(f"host:path={tmp_path / 'data'}"), tmp_path / "data")
    assert not alone.is_clean(working)
    assert alone.clone(source, "key", 0) == working
    assert not (working / "pg_wal").is_symlink()
    assert (working / SEGMENT).read_bytes() == (source / SEGMENT).read_bytes()


def test_nothing_is_left_of_a_wal_whose_copy_was_written(volume: SeparateWal, source: Path) -> None:
    working = volume.clone(source, "key", 0)
    volume.mark(working, clean=False)
    place = (working / "pg_wal").resolve()
    volume.remove()
    assert not place.exists() and place.parent.is_dir()


def test_the_description_names_both(volume: SeparateWal, source: Path, tmp_path: Path) -> None:
    volume.clone(source, "key", 0)
    facts = volume.facts()
    assert str(tmp_path / "data") in str(facts["storage"]) and str(tmp_path / "wal") in str(facts["storage"])
    wal = facts["wal"]
    assert isinstance(wal, dict) and wal["kind"] == "host"
    assert volume.spec.wal is not None and volume.spec.wal.path == str(tmp_path / "wal")
    with volume.measured() as delivered:
        pass
    # Folders impose nothing.
    assert delivered == Delivered()


def test_only_the_link_that_a_storage_of_the_wal_made_is_followed(tmp_path: Path) -> None:
    """The servers' account could put another one there, and the next start would show what it leads to."""
    data = tmp_path / "KEY" / "copy-0"
    data.mkdir(parents=True)
    (data / "pg_wal").mkdir()
    assert separate_wal(data) is None
    ours, other = tmp_path / "wal-of-KEY-copy-0", tmp_path / "elsewhere"
    for place in (ours, other):
        place.mkdir()
    (data / "pg_wal").rmdir()
    (data / "pg_wal").symlink_to(ours)
    assert separate_wal(data) == ours
    (data / "pg_wal").unlink()
    (data / "pg_wal").symlink_to(other)
    assert separate_wal(data) is None
