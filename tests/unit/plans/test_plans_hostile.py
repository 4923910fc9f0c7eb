"""Plans from anywhere: hostile names, 20 MB, depth 3000, cut texts. A plan or one sentence, always."""

import contextlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_examples as examples
from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.plan_comparison import beside
from pgassay.report.explain import explain_page

HOSTILE = examples.HOSTILE + "\x1b]0;title\x07\x1b[2J</pre><script>alert(1)</script>\u202e\x9b31m"
NODE = "Seq Scan on t  (cost=0.00..1.00 rows=1 width=4) (actual time=0.010..0.020 rows=1 loops=1)"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    depth, deepest = 0, 0

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"
        assert self.depth >= 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.depth += tag == "details"
        self.deepest = max(self.deepest, self.depth)
        assert not [name for name, _ in attrs if name.startswith("on")]


def check_outputs(plans: list[ExplainedPlan]) -> None:
    """All outputs can be created, steer no terminal and hold no element of the plan's."""
    result = ExplainResult(
        plans=tuple(plans[:2]), beside=beside(plans[0], plans[1]) if len(plans) > 1 else None
    )
    for unicode in (True, False):
        shown = explain_page.page_of(result).terminal(width=80, unicode=unicode)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
        assert unicode or shown.isascii()
    listed = explain_page.list_page(result, "a file").terminal(width=80)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", listed)
    tags = _Tags()
    tags.feed(explain_page.page_of(result).html())
    assert not tags.seen & {"script", "img", "iframe", "a"}
    # All that opens is closed, and no deeper than browsers keep.
    assert tags.depth == 0
    assert tags.deepest < 120
    json.loads(explain_page.page_of(result).json(), parse_constant=lambda word: pytest.fail(word))
    explain_page.page_of(result).markdown()


def read_or_refused(content: str) -> list[ExplainedPlan]:
    try:
        return read_plans(content, "a file")
    except UsageError as error:
        assert str(error) and "\n" not in str(error)
        return []


def json_plan(**keys: object) -> str:
    node = {"Node Type": "Seq Scan", "Actual Total Time": 1.0, "Actual Loops": 1, "Actual Rows": 1, **keys}
    return json.dumps([{"Plan": node, "Execution Time": 2.0, "Query Text": HOSTILE}])


def test_hostile_names_harm_neither_terminal_nor_page() -> None:
    keys = (
        "Node Type",
        "Relation Name",
        "Index Name",
        "Alias",
        "Schema",
        "Filter",
        "Subplan Name",
        "Sort Method",
    )
    named = json_plan(**dict.fromkeys(keys, HOSTILE), **{HOSTILE: HOSTILE, "Sort Key": [HOSTILE]})
    quoted = HOSTILE.replace('"', '""')
    as_text = (
        NODE.replace("on t", f'on "{quoted}"') + f"\n  Filter: (x = '{HOSTILE}')\nSettings: a = '{HOSTILE}'"
    )
    for content in (named, as_text):
        plans = read_plans(content, "a file")
        check_outputs(plans * 2)


def test_an_escape_of_a_name_is_shown_as_text() -> None:
    plans = read_plans(json_plan(**{"Relation Name": "t\x1b[31m"}), "a file")
    shown = explain_page.page_of(ExplainResult(plans=tuple(plans))).terminal(width=80)
    assert r"t\x1b[31m" in shown


@pytest.mark.parametrize("depth", [500, 3000])
def test_any_depth_is_read_from_json_and_text(depth: int) -> None:
    inner = '{"Node Type": "Result", "Actual Total Time": 1.0, "Actual Loops": 1, "Actual Rows": 1'
    document = f'[{{"Plan": {inner}' + f', "Plans": [{inner}' * (depth - 1) + "}]" * (depth - 1) + "}}]"
    lines = [NODE.replace("Seq Scan on t", "Result")]
    lines += [f"{'  ' + '      ' * level}->  {lines[0]}" for level in range(depth - 1)]
    for content in (document, "\n".join(lines)):
        plans = read_plans(content, "a file")
        assert [node.depth for node in plans[0].nodes] == list(range(depth))
    check_outputs(plans * 2)


def test_brackets_without_end_are_refused() -> None:
    for content in ("[" * 1_000_000, '{"Plan": ' * 300_000, '[{"Plan": {"Plans": [' * 100_000):
        assert read_or_refused(content) == []


@pytest.mark.parametrize("size", [1_000_000, pytest.param(20_000_000, marks=pytest.mark.slow)])
def test_megabytes_in_one_condition(size: int) -> None:
    plans = read_plans(json_plan(Filter="x" * size), "a file")
    shown = explain_page.page_of(ExplainResult(plans=tuple(plans))).terminal(width=80)
    assert len(shown) < 10_000
    assert len(explain_page.page_of(ExplainResult(plans=tuple(plans))).html()) < 200_000
    for filler in ("x", "'", '"', "(", " ", "1", "a=1 "):
        content = f"{NODE}\n  Filter: {filler * (size // 5 // len(filler))}\n  Rows Removed by Filter: 3"
        assert len(read_plans(content, "a file")[0].nodes) == 1


@pytest.mark.parametrize(
    "prefix", ["Settings: ", "Trigger ", "Buffers: ", "Worker 0:  ", "  I/O Timings: ", "JIT:\n  Timing: "]
)
@pytest.mark.parametrize("filler", ["a", "a = '", " on ", "1", "time=", "x for constraint "])
def test_long_lines_of_every_kind_take_no_time(prefix: str, filler: str) -> None:
    """Reading is linear: a megabyte that one of them took in squares would take hours."""
    long = filler * (1_000_000 // len(filler))
    content = f"{NODE}\n  {prefix}{long}\n{prefix}{long}"
    assert len(read_plans(content, "a file")[0].nodes) == 1
    read_or_refused(f"{filler * (1_000_000 // len(filler))}\n{NODE}")
    read_or_refused("(cost=" + filler * (1_000_000 // len(filler)))


def test_many_nodes_are_read_and_too_many_refused() -> None:
    def flat(count: int) -> str:
        return "\n".join([NODE.replace("Seq Scan on t", "Append"), *[f"  ->  {NODE}"] * count])

    plans = read_plans(flat(5_000), "a file")
    assert len(plans[0].nodes) == 5_001
    assert "further nodes" in explain_page.page_of(ExplainResult(plans=tuple(plans))).terminal(width=80)
    assert len(beside(plans[0], plans[0]).matches) == 5_001
    with pytest.raises(UsageError, match="more than 100,000 nodes"):
        read_plans(flat(100_001), "a file")


@pytest.mark.parametrize("value", [1e308, -5, "many", None, [], {}, True, 10**400, 1.5e-320])
def test_figures_that_are_none(value: object) -> None:
    keys = ("Actual Total Time", "Actual Loops", "Actual Rows", "Plan Rows", "Heap Fetches",
            "Shared Hit Blocks",
            "Workers Launched", "Sort Space Used", "Hash Batches", "Peak Memory Usage", "Workers", "Plans",
            "Rows Removed by Filter", "Sort Method", "Full-sort Groups", "Grouping Sets",
            "Subplan Name")  # fmt: skip
    for key in keys:
        check_outputs(read_plans(json_plan(**{key: value}), "a file"))
    for key in (
        "Settings",
        "Planning",
        "JIT",
        "Triggers",
        "Serialization",
        "Execution Time",
        "Query Identifier",
    ):
        document = json.dumps([{"Plan": {"Node Type": "Result", "Actual Loops": 1}, key: value}])
        check_outputs(read_plans(document, "a file"))
    check_outputs(read_or_refused(json_plan().replace("1.0", "NaN").replace("2.0", "Infinity")))


_SEEDS = st.sampled_from(
    [NODE, "  ->  ", "InitPlan 1 (returns $0)", "CTE x", "SubPlan 1", "  Filter: (x = $0)", "Planning:",
     "JIT:",
     "Execution Time: 1.0 ms", "'", '"', "LOG:  duration: 1.0 ms  plan:", "QUERY PLAN", "---", "(1 row)",
     "CTE Scan on x  (cost=0.00..1.00 rows=1 width=4) (actual time=9.0..9.9 rows=5 loops=3)", "[", "{",
     "Worker 0:  ", "\t",
     "Gather  (cost=0..1 rows=1 width=4) (actual time=1..2 rows=1 loops=2)", "(never executed)",
     "}", "]", ":"]
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(_SEEDS, st.text(max_size=12))), max_size=30))
def test_any_lines_give_a_plan_or_a_sentence(lines: list[tuple[int, str]]) -> None:
    plans = read_or_refused("\n".join(" " * column + line for column, line in lines))
    if plans:
        check_outputs(plans * 2)


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    ["Node Type", "Actual Total Time", "Actual Loops", "Actual Rows", "Subplan Name",
     "Parent Relationship", "Filter",
     "Workers", "CTE Name", "Parallel Aware", "Sort Method", "Sort Space Used", "Hash Batches",
     "Shared Hit Blocks"]
)  # fmt: skip
_NAMES = st.sampled_from(["Gather", "CTE Scan", "Bitmap Heap Scan", "Nested Loop", "ModifyTable", "Sort"])
_LABELS = st.sampled_from(["CTE x", "InitPlan 1 (returns $0)", "SubPlan 1", "InitPlan 2"])
_FIGURES = st.sampled_from([0, 1, 3, 0.5, 100.0, 1e6])
_NODES = st.recursive(
    st.fixed_dictionaries(
        {"Node Type": _NAMES, "Actual Total Time": _FIGURES, "Actual Loops": _FIGURES},
        optional={"Subplan Name": _LABELS, "CTE Name": st.just("x"), "Actual Rows": _FIGURES,
                  "Filter": st.just("$0 (SubPlan 1)"),
                  "Parallel Aware": st.booleans(), "Actual Startup Time": _FIGURES},
    ),
    lambda inner: st.builds(
        lambda node, plans, more: {**node, **more, "Plans": plans},
        st.fixed_dictionaries({"Node Type": _NAMES, "Actual Total Time": _FIGURES, "Actual Loops": _FIGURES}),
        st.lists(inner, max_size=4),
        st.dictionaries(_KEYS, _VALUES, max_size=2),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=60)
@given(_NODES)
def test_any_json_gives_a_plan_whose_times_are_each_taken_once(node: dict) -> None:
    """All own times together are the top node's and those of what ran after it, whatever the figures."""
    for plan in read_or_refused(json.dumps({"Plan": node})):
        explain_page.page_of(ExplainResult(plans=(plan,))).json()
        own = sum(each.own_ms or 0.0 for each in plan.nodes)
        late = [each.total_ms or 0.0 for each in plan.nodes if (each.subplan or "").startswith("CTE ")]
        top = plan.nodes[0].total_ms or 0.0
        scale = 1e-6 * sum(abs(each.total_ms or 0.0) for each in plan.nodes) + 1e-4
        assert top - scale <= own <= top + sum(late) + scale


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_any_piece_of_a_plan_gives_a_plan_or_a_sentence(start: int, length: int) -> None:
    whole = json.dumps(json.loads(json_plan(Filter="(x = 'y')", Plans=[{"Node Type": "Hash"}])), indent=2)
    for content in (whole, f"{NODE}\n  Filter: (x = 'it''s')\n  ->  {NODE}\nPlanning Time: 1.0 ms"):
        with contextlib.suppress(UsageError):
            read_plans(content[start % len(content) :][:length], "a file")
