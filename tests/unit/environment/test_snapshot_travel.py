"""Snapshots in parts: every byte once, whole or not at all, never outside."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whole_tool
from pgassay.environment.datasets import snapshot_transfer, snapshots
from pgassay.environment.datasets.snapshot_transfer import PART_BYTES, Arrival, Manifest
from pgassay.environment.datasets.snapshots import SNAPSHOT_FILE, Snapshot
from pgassay.errors import MeasurementError, UsageError

KEY = "0123456789abcdef0123"
SIZES = st.one_of(st.integers(0, 5), st.integers(PART_BYTES - 2, PART_BYTES + 2), st.just(2 * PART_BYTES))


@given(st.lists(SIZES, max_size=12))
def test_parts_are_every_byte_of_every_file_once(sizes: list[int]) -> None:
    manifest = Manifest(folders=(), files=tuple((f"f{place:02d}", size) for place, size in enumerate(sizes)))
    seen = {name: 0 for name, _ in manifest.files}
    for number in range(manifest.parts):
        pieces = list(manifest.pieces(number))
        whole = number < manifest.parts - 1
        taken = sum(size for *_, size in pieces)
        assert taken == PART_BYTES if whole else 0 < taken <= PART_BYTES
        for name, offset, size in pieces:
            assert (offset, size > 0) == (seen[name], True)
            seen[name] += size
    assert tuple(seen.items()) == manifest.files


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "base/../../x", "", ".", "a\0b"])
def test_a_manifest_names_nothing_outside(name: str) -> None:
    for document in ({"folders": [name], "files": []}, {"folders": [], "files": [[name, 1]]}):
        with pytest.raises(ValueError, match="is not a path below"):
            Manifest.model_validate_json(json.dumps(document))


@given(st.recursive(st.one_of(st.none(), st.integers(), st.text()), st.lists, max_leaves=8))
def test_any_other_document_is_no_manifest(document: object) -> None:
    with pytest.raises(ValueError):
        Manifest.model_validate_json(json.dumps({"folders": document, "files": document, "more": 1}))


@pytest.fixture
def source(tmp_path: Path) -> Snapshot:
    """A folder as a snapshot has them: small files, an empty one, one of more than a part."""
    folder = tmp_path / "source"
    for name in ("base/5", "pg_replslot"):
        (folder / name).mkdir(parents=True)
    content = random.Random(1)
    for name, size in (("PG_VERSION", 3), ("base/5/1249", PART_BYTES + 5000), ("base/5/2619", 0)):
        (folder / name).write_bytes(content.randbytes(size))
    (folder / SNAPSHOT_FILE).write_text(json.dumps({"bytes": 1}))
    return Snapshot(folder, KEY, 1, {})


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with whole_tool.private_home() as home:
        monkeypatch.setenv("PGASSAY_HOME", str(home))
        yield home


def sent(source: Snapshot, arrival: Arrival, parts: int | None = None) -> None:
    for number in range(arrival.manifest.parts if parts is None else parts):
        content = snapshot_transfer.read_part(source, arrival.manifest, number)
        assert arrival.take(number, content, snapshot_transfer.checksum(content))


def below(home: Path) -> set[str]:
    found = {path.name for path in (home / "data/snapshots").iterdir()}
    return found | {path.name for path in home.glob("registry/*.json")}


def test_a_snapshot_arrives_as_it_was(source: Snapshot, own_home: Path) -> None:
    arrival = Arrival(KEY, snapshot_transfer.manifest_of(source))
    assert snapshots.find(KEY) is None
    sent(source, arrival)
    arrival.end(is_whole=True)
    found = snapshots.find(KEY)
    assert found is not None
    names = sorted(path.relative_to(source.path) for path in source.path.rglob("*"))
    assert sorted(path.relative_to(found.path) for path in found.path.rglob("*")) == names
    for name in names:
        if (source.path / name).is_file():
            assert (found.path / name).read_bytes() == (source.path / name).read_bytes()
            assert (found.path / name).stat().st_mode & 0o077 == 0
    assert below(own_home) == {KEY, f"{KEY}.lock"}
    # One that is there is not touched by another that comes.
    again = Arrival(KEY, snapshot_transfer.manifest_of(source))
    sent(source, again)
    again.end(is_whole=True)
    assert below(own_home) == {KEY, f"{KEY}.lock"}


def test_what_is_cut_off_leaves_nothing(source: Snapshot, own_home: Path) -> None:
    arrival = Arrival(KEY, snapshot_transfer.manifest_of(source))
    sent(source, arrival, 1)
    assert len(below(own_home)) == 3
    arrival.end(is_whole=False)
    assert below(own_home) == {f"{KEY}.lock"}
    incomplete = Arrival(KEY, snapshot_transfer.manifest_of(source))
    sent(source, incomplete, 1)
    with pytest.raises(MeasurementError, match="1 of 2 parts"):
        incomplete.end(is_whole=True)
    assert below(own_home) == {f"{KEY}.lock"}


def test_a_damaged_part_is_not_taken_and_a_repeated_one_changes_nothing(
    source: Snapshot, own_home: Path
) -> None:
    arrival = Arrival(KEY, snapshot_transfer.manifest_of(source))
    first, second = (snapshot_transfer.read_part(source, arrival.manifest, number) for number in (0, 1))
    damaged = bytes([first[0] ^ 1]) + first[1:]
    assert not arrival.take(0, damaged, snapshot_transfer.checksum(first))
    assert not arrival.take(0, first[:-1], snapshot_transfer.checksum(first[:-1]))
    with pytest.raises(UsageError, match="came before part 0"):
        arrival.take(1, second, snapshot_transfer.checksum(second))
    for _ in range(2):
        assert arrival.take(0, first, snapshot_transfer.checksum(first))
    assert arrival.take(0, damaged, snapshot_transfer.checksum(first))
    assert arrival.take(1, second, snapshot_transfer.checksum(second))
    arrival.end(is_whole=True)
    found = snapshots.find(KEY)
    assert found is not None
    assert (found.path / "base/5/1249").read_bytes() == (source.path / "base/5/1249").read_bytes()
    assert own_home in found.path.parents


def test_what_is_no_file_is_not_sent(source: Snapshot) -> None:
    (source.path / "pg_wal").symlink_to("/elsewhere")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        snapshot_transfer.manifest_of(source)


def test_a_disk_without_room_is_told_before_anything_comes(own_home: Path) -> None:
    manifest = Manifest(folders=(), files=((SNAPSHOT_FILE, 1), ("base", 1 << 50)))
    with pytest.raises(UsageError, match="MB are free: free some space there"):
        Arrival(KEY, manifest)
    assert below(own_home) == set()
    for key in ("../../etc", "short", KEY.upper()):
        with pytest.raises(UsageError, match="is not a snapshot"):
            Arrival(key, manifest)
