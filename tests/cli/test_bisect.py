"""`pgassay bisect` as it is typed: what can't be meant is refused in a sentence; the script for git."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from samples.builds.source_tree import clone_of_one, git

WORKLOAD = ("--workload", "select-only")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the tag v1 and three commits behind it, of which one changes a README alone."""
    clone = clone_of_one(tmp_path_factory.mktemp("clone"))
    git(clone, "tag", "v1")
    for name, content in (
        ("README.md", "more\n"),
        ("src/backend/other.c", "int other(void) { return 1; }\n"),
    ):
        (clone / name).write_text(content)
        git(clone, "commit", "--quiet", "--all", f"--message=change {name}")
    git(clone, "checkout", "--quiet", "-b", "aside", "v1")
    (clone / "src/bin/initdb.c").write_text("int main(void) { return 1; }\n")
    git(clone, "commit", "--quiet", "--all", "--message=aside")
    git(clone, "checkout", "--quiet", "master")
    return clone


def _refused(capsys: Any, *words: str) -> str:
    return whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "bisect", *words), 2)


def test_what_is_no_line_is_refused_with_what_to_type(capsys: Any, clone: Path) -> None:
    good, bad = f"git:{clone}@v1", f"git:{clone}@master"
    for words, told in (
        ((bad, good), "does not come after"),
        ((good, f"git:{clone}@nonesuch"), "no revision 'nonesuch'"),
        ((good, f"git:{clone}@v1"), "no commit that changes what is built"),
        ((good, bad, "--path", "contrib"), "no commit that changes what is built below contrib"),
        ((good,), "bisect takes two revisions"),
        ((good, "npm:18"), "npm:18 is not a revision of a clone"),
        (("version=17.0",), "is not a range of releases"),
        (("version=17.4..17.0",), "name the older release first"),
        (("version=16.900..16.901",), "no origin has both ends available"),
        (("build=npm:18",), "is one build"),
    ):
        assert told in _refused(capsys, *words, *WORKLOAD)
    assert "no workload 'nonesuch'" in _refused(capsys, good, bad, "--workload", "nonesuch")
    assert "--workload" in _refused(capsys, good, bad)
    assert "knows no releases" in _refused(capsys, "build=npm:17,npm:18", *WORKLOAD, "--script", "x.sh")


def test_a_folder_with_something_else_is_refused(capsys: Any, clone: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n")
    words = (f"git:{clone}@v1", f"git:{clone}@master", *WORKLOAD, "--out", str(tmp_path))
    assert "has other content" in _refused(capsys, *words)
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


def test_the_script_for_git_is_one_that_the_shell_reads(capsys: Any, clone: Path, tmp_path: Path) -> None:
    script = tmp_path / "step.sh"
    words = (
        f"git:{clone}@v1",
        f"git:{clone}@master",
        *WORKLOAD,
        "--scale=1",
        "--quiet",
        "--script",
        str(script),
    )
    ended = whole_tool.run_here(capsys, "bisect", *words)
    assert ended.returncode == 0, ended.stderr
    assert "git bisect start --first-parent" in ended.stdout
    assert f"git bisect run {script}" in ended.stdout
    subprocess.run(["sh", "-n", str(script)], check=True)
    text = script.read_text()
    assert "--workload select-only --scale=1 \\" in text
    # At the good end itself nothing need be measured.
    git(clone, "checkout", "--quiet", "v1")
    try:
        assert subprocess.run([str(script)], cwd=clone, check=False).returncode == 0
    finally:
        git(clone, "checkout", "--quiet", "master")
