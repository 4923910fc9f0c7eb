"""The documents, the schema and the pages of `pgassay probe` say what is there."""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import probe_samples as samples
from browser_visits import visit
from pgassay.cli import main
from pgassay.cli.chart_library import chart_library
from pgassay.model.probe import (
    CellSpec,
    ProbeResult,
)
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.probe.analysis.cell_figures import PARTS
from pgassay.probe.analysis.diff import compare_probes
from pgassay.report import schema
from pgassay.report.charts import probe_charts
from pgassay.report.probe import probe_page
from steps.browser import find_browser

DOCS = Path(__file__).resolve().parents[2] / "docs"
_SPAN = re.compile(r"`([^`\n]+)`")
HOSTILE = '<script>alert("1")</script> | \x1b[31m [x](y)'


def result(**changes: object) -> ProbeResult:
    return analyse_probe(samples.record(samples.Machine(), **changes))


def test_every_option_has_a_row_and_no_row_is_invented() -> None:
    lines = [line for line in (DOCS / "probe.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    documented = {name for line in lines for name in _SPAN.findall(line.split(" | ")[0])}
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices
    known = {name for each in commands["probe"]._actions for name in each.option_strings}
    assert {name for name in documented if name.startswith("--")} == known - {"-h", "--help"}


def test_every_engine_is_documented() -> None:
    words = set(_SPAN.findall((DOCS / "probe.md").read_text("utf-8")))
    engines = CellSpec.model_fields["engine"].annotation
    assert {"sync", "worker", "io_uring", "hybrid", "null"} <= set(engines.__args__) & words  # type: ignore[union-attr]


def test_the_schema_is_up_to_date_and_obeyed() -> None:
    assert schema.PROBE.file.read_text("utf-8") == schema.PROBE.text(), "run python -m pgassay.report.schema"
    for made in (result(), result(cells=(), checksum=None), result(path=HOSTILE)):
        document = json.loads(probe_page.page_of(made).json())
        jsonschema.validate(document, schema.PROBE.schema(), cls=jsonschema.Draft202012Validator)
        assert ProbeResult.model_validate(document) == made


def test_the_document_has_the_shape_that_was_asked_for() -> None:
    document = json.loads(probe_page.page_of(result()).json())
    assert document["schema"] == 1
    assert {
        "path",
        "device",
        "ceilings",
        "checksum_gb_s",
        "cells",
        "predictions",
        "recommend",
        "warnings",
    } <= set(document)
    assert document["device"]["read_ahead_kb"] == 128
    assert set(document["ceilings"]) == {
        "sequential_read_mb_s", "random_read_iops", "latency_us_depth_1", "fdatasync_per_s",
    }  # fmt: skip
    assert list(document["ceilings"]["random_read_iops"]) == ["1", "8", "32", "128"]
    assert set(document["ceilings"]["latency_us_depth_1"]) == {"p50", "p99"}
    assert set(document["predictions"][0]) == {"work", "method", "connections", "time_s", "interval"}
    assert set(document["recommend"]) == {
        "io_method", "io_workers", "io_min_workers", "io_max_workers", "effective_io_concurrency",
        "io_max_concurrency", "io_combine_limit", "read_ahead_kb",
    }  # fmt: skip
    for name, made in document["recommend"].items():
        values = {each["value"] for each in made["alternatives"]} | {made["default"]}
        assert made["reason"] and made["value"] in values, name


def test_the_page_for_a_terminal_says_all_of_it() -> None:
    made = result(missing={"io_uring": "io_uring is left out: type this."})
    page = probe_page.page_of(made).terminal()
    for words in (
        "Ceilings",
        "Predicted time",
        "Recommended",
        "All cells",
        "io_uring is left out",
        "10,000 index",
    ):
        assert words in page
    assert probe_page.page_of(made).terminal(unicode=False).isascii()
    comparison = compare_probes(made, result(), "old.json")
    assert "The new probe against the old one" in probe_page.page_of(made, comparison).terminal()
    nothing = probe_page.page_of(result(cells=(), checksum=None)).terminal()
    assert "/data" in nothing and "Predicted" not in nothing


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    device = {
        "name": HOSTILE,
        "disk": HOSTILE,
        "model": HOSTILE,
        "read_ahead_kb": 128,
        "file_system": HOSTILE,
    }
    made = result(path=HOSTILE, device=device, warnings=(HOSTILE,), missing={HOSTILE: HOSTILE})
    comparison = compare_probes(made, made, HOSTILE)
    assert "\x1b" not in probe_page.page_of(made, comparison).terminal()
    markdown = probe_page.page_of(made, comparison).markdown()
    assert "<script" not in markdown and "\x1b" not in markdown
    for line in markdown.splitlines():
        assert not line.startswith("|") or line.count("|") in {3, 4, 6, 7, 9}
    page = probe_page.page_of(made, comparison).html()
    assert "<script" not in page and "\x1b" not in page
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)


def test_the_page_holds_its_drawings_and_runs_only_what_it_names() -> None:
    made = result()
    names = [each.name for each in probe_charts.drawings(made)]
    assert names == list(probe_charts.NAMES)
    page = probe_page.page_of(made).html()
    assert page.count("<svg") == 2 * len(names)
    assert "script-src" not in page
    live = probe_page.page_of(made).html(chart_library="window.vegaEmbed = 1;")
    assert "script-src 'sha256-" in live and 'id="drawings"' in live
    empty = probe_page.page_of(result(cells=(), checksum=None)).html()
    assert "<svg" not in empty


@pytest.mark.parametrize("name", ["recommended", "knee"])
def test_the_knee_and_the_choice_are_marked_in_the_curves(name: str) -> None:
    machine = samples.Machine(device_mb_s=8000.0, latency_s=400e-6, cores=4)
    made = analyse_probe(samples.record(machine))
    drawing: Any = probe_charts.regrets(made, width_px=860)
    assert any(row["mark"] == name for row in drawing["datasets"]["rows"]) or name == "knee"
    assert {row["setting"] for row in drawing["datasets"]["rows"]} >= {"io_workers", "io_combine_limit"}


def test_where_the_time_goes_is_drawn_in_full() -> None:
    drawing: Any = probe_charts.splits(result(), width_px=860)
    shares: dict[str, float] = {}
    for row in drawing["datasets"]["rows"]:
        shares[row["place"]] = shares.get(row["place"], 0.0) + row["share"]
    assert len(PARTS) == len({row["part"] for row in drawing["datasets"]["rows"]})
    assert all(share == pytest.approx(1) for share in shares.values())


@pytest.mark.parametrize("major", [18, 19])
def test_settings_are_those_of_the_version_by_whose_rules_it_reads(major: int) -> None:
    machine = samples.Machine(device_mb_s=8000.0, latency_s=400e-6, cores=4)
    have = samples.facilities(cores=4, major=major)
    made = analyse_probe(samples.record(machine, have, major=major))
    workers = made.recommend["io_method"].model_copy(update={"value": "worker"})
    made = made.model_copy(update={"recommend": {**made.recommend, "io_method": workers}})
    page = probe_page.page_of(made)
    of_19, of_18 = ("io_min_workers", "io_max_workers"), ("io_workers",)
    own, others = (of_18, of_19) if major == 18 else (of_19, of_18)
    for shown in (page.terminal(), page.markdown(), page.html()):
        assert f"rules of PostgreSQL {major}" in shown and all(name in shown for name in own)
        assert not any(re.search(rf"\b{name}\b", shown) for name in others)
        assert "For PostgreSQL 19" not in shown or major == 19
    assert any(line.startswith(own[-1]) for line in probe_page.settings_lines(made))


def test_the_drawings_come_alive_in_a_browser(tmp_path: Path, require: Callable[..., None]) -> None:
    require("chromium")
    browser = find_browser()
    assert browser is not None
    page = tmp_path / "probe.html"
    page.write_text(probe_page.page_of(result()).html(chart_library=chart_library()), encoding="utf-8")
    document, log = visit(browser, page, tmp_path, "--virtual-time-budget=20000")
    assert re.findall(r'data-drawn="(\d+)"', document) == [str(len(probe_charts.NAMES))]
    assert "CONSOLE" not in log
