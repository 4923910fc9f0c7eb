"""Two recorded builds from source, with real servers in their layouts: trials run what was drawn."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.source_builds import building, kept_builds, trees
from pgassay.environment.source_builds.build_tools import find_tools
from pgassay.environment.source_builds.layouts import find_linker
from pgassay.environment.source_builds.recipe import recipe_of
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.model.build import LAYOUTS_DEFAULT, layout_folder
from samples.builds import source_tree

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
LAYOUTS = 2
WORDS = (*("--workload", "select-only:duration=500ms,clients=1,warmup=0s", "--scale", "1"), "--details")


@pytest.fixture
def recorded(
    tmp_path: Path, require: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, list[str]]]:
    """A home with the builds of two trees: the machine's own server behind programs that start it."""
    require("server", "source-tools")
    clone = source_tree.clone_of_one(tmp_path / "postgres")
    source_tree.commit(clone, "changed", "src/backend/other.c", "int other(void) { return 1; }\n")
    names = [f"git:{clone}@{name}" for name in ("master", "changed")]
    real = Path(resolve("18").bin_directory)
    with whole_tool.private_home() as home:
        monkeypatch.setenv("PGASSAY_HOME", str(home))
        started = home / "started"
        started.touch()
        started.chmod(0o666)
        for name in names:
            _record(name, real, started)
        yield home, names


def _record(name: str, real: Path, started: Path) -> None:
    """Servers that write down, before they start, in which layout they are."""
    tree, tools = trees.find_tree(parse_source(name)), find_tools(lambda *_: None)
    recipe = recipe_of(tools, "", lambda *_: None)
    linker = find_linker(lambda *_: None)
    linked_by = "" if linker is None else linker.identity()
    folder = kept_builds.folder_of(building.key_of(tree, recipe, linked_by))
    for number in range(LAYOUTS_DEFAULT + 1):
        programs = folder / (layout_folder(number) if number else "") / "bin"
        programs.mkdir(parents=True)
        for program in real.iterdir():
            if program.name != "postgres":
                (programs / program.name).symlink_to(program)
        starter = programs / "postgres"
        noted = f'[ "$1" = -D ] && echo {name.rpartition("@")[2]} {number} >> {started}'
        starter.write_text(f'#!/bin/sh\n{noted}\nexec {real}/postgres "$@"\n')
        starter.chmod(0o755)
    for path in (folder, *folder.rglob("*"), *folder.parents[:2]):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    record = kept_builds.Kept(
        names=(name,),
        tree=tree.hash,
        commit=tree.commit,
        version=tree.version,
        compiler=recipe.compiler,
        options=recipe.options,
        lacking=(),
        data_format=trees.data_format(tree),
        files=name,
        seconds=1.0,
        linker=linked_by,
    )
    kept_builds.write(folder, record)


def test_each_trial_runs_the_layout_of_its_block(recorded: tuple[Path, list[str]], tmp_path: Path) -> None:
    home, names = recorded
    out = tmp_path / "out"
    ended = whole_tool.run(
        *("compare", f"build={','.join(names)}", *WORDS, "--layouts", str(LAYOUTS)),
        *("--blocks", str(LAYOUTS), "--all-blocks", "--out", out),
        home=home,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"Each tree was linked {LAYOUTS} times, its functions in another order each time" in ended.stdout
    plan = json.loads((out / "experiment.json").read_text())
    assert plan["design"]["layouts"] == LAYOUTS
    blocks = [json.loads(path.read_text())["layouts"] for path in sorted((out / "blocks").iterdir())]
    for arm in plan["arms"]:
        assert sorted(each[arm["id"]] for each in blocks[:LAYOUTS]) == [1, 2]
    (layouts,) = json.loads(whole_tool.run("report", out, "--json", home=home).stdout)["layouts"]
    assert layouts["layouts"] == LAYOUTS
    # What is not judged (data, settings, a rehearsal) runs each build as it is; the trials run all layouts.
    started = {line for line in (home / "started").read_text().splitlines() if not line.endswith(" 0")}
    assert started == {f"{name} {number}" for name in ("master", "changed") for number in (1, 2)}


@pytest.mark.slow
def test_one_layout_is_taken_and_said(recorded: tuple[Path, list[str]], tmp_path: Path) -> None:
    home, names = recorded
    out = tmp_path / "out"
    words = ("compare", f"build={','.join(names)}", *WORDS, "--blocks", "1", "--layouts", "1", "--out", out)
    ended = whole_tool.run(*words, home=home)
    assert ended.returncode == 0, ended.stderr
    assert "Each tree was linked once" in ended.stdout
    assert all(line.endswith(" 0") for line in (home / "started").read_text().splitlines())
    assert "layouts" not in json.loads((out / "experiment.json").read_text())["design"]
