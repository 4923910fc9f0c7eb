"""Private unpacking with the real apt and dpkg-deb, from a repository made on the spot."""

import hashlib
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.debian import archive as archive_module
from pgassay.environment.debian.archive import Archive
from pgassay.environment.debian.sources import parse_one_line
from pgassay.environment.debian.unpack import MANIFEST, read_manifest, unpack
from pgassay.errors import UsageError
from server_helpers import own_home


@pytest.fixture
def repository(tmp_path: Path, require: Callable[..., None]) -> Iterator[Path]:
    """A flat repository of three packages: tool → libtool, and extra."""
    require("apt")
    folder = tmp_path / "repository"
    folder.mkdir()
    stanzas = [
        build_package(folder, "tool", "1.2-1", "libtool (>= 1), libc6, perl"),
        build_package(folder, "libtool", "1:3-1", ""),
        build_package(folder, "extra", "5-1", ""),
    ]
    (folder / "Packages").write_text("\n".join(stanzas))
    # Without the machine's tools, since what is unpacked stands beside them.
    with own_home():
        yield folder


def build_package(folder: Path, name: str, version: str, depends: str) -> str:
    tree = folder / f"tree-{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    # dpkg-deb refuses what a narrow umask makes.
    (tree / "DEBIAN").chmod(0o755)
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "usr" / "bin" / name).write_text(f"#!/bin/sh\necho {name} {version}\n")
    (tree / "usr" / "bin" / name).chmod(0o755)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <n@b.test>\n"
    control += f"Depends: {depends}\n" if depends else ""
    control += "Description: made by a test\n"
    (tree / "DEBIAN" / "control").write_text(control)
    package = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, package], check=True, capture_output=True)
    data = package.read_bytes()
    return (
        control + f"Filename: ./{name}.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    )


def archive_of(repository: Path, *, own_libc: bool = True) -> Archive:
    sources = tuple(parse_one_line(f"deb [trusted=yes] file:{repository} ./"))
    return Archive(suite="here", sources=sources, folder=repository.parent / "lists", own_libc=own_libc)


def test_unpacks_the_package_and_its_libraries(repository: Path) -> None:
    destination = repository.parent / "unpacked"
    seen: list[tuple[bool, Path]] = []

    def finish(root: Path, final: Path) -> None:
        seen.append((final.exists(), final))
        assert (root / "usr/bin/tool").is_file()

    unpacked = unpack(
        ("tool",), archive_of(repository), destination, optional=("extra", "absent"), finish=finish
    )
    assert unpacked.packages == {"extra": "5-1", "libtool": "1:3-1", "tool": "1.2-1"}
    assert seen == [(False, destination)], "the tree must be prepared before it stands at its place"
    answer = subprocess.run([destination / "usr/bin/tool"], capture_output=True, text=True, check=True)
    assert answer.stdout == "tool 1.2-1\n"
    assert destination.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in repository.parent.iterdir() if path.name.startswith(".")] == []


def test_whole_folder_is_left_alone_and_half_one_replaced(repository: Path) -> None:
    destination = repository.parent / "unpacked"
    archive = archive_of(repository)
    unpack(("tool",), archive, destination)
    inode = destination.stat().st_ino
    unpack(("tool",), archive, destination)
    assert destination.stat().st_ino == inode
    (destination / MANIFEST).write_text('{"destination": ')
    assert read_manifest(destination) is None
    unpack(("tool",), archive, destination)
    assert destination.stat().st_ino != inode
    assert read_manifest(destination) is not None


def test_moved_folder_does_not_count(repository: Path) -> None:
    destination = repository.parent / "unpacked"
    unpack(("tool",), archive_of(repository), destination)
    moved = destination.rename(repository.parent / "moved")
    assert read_manifest(moved) is None, "interpreter and rpath are absolute: a moved tree cannot run"


def test_failure_while_preparing_leaves_nothing(repository: Path) -> None:
    destination = repository.parent / "unpacked"

    def fail(root: Path, final: Path) -> None:
        raise UsageError(f"{root.name} {final.name}")

    with pytest.raises(UsageError, match="root unpacked"):
        unpack(("tool",), archive_of(repository), destination, finish=fail)
    assert sorted(path.name for path in repository.parent.iterdir()) == ["lists", "repository"]


def test_missing_package_is_named_with_its_suite(repository: Path) -> None:
    with pytest.raises(UsageError, match=r"The suite here has no package nothing-99: .*pgassay builds"):
        unpack(("nothing-99",), archive_of(repository), repository.parent / "unpacked")


def test_missing_network_is_one_sentence(repository: Path) -> None:
    gone = archive_of(repository.parent / "gone")
    with pytest.raises(UsageError, match=r"lists of the suite here could not be fetched from file:.*network"):
        unpack(("tool",), gone, repository.parent / "unpacked")


def test_lists_at_hand_serve_when_the_archive_is_gone(repository: Path) -> None:
    archive = archive_of(repository)
    archive.refresh()
    (repository / "Packages").rename(repository / "Packages.gone")
    archive.refresh(age_s_max=0)
    assert "tool" in archive.stanzas(("tool",))


def test_damaged_package_is_refused(repository: Path) -> None:
    archive = archive_of(repository)
    archive.refresh()
    package = repository / "libtool.deb"
    package.write_bytes(package.read_bytes()[:-1] + b"x")
    with pytest.raises(UsageError, match="could not be downloaded"):
        unpack(("tool",), archive, repository.parent / "unpacked")


def slow_unpack(repository: str, log: str) -> None:
    def finish(root: Path, final: Path) -> None:
        del root, final
        with Path(log).open("a") as stream:
            stream.write("prepared\n")
        time.sleep(0.5)

    base = Path(repository)
    unpack(("tool",), archive_of(base), base.parent / "unpacked", finish=finish)


def test_two_callers_at_once_unpack_once(repository: Path) -> None:
    log = repository.parent / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=slow_unpack, args=(str(repository), str(log))) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert log.read_text() == "prepared\n"


def test_without_apt_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not archive_module.has_apt()
    with pytest.raises(UsageError, match=r"no apt \(apt-get and .*PostgreSQL 18.*package manager"):
        archive_module.host_archive("PostgreSQL 18")
