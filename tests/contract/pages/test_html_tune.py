"""The page of `tune` in a real browser: no table is cut and no word of a name torn, on telephones too."""

from pathlib import Path
from typing import Any

import tune_samples as samples
from browser_visits import look_at_widths
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
    return look_at_widths(browser, page, folder, PROBE, WIDTHS_PX)


def test_no_table_of_tune_is_cut_and_no_word_in_it_torn(browser: Path, tmp_path: Path) -> None:
    for seen in look(browser, page_of(answer()).html(), tmp_path).values():
        assert len(seen["cut"]) >= 4 and {*seen["cut"]} == {0}
        assert seen["torn"] == []
        # One word for one thing, as in the terminal.
        assert "as it was" in seen["text"] and "\tsame" not in seen["text"]
