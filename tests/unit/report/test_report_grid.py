"""A grid of many arms: counted, shown at a glance, and its rows told apart in every format."""

import pytest

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report import text
from pgassay.report.charts import heat_map, interval_chart
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX, shortened_apart
from pgassay.report.compare import page as comparison
from pgassay.report.compare import recorded_facts, verdicts
from pgassay.report.labels import described
from pgassay.terminal.progress import plan_text

LEVELS = ["sync", "worker", "io_uring"]
STRATA = ["1", "10", "50"]


def grid() -> tuple[CompareResult, StoredExperiment]:
    """Nine arms with one stratum decided and two open."""
    stored = examples.stored(levels=LEVELS, strata=STRATA, blocks=3)
    result = examples.result(stored)
    arms = tuple(
        arm
        if arm.verdict == "control" or arm.stratum == "clients=10"
        else arm.model_copy(update={"verdict": "inconclusive", "note": f"{arm.name} needs more blocks"})
        for arm in result.arms
    )
    return result.model_copy(update={"arms": arms}), stored


def test_many_verdicts_are_counted_and_few_are_sentences() -> None:
    result, _ = grid()
    assert verdicts.headline_lines(result) == ["6 comparisons: 2 faster and 4 inconclusive."]
    few = analyse(examples.stored(blocks=8))
    assert verdicts.headline_lines(few) == verdicts.verdict_lines(few)
    nothing = analyse(examples.stored(levels=LEVELS, strata=STRATA, blocks=0))
    assert "No verdict yet" in verdicts.headline_lines(nothing)[0]


def test_the_terminal_shows_the_grid_before_its_tables() -> None:
    result, stored = grid()
    page = comparison.page_of(result, stored).terminal(width=100, unicode=False)
    top = page[: page.index("\nArms\n")]
    rows = [line.split() for line in top.splitlines() if line.strip().startswith("clients=")]
    assert [row[0] for row in rows] == [f"clients={stratum}" for stratum in STRATA]
    assert [row[2::2] for row in rows] == [["inconclusive"] * 2, ["faster"] * 2, ["inconclusive"] * 2]
    assert "needs more blocks" not in page
    list_of_arms = comparison.page_of(
        *_analysed(examples.stored(levels=[f"l{n}" for n in range(9)], blocks=3))
    ).terminal(width=100, unicode=False)
    assert list_of_arms.startswith("8 comparisons")
    assert "\n at " not in list_of_arms


def _analysed(stored: StoredExperiment) -> tuple[CompareResult, StoredExperiment]:
    return analyse(stored), stored


def test_markdown_folds_the_sentences_of_a_grid() -> None:
    result, stored = grid()
    page = comparison.page_of(result, stored).markdown()
    assert page.startswith("**6 comparisons")
    folded = page[page.index("verdict in sentences") :]
    assert verdicts.verdict_lines(result)[0].split()[0] in folded


def test_every_row_of_a_grids_intervals_has_a_label_of_its_own() -> None:
    result, _ = grid()
    for width_px in (390, 860):
        drawing = interval_chart.specification(result, width_px=width_px)
        labels = [row["label"] for row in drawing["datasets"]["rows"]]
        assert len(set(labels)) == len(labels) == 2 * len(STRATA)
        assert "io_uring at clients=50" in labels


LONG_NAMES = [
    f"random_page_cost={cost} jit={jit} effective_cache_size={size}"
    for cost in ("1.1", "4")
    for jit in ("on", "off")
    for size in ("1GB", "4GB")
]


@pytest.mark.parametrize("limit", [12, 14, 30, 34, 44])
def test_no_two_names_are_shortened_to_the_same(limit: int) -> None:
    made = shortened_apart(LONG_NAMES, limit)
    assert list(made) == LONG_NAMES
    assert len(set(made.values())) == len(LONG_NAMES)
    assert max(map(len, made.values())) <= limit


def test_names_that_need_not_be_cut_further_keep_their_ends() -> None:
    made = shortened_apart(["a" * 20 + "1", "b" * 20 + "2", "short"], 10)
    assert list(made.values()) == [f"{'a' * 5}…{'a' * 3}1", f"{'b' * 5}…{'b' * 3}2", "short"]


@pytest.mark.parametrize("width_px", [NARROW_PX, WIDE_PX])
def test_each_arm_of_a_grid_has_a_row_a_tile_and_a_bar_of_its_own(width_px: int) -> None:
    """Two that the drawing names alike would lie upon each other, or be added up."""
    result, _ = grid()
    longer = {"storage": "", "effective_cache_size": "1GB"}
    levels = [f"a-volume-of-the-catalogue-{name}-with-a-WAL-of-its-own" for name in ("gp3", "io1", "io2")]
    arms = tuple(
        arm.model_copy(update={"levels": longer | {"storage": level, "effective_cache_size": size}})
        for arm, level, size in zip(result.arms, levels * 3, ["2GB", "1GB", "1GB"] * 3, strict=True)
    )
    result = result.model_copy(update={"arms": arms})
    rows = interval_chart.specification(result, width_px=width_px)["datasets"]["rows"]
    assert len({row["label"] for row in rows}) == len(rows)
    cells = heat_map.specification(result, width_px=width_px)["datasets"]["cells"]
    assert len({(cell["row"], cell["column"]) for cell in cells}) == len(cells) == 6


def test_the_plan_of_a_large_grid_names_its_ends() -> None:
    arms = [f"io_method=worker clients={number}" for number in range(18)]
    said = plan_text(arms, 2, 48)
    assert said == f"18 arms, from {arms[0]} to {arms[-1]}; at most 2 blocks, 48 trials"
    assert plan_text(arms[:2], 2, 6).startswith(f"2 arms: {arms[0]} and {arms[1]};")


def test_an_excerpt_says_how_much_there_is() -> None:
    assert text.excerpt("abc", 3) == "abc"
    assert text.excerpt("x" * 5000, 10) == "xxxxxxxxxx … (cut: 5,000 characters in all)"


def test_a_part_of_the_arms_is_named_by_what_it_alone_shares() -> None:
    arms = examples.arms(LEVELS, STRATA)
    uring = [arm for arm in arms if arm.levels["io_method"] == "io_uring"]
    assert described(uring, arms) == "io_method=io_uring (3 arms)"
    assert described(uring[:1], arms) == "io_method=io_uring clients=1"
    assert described(uring[:2], arms) == "io_method=io_uring clients=1, io_method=io_uring clients=10"
    assert described([arm for arm in arms if arm not in uring], arms) == "the other 9 arms"
    assert described([arms[0], arms[3]], arms) == "io_method=sync clients=1 (2 arms)"
    assert described([arms[3]], arms) == "twin (io_method=sync clients=1)"


def test_facts_of_many_arms_are_grouped_by_value() -> None:
    stored = examples.stored(levels=LEVELS, strata=STRATA, blocks=2)
    [settings] = [
        table for table in recorded_facts.trial_tables(stored, "facts") if table.title == "settings"
    ]
    [row] = settings.differing
    assert row.holders == (
        ("sync", "io_method=sync (6 arms)"),
        ("worker", "io_method=worker (3 arms)"),
        ("io_uring", "io_method=io_uring (3 arms)"),
    )
    page = comparison.page_of(analyse(stored), stored).html()
    assert "io_method=worker (3 arms)" in page
