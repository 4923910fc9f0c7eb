"""The found commit reverted on the bad end: a patch by git, and what a builder makes of it.

The builder is a stand-in that applies the patch in a real clone and compiles nothing.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import report_examples as examples
from pgassay.bisecting.revert_check import PATCH_FILE, judged, reverted_build
from pgassay.bisecting.run_bisection import beside_the_answer
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.model.further_results.bisection import Place, Reverted
from pgassay.progress import NullProgress


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Three commits: a file, a slow line in it, another file."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in (("one.c", "a\nb\nc\n"), ("one.c", "a\nslow\nb\nc\n"), ("two.c", "d\n")):
        (folder / name).write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", text.split()[0])
    return folder


def place(clone: Path, revision: str) -> Place:
    return Place(name=git(clone, "rev-parse", "--short=10", revision), build=f"git:{clone}@{revision}")


def applying(clone: Path, tmp_path: Path) -> Callable[[str], Build]:
    """A builder whose programs are named after what the sources hold."""

    def provide(text: str) -> Build:
        tree, *patches = text.split("+patch:")
        revision = tree.rpartition("@")[2]
        place = tmp_path / f"tree{len(list(tmp_path.iterdir()))}"
        git(clone, "worktree", "add", "-q", "--detach", str(place), revision)
        for patch in patches:
            try:
                git(place, "apply", patch)
            except subprocess.CalledProcessError:
                raise UsageError(f"{patch} does not apply: name another") from None
        content = "-".join((place / "one.c").read_text().split())
        if "broken" in content:
            raise TreeDoesNotBuildError(f"{text} does not build: one.c:1: name another revision")
        return Build(
            origin="source", version="18.6", major=18, bin_directory=f"/{content}", has_io_uring=True
        )

    return provide


def test_a_revert_is_a_patch_of_the_bad_end(clone: Path, tmp_path: Path) -> None:
    provide = applying(clone, tmp_path)
    # However this account likes its diffs.
    for name, value in (("diff.noprefix", "true"), ("color.ui", "always"), ("diff.external", "false")):
        git(clone, "config", name, value)
    built = reverted_build(place(clone, "HEAD~1"), place(clone, "HEAD"), tmp_path, provide)
    assert built == f"git:{clone}@HEAD+patch:{tmp_path / PATCH_FILE}"
    assert provide(built).bin_directory == "/a-b-c"


def test_what_can_not_be_reverted_says_why(clone: Path, tmp_path: Path) -> None:
    provide = applying(clone, tmp_path)

    def why(culprit: Place, bad: Place) -> str:
        found = reverted_build(culprit, bad, tmp_path, provide)
        assert isinstance(found, Reverted) and found.name == culprit.name and found.is_confirmed is None
        return found.why

    slow = place(clone, "HEAD~1")
    # A file that no program is made of here.
    assert "builds the same programs" in why(place(clone, "HEAD"), place(clone, "HEAD"))
    (clone / "one.c").write_text("a\nslower\nb\nc\n")
    git(clone, "commit", "-aqm", "slower")
    assert "changed the same lines" in why(
        place(clone, git(clone, "rev-parse", "HEAD~2")), place(clone, "HEAD")
    )
    assert slow.name == git(clone, "rev-parse", "--short=10", "HEAD~2")
    nowhere = Place(name="0123456789", build=f"git:{clone}@HEAD")
    assert why(nowhere, place(clone, "HEAD")) == "git can't create a patch for it"

    def fails(text: str) -> Build:
        raise TreeDoesNotBuildError(f"{text} does not build: one.c:1: x: name another revision")

    found = reverted_build(place(clone, "HEAD"), place(clone, "HEAD"), tmp_path, fails)
    assert isinstance(found, Reverted) and "does not build" in found.why


def test_what_fails_behind_the_answer_does_not_take_it_away() -> None:
    said: list[str] = []

    class Told(NullProgress):
        def message(self, content: str) -> None:
            said.append(content)

    def fails() -> None:
        raise MeasurementError("perf did not sample")

    beside_the_answer(fails, Told())
    assert said == ["the answer stands, but what follows it could not be run: perf did not sample"]


@pytest.mark.parametrize(
    ("verdict", "is_slow_down", "is_confirmed"),
    [
        ("faster", True, True),
        ("slower", True, False),
        ("equivalent", True, False),
        ("inconclusive", True, None),
        ("slower", False, True),
    ],
)
def test_a_revert_that_takes_the_difference_back_confirms_it(
    verdict: str, is_slow_down: bool, is_confirmed: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = examples.stored(levels=["bad", "reverted"])
    result = examples.result(stored)
    control, arm, *_ = result.arms
    arm = arm.model_copy(update={"verdict": verdict, "ratio": 1.3, "interval": (1.2, 1.4)})
    changed = result.model_copy(update={"arms": (control, arm)})
    monkeypatch.setattr("pgassay.bisecting.revert_check.analyse", lambda _: changed)
    found = judged(Place(name="abc", build="git:x@abc"), stored, is_slow_down=is_slow_down)
    assert found.is_confirmed is is_confirmed
    withheld = result.model_copy(update={"arms": (control, arm.model_copy(update={"withheld": True}))})
    monkeypatch.setattr("pgassay.bisecting.revert_check.analyse", lambda _: withheld)
    unsaid = judged(Place(name="abc", build="git:x@abc"), stored, is_slow_down=is_slow_down)
    assert unsaid.is_confirmed is None
    assert (found.ratio, found.interval) == (1.3, (1.2, 1.4))
