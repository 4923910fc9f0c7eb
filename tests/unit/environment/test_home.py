"""Where home is, who owns what in it, and which account runs the servers."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.debian.unpack import MANIFEST, read_manifest
from pgassay.environment.home import (
    SYSTEM_HOME,
    account,
    closed_folder,
    home,
    home_path,
    remove_kept,
)
from pgassay.environment.linux import mounts
from pgassay.environment.linux.mounts import Mount
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.loop import _image_path


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account can enter (pytest's own is closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-home-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_an_account_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container of another account's number, whose environment has no HOME."""

    def nobody_s() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PGASSAY_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(Path, "home", nobody_s)
    with pytest.raises(UsageError, match="set PGASSAY_HOME"):
        home_path()


def test_what_is_mounted_below_what_is_kept_stays(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the volume of `pgassay volumes mount`, which runs beside everything."""
    monkeypatch.setenv("PGASSAY_HOME", str(open_folder / "home"))
    work = home() / "data" / "work"
    for name in ("host", "volume-below-1"):
        (work / name).mkdir(parents=True)
        (work / name / "file").write_bytes(b"0" * (2 << 20))
    point = Mount("0:50", work / "volume-below-1", "/", "fuse.pgassay", "pgassay-volume:1", frozenset())
    monkeypatch.setattr(mounts, "mounts", lambda: [point])
    left, removed = remove_kept()
    assert "left" in left and "volume-below-1" in left and removed == "removed data/work (2 MB)"
    assert [path.name for path in work.iterdir()] == ["volume-below-1"]


def test_home_is_made_with_its_modes(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGASSAY_HOME", str(open_folder / "deep" / "home"))
    previous = os.umask(0o077)
    try:
        path = home()
    finally:
        os.umask(previous)
    assert path == open_folder / "deep" / "home"
    data = path / "data"
    assert data.stat().st_mode & 0o777 == 0o700
    owner = account()
    assert data.stat().st_uid == (owner.uid if owner else os.geteuid())
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_home_behind_a_link_is_called_as_the_kernel_calls_it(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = open_folder / "large-disk", open_folder / "link"
    real.mkdir()
    link.symlink_to(real)
    monkeypatch.setenv("PGASSAY_HOME", str(link / "home"))
    assert home_path() == home() == real / "home"
    # The list of mounts and /sys/block/loop*/loop/backing_file have no links in their paths.
    assert _image_path(StorageSpec(kind="loop"), "loop").parent == real / "home" / "images"
    # What was unpacked there by its other name is still there.
    (real / "home" / MANIFEST).write_text(
        json.dumps({"destination": str(link / "home"), "suite": "host", "packages": {}, "download_bytes": 0})
    )
    assert read_manifest(real / "home") is not None


def test_root_gives_servers_to_another_account(require: Callable[..., None]) -> None:
    require("root")
    owner = account()
    assert owner is not None
    assert owner.uid != 0
    assert owner.name in ("postgres", "nobody")


def test_home_that_the_servers_cannot_reach_is_refused(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[..., None]
) -> None:
    require("root")
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("PGASSAY_HOME", str(closed / "home"))
    with pytest.raises(UsageError, match=rf"cannot enter {closed} on the way to .*PGASSAY_HOME"):
        home()


def test_home_that_is_a_file_is_refused(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (open_folder / "file").write_text("")
    monkeypatch.setenv("PGASSAY_HOME", str(open_folder / "file" / "home"))
    with pytest.raises(
        UsageError, match=r"cannot use the folder .*(File exists|Not a directory).*set PGASSAY_HOME"
    ):
        home()


def test_closed_folder_looks_at_the_right_bits(open_folder: Path, require: Callable[..., None]) -> None:
    require("root")
    owner = account()
    assert owner is not None
    inner = open_folder / "inner"
    inner.mkdir()
    inner.chmod(0o700)
    assert closed_folder(inner, owner) == inner
    os.chown(inner, owner.uid, owner.gid)
    assert closed_folder(inner, owner) is None


def test_place_of_home_for_root_and_for_a_user(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[..., None]
) -> None:
    require("root")
    monkeypatch.delenv("PGASSAY_HOME", raising=False)
    assert home_path() == SYSTEM_HOME
    monkeypatch.setenv("HOME", str(open_folder))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert as_nobody(lambda: str(home_path())) == str(open_folder / ".cache" / "pgassay")
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert as_nobody(lambda: str(home_path())) == "/some/cache/pgassay"


def test_user_runs_servers_as_himself(open_folder: Path, require: Callable[..., None]) -> None:
    require("root")
    open_folder.chmod(0o777)

    def as_user() -> str:
        account.cache_clear()
        os.environ["PGASSAY_HOME"] = str(open_folder / "mine")
        made = home()
        return f"{account()} {(made / 'data').stat().st_uid == os.geteuid()}"

    assert as_nobody(as_user) == "None True"


def as_nobody(question: Callable[[], str]) -> str:
    """Return what a child process without privileges answers."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writer, question().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer
