"""The bench of layouts: trees that are equally fast, and the tally of what was said of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from pgassay.value_syntax import quantities
from project_files import ROOT
from samples.builds import source_tree

sys.path.insert(0, str(ROOT / "benchmarks"))
import layouts_told

INCLUDED = "#include <stdio.h>\n#include <stdlib.h>\n\nint last(void) { return 1; }\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = source_tree.clone_of_one(tmp_path / "postgres")
    client = layouts_told.CLIENT
    texts = dict.fromkeys(layouts_told.UNUSED.values(), INCLUDED) | {client[0]: f'puts("{client[1]}");\n'}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    source_tree.git(folder, "add", "--all")
    source_tree.git(folder, "commit", "--quiet", "--message=sources")
    return folder


def test_its_trees_differ_in_what_makes_no_work(clone: Path, tmp_path: Path) -> None:
    repository = tmp_path / "trees"
    before = source_tree.git(clone, "status", "--porcelain"), source_tree.git(clone, "branch")
    branches = layouts_told.make_trees(clone, "HEAD", repository)
    assert (source_tree.git(clone, "status", "--porcelain"), source_tree.git(clone, "branch")) == before
    changed = {
        tree: layouts_told.git(repository, "diff", "--name-only", "base", branch).split()
        for tree, branch in branches.items()
    }
    assert changed.pop(layouts_told.IDENTICAL) == [layouts_told.CLIENT[0]]
    assert changed == {tree: [path] for tree, path in layouts_told.UNUSED.items()}
    for tree, path in layouts_told.UNUSED.items():
        source = tmp_path / "source.c"
        source.write_text(layouts_told.git(repository, "show", f"{branches[tree]}:{path}"))
        subprocess.run(["gcc", "-Wall", "-Werror", "-c", source, "-o", tmp_path / "object"], check=True)
        symbols = subprocess.run(["nm", tmp_path / "object"], check=True, capture_output=True, text=True)
        names = [line.split()[-1] for line in symbols.stdout.splitlines()]
        assert len([name for name in names if name.startswith("nobody_calls_")]) == layouts_told.UNUSED_COUNT
        assert "last" in names


def test_without_options_it_ends_within_twenty_minutes() -> None:
    """Ten of them are the first build's."""
    chosen = layouts_told._options(["--clone", "x"])
    runs = (len(layouts_told.UNUSED) + 1) * len(chosen.layouts) * chosen.repetitions
    assert runs * quantities.seconds(chosen.max_time) <= 10 * 60


@pytest.mark.parametrize(("directions", "status"), [(0, 0), (1, 0), (3, 1)])
def test_several_layouts_may_say_a_direction_by_chance_alone(
    directions: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = ["faster"] * directions + ["equivalent"] * (10 - directions)
    runs = [
        layouts_told.Run("unused", layouts, word, 1.01, (0.99, 1.02), 0.4 if layouts > 1 else None)
        for layouts, words in ((1, ["slower"] * 10), (4, verdicts))
        for word in words
    ]
    assert layouts_told.told(runs) == status
    shown = capsys.readouterr().out
    assert "| unused | 1 | 10 | 10 | ±0.0 % |  |" in shown
    assert f"| unused | 4 | 10 | {directions} | ±0.0 % | 40 % |" in shown
