"""Which builds' programs run pg_upgrade, and whose fault it is where one of them lacks a library."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pgassay.environment.builds.base import Origin
from pgassay.environment.upgraded import cluster
from pgassay.environment.upgraded.cluster import build_complaint
from pgassay.environment.upgraded.programs import UpgradePrograms, upgrade_programs
from pgassay.environment.upgraded.tablespaces import recovery_settings
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.upgrade.copied_source import check_copy
from pgassay.upgrade.run_upgrade import UpgradeRequest, _program

PROGRAMS = (
    *("postgres", "pg_ctl", "pg_controldata", "pg_resetwal", "initdb", "pg_upgrade", "pg_dump"),
    *("pg_dumpall", "pg_restore", "psql", "vacuumdb"),
)
MISSING = 'could not access file "$libdir/hstore": No such file or directory'


class Given:
    """An origin with these builds."""

    def __init__(self, *builds: Build) -> None:
        self._builds = builds

    def builds(self) -> Sequence[Build]:
        return self._builds


def build(folder: Path, origin: str, major: int, *extensions: str, complete: bool = True) -> Build:
    place = folder / f"{origin}{major}"
    place.mkdir(exist_ok=True)
    for program in PROGRAMS if complete else PROGRAMS[:2]:
        (place / program).touch()
    return Build(
        origin=origin, version=f"{major}.1", major=major, bin_directory=str(place), extensions=extensions
    )


def test_programs_come_with_the_extensions_that_the_reader_has(tmp_path: Path) -> None:
    reader = build(tmp_path, "npm", 18, "hstore", "pg_trgm", complete=False)
    bare = Given(build(tmp_path, "wheel", 16), build(tmp_path, "wheel", 18))
    full = Given(build(tmp_path, "apt", 16, "hstore"), build(tmp_path, "apt", 18, "hstore", "pg_trgm"))
    found = upgrade_programs(16, reader, cast("list[Origin]", [bare, full]))
    assert (found.old.origin, found.new.origin) == ("apt", "apt")


def test_of_equals_the_old_one_is_of_the_new_one_s_builder(tmp_path: Path) -> None:
    new = build(tmp_path, "wheel", 18, "hstore")
    others = Given(build(tmp_path, "apt", 16, "hstore")), Given(build(tmp_path, "wheel", 16, "hstore"), new)
    found = upgrade_programs(16, new, cast("list[Origin]", list(others)))
    assert (found.old.origin, found.new) == ("wheel", new)


@pytest.mark.parametrize(
    ("old", "new", "reader", "blamed"),
    [
        # It runs the old data, or takes them over, without a library which the server has.
        ((), ("hstore",), ("hstore",), "16.1 of wheel"),
        (("hstore",), (), ("hstore",), "18.1 of apt"),
        # The new version comes without it everywhere: that is what the user has to know.
        (("hstore",), (), (), ""),
        ((), (), (), ""),
        (("hstore",), ("hstore",), ("hstore",), ""),
    ],
)
def test_a_build_without_a_library_is_not_taken_for_a_fault_of_the_server(
    old: tuple[str, ...], new: tuple[str, ...], reader: tuple[str, ...], blamed: str, tmp_path: Path
) -> None:
    programs = UpgradePrograms(
        build(tmp_path, "wheel", 16, *old),
        build(tmp_path, "apt", 18, *new),
        build(tmp_path, "npm", 18, *reader),
    )
    said = build_complaint(programs, MISSING)
    assert (blamed in said and "apt:1" in said) if blamed else said == ""
    assert build_complaint(programs, 'extension "x" is not available') == ""


@pytest.mark.parametrize("kind", ["folder", "dump"])
def test_a_copy_that_is_not_there_is_named(tmp_path: Path, kind: str) -> None:
    missing = tmp_path / "base"
    with pytest.raises(
        UsageError, match=f"--copy {kind}:{missing}: {missing} does not exist: name an existing"
    ):
        check_copy(f"{kind}:{missing}")


@pytest.mark.parametrize(
    ("version", "knows"),
    [("13.7", False), ("13.23", True), ("14.4", False), ("14.5", True), ("15.0", True), ("19rc1", True)],
)
def test_recovery_is_told_of_tablespaces_by_what_the_release_knows(version: str, knows: bool) -> None:
    found = Build(origin="apt", version=version, major=int(version[:2]), bin_directory="/nowhere")
    assert bool(recovery_settings(found)) is knows


def test_the_dump_is_made_by_whichever_builder_has_the_program(tmp_path: Path) -> None:
    newer = build(tmp_path, "npm", 18, complete=False).model_copy(update={"version": "18.2"})
    older = build(tmp_path, "apt", 18)
    request = UpgradeRequest("dbname=shop", "18", cast("Any", None))
    origins = cast("list[Origin]", [Given(newer), Given(older)])
    assert _program(request, origins) == older
    assert _program(replace(request, copy="dump:x"), origins) == older
    with pytest.raises(
        UsageError, match=r"18\.2 of npm comes without pg_dump: pgassay builds install apt:18"
    ):
        _program(request, origins[:1])


def test_the_log_of_a_refusal_is_kept_without_dumps_which_hold_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "home", lambda: tmp_path)
    (tmp_path / "data").mkdir()
    output = tmp_path / "new" / "pg_upgrade_output.d" / "20261127T1"
    for name, text in (("dump/pg_upgrade_dump_globals.sql", "PASSWORD 'S'"), ("log/pg_upgrade.log", "fatal")):
        (output / name).parent.mkdir(parents=True)
        (output / name).write_text(text)
    error = cluster._refused("Failure, exiting", tmp_path / "new", DatasetSpec(source="/backup/main"))
    kept = {each.name for each in error.log.rglob("*") if each.is_file()}
    assert kept == {"pg_upgrade.log", "pg_upgrade.out"}
