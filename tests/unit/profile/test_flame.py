"""The flame graph's tree and its two forms: the data of the script, and the still picture."""

import html
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from profile_for_tests import STACKS, profiled

from pgassay.analysis.profile.flame import DEPTH_MAX, FlameNode, flames, tree
from pgassay.analysis.verdicts.compare import analyse
from pgassay.report.compare.page import page_of
from pgassay.report.profile.flame import colour, data, svg
from pgassay.report.section import FlameGraph

HOSTILE = "</script><svg onload=alert(1)>&\x1b[31m"


def graph_of(root: FlameNode) -> FlameGraph:
    return FlameGraph("flame-1", "a", "b", "transaction", root, 0.01)


def test_both_arms_are_one_tree_whose_times_add_up() -> None:
    root = tree(
        {("main", "a"): 3.0, ("main", "b"): 1.0}, {("main", "a"): 1.0, ("main", "c"): 2.0, ("main",): 1.0}
    )
    (main,) = root.children
    assert (root.control_us, root.arm_us, main.control_us, main.arm_us) == (4.0, 4.0, 4.0, 4.0)
    times = {child.name: (child.control_us, child.arm_us) for child in main.children}
    assert times == {"a": (3.0, 1.0), "b": (1.0, 0.0), "c": (0.0, 2.0)}


def test_the_narrowest_frames_are_left_out_so_that_the_page_stays_small() -> None:
    stacks = {("main", f"f{number}", "leaf"): float(number) for number in range(1, 2001)}
    root = tree(stacks, stacks, nodes_max=200)
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        count += 1
        waiting += node.children
    assert 150 < count <= 201
    assert root.control_us == sum(stacks.values())


def test_the_deepest_frames_are_left_out_and_their_time_is_their_caller_s() -> None:
    stacks = {tuple(f"f{number}" for number in range(512)): 5.0}
    graph = graph_of(tree(stacks, stacks))
    names = json.loads(data(graph))["names"]
    assert names == ["all", *(f"f{number}" for number in range(DEPTH_MAX))]
    assert f"f{DEPTH_MAX - 1}" in svg(graph)


def test_an_experiment_has_a_graph_for_each_comparison(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=2, arms=2)
    found = flames(stored, 4)
    assert [(each.control, each.arm) for each in found] == [
        ("io_method=sync", "io_method=method1"),
        ("io_method=sync", "io_method=method2"),
    ]
    mean_us = sum(STACKS.values()) / 1000 / 10_000 * 1e6
    assert found[0].root.control_us == pytest.approx(mean_us, rel=0.05)
    assert found[0].sample_us == pytest.approx(0.05, rel=0.05)
    assert {child.name for child in found[0].root.children} == {"PostgresMain", "CheckpointerMain"}
    assert len(flames(stored, 1)) == 1


def test_the_colour_is_of_the_direction_and_pale_for_few_samples() -> None:
    def strength(control_us: float, arm_us: float) -> tuple[str, int]:
        shown = colour(FlameNode("f", control_us, arm_us), 0.01)
        found = re.search(r"--(bad|same)\) (\d+)%", shown)
        assert found is not None
        return found[1], int(found[2])

    assert strength(10, 20) == ("bad", 65)
    assert strength(20, 10) == ("same", 65)
    assert strength(10, 10)[1] == 0
    assert strength(10, 11)[1] < strength(10, 13)[1]
    assert strength(0.0, 0.01)[1] < 40


def test_hostile_names_are_text_in_both_forms() -> None:
    root = FlameNode("all", 2.0, 2.0, [FlameNode(HOSTILE, 2.0, 2.0)])
    made = data(graph_of(root))
    assert "<" not in made and "&" not in made
    assert json.loads(made)["names"][1].startswith("</script>")
    picture = ET.fromstring(svg(graph_of(root)))
    assert not [node for node in picture.iter() if node.tag not in ("svg", "rect", "title", "text")]


def test_large_times_have_no_exponent() -> None:
    picture = svg(graph_of(FlameNode("all", 1274.4, 52345.6)))
    assert "all: 1,274 → 52,346 µs" in picture


def test_the_page_has_graph_and_table_and_the_other_outputs_the_words(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=12, factors={"palloc": 1.4})
    result = analyse(stored)
    page = page_of(result, stored).html()
    assert page.count('<figure class="flame"') == 1
    policy = re.search(r"script-src ([^;\"]*)\"", page)
    assert policy is not None and len(policy[1].split()) == 1  # the one script that draws it
    for shown in (
        page,
        page_of(result, stored).markdown(),
        page_of(result, stored).terminal(width=100, unicode=False),
    ):
        words = " ".join(html.unescape(shown).replace("\u00a0", " ").split())
        assert re.search(r"palloc takes \d+ % more \[", words), words
        assert "hash" in words
