"""Working copies: a reset puts back what was written, and only that."""

import os
import shutil
import time
from pathlib import Path

import pytest

from pgassay.errors import MeasurementError
from pgassay.storage import working_copies as working_module
from pgassay.storage.file_copies import copy_real, tree
from pgassay.storage.working_copies import WorkingCopies

FILES = {
    "PG_VERSION": b"18\n",
    "base/1/1259": b"a" * 8192,
    "base/1/1259_vm": b"b" * 8192,
    "base/5/16384": b"c" * 81920,
    "base/5/16385": b"",
    "global/pg_control": b"d" * 8192,
    "pg_wal/000000010000000000000001": b"e" * 65536,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "frozen"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "pg_notify").mkdir()
    folder.chmod(0o700)
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> WorkingCopies:
    return WorkingCopies(tmp_path / "volume", None)


def clone(copies: WorkingCopies, source: Path, key: str = "key") -> Path:
    copies.prepare_folders(key)
    target = copies.path(key, 0)
    copies.make_equal(target, source, copy_real)
    time.sleep(0.02)  # the kernel's file times move in ticks
    return target


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        relative: (folder / relative).read_bytes() if (folder / relative).is_file() else None
        for relative, _ in tree(folder)
    }


def test_a_clone_is_equal_and_clean(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    assert content(target) == content(source)
    assert copies.is_clean(target)
    assert copies.is_whole(target, source)
    assert target.stat().st_mode & 0o777 == 0o700
    assert copies.copies() == [target]


def test_marks_are_durable(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    copies.mark(target, clean=False)
    assert not WorkingCopies(copies.root, None).is_clean(target)
    copies.mark(target, clean=True)
    assert WorkingCopies(copies.root, None).is_clean(target)


def test_a_start_that_nobody_marked_is_noticed(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    (target / "global/pg_control").write_bytes(b"x" * 8192)
    assert not copies.is_clean(target)


def test_a_crashed_server_is_not_clean(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    (target / "postmaster.pid").write_text("1\n")
    assert not copies.is_clean(target)
    copies.make_equal(target, source, copy_real)
    assert not (target / "postmaster.pid").exists()
    assert copies.is_clean(target)


def test_a_reset_undoes_every_kind_of_change(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    copies.mark(target, clean=False)
    with (target / "base/5/16384").open("r+b") as file:  # same size, one byte
        file.seek(4000)
        file.write(b"!")
    os.utime(target / "base/5/16384", ns=(0, (source / "base/5/16384").stat().st_mtime_ns))
    os.truncate(target / "base/1/1259", 100)
    (target / "base/1/1259_vm").unlink()
    (target / "base/5/16386").write_bytes(b"new")
    (target / "base/6").mkdir()
    (target / "base/6/1").write_bytes(b"new")
    shutil.rmtree(target / "pg_notify")
    (target / "pg_notify").write_text("a file where a folder was")
    (target / "pg_wal/000000010000000000000002").write_bytes(b"wal")
    (target / "global/pg_control").write_bytes(b"x")
    copies.make_equal(target, source, copy_real)
    assert content(target) == content(source)
    assert copies.is_clean(target)


def test_a_reset_copies_only_what_was_written_and_the_wal(copies: WorkingCopies, source: Path) -> None:
    target = clone(copies, source)
    copies.mark(target, clean=False)
    (target / "base/1/1259").write_bytes(b"z" * 8192)
    copied: list[str] = []

    def spy(original: Path, destination: Path) -> None:
        copied.append(str(destination.relative_to(target)))
        copy_real(original, destination)

    inodes = {name: (target / name).stat().st_mtime_ns for name in FILES}
    copies.make_equal(target, source, spy)
    assert copied == ["base/1/1259"]
    rewritten = {name for name in FILES if (target / name).stat().st_mtime_ns != inodes[name]}
    assert rewritten == {"base/1/1259", "global/pg_control", "pg_wal/000000010000000000000001"}


def test_a_clone_of_another_source_copies_all(copies: WorkingCopies, source: Path, tmp_path: Path) -> None:
    target = clone(copies, source)
    other = tmp_path / "other"
    shutil.copytree(source, other)
    (other / "base/5/16384").write_bytes(b"o" * 81920)
    assert not copies.is_whole(target, other)
    copies.make_equal(target, other, copy_real)
    assert content(target) == content(other)


def test_an_interrupted_copy_is_not_clean(copies: WorkingCopies, source: Path) -> None:
    copies.prepare_folders("key")
    target = copies.path("key", 0)

    def interrupted(original: Path, destination: Path) -> None:
        if original.name == "16384":
            raise KeyboardInterrupt
        copy_real(original, destination)

    with pytest.raises(KeyboardInterrupt):
        copies.make_equal(target, source, interrupted)
    assert not copies.is_clean(target)
    copies.make_equal(target, source, copy_real)
    assert content(target) == content(source)


def test_links_are_refused(copies: WorkingCopies, source: Path) -> None:
    (source / "pg_tblspc").mkdir()
    (source / "pg_tblspc" / "1").symlink_to("/tmp")
    with pytest.raises(MeasurementError, match="symbolic link"):
        clone(copies, source)


def test_room_is_made_from_the_longest_unused(
    copies: WorkingCopies, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, key in enumerate(("old", "new", "kept")):
        target = clone(copies, source, key)
        os.utime(target.with_name("copy-0.json"), (number, number))
    (copies.root / "foreign").mkdir()
    sizes = iter([0, 2**40])
    monkeypatch.setattr(working_module, "_SPARE_BYTES", 0)
    monkeypatch.setattr(working_module, "free_bytes", lambda _: next(sizes))
    copies.make_room(1000, keep="kept")
    assert sorted(path.name for path in copies.root.iterdir()) == ["foreign", "kept", "new"]


def test_no_room_is_one_sentence_with_the_sizes(copies: WorkingCopies, source: Path) -> None:
    clone(copies, source, "other")
    with pytest.raises(MeasurementError, match=r"needs 1024\.0 TB .* are free"):
        copies.make_room(2**50, keep="key")
    assert copies.is_clean(copies.path("other", 0))
