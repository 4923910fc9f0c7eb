"""The page of `tune` in a real browser: no table is cut and no word of a name torn, on telephones too."""

import html as escaping
import json
import re
from pathlib import Path
from typing import Any

import tune_samples as samples
from browser_visits import visit
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.report.tune.tune_page import page_of

WIDTHS_PX = (390, 1400)
TITLE = "Index on order_lines(customer_id,happened_at DESC)"
# Runs in the page around the reports, whose own policy lets nothing run in them.
PROBE = """
const torn = (page, cell) => {
  const walker = page.createTreeWalker(cell, NodeFilter.SHOW_TEXT), words = [];
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = page.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((line) => Math.round(line.top)));
      if (lines.size > 1) words.push(word[0]);
    }
  }
  return words;
};
const look = (frame) => {
  const page = frame.contentDocument;
  return {
    cut: [...page.querySelectorAll('.scroll')].filter((node) => node.querySelector('table'))
      .map((node) => node.scrollWidth - node.clientWidth),
    torn: [...page.querySelectorAll('th, td')].flatMap((cell) => torn(page, cell)),
    text: page.body.innerText,
  };
};
addEventListener('load', () => {
  document.body.textContent = 'REPORT ' + JSON.stringify([...document.querySelectorAll('iframe')].map(look));
});
"""


def answer() -> TuneResult:
    """An answer with names as long as those of real tables, and figures as wide as they get."""
    known = samples.answer()
    plan = "Index Scan on events by events_customer_id_happened_at_idx: 5,423 of 17,596 ms, about 8 rows"
    statements = tuple(
        each.model_copy(update={"name": "customer-events", "plan": plan, "source_ms": 123.4})
        for each in known.symptom.statements
    )
    fixes = tuple(each.model_copy(update={"title": TITLE}) for each in known.fixes)
    told = tuple(each.model_copy(update={"name": "customer-events"}) for each in known.statements)
    slow = told[0].model_copy(update={"at_least": True, "seconds_before": 1234.5, "interval": (1234.0, None)})
    symptom = known.symptom.model_copy(update={"statements": statements})
    return known.model_copy(
        update={"symptom": symptom, "fixes": fixes, "statements": (*told, slow), "workload_gain": 1.06}
    )


def look(browser: Path, page: str, folder: Path) -> dict[int, dict[str, Any]]:
    """What the browser makes of the page in frames of each width."""
    source = escaping.escape(page, quote=True)
    frames = "".join(
        f'<iframe style="width:{width_px}px;height:2000px;border:0" srcdoc="{source}"></iframe>'
        for width_px in WIDTHS_PX
    )
    around = folder / "around.html"
    around.write_text(f'<!doctype html><meta charset="utf-8"><script>{PROBE}</script><body>{frames}', "utf-8")
    document, log = visit(browser, around, folder)
    assert "CONSOLE" not in log, log
    found = re.search(r"REPORT (\[.*\])", document, re.DOTALL)
    assert found, document[:500]
    return dict(zip(WIDTHS_PX, json.loads(escaping.unescape(found.group(1))), strict=True))


def test_no_table_of_tune_is_cut_and_no_word_in_it_torn(browser: Path, tmp_path: Path) -> None:
    for seen in look(browser, page_of(answer()).html(), tmp_path).values():
        assert len(seen["cut"]) >= 4 and {*seen["cut"]} == {0}
        assert seen["torn"] == []
        # One word for one thing, as in the terminal.
        assert "as it was" in seen["text"] and "\tsame" not in seen["text"]
