"""Building source trees: small ones, by the real meson, ninja and compiler, through the whole command."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import whole_tool
from pgassay.cli import completion, source_builds
from pgassay.cli.commands.builds import _clean
from pgassay.environment import atomic_folder
from pgassay.environment.builds.build_identity import binary_sha256
from pgassay.environment.builds.registry import ORIGINS, SOURCE_ORIGIN, resolve
from pgassay.environment.builds.source import trees_of
from pgassay.environment.source_builds import build_tools, building, kept_builds, trees
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError
from pgassay.environment.source_builds.layouts import Linker
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.errors import UsageError
from pgassay.model.build import Build
from samples.builds import source_tree

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(autouse=True)
def _source_tools(require: Callable[..., None]) -> None:
    require("source-tools")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return source_tree.clone_of_one(tmp_path / "postgres")


def built(*texts: str) -> list[str]:
    """The folders of the builds of these trees, which are built first."""
    return [build.bin_directory for build in source_builds.provide(texts, 2, quiet=True)]


def test_a_revision_is_built_and_then_found(clone: Path, own_home: Path) -> None:
    text = f"git:{clone}@master"
    with pytest.raises(UsageError, match=re.escape(f"is not built yet: type 'pgassay builds build {text}'")):
        resolve(text)
    (folder,) = built(text)
    build = resolve(text)
    assert (build.bin_directory, build.origin, build.version) == (folder, "source", "18.6")
    assert Path(folder).is_relative_to(own_home / "builds" / "source")
    assert build.source is not None
    assert build.source.commit == source_tree.git(clone, "rev-parse", "master")
    assert "--buildtype=debugoptimized" in build.source.options
    assert "gcc" in build.source.compiler or "clang" in build.source.compiler
    assert build.data_format.startswith("18, catalog")
    # A version never means a tree that somebody works on.
    with pytest.raises(UsageError, match=r"no PostgreSQL 18\.6 of origin apt at hand"):
        resolve("apt:18.6")
    assert build not in [each for origin in ORIGINS for each in origin.builds()]


def test_each_revision_has_its_own_server_until_they_build_the_same(clone: Path) -> None:
    changed = "int other(void);\nint other(void) { return 7; }\n"
    source_tree.commit(clone, "changed", "src/backend/other.c", changed)
    source_tree.commit(clone, "words", "README.md", "second\n")
    names = [f"git:{clone}@{branch}" for branch in ("master", "changed", "words")]
    first, second, third = built(*names)
    assert subprocess.run([f"{first}/postgres"], check=False, capture_output=True).returncode == 0
    assert subprocess.run([f"{second}/postgres"], check=False, capture_output=True).returncode == 7
    assert third == first
    assert len(SOURCE_ORIGIN.builds()) == 2
    assert {tree.name for tree in trees_of(resolve(names[0]))} == {names[0], names[2]}
    assert names[1] in set(completion._trees())
    # Each is told by its own tree, also where the files are another's.
    sources = [resolve(name).source for name in names]
    assert [source.tree for source in sources if source] == [
        source_tree.git(clone, "rev-parse", f"{branch}^{{tree}}") for branch in ("master", "changed", "words")
    ]


def test_a_second_revision_compiles_what_changed(clone: Path, own_home: Path) -> None:
    source_tree.commit(clone, "changed", "src/backend/other.c", "int other(void) { return 1; }\n")
    built(f"git:{clone}@master")
    built(f"git:{clone}@changed")
    log = (own_home / "builds/source-work/log.txt").read_text()
    assert "other.c.o" in log
    assert "main.c.o" not in log


def test_what_writes_sources_changed_so_all_is_compiled_anew(clone: Path, own_home: Path) -> None:
    source_tree.commit(clone, "options", "meson_options.txt", "option('cassert', type: 'boolean')\n")
    built(f"git:{clone}@master")
    built(f"git:{clone}@options")
    assert "main.c.o" in (own_home / "builds/source-work/log.txt").read_text()
    build = resolve(f"git:{clone}@options")
    assert build.source is not None
    assert "-Dcassert=false" in build.source.options


def test_what_does_not_build_is_said_with_its_place_and_the_next_one_builds(clone: Path) -> None:
    source_tree.commit(clone, "broken", "src/backend/other.c", "\nint other(void) { return nonesuch; }\n")
    with pytest.raises(UsageError) as raised:
        built(f"git:{clone}@broken")
    sentence = str(raised.value)
    assert re.search(r"@broken does not build: src/backend/other\.c:2: .*nonesuch.* undeclared", sentence)
    assert "\n" not in sentence
    assert kept_builds.all_kept() == []
    assert len(built(f"git:{clone}@master")) == 1


def test_a_slip_in_the_second_tree_is_said_before_the_first_is_built(clone: Path) -> None:
    with pytest.raises(UsageError, match="has no revision 'nonesuch'"):
        built(f"git:{clone}@master", f"git:{clone}@nonesuch")
    assert kept_builds.all_kept() == []


def test_a_clone_is_as_it_was(clone: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in clone.rglob("*")}
    built(f"git:{clone}@master")
    assert {path: path.stat().st_mtime_ns for path in clone.rglob("*")} == before


def test_an_interrupted_build_leaves_no_build_and_goes_on(clone: Path, own_home: Path) -> None:
    wait = clone.parent / "held"
    # The compiler of this build reports that it began, and waits as long as a file is there.
    compiler = clone.parent / "cc"
    held = f"touch {wait}; while test -e {wait}; do sleep 0.05; done"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *main.c.o*) {held};; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    command = [*whole_tool.COMMAND, "builds", "build", f"git:{clone}@master", "--jobs", "1"]
    environment = whole_tool.environment(own_home, CC=str(compiler))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        while not wait.exists():
            assert running.poll() is None
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGINT)
        running.communicate()
        wait.unlink()
    assert running.returncode == 130
    assert kept_builds.all_kept() == []
    assert len(built(f"git:{clone}@master")) == 1


def test_the_command_builds_lists_and_removes(clone: Path, own_home: Path) -> None:
    name = f"git:{clone}@master"
    made = whole_tool.run("builds", "build", name, "--jobs", "2", home=own_home)
    assert made.returncode == 0
    assert f"building {name} (" in made.stderr
    listed = json.loads(whole_tool.run("builds", "list", "--json", home=own_home).stdout)
    (row,) = [each for each in listed["builds"] if each["origin"] == "source"]
    assert [tree["name"] for tree in row["trees"]] == [name]
    assert name in whole_tool.run("builds", home=own_home).stdout
    wrong = whole_tool.run("builds", "clean", "git:.@nonesuch", home=own_home)
    assert (wrong.returncode, wrong.stderr.count("pgassay: git:.@nonesuch was not built here")) == (2, 1)
    removed = whole_tool.run("builds", "clean", name, home=own_home)
    assert f"removed {name}" in removed.stdout
    assert SOURCE_ORIGIN.builds() == []
    whole_tool.run("builds", "clean", home=own_home)
    assert not (own_home / "builds" / "source-work").exists()


def test_a_name_that_no_build_has_is_told_without_waiting_for_an_experiment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def waits(*_: object) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr("pgassay.environment.lock.acquire", waits)
    with pytest.raises(UsageError, match="git:x@nonesuch was not built here: 'pgassay builds list'"):
        _clean(["git:x@nonesuch"], wait=True)


def test_a_build_that_waits_for_another_one_says_so(clone: Path) -> None:
    said: list[str] = []

    def release(what: str, _: float | None) -> None:
        said.append(what)
        if what.startswith("waiting"):
            holder.close()

    holder = ExitStack()
    holder.enter_context(atomic_folder.locked(kept_builds.lock_file()))
    building.build(parse_source(f"git:{clone}@master"), 1, release, layouts=1)
    assert "waiting for another build from source" in said


def test_a_package_is_no_tree(own_home: Path) -> None:
    refused = whole_tool.run("builds", "build", "18", home=own_home)
    assert refused.returncode == 2
    assert "write git:PATH@REVISION" in refused.stderr


def layouts_of(build: Build) -> list[str]:
    """What the servers of a build in each of its layouts print, and what their functions' order is."""
    found = []
    for number in range(1, len(build.source.layouts if build.source else ()) + 1):
        laid = build.at_layout(number)
        assert binary_sha256(Path(laid.bin_directory) / "postgres") == laid.binary_sha256
        ended = subprocess.run([f"{laid.bin_directory}/postgres"], check=True, capture_output=True, text=True)
        assert ended.stdout == "postgres (PostgreSQL) 18.6\n"
        program = Path(laid.bin_directory) / "postgres"
        names = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
        assert re.search(r" [tT] other\n", names)
        found.append(laid.binary_sha256)
    return found


def test_a_tree_is_linked_with_its_functions_in_several_orders(clone: Path) -> None:
    text = f"git:{clone}@master"
    (build,) = source_builds.provide([text], 2, quiet=True)
    first = layouts_of(build)
    assert len(set(first)) == 4
    assert resolve(text).source == build.source
    # More are added to the build that is there, and none is linked twice.
    place = Path(build.at_layout(4).bin_directory) / "postgres"
    inode = place.stat().st_ino
    (more,) = source_builds.provide([text], 2, quiet=True, layouts=6)
    assert layouts_of(more)[:4] == first
    assert len(set(layouts_of(more))) == 6
    assert (place.stat().st_ino, more.bin_directory) == (inode, build.bin_directory)
    # The other programs are the build's own.
    assert (place.parent / "initdb").resolve() == Path(build.bin_directory) / "initdb"


def test_one_layout_is_the_build_as_it_is(clone: Path) -> None:
    (build,) = source_builds.provide([f"git:{clone}@master"], 2, quiet=True, layouts=1)
    assert build.source is not None and build.source.layouts == ()
    assert build.at_layout(0) == build


def as_version(linker: Linker, version: str, folder: Path) -> Linker:
    """The same linker under another version of itself."""
    program = folder / f"ld-{version}"
    said = f'[ "$1" = --version ] && echo "mold {version} (compatible with GNU ld)" && exit 0'
    program.write_text(f'#!/bin/sh\n{said}\nexec {linker.path} "$@"\n')
    program.chmod(0o755)
    return Linker(linker.name, program)


def test_layouts_of_two_linkers_are_two_builds(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another version links, in another order, is never taken for the same or added to it."""
    real = building.find_linker(lambda *_: None)
    assert real is not None
    source_tree.commit(clone, "changed", "src/backend/other.c", "int other(void) { return 0 * 3; }\n")
    text = f"git:{clone}@master"
    versions = [as_version(real, version, tmp_path) for version in ("1.0", "2.0")]

    def provided(linker: Linker, layouts: int) -> Build:
        monkeypatch.setattr(building, "find_linker", lambda _: linker)
        monkeypatch.setattr(building, "linker_at_hand", lambda: linker)
        (build,) = source_builds.provide([text], 2, quiet=True, layouts=layouts)
        return build

    # One that was linked once takes the layouts of the first that shuffles it.
    bare = provided(versions[0], 1)
    first = provided(versions[0], 3)
    assert (first.bin_directory, len(layouts_of(first))) == (bare.bin_directory, 3)
    second = provided(versions[1], 4)
    assert second.bin_directory != first.bin_directory
    assert len(layouts_of(second)) == 4
    assert len(layouts_of(provided(versions[0], 2))) == 3
    assert provided(versions[0], 2).bin_directory == first.bin_directory
    linkers = {kept.linker for folder, kept in kept_builds.all_kept() if not kept.same_as}
    assert linkers == {f"mold {version} (compatible with GNU ld)" for version in ("1.0", "2.0")}
    # As it was built alone it is the same by either, and nothing is compiled for it.
    log = Path(first.bin_directory).parents[2] / "source-work" / "log.txt"
    log.unlink()
    assert provided(versions[1], 1).bin_directory in (first.bin_directory, second.bin_directory)
    assert not log.exists()
    # Both are called so, and go together.
    kept_builds.remove([text])
    assert kept_builds.all_kept() == []


def test_a_record_that_names_no_version_of_its_linker_is_built_again(clone: Path) -> None:
    text = f"git:{clone}@master"
    (build,) = source_builds.provide([text], 2, quiet=True)
    assert build.source is not None
    folder = Path(build.bin_directory).parent
    kept = kept_builds.read(folder)
    assert kept is not None
    tree = trees.find_tree(parse_source(text))
    recipe = building._recipe_for(
        parse_source(text), tree, build_tools.find_tools(lambda *_: None), lambda *_: None, by_make=False
    )
    # As it was stored before: under a key without the linker, which is known by its name alone.
    old = kept_builds.folder_of(building.key_of(tree, recipe))
    folder.rename(old)
    kept_builds.write(old, kept.model_copy(update={"linker": "mold"}))
    (again,) = source_builds.provide([text], 2, quiet=True)
    assert again.bin_directory == build.bin_directory
    assert len(layouts_of(again)) == 4
    assert (old / "bin" / "postgres").is_file(), "an experiment on it can be resumed"
    (once,) = source_builds.provide([text], 2, quiet=True, layouts=1)
    assert Path(once.bin_directory).parent == old


def test_a_linker_that_fails_is_told_from_a_tree_that_does_not_build(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "ld"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(building, "find_linker", lambda _: Linker("mold", failing))
    with pytest.raises(UsageError, match=r"can't link it with its functions .* write --layouts 1") as raised:
        source_builds.provide([f"git:{clone}@master"], 2, quiet=True)
    assert not isinstance(raised.value, TreeDoesNotBuildError)


def test_without_a_linker_that_shuffles_trees_are_linked_once(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "find_linker", lambda _: None)
    text = f"git:{clone}@master"
    (build,) = source_builds.provide([text], 2, quiet=True)
    assert build.source is not None and build.source.layouts == ()
    with pytest.raises(UsageError, match=r"--layouts 3 needs a linker .* install the Debian package mold"):
        source_builds.provide([text], 2, quiet=True, layouts=3)


@pytest.mark.parametrize("named", ["gcc -std=gnu17", "ccache gcc -m64", "/usr/bin/ccache gcc", "gcc", ""])
def test_the_compiler_that_is_named_is_taken_without_its_options(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", named)
    found = build_tools.find_tools(lambda *_: None)
    assert found.compiler.startswith("gcc")
    assert found.environment["CC"].split()[-1] == "gcc"


def test_tools_that_were_unpacked_follow_a_home_that_was_moved(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What flex and bison are told of their files is where those are now."""
    folder = own_home / "moved" / "tools" / "source-bison-flex" / "usr" / "bin"
    folder.mkdir(parents=True)
    for name in ("flex", "bison"):
        (folder / f"{name}.real").write_text(f'#!/bin/sh\necho "{name} by $M4"\n')
        (folder / name).write_text("#!/bin/sh\nexec /nowhere/bison.real\n")
    for program in folder.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PGASSAY_HOME", str(own_home / "moved"))
    lacking = ("bison", "flex")
    monkeypatch.setattr(build_tools, "_is_here", lambda name: name not in lacking)
    environment = build_tools.find_tools(lambda *_: None).environment
    for name in lacking:
        said = subprocess.run([name], env=environment, capture_output=True, text=True, check=True)
        assert said.stdout == f"{name} by {folder}/m4\n"
