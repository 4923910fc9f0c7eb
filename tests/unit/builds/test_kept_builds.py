"""What is kept of a build that is made a second time under the same key."""

from pathlib import Path

import pytest

from pgassay.environment.home import home
from pgassay.environment.source_builds import build_tools, building, kept_builds
from pgassay.errors import UsageError

pytestmark = pytest.mark.usefixtures("own_home")


def kept(files: str, name: str = "git:pg@x") -> kept_builds.Kept:
    return kept_builds.Kept(
        names=(name,),
        tree="t",
        commit="c",
        version="18.6",
        compiler="gcc",
        options=(),
        lacking=(),
        data_format="18",
        files=files,
        seconds=1.0,
        linker="mold 2.30",
    )


def staged(content: str, layouts: int) -> Path:
    """What was installed, with its layouts."""
    folder = home() / "builds" / "source-work" / f"staged-{content}-{layouts}" / "pgsql"
    for place in ("bin", *(f"layouts/{number:02d}/bin" for number in range(1, layouts + 1))):
        (folder / place).mkdir(parents=True)
        (folder / place / "postgres").write_text(content)
    return folder


def test_more_layouts_are_added_to_the_build_that_is_there() -> None:
    first = building._keep(staged("one", 2), kept("hash"), "key")
    again = building._keep(staged("one", 4), kept("hash"), "key")
    assert again.folder == first.folder
    assert len(list((first.folder / "layouts").iterdir())) == 4


def test_a_build_that_became_another_is_refused_and_stays() -> None:
    """By what no recipe knows, such as a header of a library: it may have been measured, or be in use."""
    first = building._keep(staged("one", 2), kept("hash"), "key")
    with pytest.raises(
        UsageError, match=r"was built before with other programs .*'pgassay builds clean git:pg@x'"
    ):
        building._keep(staged("two", 4), kept("other hash"), "key")
    assert (first.folder / "bin/postgres").read_text() == "one"


def test_a_second_name_points_to_the_build_that_has_its_files_now() -> None:
    one = building._keep(staged("one", 2), kept("hash"), "key-1")
    second = building._keep(staged("one", 2), kept("hash", "git:pg@y"), "key-2")
    assert second.folder == one.folder
    two = building._keep(staged("two", 2), kept("other hash", "git:pg@z"), "key-3")
    moved = building._keep(staged("two", 2), kept("other hash", "git:pg@y"), "key-2")
    assert moved.folder == two.folder
    found = building.finished("key-2", "git:pg@y")
    assert found is not None and found.folder == two.folder


@pytest.mark.parametrize("name", ["COPT", "PROFILE", "LIBS", "CC_LD", "CONFIG_SITE", "CFLAGS", "LD_RUN_PATH"])
def test_what_a_shell_happens_to_have_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "-O0")
    monkeypatch.setenv("PKG_CONFIG_PATH", "/opt/icu")
    environment = build_tools._clean_environment()
    assert name not in environment and environment["PKG_CONFIG_PATH"] == "/opt/icu"
