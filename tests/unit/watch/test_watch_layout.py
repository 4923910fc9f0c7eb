"""The screen and the lines of `pgassay watch`: they fit, say what matters first, and can't be steered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.watch.drawing.figures import bar, count
from pgassay.watch.drawing.interval_lines import HEADING_EVERY, PlainLines, last_lines
from pgassay.watch.drawing.layout import layout, plain
from watch_samples import HOSTILE, LOCK, RUNNING, VACUUM, experiment, sample, server


def screen(*samples: object, width: int = 100, height: int = 40, unicode: bool = True) -> str:
    return plain(layout(list(samples or (sample(),)), width, height, unicode=unicode))  # type: ignore[arg-type]


@given(width=st.integers(1, 200), height=st.integers(1, 60), of_experiment=st.booleans())
def test_it_never_exceeds_the_terminal(width: int, height: int, of_experiment: bool) -> None:
    state = experiment() if of_experiment else None
    lines = layout([sample(experiment=state, missing=("something: because",))], width, height)
    assert len(lines) <= height
    assert all(sum(len(content) for content, _ in line) <= width for line in lines)


def test_a_small_terminal_has_what_matters_most() -> None:
    shown = screen(width=80, height=24)
    for words in (
        "PostgreSQL 18.4  localhost:5432/shop",
        "connections 7.0 of 100: 5.0 active, 2.0 idle",
        "transactions 1234/s",
        "transactions 1234/s, 1 DEADLOCK",
        "WAL 3.15 MB/s",
        "CHECKPOINT",
        "3 readv submitted (1.00 MB)",
        "Lock:transactionid         asleep    active                  4.0 ████",
        "io worker               3   0.50   0.00",
        "UPDATE hot SET n = n + 1",
        "aqu-sz",
        "processors 2  user 50 %  system 25 %  iowait 5 %  steal 10 %  idle 10 %",
        "pressure cpu 40 %  io 20 %",
    ):
        assert words in shown, shown
    assert "autovacuum" not in shown, "what has ended and did nothing"


def test_waits_are_means_over_the_last_seconds_and_the_longest_bar_is_the_greatest() -> None:
    early = sample(0, server=server(waits=(LOCK.model_copy(update={"threads": 100.0}),)))
    calm = sample(30, server=server(waits=(RUNNING,)))
    busy = sample(31, server=server(waits=(RUNNING, LOCK)))
    lines = screen(early, calm, busy).splitlines()
    lock = next(line for line in lines if line.startswith("Lock:transactionid"))
    running = next(line for line in lines if line.startswith("no wait event"))
    assert "   2.0 " in lock
    assert "   1.0 " in running
    assert lock.count("█") == pytest.approx(2 * running.count("█"), abs=1)


def test_another_server_s_past_is_not_mixed_in() -> None:
    old = sample(0, server=server(pid=1, waits=(LOCK,)))
    assert "Lock:transactionid" not in screen(old, sample(1, server=server(waits=(RUNNING,), statements=())))


def test_what_is_not_seen_is_said_in_one_line() -> None:
    bare = server(connections=None, waits=None, threads=None, throughput=None, aios=None, statements=None)
    shown = screen(sample(server=bare, device=None, host=None, missing=("its processes: elsewhere", "b")))
    assert shown.splitlines()[-1] == "not seen: its processes: elsewhere; b"
    assert "threads" not in shown
    assert "not seen" not in screen()


def test_nothing_of_a_server_steers_the_terminal() -> None:
    statement = server().statements[0].model_copy(update={"query": HOSTILE, "event": HOSTILE})  # type: ignore[index]
    wait = LOCK.model_copy(update={"event": HOSTILE, "state": HOSTILE})
    hostile = server(name=HOSTILE, version=HOSTILE, statements=(statement,), waits=(wait,))
    state = experiment(title=HOSTILE, folder=HOSTILE)
    for unicode in (True, False):
        shown = screen(sample(server=hostile, experiment=state, missing=(HOSTILE,)), unicode=unicode)
        assert all(line.isprintable() for line in shown.split("\n"))
        assert unicode or shown.isascii()
    told = PlainLines().lines(sample(server=hostile, experiment=state))
    assert all(line.isprintable() for line in told)


def test_an_experiment_s_screen_says_where_it_stands() -> None:
    shown = screen(sample(experiment=experiment()))
    for words in (
        "/results/one",
        "io_method on full-scan",
        "block 3 of at most 20 · 8 trials, 1 not ok · at most 8 min 20 s left",
        "trial 2 of 3, attempt 2 (arm arm-002): 4 s of about 9 s",
        "io_method=worker at clients=8   1.200×     1.100 – 1.300  faster",
    ):
        assert words in shown, shown
    assert "between two trials" in screen(sample(experiment=experiment(trial=None)))


def test_a_line_for_each_interval_below_a_heading_that_comes_again() -> None:
    writer = PlainLines()
    lines = [line for second in range(HEADING_EVERY + 1) for line in writer.lines(sample(second))]
    headings = [place for place, line in enumerate(lines) if line.startswith("time")]
    assert headings == [0, HEADING_EVERY + 1]
    assert len({len(line) for line in lines}) == 1, "columns don't jump"
    values = dict(zip(lines[0].split(), lines[1].split(), strict=True))
    assert values["time"] == "00:00:00"
    assert (values["conn"], values["act"], values["wait"]) == ("7.0", "5.0", "4.0")
    assert (values["cpu"], values["queue"], values["r/s"], values["us"]) == ("1.25", "0.25", "100", "50")


def test_what_can_t_be_had_is_a_dash_in_a_line() -> None:
    bare = server(connections=None, waits=None, threads=None, throughput=None, aios=None, statements=None)
    heading, line = PlainLines().lines(sample(server=bare, device=None, host=None))
    assert set(line.split()[1:]) == {"-"}
    assert len(line) == len(heading)


def test_estimates_come_once_for_each_block() -> None:
    writer = PlainLines()
    lines = [line for _ in range(3) for line in writer.lines(sample(experiment=experiment()))]
    told = [line for line in lines if line.startswith("after block")]
    ended = PlainLines().lines(sample(experiment=experiment(is_running=False, stopped="decided")))
    assert ended == told, "what has ended has no line of its own"
    assert told == ["after block 2: io_method=worker at clients=8: 1.200× (1.100 – 1.300) faster"]


def test_a_command_that_tells_how_far_it_is_has_a_section_and_a_line() -> None:
    busy = sample(server=server(progress=(VACUUM,)))
    shown = screen(busy, width=120).splitlines()
    heading = next(place for place, line in enumerate(shown) if line.startswith("progress"))
    assert shown[heading + 1] == (
        "VACUUM (auto)        25 %  vacuuming indexes (pass 2)   accounts"
        "  (dead rows 16.0 MB of 64.0 MB, slept 2.5 s)"
    )
    assert PlainLines().lines(busy)[-1] == (
        "00:00:00 VACUUM (auto) accounts: vacuuming indexes (pass 2), 25 %"
        "  (dead rows 16.0 MB of 64.0 MB, slept 2.5 s)"
    )
    assert "progress" not in screen(sample(server=server(progress=()))), "nothing runs"


def test_progress_of_another_database_or_without_rights_says_so() -> None:
    elsewhere = VACUUM.model_copy(update={"relation": "16411", "phase": "", "done": None, "total": None})
    shown = screen(sample(server=server(progress=(elsewhere,))), width=120)
    assert "not shown to this role" in shown
    assert "16411 of shop" in shown
    hostile = VACUUM.model_copy(update={"relation": HOSTILE, "command": HOSTILE, "phase": HOSTILE})
    for line in (
        screen(sample(server=server(progress=(hostile,)))),
        *PlainLines().lines(sample(server=server(progress=(hostile,)))),
    ):
        assert all(each.isprintable() for each in line.split("\n"))


@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        ("decided", ["it has ended: every comparison is decided", "report: /results/one/report.html"]),
        ("interrupted", ["it was interrupted: continue with 'pgassay resume /results/one'"]),
        (
            "running",
            ["not running: it was killed, or has not started: continue with 'pgassay resume /results/one'"],
        ),
    ],
)
def test_the_last_words_say_where_the_report_is_or_how_to_go_on(stopped: str, words: list[str]) -> None:
    state = experiment(stopped=stopped, is_running=False, report="/results/one/report.html")
    assert last_lines(sample(experiment=state)) == words
    assert last_lines(sample(experiment=experiment())) == []
    assert last_lines(sample()) == []


def test_an_ended_experiment_without_its_page_says_how_to_make_it() -> None:
    state = experiment(stopped="blocks", is_running=False)
    assert last_lines(sample(experiment=state))[1] == "report: make it with 'pgassay report /results/one'"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.25, "0.2"),
        (99.96, "100"),
        (9999.0, "9999"),
        (12_345.0, "12.3k"),
        (2.5e8, "250M"),
    ],
)
def test_counts_are_short(value: float | None, shown: str) -> None:
    assert count(value) == shown


def test_bars_are_true_to_an_eighth_of_a_character() -> None:
    assert bar(1.0, 4.0, 8, unicode=True) == "██"
    assert bar(0.3, 4.0, 2, unicode=True) == "▏"
    assert bar(9.0, 4.0, 3, unicode=False) == "###"
    assert bar(0.0, 4.0, 3, unicode=True) == bar(1.0, 0.0, 3, unicode=True) == ""
