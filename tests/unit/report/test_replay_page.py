"""What a replay prints: the first lines, the table, the page with its drawings; hostile texts do no harm."""

import json

from pgassay.model.traffic.replay_result import (
    Percentiles,
    ReplayExample,
    ReplayFamily,
    ReplayPlayer,
    ReplayResult,
)
from pgassay.report.charts.replay_charts import drawings
from pgassay.report.traffic.replay_page import page_of
from pgassay.traffic.play_plan import diverged_share

PLAYER = ReplayPlayer(cpu_s=6.1, without_processor_s=0.1, late_p99_ms=0.2, late_ms=None, is_limit=False)
EVIL = "SELECT '</script><img src=x onerror=alert(1)>' | `x`\x1b[31m"


def times(scale: float) -> Percentiles:
    values = {"mean": 1.0, "p50": 0.8, "p90": 2.0, "p95": 3.0, "p99": 9.0, "p99.9": 20.0, "max": 31.0}
    return Percentiles.model_validate({name: scale * value for name, value in values.items()})


def family(text: str, *, diverged: int = 0, with_times: bool = True) -> ReplayFamily:
    return ReplayFamily(
        text=text,
        calls=200,
        diverged=diverged,
        other_values=0,
        seconds_captured=0.4,
        seconds=0.2,
        diverged_s=0.1,
        times_ms=times(1.0) if with_times else None,
        example=ReplayExample(captured="SELECT 1", now="error 42P01") if diverged else None,
    )


def result(*families: ReplayFamily, speed: float | None = 1.0) -> ReplayResult:
    return ReplayResult(
        folder="monday", server="copy:5432/shop", server_version="18.6", captured_version="17.10",
        speed=speed,
        seconds_captured=60.0, seconds=61.0, is_stopped=False, is_valid=True, bound=0.01, statements=1000,
        replayed=1000, diverged=3, diverged_share=0.002, other_values=5, lacking=0, reordered=2, replaced=7,
        waited_s=0.5, sessions=8, sessions_left_out=1, sessions_lost=0, failures={}, busy_captured_s=20.0,
        busy_s=10.0, latency_ms=times(2.0) if speed else None, behind_ms=None,
        player=PLAYER,
        families=list(families), notes=["the capture is incomplete"],
    )  # fmt: skip


def test_what_was_not_executed_makes_nothing_fast() -> None:
    # Half of 200 executions of 1 ms, after which the replay was stopped.
    half = family("SELECT one", diverged=100).model_copy(update={"seconds": 0.1, "seconds_captured": 0.2})
    stopped = result(half).model_copy(
        update={"is_stopped": True, "replayed": 100, "statements": 200, "busy_s": 0.1, "busy_captured_s": 0.2}
    )
    shown = page_of(stopped).terminal(width=200)
    row = next(line for line in shown.splitlines() if line.lstrip().startswith("SELECT one"))
    assert "1.00 ×" in row and "0.50 ×" not in shown


def test_a_capture_without_durations_is_judged_by_its_statements() -> None:
    # As of a log that has none.
    no_times = {"seconds_captured": 0.0, "diverged_s": 0.0}
    played = family("SELECT one", diverged=150).model_copy(update=no_times)
    share = diverged_share([played, played.model_copy(update={"diverged": 0})])
    assert share == 150 / 400
    shown = result(played).model_copy(update={"busy_captured_s": 0.0, "diverged_share": share})
    words = " ".join(page_of(shown).terminal(width=200).split())
    assert "37.50 % of the statements" in words and "more than 1.0 % of the statements differed" in words


WHOLE = result(family("SELECT one"), family("UPDATE two", diverged=3), family("COMMIT", with_times=False))


def test_the_first_lines_say_what_was_played_and_what_came_out() -> None:
    lines = page_of(WHOLE).terminal(width=200).splitlines()
    assert lines[0].startswith(
        "monday on PostgreSQL 18.6, copy:5432/shop, at speed 1: 1000 statements of 8 sessions"
    )
    head = "\n".join(lines[:12])
    for words in (
        "99.70 % came out as captured",
        "0.50 × (one replay",
        "p99 18",
        "The player: 0.10 of a core",
    ):
        assert words in head
    shown = "\n".join(lines)
    assert "3 of 200 × UPDATE two: SELECT 1 → error 42P01" in shown and "is incomplete" in shown
    assert page_of(WHOLE).terminal(width=200, unicode=False).isascii()


def test_a_replay_that_took_longer_says_what_its_sessions_waited_for() -> None:
    late = WHOLE.model_copy(update={"seconds": 100.0, "waited_s": 320.0})
    shown = page_of(late).terminal(width=300)
    assert "A session waited 40.00 s on average for what other sessions had done before it" in shown
    assert "the slowest took 31.0 ms: UPDATE two" in shown
    # Not where the statements themselves took longer, at the intended pace, or without a pace.
    for changes in ({"waited_s": 30.0}, {"speed": 0.6}, {"speed": None}):
        assert "A session waited" not in page_of(late.model_copy(update=changes)).terminal(width=300)


def test_every_form_has_the_statements() -> None:
    document = json.loads(page_of(WHOLE).json())
    assert [each["text"] for each in document["families"]] == ["SELECT one", "UPDATE two", "COMMIT"]
    markdown, page = page_of(WHOLE).markdown(), page_of(WHOLE).html()
    for shown in (markdown, page):
        assert "SELECT one" in shown and "0.50 ×" in shown
    assert page.count("<svg") >= 2 and "Statements: mean times then and now" in page


def test_drawings_are_of_what_was_timed_alone() -> None:
    assert [each.name for each in drawings(WHOLE)] == ["families", "latency"]
    assert [each.name for each in drawings(result(family("x"), speed=None))] == ["families"]
    assert list(drawings(result(family("x", with_times=False), speed=None))) == []
    assert "No statements" in page_of(result(speed=None)).terminal()


def test_a_statement_s_text_does_no_harm() -> None:
    page = page_of(result(family(EVIL, diverged=1))).html()
    assert "<img" not in page and "\x1b" not in page + page_of(result(family(EVIL))).terminal()
