"""The flame graph in a real browser: drawn, searched, enlarged by keys, printed, and nothing is fetched."""

import html as escaping
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profile_for_tests import profiled

from browser_visits import visit
from pgassay.analysis.profile.flame import NODES_MAX
from pgassay.analysis.verdicts.compare import analyse
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment
from pgassay.record.stacks import STACKS_FILE, to_folded
from pgassay.report.compare.page import page_of

# Acts in the frame as a reader would, by events of the frame's own kind, and says what is there then.
PROBE = """
addEventListener('load', () => {
  const frame = document.querySelector('iframe'), view = frame.contentWindow, page = frame.contentDocument;
  const figure = page.querySelector('figure.flame'), canvas = figure.querySelector('.flame-canvas');
  const names = () => [...canvas.children].map((node) => node.frame.name).sort();
  const press = (key) => page.activeElement.dispatchEvent(
    new view.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const seen = { whole: names(), still: figure.querySelector('.still').getClientRects().length };
  const search = figure.querySelector('input');
  search.value = 'BT_';
  search.dispatchEvent(new view.Event('input', { bubbles: true }));
  seen.found = [...canvas.querySelectorAll('.found')].map((node) => node.frame.name).sort();
  seen.share = figure.querySelector('output').textContent;
  search.value = '';
  search.dispatchEvent(new view.Event('input', { bubbles: true }));
  canvas.querySelector('[tabindex="0"]').focus();
  press('ArrowDown');
  press('ArrowDown');
  seen.at = page.activeElement.frame.name;
  seen.details = figure.querySelector('.flame-details').textContent;
  press('Enter');
  seen.enlarged = names();
  seen.width = page.activeElement.style.width;
  press('Escape');
  seen.again = names();
  [...canvas.children].find((node) => node.frame.name === 'secure_read').click();
  seen.clicked = names();
  figure.querySelector('button').click();
  seen.reset = names();
  seen.overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  seen.resources = view.performance.getEntriesByType('resource').map((entry) => entry.name);
  document.body.textContent = 'SEEN ' + JSON.stringify(seen);
});
"""


def look(browser: Path, page: str, folder: Path) -> dict[str, Any]:
    """What the probe saw of the page in a frame of 600 pixels."""
    source = escaping.escape(page, quote=True)
    around = folder / "around.html"
    frame = f'<iframe style="width:600px;height:2000px;border:0" srcdoc="{source}"></iframe>'
    around.write_text(f'<!doctype html><meta charset="utf-8"><script>{PROBE}</script><body>{frame}', "utf-8")
    document, log = visit(browser, around, folder, "--host-resolver-rules=MAP * ~NOTFOUND")
    assert "CONSOLE" not in log, log
    found = re.search(r"SEEN (\{.*\})", document, re.DOTALL)
    assert found, document[:500]
    seen: dict[str, Any] = json.loads(escaping.unescape(found.group(1)))
    return seen


def test_the_graph_is_drawn_searched_and_enlarged(browser: Path, tmp_path: Path) -> None:
    stored = profiled(tmp_path / "results", rounds=2)
    seen = look(browser, page_of(analyse(stored), stored).html(), tmp_path)
    calls = ["_bt_compare", "_bt_search", "exec_simple_query", "hash_search_with_hash_value", "palloc"]
    assert set(calls) < set(seen["whole"])
    assert seen["still"] == 0
    assert seen["found"] == ["_bt_compare", "_bt_search"]
    # A function within another that was found counts once: 1500 of 7460 samples.
    assert 18 < float(seen["share"].split()[0]) < 22
    # The widest frame that PostgresMain calls is the query.
    assert seen["at"] == "exec_simple_query"
    assert re.match(
        r"exec_simple_query: \d+ µs in io_method=sync, \d+ µs in io_method=method1", seen["details"]
    )
    assert seen["enlarged"] == sorted([*calls, "PostgresMain", "all"])
    assert seen["width"] == "100%"
    assert seen["again"] == seen["whole"] == seen["reset"]
    assert "palloc" not in seen["clicked"] and "secure_read" in seen["clicked"]
    assert seen["overflow"] <= 0
    assert seen["resources"] == []


SAMPLES, DRAWN_MS_MAX = 1_000_000, 2000


def of_many_samples(folder: Path) -> StoredExperiment:
    """A profile of a million samples in 20,000 ways through the code, up to 40 deep."""
    stored = profiled(folder, rounds=2)
    assert stored.profile is not None
    random = np.random.default_rng(7)
    ways = []
    for depth in random.integers(2, 40, 20_000).tolist():
        calls = enumerate(random.geometric(0.5, depth).tolist())
        ways.append(";".join(["PostgresMain", *(f"function_{level}_{number}" for level, number in calls)]))
    for trial in stored.profile.trials:
        counts = random.multinomial(
            SAMPLES // len(stored.profile.trials) + 1, np.full(len(ways), 1 / len(ways))
        )
        stacks: dict[str, int] = {}
        for way, count in zip(ways, counts.tolist(), strict=True):
            stacks[way] = stacks.get(way, 0) + count
        path = trial.folder / layout.OBSERVATIONS_FOLDER / STACKS_FILE
        path.write_bytes(to_folded({way: count for way, count in stacks.items() if count}))
    return stored


@pytest.mark.slow
def test_a_million_samples_are_drawn_within_two_seconds(browser: Path, tmp_path: Path) -> None:
    stored = of_many_samples(tmp_path / "results")
    page = tmp_path / "report.html"
    page.write_text(page_of(analyse(stored), stored).html(), "utf-8")
    document, log = visit(browser, page, tmp_path, "--host-resolver-rules=MAP * ~NOTFOUND")
    assert "CONSOLE" not in log, log
    found = re.search(r'data-flames-ms="(\d+)"', document)
    assert found and int(found[1]) < DRAWN_MS_MAX
    frames = document.count('role="treeitem"')
    assert 500 < frames <= NODES_MAX + 1
