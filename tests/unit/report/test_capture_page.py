"""A capture's summary in every form."""

import json
from pathlib import Path

import pytest

from pgassay.cli import main
from pgassay.model.traffic.capture_summary import CaptureFamily, CaptureMoment, CaptureSummary, Unreplayable
from pgassay.report.traffic.capture_page import FAMILIES_SHOWN, page_of


def summary(*texts: str) -> CaptureSummary:
    families = [
        CaptureFamily(
            text=text, calls=5, errors=1, rows=7, seconds=0.5, share=0.25, mean_ms=100.0, max_ms=250.0
        )
        for text in texts
    ]
    moments = [
        CaptureMoment(from_s=place / 4, sessions=2, active=place / 39, statements=1) for place in range(40)
    ]
    return CaptureSummary(
        folder="monday", source="proxy", server_version="PostgreSQL 18.6 on x86_64", seconds=10.0,
        started_at="2026-11-27T18:32:20.535+00:00", is_finished=True, bytes=1400, sessions=3, sessions_most=2,
        transactions=90, statements=100, errors=1, cancels=0, busy_s=2.0, users={"app": 3},
        databases={"shop": 3}, families=families, moments=moments,
        unreplayable=[Unreplayable(reason="no answer came", count=2, share=0.01)], notes=["cut off"],
    )  # fmt: skip


def test_each_form_says_what_was_captured() -> None:
    page = page_of(summary("SELECT ?", "UPDATE <t> SET a = 'é'"))
    for shown in (page.terminal(width=160), page.markdown(), page.html(), page.text()):
        words = " ".join(shown.split())
        assert "10.00 s from 2026-11-27 18:32:20 UTC, PostgreSQL 18.6" in words
        assert "3 sessions, at most 2 at once; 90 transactions; 100 statements (10/s)" in words
        for said in ("SELECT ?", "25.0 %", "100 ms", "250 ms", "note: cut off", "no answer came"):
            assert said in words, said
    assert "<t>" not in page.markdown() + page.html()
    assert json.loads(page.json())["families"][1]["text"] == "UPDATE <t> SET a = 'é'"


def test_the_time_of_pipelines_is_told_as_shared_out() -> None:
    plain = summary("SELECT ?")
    assert "pipelines" not in page_of(plain).terminal()
    words = " ".join(page_of(plain.model_copy(update={"pipelined_s": 0.5})).terminal().split())
    assert "500 ms of this (25 %) is of pipelines" in words


def test_a_log_is_not_said_to_have_no_cancel_requests() -> None:
    proxied = summary("SELECT ?")
    assert "0 cancel requests" in page_of(proxied).terminal(width=160)
    logged = page_of(proxied.model_copy(update={"source": "log"})).terminal(width=160)
    assert "1 error, cancel requests are not in a log" in logged and "0 cancel" not in logged


def test_the_row_of_bars_is_drawn_in_ascii_too() -> None:
    page = page_of(summary("SELECT ?"))
    assert "▁▁▁▂▂" in page.terminal() and "█" in page.markdown()
    assert page.text().isascii() and "\\u" not in page.text()
    assert "___....." in page.text() and "###" in page.text()


def test_statements_beyond_the_first_are_counted() -> None:
    page = page_of(summary(*(f"SELECT {number}" for number in range(FAMILIES_SHOWN + 2))))
    assert "2 others with 50.0 % of the time: --json has them" in page.terminal()
    assert "No statements." in page_of(summary()).terminal()


@pytest.mark.parametrize(
    "words",
    [
        ("dbname=x", "--out", "monday", "--markdown"),
        ("redact", "monday", "--out", "handout", "--html", "page.html"),
        ("--log", "postgresql.csv", "--out", "monday", "--text"),
    ],
)
def test_a_form_of_the_summary_is_refused_where_none_is_printed(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["capture", *words]) == 2
    assert "leave it out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
