"""The terminal's report, the Markdown report and the listing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.workload import Metric
from pgassay.report.compare import page as comparison
from pgassay.report.listings import ListedResult, results_page

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def both(width: int, **changes) -> tuple[str, str]:
    """An analysed experiment on a plain and on a colour terminal."""
    stored = examples.stored(**changes)
    result = analyse(stored)
    plain = comparison.page_of(result, stored).terminal(width=width, unicode=False)
    return plain, comparison.page_of(result, stored).terminal(width=width, colour=True)


def test_the_verdict_comes_first_and_the_command_last() -> None:
    plain, _ = both(80)
    lines = plain.splitlines()
    assert lines[0].startswith("io_method=worker is ")
    assert lines[-1].startswith("Again:  pgassay compare io_method=sync,worker,io_uring")
    assert "Folder: /results/2026-03-01-io_method" in plain
    assert re.search(r"io_method=io_uring +faster +1\.[34]\d\dx +1\.\d+ - 1\.\d+ +\S+ m?s +12", plain)
    assert "Twin: no difference" in plain


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_lines_fit_the_width(width: int) -> None:
    for page in both(width, failing=frozenset({3}), differing_plans=True):
        for line in ESCAPE.sub("", page).splitlines():
            assert len(line) <= width or line.startswith(("Folder:", "Again:")), line


def test_without_colour_the_page_is_ascii() -> None:
    plain, coloured = both(80, levels=["sync", "größe", "x\x1b[2Jy"])
    assert plain.isascii()
    assert "\x1b" not in plain
    assert "größe" in coloured
    assert "\x1b[2J" not in coloured
    assert ESCAPE.search(coloured)


def test_the_bar_stands_in_the_table_where_it_fits() -> None:
    narrow, _ = both(80)
    wide, _ = both(120)
    assert "against the margin" in wide
    assert "speed, log scale" in narrow
    row = next(line for line in wide.splitlines() if line.startswith(" io_method=worker "))
    assert re.search(r" :+\|:+ +[\[o][-o]*\]", row)


def test_before_any_block_there_is_no_verdict() -> None:
    plain, _ = both(80, blocks=0, stopped="running")
    assert plain.startswith("No verdict yet")
    assert "resume" in plain
    assert "none yet" in plain
    assert "Statements" not in plain


def test_failures_and_plans_are_said() -> None:
    plain, _ = both(100, failing=frozenset({3}), differing_plans=True)
    assert "1 trial FAILED" in plain
    assert "(1 failed)" in plain
    assert "Parallel Index Only Scan using pgbench_accounts_pkey" in plain


def test_arms_stand_by_stratum_with_their_compared_levels() -> None:
    plain, _ = both(100, blocks=5, strata=["1", "8"])
    assert plain.index("At clients=1") < plain.index("At clients=8")
    first = plain[plain.index("At clients=1") : plain.index("At clients=8")]
    assert "clients=8" not in first.split("\n", 1)[1].rsplit("Arms", 1)[0]


def test_a_withheld_verdict_and_a_lying_twin_are_loud() -> None:
    stored = examples.stored()
    arms = examples.result(stored).arms
    withheld = arms[1].model_copy(update={"withheld": True, "verdict": "inconclusive"})
    result = examples.result(stored, arms=(arms[0], withheld), twin=examples.lying_twin())
    plain = comparison.page_of(result, stored).terminal(width=80, unicode=False)
    assert "withheld" in plain
    assert "DIFFERS" in plain


def test_a_unit_other_than_seconds_stands_in_the_heading() -> None:
    stored = examples.stored()
    metric = Metric(name="throughput", unit="transactions/s", better="higher")
    arms = tuple(arm.model_copy(update={"median": 712.34}) for arm in examples.result(stored).arms)
    plain = comparison.page_of(examples.result(stored, metric=metric, arms=arms), stored).terminal(
        width=80, unicode=False
    )
    table = plain[plain.index("\nArms") : plain.index("\nStatements")]
    assert "transactions/s" in table
    assert re.search(r"- \d\.\d+ +712\.3 +12\n", table)
    assert "712.3 transactions/s" not in table


def test_a_small_time_is_ascii_in_a_plain_page() -> None:
    stored = examples.stored()
    arms = tuple(arm.model_copy(update={"median": 0.000875}) for arm in examples.result(stored).arms)
    assert "875 us" in comparison.page_of(examples.result(stored, arms=arms), stored).terminal(
        width=80, unicode=False
    )


def test_markdown_shows_names_as_they_are() -> None:
    name = "a|b_ `c` *d* @everyone #7 <img src=x>"
    stored = examples.stored(levels=["sync", name])
    page = comparison.page_of(analyse(stored), stored).markdown()
    rows = [line for line in page.splitlines() if line.startswith("| io_method=a")]
    assert rows
    assert all(row.count("|") == 7 for row in rows)
    table = page[: page.index("Again:")]
    for markup in ("<img", "*d*", "@everyone", "#7"):
        assert markup not in table, markup


def test_markdown_holds_verdict_arms_and_command() -> None:
    stored = examples.stored(failing=frozenset({3}))
    page = comparison.page_of(analyse(stored), stored).markdown()
    assert page.startswith("**io_method=worker is ")
    assert "| io_method=io_uring | faster | 1.4" in page or "| io_method=io_uring | faster | 1.3" in page
    assert "(1 failed)" in page
    assert page.rstrip().endswith("--scale 100`")


def test_the_listing_is_in_order_of_start_and_survives_a_damaged_folder() -> None:
    rows = [
        ListedResult("r/b", "2026-03-02T08:00:00+00:00", "b", "1 block", "max-time"),
        ListedResult(
            "r/a", "2026-03-01T08:00:00+00:00", "a " * 60, "12 blocks", "decided", ("x.", "y.", "z.")
        ),
        ListedResult("r/c", error="r/c/experiment.json is damaged"),
    ]
    made = results_page(rows)
    lines = made.terminal(unicode=False).splitlines()
    assert [line.split()[0] for line in lines[::2]] == ["r/c", "r/a", "r/b"]
    assert "is damaged" in lines[1]
    assert lines[3].strip() == "x. (and 2 more)"
    assert "12 blocks" in lines[2]
    assert "1 block " in lines[4]
    assert lines[5].strip() == "no verdict yet"
    assert all(line.isascii() for line in lines)
    assert "| r/b | 2026-03-02 08:00 | 1 block | time limit | b | no verdict yet |" in made.markdown()
    assert json.loads(made.json())["results"][1]["verdict"] == ["x.", "y.", "z."]
    assert "pgassay compare" in results_page([]).terminal()


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        ({"a": "memory 512MB, cpus 0.5", "b": "memory 512MB, cpus 0.5"}, "memory 512MB, cpus 0.5"),
        ({"a": "memory 512MB", "b": "memory 2GB"}, "memory 512MB; memory 2GB (by arm)"),
        ({}, ""),
    ],
)
def test_caps_are_named_in_every_format(caps: dict[str, str], said: str) -> None:
    plain = examples.stored()
    environment = plain.experiment.environment.updated(caps=caps)
    stored = replace(plain, experiment=plain.experiment.model_copy(update={"environment": environment}))
    result = examples.result(stored)
    shown = comparison.page_of(result, stored).terminal(width=200, unicode=False)
    assert (f"Caps on the server: {said}." in shown) == bool(said)
    assert ("caps on the server" in shown.lower()) == bool(said)
    assert (f"caps on the server: {said}" in comparison.page_of(result, stored).markdown()) == bool(said)
    assert (f"Caps on the server: {said}." in comparison.page_of(result, stored).html()) == bool(said)


def test_bars_below_a_narrow_table_tell_long_names_apart() -> None:
    """Levels often differ at the end of the name, so that both ends of it are kept."""
    levels = [
        "a-rather-long-level-number-one",
        "a-rather-long-level-number-two",
        "a-rather-long-level-number-ten",
    ]
    stored = examples.stored(levels=levels, blocks=6)
    page = comparison.page_of(analyse(stored), stored).terminal(width=80, unicode=False)
    rows = [line.split()[0] for line in page.splitlines() if line.startswith(" io_met")]
    assert len(set(rows)) >= 2
    assert any(name.endswith("two") for name in rows) and any(name.endswith("ten") for name in rows)


@pytest.mark.parametrize("levels", [2, 3, 7, 12])
def test_a_comparison_ends_with_ten_lines_and_says_where_the_rest_is(levels: int) -> None:
    stored = examples.stored(levels=[f"level{each}" for each in range(levels)])
    said = comparison.brief_page(analyse(stored), stored).terminal(width=140).splitlines()
    assert len(said) <= 10
    assert said[-1].startswith("More: pgassay report ") and said[-1].endswith("(or --details).")
    assert any("12 blocks of a trial of each arm" in line for line in said)
    assert ("Median of" in " ".join(said)) == (levels < 12)
    # Each figure has a unit of its own, which may be ms.
    assert "(s), " not in " ".join(said)


def test_the_ten_lines_say_what_a_shared_server_shares_and_what_is_to_be_doubted() -> None:
    stored = examples.stored()
    found = analyse(stored)
    arms = tuple(arm.model_copy(update={"starts": 12}) for arm in found.arms)
    doubted = found.model_copy(
        update={"arms": arms, "failures": 2, "warnings": ("one",), "twin": examples.lying_twin()}
    )
    said = " ".join(comparison.brief_page(doubted, stored).terminal(width=100).split())
    assert "12 starts of one server, in which all arms took turns and share caches and statistics" in said
    assert "2 trials FAILED." in said and "DIFFERS from the control" in said
    assert "Before you rely on this, read: 1 warning: one" in said


def test_a_folder_wider_than_the_terminal_stays_in_one_piece() -> None:
    folder = "/backup/" + "experiments/" * 10 + "last"
    stored = replace(examples.stored(), folder=Path(folder))
    said = comparison.brief_page(analyse(stored), stored).terminal(width=60)
    assert any(folder in line for line in said.splitlines())
    assert all(len(line) <= 60 for line in said.splitlines() if folder not in line)
