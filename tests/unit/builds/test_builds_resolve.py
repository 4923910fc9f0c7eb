"""How what a user types becomes one build, and which of several is taken."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pgassay.environment.builds.base import Origin, parse_version
from pgassay.environment.builds.installed import InstalledOrigin
from pgassay.environment.builds.registry import install, origin_named, resolve
from pgassay.errors import UsageError
from pgassay.model.build import Build


class Shelf(Origin):
    """An origin whose builds are given: resolution is a pure function of them."""

    def __init__(self, name: str, *versions: str, io_uring: bool) -> None:
        self.name = name  # type: ignore[misc]
        self._builds = [
            Build(
                origin=name,
                version=version,
                major=parse_version(version)[0],
                bin_directory=f"/{name}/{version}",
                has_io_uring=io_uring and parse_version(version)[0] >= 18,
            )
            for version in versions
        ]

    def builds(self) -> Sequence[Build]:
        return self._builds


def chosen(text: str | None, *origins: Origin) -> str:
    return resolve(text, origins).bin_directory


def test_installed_goes_first_among_equals() -> None:
    both = (Shelf("installed", "17.4", "18.6", io_uring=True), Shelf("apt", "17.4", "18.6", io_uring=True))
    assert chosen("18", *both) == "/installed/18.6"
    assert chosen("17", *both) == "/installed/17.4"


def test_io_uring_goes_before_newer_and_before_installed() -> None:
    installed = Shelf("installed", "18.7", io_uring=False)
    apt = Shelf("apt", "18.6", io_uring=True)
    assert chosen("18", installed, apt) == "/apt/18.6"
    assert chosen("18.7", installed, apt) == "/installed/18.7"


def test_newest_minor_goes_first() -> None:
    assert chosen(
        "17", Shelf("installed", "17.4", io_uring=False), Shelf("apt", "17.11", io_uring=False)
    ) == ("/apt/17.11")


def test_default_is_the_newest_released_major() -> None:
    apt = Shelf("apt", "19rc1", "18.6", "17.11", io_uring=True)
    assert chosen(None, Shelf("installed", "15.18", io_uring=False), apt) == "/apt/18.6"
    assert chosen(None, Shelf("installed", "16.9", io_uring=False)) == "/installed/16.9"
    assert chosen("19", apt) == "/apt/19rc1"


def test_default_needs_16() -> None:
    with pytest.raises(
        UsageError, match=r"no PostgreSQL 16 or newer at hand: run 'pgassay builds install 18'"
    ):
        resolve(None, [Shelf("installed", "15.18", io_uring=False)])


def test_missing_version_says_what_to_type() -> None:
    with pytest.raises(UsageError, match=r"no PostgreSQL 17 at hand: run 'pgassay builds install 17'"):
        resolve("17", [Shelf("installed", "15.18", io_uring=False)])


def test_a_version_before_16_is_not_measured_and_none_is_installed() -> None:
    with pytest.raises(UsageError, match=r"measures PostgreSQL 16 and newer, and not 14: 'pgassay builds'"):
        resolve("14", [Shelf("installed", "15.18", io_uring=False)])


@pytest.mark.parametrize("text", ["eighteen", "18.x", "", "apt:", "18beta"])
def test_nonsense_versions(text: str) -> None:
    with pytest.raises(UsageError):
        resolve(text, [])


def test_unknown_origin_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"'brew' is not an origin .*installed, apt, wheel, npm"):
        resolve("brew:18")


def test_path_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        resolve(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="holds no program postgres"):
        resolve(str(tmp_path))


@pytest.fixture
def bin_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty bin folder that every account can enter, and a home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-bin-"))
    folder.chmod(0o755)
    monkeypatch.setenv("PGASSAY_HOME", str(folder / "home"))
    (folder / "bin").mkdir()
    # Whatever the umask is.
    (folder / "bin").chmod(0o755)
    yield folder / "bin"
    shutil.rmtree(folder)


def write_program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)


def test_program_that_is_no_server(bin_directory: Path) -> None:
    write_program(bin_directory / "initdb")
    write_program(bin_directory / "postgres", "echo something else")
    with pytest.raises(UsageError, match=r"postgres does not run on this machine \(something else\)"):
        resolve(str(bin_directory))
    found = InstalledOrigin(bin_directory.parent, ("bin",)).builds()
    assert str(bin_directory) not in [build.bin_directory for build in found]


def test_answers_are_remembered_until_the_binary_changes(bin_directory: Path) -> None:
    asked = bin_directory / "asked"
    write_program(bin_directory / "initdb")
    write_program(bin_directory / "postgres", f"echo x >> {asked}", "echo 'postgres (PostgreSQL) 17.1'")
    first = resolve(str(bin_directory))
    assert (first.version, first.major, first.has_io_uring, first.configure) == ("17.1", 17, False, "")
    assert resolve(str(bin_directory)) == first
    assert asked.read_text() == "x\n", "the binary was asked again"
    write_program(bin_directory / "postgres", "echo 'postgres (PostgreSQL) 17.11 (Debian 17.11-1)'")
    assert resolve(str(bin_directory)).version == "17.11"


def test_extensions_are_listed_anew(bin_directory: Path) -> None:
    write_program(bin_directory / "initdb")
    write_program(bin_directory / "postgres", "echo 'postgres (PostgreSQL) 16.9'")
    assert resolve(str(bin_directory)).extensions == ()
    extensions = bin_directory.parent / "share" / "postgresql" / "extension"
    extensions.mkdir(parents=True)
    (extensions / "pg_prewarm.control").touch()
    assert resolve(str(bin_directory)).extensions == ("pg_prewarm",)


def test_build_that_the_servers_cannot_reach(bin_directory: Path, require: Callable[..., None]) -> None:
    require("root")
    write_program(bin_directory / "initdb")
    write_program(bin_directory / "postgres", "echo 'postgres (PostgreSQL) 16.9'")
    bin_directory.chmod(0o700)
    with pytest.raises(UsageError, match=rf"cannot enter {bin_directory} .*chmod o\+x"):
        resolve(str(bin_directory))


def test_installed_origin_installs_nothing() -> None:
    with pytest.raises(UsageError, match=r"origin installed has no PostgreSQL 42 .*apt:42"):
        install("installed:42")
    assert origin_named("installed").obtainable() == ()


def test_versions_are_ordered() -> None:
    ordered = ["18.6", "18.10", "19devel", "19alpha1", "19beta2", "19rc1", "19.0", "19.1"]
    assert sorted(ordered, key=parse_version) == ordered
