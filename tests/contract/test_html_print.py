"""The report on paper: what is folded on a screen is open there, and charts are still ones."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import report_examples as examples
from load_records import write_load
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.chart_library import chart_library
from pgassay.report.compare.page import page_of
from steps.browser import START_FLAGS

RULE = re.compile(r"details::details-content\{[^}]*\}")
RAW = '<details class="raw">'


@cache
def page() -> str:
    """A report without scripts, whose tables of trials, facts and plans are folded."""
    stored = examples.stored(blocks=20)
    return page_of(analyse(stored), stored).html()


def sheets(browser: Path, content: str, folder: Path) -> int:
    """How many sheets the page takes on paper."""
    folder.mkdir()
    source, paper = folder / "page.html", folder / "page.pdf"
    source.write_text(content, encoding="utf-8")
    flags = (f"--user-data-dir={folder / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    subprocess.run(
        [browser, *START_FLAGS, *flags, source.as_uri()], capture_output=True, timeout=120, check=True
    )
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


def test_on_paper_all_that_is_folded_is_open(browser: Path, tmp_path: Path) -> None:
    without_rule, count = RULE.subn("", page())
    assert count == 1
    printed = sheets(browser, page(), tmp_path / "printed")
    assert sheets(browser, without_rule, tmp_path / "folded") < printed


@pytest.mark.slow
def test_a_page_that_is_open_already_takes_as_many_sheets(browser: Path, tmp_path: Path) -> None:
    opened = sheets(browser, page().replace("<details>", "<details open>"), tmp_path / "opened")
    assert sheets(browser, page(), tmp_path / "printed") == opened


@pytest.mark.slow
def test_the_plans_json_is_left_out_on_paper(browser: Path, tmp_path: Path) -> None:
    printed = sheets(browser, page(), tmp_path / "printed")
    with_raw = page().replace("details.raw{display:none}", "").replace(RAW, "<details open>")
    assert sheets(browser, with_raw, tmp_path / "raw") > printed


@pytest.mark.slow
def test_a_live_page_prints_its_still_drawings(browser: Path, tmp_path: Path) -> None:
    """As many sheets as the page that runs no script."""
    stored = write_load(tmp_path / "load", strata=[""], levels=("sync", "worker", "io_uring"))
    result = analyse(stored)
    live = page_of(result, stored).html(chart_library=chart_library())
    still = page_of(result, stored).html()
    assert '<details><summary>io_method=io_uring</summary><figure id="timeline-3"' in still.replace("\n", "")
    assert sheets(browser, live, tmp_path / "live") == sheets(browser, still, tmp_path / "still")
