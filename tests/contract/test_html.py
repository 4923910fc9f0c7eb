"""The HTML report in a real browser: no network, no error, no overflow, nothing that runs."""

import html as escaping
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import report_examples as examples
from browser_visits import visit
from pgassay.analysis.diff.experiments import compare_experiments
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.arm import Arm
from pgassay.model.result import TwinResult
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of
from pgassay.report.diff import diff_page as diff
from processor_time import growth

WIDTHS_PX = (390, 1200)
LONG = f"'{examples.HOSTILE}{'it is long ' * 300_000}'"
# Runs in the page around the reports, whose own policy lets nothing run in them.
PROBE = """
const shown = (node) => node.getClientRects().length > 0;
const look = (frame) => {
  const page = frame.contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll('body *')].filter((node) => shown(node)
    && node.getBoundingClientRect().right > root.clientWidth + 1 && !node.closest('.scroll, pre'));
  const size = (node) => {
    const scale = node.ownerSVGElement ? node.getScreenCTM() : {a: 1, b: 0};
    return parseFloat(getComputedStyle(node).fontSize) * Math.hypot(scale.a, scale.b);
  };
  const texts = [...page.querySelectorAll('p, td, th, li, figure svg text')].filter(shown);
  const body = getComputedStyle(page.body);
  return {
    overflow: root.scrollWidth - root.clientWidth,
    wide: wide.map((node) => node.tagName + '.' + (node.getAttribute('class') || '')),
    font_min: Math.min(...texts.map(size)),
    scripts: page.scripts.length,
    text: page.body.innerText.slice(0, 3000),
    ink: body.color, paper: body.backgroundColor,
    images: page.querySelectorAll('img, iframe, object, embed').length,
    resources: page.defaultView.performance.getEntriesByType('resource').map((entry) => entry.name),
  };
};
addEventListener('load', () => {
  document.body.textContent = 'REPORT ' + JSON.stringify([...document.querySelectorAll('iframe')].map(look));
});
"""


def look(
    browser: Path, pages: dict[str, str], folder: Path, *flags: str
) -> dict[str, dict[int, dict[str, Any]]]:
    """What the browser makes of each page, by its name and the width of its frame; started once for all."""
    around = folder / "around.html"
    shape = "height:2000px;border:0"
    frames = "".join(
        f'<iframe style="width:{width_px}px;{shape}" srcdoc="{escaping.escape(page)}"></iframe>'
        for page in pages.values()
        for width_px in WIDTHS_PX
    )
    around.write_text(
        f'<!doctype html><meta charset="utf-8"><script>{PROBE}</script><body>{frames}', encoding="utf-8"
    )
    document, log = visit(browser, around, folder, *flags)
    assert "CONSOLE" not in log, log
    found = re.search(r"REPORT (\[.*\])", document, re.DOTALL)
    assert found, document[:500]
    seen = iter(json.loads(escaping.unescape(found.group(1))))
    return {name: {width_px: next(seen) for width_px in WIDTHS_PX} for name in pages}


def hostile_stored() -> StoredExperiment:
    """An experiment in which every text that comes from outside attacks the page, one at great length."""
    bad = examples.HOSTILE
    stored = examples.stored(
        levels=["sync", bad, "'onload='alert(2)", "x\u202ey"],
        blocks=5,
        failing=frozenset({1, 6}),
        reason=f"ERROR: {bad} <img src=http://example.invalid/x onerror=alert(3)>",
        statement_names=(bad, "sum_abalance", "count_filler"),
        title=bad,
        differing_plans=True,
        folder=Path(f"/results/{bad.replace('/', '_')}"),
    )
    trials = tuple(
        replace(trial, plans={name: examples.scan_plan(bad, condition=LONG) for name in trial.plans})
        for trial in stored.trials
    )
    arms = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": long_workload(arm)})})
        for arm in stored.experiment.arms
    )
    return replace(stored, experiment=stored.experiment.model_copy(update={"arms": arms}), trials=trials)


def long_workload(arm: Arm) -> WorkloadSpec:
    """The arm's workload with a statement of three megabytes, as its plan's condition is."""
    workload = arm.spec.workload
    statements = (Statement(name=examples.HOSTILE, sql=f"SELECT {LONG}"), *workload.statements[1:])
    return workload.model_copy(update={"statements": statements})


@cache
def hostile() -> str:
    """The page of that experiment."""
    stored = hostile_stored()
    return page_of(analyse(stored), stored).html()


@cache
def hostile_diff() -> str:
    """The page of that experiment beside another."""
    first, second = hostile_stored(), examples.stored(levels=["sync", examples.HOSTILE], blocks=4)
    return diff.page_of(compare_experiments(first, second)).html()


@cache
def long_names() -> str:
    """The page of a grid whose names have no place to break."""
    stored = examples.stored(levels=["sync", "w" * 120, "io_uring"], strata=["1", "8"], blocks=4)
    result = analyse(stored)
    return page_of(
        result.model_copy(update={"warnings": ("x" * 200,), "confounds": ("y " * 200,)}), stored
    ).html()


@cache
def usual(**changes) -> str:
    """The page of an analysed experiment."""
    stored = examples.stored(**changes)
    return page_of(analyse(stored), stored).html()


PAGES = {
    "usual": usual,
    "failures": lambda: usual(failing=frozenset({2, 9}), differing_plans=True),
    "nothing yet": lambda: usual(blocks=0, stopped="running"),
    "hostile": hostile,
    "hostile diff": hostile_diff,
    "long names": long_names,
}


class References(HTMLParser):
    """Everything in a page that could make a browser fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str | None]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            is_address = name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster")
            if is_address or name.startswith("on") or (value and "url(" in value):
                self.found.append((tag, name, value))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_refers_to_nothing_outside_itself(name: str) -> None:
    page = PAGES[name]()
    references = References()
    references.feed(page)
    assert not references.tags & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "audio",
        "video",
    }
    for tag, attribute, value in references.found:
        assert (value or "").startswith(("#", "data:", "url(#")), (tag, attribute, value)
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


@pytest.fixture(scope="module")
def seen(browser: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, dict]]:
    """Every page as the browser shows it, by name and width."""
    return look(browser, {name: make() for name, make in PAGES.items()}, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_a_page_is_readable_in_a_browser(seen: dict[str, dict[int, dict]], name: str, width_px: int) -> None:
    page = seen[name][width_px]
    assert page["overflow"] == 0
    assert page["wide"] == []
    assert page["font_min"] >= 11
    assert page["scripts"] == page["images"] == 0
    assert page["resources"] == []


def test_the_verdict_stands_above_everything(seen: dict[str, dict[int, dict]]) -> None:
    lines = [line for line in seen["usual"][390]["text"].splitlines() if line.strip()]
    assert lines[0] == "io_method on a cold full scan"
    assert lines[1].startswith("io_method=worker is ")
    assert lines[2].startswith("io_method=io_uring is ")


def test_hostile_names_are_shown_as_text(seen: dict[str, dict[int, dict]]) -> None:
    text = seen["hostile"][1200]["text"]
    assert examples.HOSTILE in text
    assert "\u202e" not in text


def test_a_long_statement_is_cut_and_its_length_said() -> None:
    page = hostile()
    assert len(page.encode()) < 3_000_000 < len(LONG)
    assert f"{len(LONG) + len('SELECT '):,} characters in all" in page


def test_a_page_opened_by_itself_says_nothing_on_the_console(browser: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(hostile(), encoding="utf-8")
    document, log = visit(browser, page, tmp_path, "--host-resolver-rules=MAP * ~NOTFOUND")
    assert "CONSOLE" not in log, log
    assert "</html>" in document


def test_the_page_follows_the_colour_scheme(
    seen: dict[str, dict[int, dict]], browser: Path, tmp_path: Path
) -> None:
    light = seen["usual"][1200]
    scheme = "--blink-settings=preferredColorScheme=0"
    dark = look(browser, {"usual": usual()}, tmp_path, scheme)["usual"][1200]

    def brightness(colour: str) -> float:
        return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3])

    assert brightness(light["ink"]) < brightness(light["paper"])
    assert brightness(dark["ink"]) > brightness(dark["paper"])


def test_the_page_holds_what_a_reader_asks_for() -> None:
    page = usual(failing=frozenset({2}), differing_plans=True, reason="the server was killed: signal 9")
    for content in (
        "How sure",
        "Every trial, in the order they ran",
        "the server was killed: signal 9",
        "2 different plans",
        "[AIO] Parallel Seq Scan on pgbench_accounts",
        "Effective settings",
        "1.25 GB",
        "device_fraction_min",
        "db-lab",
        "pgassay compare io_method=sync,worker,io_uring",
    ):
        assert content in page, content


def test_a_lying_twin_is_an_alarm() -> None:
    stored = examples.stored()
    result = examples.result(stored, twin=examples.lying_twin())
    page = page_of(result, stored).html()
    assert 'id="alarm"' in page
    fine = page_of(
        examples.result(stored, twin=TwinResult(ratio=1.0, interval=(0.9, 1.1), ok=None)), stored
    ).html()
    assert 'id="alarm"' not in fine


def test_two_hundred_trials_are_a_small_page_made_quickly() -> None:
    few, many = (examples.stored(blocks=blocks) for blocks in (10, 50))
    few_result, many_result = analyse(few), analyse(many)
    page = page_of(many_result, many).html()
    # Five times the trials: a quadratic loop would take 25 times as long.
    assert growth(lambda: page_of(few_result, few).html(), lambda: page_of(many_result, many).html()) < 12
    assert len(page.encode()) < 3_000_000
    assert "Table of 200 trials" in page
