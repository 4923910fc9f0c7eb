"""`pgassay bisect` as it is typed: what can't be meant is refused in a sentence; the script for git."""

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.bisecting.script import _FLAGS, _kept
from pgassay.cli import main
from pgassay.factors.base import split_levels
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
    git(clone, "checkout", "--quiet", "--orphan", "lone")
    git(clone, "commit", "--quiet", "--message=lone")
    git(clone, "branch", "words", "master~1")
    git(clone, "checkout", "--quiet", "master")
    return clone


def _refused(capsys: Any, *words: str) -> str:
    return whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "bisect", *words), 2)


def test_what_is_no_line_is_refused_with_what_to_type(capsys: Any, clone: Path, tmp_path: Path) -> None:
    good, bad = f"git:{clone}@v1", f"git:{clone}@master"
    shallow = tmp_path / "shallow"
    git(clone, "clone", "--quiet", "--depth=1", f"file://{clone}", str(shallow))
    for words, told in (
        ((bad, good), f"name the older one first, as {good} {bad}"),
        ((f"git:{clone}@aside", bad), "name as the first git:"),
        ((f"git:{clone}@lone", bad), "they have no common commit in it"),
        ((f"git:{clone}/..@a", f"git:{clone}/..@b"), "is not a clone that git reads"),
        ((good, f"git:{clone}@nonesuch"), "no revision 'nonesuch'"),
        ((good, good), "are one commit"),
        ((f"git:{shallow}@HEAD~1", f"git:{shallow}@HEAD"), "type 'git fetch --unshallow' in it"),
        ((good, f"git:{clone}@words"), "no commit that changes what is built: name two revisions"),
        ((good, bad, "--path", "contrib"), "no commit that changes what is built below contrib"),
        ((good, bad, "--path", "/etc"), "no commit that changes what is built below /etc"),
        ((good,), "bisect takes two revisions"),
        ((good, "npm:18"), "npm:18 is not a revision of a clone"),
        ((good, f"{good}+cassert"), "leave '+cassert' out"),
        (("version=17.0",), "is not a range of releases"),
        (("version=17.4..17.0",), "name the older release first"),
        (("version=16.900..16.901",), "no origin has both ends available"),
        (("build=npm:18",), "is one build"),
        # A slip in the middle of a list is told before its ends are built and measured.
        ((f"build={good},git:{clone}@nonesuch,{bad}",), "no revision 'nonesuch'"),
        (("build=npm:16.998,npm:16.999",), "no PostgreSQL 16.998 of origin npm at hand"),
    ):
        assert told in _refused(capsys, *words, *WORKLOAD)
    profiled = ("--profile", "--cache", "cold-each")
    assert "--profile can't follow a server" in _refused(capsys, good, bad, *WORKLOAD, *profiled)
    once = _refused(capsys, "build=npm:17,npm:18", *WORKLOAD, "--layouts", "4")
    assert "--layouts 4: none of these builds is from source: leave it out" in once
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
        *("--scale=1", "--quiet", "--text", "--profile", "--jobs", "1", "--prepare", "one.sql"),
        "--script",
        str(script),
    )
    ended = whole_tool.run_here(capsys, "bisect", *words)
    assert ended.returncode == 0, ended.stderr
    assert "git bisect start --first-parent" in ended.stdout
    assert f"git bisect run {script}" in ended.stdout
    subprocess.run(["sh", "-n", str(script)], check=True)
    text = script.read_text()
    assert "--workload select-only --scale=1 --jobs 1 --prepare one.sql \\" in text
    # git runs it in the clone, and files were named from here.
    assert f"cd {Path.cwd()} || exit 128" in text
    # At the good end itself nothing need be measured.
    git(clone, "checkout", "--quiet", "v1")
    try:
        assert subprocess.run([str(script)], cwd=clone, check=False).returncode == 0
    finally:
        git(clone, "checkout", "--quiet", "master")


@pytest.mark.parametrize(
    ("verdict", "headline", "status"),
    [
        ("found", "The slow-down of 1.31 × [1.27, 1.36] came with this build (95 %): git:x@1.", 1),
        # A commit before the one that is looked for may have made it faster.
        ("found", "The speed-up of 1.10 × [1.07, 1.13] came with this build (95 %): git:x@1.", 0),
        ("no difference", "The ends do not differ beyond 2 %: nothing to find.", 0),
        ("undecided", "undecided: 1 build left. The slow-down of 1.31 × came with one of them (95 %).", 125),
    ],
)
def test_the_script_calls_bad_what_is_slower(
    capsys: Any, tmp_path: Path, verdict: str, headline: str, status: int
) -> None:
    """Of a clone whose folder has a comma and a quote in its name."""
    clone = clone_of_one(tmp_path / "it's, a clone")
    git(clone, "tag", "v1")
    (clone / "src/backend/other.c").write_text("int other(void) { return 1; }\n")
    git(clone, "commit", "--quiet", "--all", "--message=slower")
    script, programs = tmp_path / "step.sh", tmp_path / "bin"
    ends = (f"git:{clone}@v1", f"git:{clone}@master")
    written = whole_tool.run_here(capsys, "bisect", *ends, *WORKLOAD, "--script", str(script))
    assert written.returncode == 0, written.stderr
    programs.mkdir()
    document = json.dumps({"verdict": verdict, "headline": headline}, indent=2)
    (tmp_path / "document").write_text(document)
    (programs / "pgassay").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\ncat {tmp_path}/document\n'
    )
    (programs / "pgassay").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run([str(script)], cwd=clone, check=False, env=os.environ | {"PATH": path})
    assert ended.returncode == status
    words = (tmp_path / "words").read_text().splitlines()
    hashes = [git(clone, "rev-parse", revision) for revision in ("v1", "master")]
    assert split_levels("build", words[1].partition("=")[2]) == tuple(
        f"git:{clone}@{each}" for each in hashes
    )


@pytest.mark.parametrize("path", [None, "src/backend"])
def test_git_finds_the_commit_by_what_is_printed(capsys: Any, tmp_path: Path, path: str | None) -> None:
    """A real 'git bisect run', of a program that calls slower what has the third change of the server."""
    clone = clone_of_one(tmp_path / "my clone")
    git(clone, "tag", "v1")
    for number in range(6):
        for name in ("src/backend/other.c", "src/bin/initdb.c"):
            with (clone / name).open("a") as stream:
                stream.write(f"/* {number} */\n")
            git(clone, "commit", "--quiet", "--all", f"--message={number} of {name}")
    script, programs = tmp_path / "my step.sh", tmp_path / "bin"
    words = (f"git:{clone}@v1", f"git:{clone}@master", *WORKLOAD, "--script", str(script))
    written = whole_tool.run_here(capsys, "bisect", *words, *(("--path", path) if path else ()))
    assert written.returncode == 0, written.stderr
    slower, faster = (
        json.dumps({"headline": f"The {word} of 1.3 × came with", "verdict": "found"}, indent=2)
        for word in ("slow-down", "speed-up")
    )
    programs.mkdir()
    test = f"git -C '{clone}' show HEAD:src/backend/other.c | grep -q '/. 2 ./'"
    seen = f"git -C '{clone}' log -1 --format=%s >> {tmp_path}/seen"
    (programs / "pgassay").write_text(f"#!/bin/sh\n{seen}\n{test} && echo '{slower}' || echo '{faster}'\n")
    (programs / "pgassay").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["sh", "-e"], input=written.stdout, env=environment, check=True, capture_output=True, text=True
    )
    assert f"{git(clone, 'rev-parse', 'bisect/bad')} is the first bad commit" in ran.stdout
    assert git(clone, "log", "-1", "--format=%s", "bisect/bad") == "2 of src/backend/other.c"
    subjects = (tmp_path / "seen").read_text().splitlines()
    assert path is None or all(each.endswith("src/backend/other.c") for each in subjects)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        # What says nothing of the commit must not skip it, or git would skip every one.
        ("pgassay: --scale: '' is no scale: write --scale 10' >&2; exit 2", 128),
        ("pgassay: git:x@{first} does not build: a.c:1: no: name another revision' >&2; exit 2", 128),
        ("pgassay: git:x@{commit} does not build: a.c:1: no: name another revision' >&2; exit 2", 125),
        ("pgassay: the two ends failed: the server has crashed' >&2; exit 1", 125),
        ("pgassay: interrupted; nothing is left running' >&2; exit 130", 130),
        ("pgassay' >&2; kill -TERM $$", 143),
        ("pgassay: not found' >&2; exit 127", 128),
    ],
)
def test_the_script_skips_a_commit_for_what_is_its_own_fault_alone(
    capsys: Any, clone: Path, tmp_path: Path, program: str, status: int
) -> None:
    script, programs = tmp_path / "step.sh", tmp_path / "bin"
    ends = (f"git:{clone}@v1", f"git:{clone}@master")
    assert whole_tool.run_here(capsys, "bisect", *ends, *WORKLOAD, "--script", str(script)).returncode == 0
    programs.mkdir()
    first, commit = (git(clone, "rev-parse", revision) for revision in ("v1", "master"))
    said = program.replace("{first}", first).replace("{commit}", commit).replace("''", "nothing")
    (programs / "pgassay").write_text(f"#!/bin/sh\necho '{said}\n")
    (programs / "pgassay").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run([str(script)], cwd=clone, check=False, env=environment, capture_output=True)
    assert ended.returncode == status
    assert b"pgassay" in ended.stderr, "what went wrong is shown"


def test_each_option_of_bisect_is_known_to_the_script_by_whether_it_has_a_value() -> None:
    """One that has none must not take the next word with it."""
    actions = [each for each in main.parser()._actions if isinstance(each, argparse._SubParsersAction)]
    bisect = actions[0].choices["bisect"]
    switches = {flag for each in bisect._actions if each.nargs == 0 for flag in each.option_strings}
    assert switches - {"-h", "--help"} == {*_FLAGS}
    words = ["pgassay", "bisect", "a", "b", "--profile", "--scale", "2", "--text", "--html", "x", "--seed=1"]
    assert _kept(words) == ["--scale", "2", "--seed=1"]


def test_a_change_of_a_client_alone_is_none_of_the_server(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """Real small builds: one commit changes a client program, the next one does not build."""
    require("source-tools")
    clone = clone_of_one(tmp_path / "postgres")
    with (clone / "meson.build").open("a") as stream:
        stream.write("executable('pgbench', 'src/bin/pgbench.c', install: true)\n")
    main_of = "int main(void) {{ return {}; }}\n"
    for subject, name, content in (
        ("v1", "src/bin/pgbench.c", main_of.format(1)),
        ("client", "src/bin/pgbench.c", main_of.format(2)),
        ("broken", "src/backend/other.c", "int other(void) { return nonesuch; }\n"),
    ):
        (clone / name).write_text(content)
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", f"--message={subject}")
        git(clone, "tag", subject)

    def searched(bad: str) -> "subprocess.CompletedProcess[str]":
        ends = (f"git:{clone}@v1", f"git:{clone}@{bad}")
        words = (*WORKLOAD, "--layouts", "1", "--quiet", "--out", tmp_path / bad)
        return whole_tool.run("bisect", *ends, *words, home=home)

    with whole_tool.private_home() as home:
        told = searched("client")
        assert told.returncode == 0, told.stderr
        assert "Both ends build the same server: nothing to find." in told.stdout
        sentence = whole_tool.assert_one_sentence(searched("broken"), 2)
    assert "does not build: src/backend/other.c:1: " in sentence
    assert len(git(clone, "worktree", "list").splitlines()) == 1
