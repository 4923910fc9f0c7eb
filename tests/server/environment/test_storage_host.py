"""Host storage, as root and as an ordinary account."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.cgroup.group import capabilities
from pgassay.environment.home import account, home
from pgassay.environment.linux import pagecache, settle
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage import host
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import capabilities as storage_capabilities
from pgassay.storage.registry import provide
from storage_fixtures import MB, NOBODY, as_nobody, frozen_directory, home_of_nobody, private_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture
def own_home() -> Iterator[Path]:
    with private_home() as folder:
        yield folder


def test_working_copies_lie_in_pgassays_own_folder(own_home: Path) -> None:
    source = frozen_directory(own_home / "frozen", 4)
    volume = provide(StorageSpec(), 20 * MB)
    assert volume.root == own_home / "data/work" / host.OWN_FOLDER
    working = volume.clone(source, "key", 0)
    twin = volume.clone(source, "key", 1)
    assert volume.is_clean(working)
    assert volume.is_clean(twin)
    relation = [working / "base/5/16384"]
    volume.drop_cache(relation)
    assert volume.resident_bytes(relation) == 0
    owner = account()
    uid = os.geteuid() if owner is None else owner.uid
    assert {path.stat().st_uid for path in (volume.root, working, relation[0])} == {uid}
    facts = volume.facts()
    assert facts["kind"] == "host"
    assert facts["extents"]["key/copy-1"]["bytes"] == 4 * MB
    volume.remove()
    assert working.is_dir()


def test_a_folder_of_the_users(own_home: Path) -> None:
    folder = own_home / "mine"
    folder.mkdir()
    (folder / "precious").write_text("x")
    volume = provide(parse_storage(f"host:path={folder}"), MB)
    assert volume.root == folder / "pgassay-data"
    assert volume.root.stat().st_mode & 0o777 == 0o700
    volume.clone(frozen_directory(own_home / "frozen", 1), "key", 0)
    volume.remove()
    assert (folder / "precious").read_text() == "x"


def test_limits_on_the_hosts_disk(own_home: Path) -> None:
    spec = parse_storage(f"host:path={own_home},read_mb_s=100")
    if not capabilities()["io"].is_available:
        with pytest.raises(UsageError, match="Rate limits on storage can't be set here"):
            provide(spec, MB)
        return
    volume = provide(spec, MB)
    (line,) = volume.limits_cgroup().values()
    assert str(100 * MB) in line
    assert line.startswith(f"{volume.device.major}:")


@pytest.mark.usefixtures("own_home")
def test_what_can_not_be_provided_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for spec, said in [
        (StorageSpec(path=str(tmp_path / "absent")), "does not exist"),
        (StorageSpec(path=str(file)), "does not exist"),
        (StorageSpec(read_ahead_kb=64), "loop:read_ahead=64"),
        (StorageSpec(size_bytes=MB), "loop:size="),
    ]:
        with pytest.raises(UsageError, match=said):
            provide(spec, MB)
    with pytest.raises(UsageError, match="use a smaller --scale"):
        provide(StorageSpec(), 2**60)


def test_a_closed_folder_is_refused(tmp_path: Path, require: Callable[..., None]) -> None:
    require("root")
    tmp_path.chmod(0o700)
    with private_home(), pytest.raises(UsageError, match="cannot enter"):
        provide(StorageSpec(path=str(tmp_path)), MB)


def test_an_ordinary_account_has_host_storage_and_its_page_cache(require: Callable[..., None]) -> None:
    require("root")

    def work() -> dict[str, object]:
        source = frozen_directory(home() / "frozen", 4)
        volume = provide(StorageSpec(), 20 * MB)
        working = volume.clone(source, "key", 0)
        relation = [working / "base/5/16384"]
        read = pagecache.load(relation)
        before = volume.resident_bytes(relation)
        volume.drop_cache(relation)
        volume.mark(working, clean=False)
        relation[0].write_bytes(b"changed")
        volume.reset(working, source)
        settle.wait_until_settled(0.1)
        return {
            "uid": working.stat().st_uid,
            "read": read,
            "before": before,
            "after": volume.resident_bytes(relation) <= 4 * MB,
            "equal": relation[0].read_bytes() == (source / "base/5/16384").read_bytes(),
            "loop": storage_capabilities()["loop"],
            "io": capabilities()["io"].reason,
        }

    with home_of_nobody():
        text = as_nobody(work)
    assert f"'uid': {NOBODY}" in text
    assert f"'read': {4 * MB}, 'before': {4 * MB}" in text
    assert "'equal': True" in text
    assert "run as root or use --storage host" in text
    assert "'io': ''" not in text


def test_the_page_cache_of_an_ordinary_account_can_be_emptied(require: Callable[..., None]) -> None:
    require("root")

    def work() -> int:
        file = home() / "file"
        file.write_bytes(os.urandom(MB))
        pagecache.evict([file])
        return pagecache.resident_bytes([file])

    with home_of_nobody():
        assert as_nobody(work) == "0"
