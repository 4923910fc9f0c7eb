"""`pgassay tune DSN` of servers of other versions than the copy's, and of those that are too old for one."""

from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import ORIGINS, resolve
from pgassay.model.build import Build
from server_helpers import best_build
from source_servers import source_server, tuned

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


def older_build() -> Build:
    """A server that is read, and too old for a copy."""
    found = [build for origin in ORIGINS for build in origin.builds() if build.major in (14, 15)]
    if not found:
        pytest.skip("neither PostgreSQL 14 nor 15 is at hand")
    return found[0]


def with_programs(major: str) -> Build:
    """A build of this version with pg_dump and pg_restore."""
    builds = [build for origin in ORIGINS for build in origin.builds() if str(build.major) == major]
    found = [build for build in builds if (Path(build.bin_directory) / "pg_dump").exists()]
    if not found:
        pytest.skip(f"no PostgreSQL {major} with client programs is at hand")
    return found[0]


@pytest.mark.parametrize("major", ["16", "17"])
def test_a_source_of_an_older_version_is_tuned_on_that_version(major: str, tmp_path: Path) -> None:
    build = with_programs(major)
    with source_server(build) as server:
        server.fill()
        words = ("--statements", "2", "--pg", build.bin_directory)
        answer = tuned(server.dsn(), tmp_path / "out", *words, max_time="90s")
        assert answer["symptom"]["version"] == answer["symptom"]["source"]["version"] == build.version
        assert "(customer" in answer["fixes"][0]["sql"], answer["verdict"]


def test_a_source_that_is_too_old_for_a_copy_is_tuned_on_another_version(tmp_path: Path) -> None:
    newer = best_build()
    with source_server(older_build()) as server:
        server.fill()
        words = ("--statements", "2", "--quiet", "--json")
        said = whole_tool.run("tune", server.dsn(), *words)
        complaint = whole_tool.assert_one_sentence(said, 2)
        assert "copies are made with 16 and newer: name one with --pg 16" in complaint
        answer = tuned(server.dsn(), tmp_path / "out", *words[:2], "--pg", newer.bin_directory)
        assert any("its planner may decide differently" in note for note in answer["symptom"]["copy_notes"])
        assert "(customer" in answer["fixes"][0]["sql"], answer["verdict"]


def test_a_copy_of_an_older_version_than_the_source_is_refused_unless_its_data_are_given() -> None:
    with source_server(best_build()) as server:
        server.fill()
        said = whole_tool.run("tune", server.dsn(), "--pg", resolve("17").bin_directory, "--quiet")
        complaint = whole_tool.assert_one_sentence(said, 2)
        assert "can't read" in complaint or "comes without pg_dump" in complaint
