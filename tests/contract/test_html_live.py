"""The report's live charts in a real browser: all drawn, nothing else runs, nothing is fetched."""

import html as escaping
import json
import re
from functools import cache
from pathlib import Path

import report_examples as examples
from browser_visits import look_at_widths, visit
from load_records import write_load
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.chart_library import chart_library
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of

# Runs in the page around the reports, which can look into them, but whose policy does not bind it.
PROBE = """
const shown = (node) => node.getClientRects().length > 0;
const look = (frame) => {
  const page = frame.contentDocument, root = page.documentElement;
  const figures = [...page.querySelectorAll('figure')];
  const sizes = [...page.querySelectorAll('.live svg text')]
    .filter((node) => node.textContent.trim() && shown(node))
    .map((node) => parseFloat(frame.contentWindow.getComputedStyle(node).fontSize)
      * Math.hypot(node.getScreenCTM().a, node.getScreenCTM().b));
  return {
    figures: figures.map((figure) => figure.id),
    drawn: figures.filter((figure) => figure.classList.contains('drawn')
      && figure.querySelectorAll('.live svg path, .live svg line').length > 2).map((figure) => figure.id),
    still: [...page.querySelectorAll('.still')].filter(shown).length,
    overflow: root.scrollWidth - root.clientWidth,
    font_min: Math.min(...sizes),
    attacked: Boolean(frame.contentWindow.attacked),
    resources: frame.contentWindow.performance.getEntriesByType('resource').map((entry) => entry.name),
    words: [...page.querySelectorAll('.live svg text')].map((node) => node.textContent).join(' '),
  };
};
const ready = (frame) => frame.contentDocument.documentElement.dataset.drawn;
const wait = () => {
  const frames = [...document.querySelectorAll('iframe')];
  if (frames.every(ready)) {
    document.body.textContent = 'REPORT ' + JSON.stringify(frames.map(look));
  } else {
    setTimeout(wait, 50);
  }
};
addEventListener('load', wait);
"""
WIDTHS_PX = (390, 1200)
ATTACK = "</script><script>window.attacked=1</script><!--<img src=x onerror=window.attacked=1>"


def live_page(stored: StoredExperiment) -> str:
    """The page with live charts."""
    return page_of(analyse(stored), stored).html(chart_library=chart_library())


@cache
def hostile() -> str:
    """The page of an experiment in which names attack the data of the charts."""
    return live_page(examples.stored(levels=["sync", ATTACK, "]]>'\"`${1}"], blocks=4, title=ATTACK))


def look(browser: Path, page: str, folder: Path) -> dict[int, dict]:
    """What the browser makes of the page in frames of each width, once all charts are drawn."""
    flags = ("--virtual-time-budget=20000", "--host-resolver-rules=MAP * ~NOTFOUND")
    return look_at_widths(browser, page, folder, PROBE, WIDTHS_PX, *flags)


def test_every_chart_of_a_load_in_a_grid_is_drawn(browser: Path, tmp_path: Path) -> None:
    stored = write_load(tmp_path / "load", strata=["1", "10", "50", "100"])
    seen = look(browser, live_page(stored), tmp_path)
    for width_px in WIDTHS_PX:
        page = seen[width_px]
        single = ["timeline-1", "timeline-2"]
        assert page["figures"] == ["grid", "intervals", "trials", "seconds", "latency", *single]
        assert page["drawn"] == page["figures"]
        assert page["still"] == 0
        assert page["overflow"] == 0
        assert page["font_min"] >= 11
        assert page["resources"] == []
        for words in ("clients=50", "device, MB/s", "checkpoint", "p99.9", "2.0"):
            assert words in page["words"]


def test_hostile_names_do_not_leave_the_data_of_the_charts(browser: Path, tmp_path: Path) -> None:
    seen = look(browser, hostile(), tmp_path)
    for page in seen.values():
        assert page["drawn"] == page["figures"]
        assert not page["attacked"]
        assert page["resources"] == []


def test_a_script_that_is_not_the_page_s_own_does_not_run(browser: Path, tmp_path: Path) -> None:
    """The policy holds even if a text came to stand in the page as markup."""
    attacked = hostile().replace("<main>", "<main><script>window.attacked=1</script>", 1)
    page = tmp_path / "attacked.html"
    page.write_text(attacked, "utf-8")
    _, log = visit(browser, page, tmp_path)
    assert "Content Security Policy" in log
    around = tmp_path / "frame.html"
    probe = "addEventListener('load',()=>{document.title='RAN '+Boolean(frames[0].attacked)})"
    around.write_text(
        f'<!doctype html><script>{probe}</script><iframe srcdoc="{escaping.escape(attacked, quote=True)}">',
        "utf-8",
    )
    document, _ = visit(browser, around, tmp_path)
    assert "RAN false" in document


def test_data_in_the_page_hold_no_sign_of_markup() -> None:
    page = hostile()
    data = re.search(r'<script type="application/json" id="drawings">(.*?)</script>', page, re.DOTALL)
    assert data
    assert not set(data.group(1)) & set("<>&\n")
    names = json.dumps(json.loads(data.group(1)))
    assert "window.attacked=1" in names
    assert page.count("<script") == 3


def test_two_hundred_trials_with_live_charts_are_a_small_page() -> None:
    stored = examples.stored(blocks=50)
    result = analyse(stored)
    page = page_of(result, stored).html(chart_library=chart_library())
    assert len(page.encode()) < 3_000_000
