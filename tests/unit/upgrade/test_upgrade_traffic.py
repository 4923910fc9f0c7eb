"""Captured traffic on two versions: which family fails, returns other rows, is slower, or only seems so."""

from pathlib import Path

import pytest

from pgassay.errors import UsageError
from pgassay.model.result import ArmResult, CompareResult, StatementResult, Verdict
from pgassay.model.traffic.replay_result import ReplayFamily
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.upgrades.upgrade_answer import StatementVerdict, UpgradedStatement, UpgradeTraffic
from pgassay.model.workload import LoadSpec, Metric, ReplayOptions, Statement, WorkloadSpec
from pgassay.report.traffic.upgrade_page import page_of
from pgassay.trial.measure.replayed_load import kept_families
from pgassay.upgrade.empty_server import Refused
from pgassay.upgrade.statement_families import Plays, judged_families, whole_of
from pgassay.upgrade.traffic import _refuse_other_data
from pgassay.upgrade.upgrade_answer import answer_of
from pgassay.upgrade.version_texts import TELLS_VERSION

RATE = Metric(name="throughput", unit="statements/s", better="higher")
NAMES = ("look", "count", "pay")


def family(
    name: str, now: str = "", *, diverged: int = 0, values: int = 0, calls: int = 100
) -> ReplayedFamily:
    return ReplayedFamily(
        name=name if name in NAMES else "",
        text=name,
        calls=calls,
        diverged=diverged,
        other_values=values,
        seconds_captured=1.0,
        seconds=1.0,
        captured="SELECT 1" if now else "",
        now=now,
    )


def play(*families: ReplayedFamily) -> Replayed:
    return Replayed(
        statements=300, diverged=0, diverged_share=0.0, other_values=0, lacking=0, reordered=0, replaced=0,
        waited_s=0.0, sessions=4, sessions_lost=0, families=families,
    )  # fmt: skip


def arm(verdict: Verdict, ratio: float | None = None) -> ArmResult:
    interval = (ratio * 0.9, ratio * 1.1) if ratio else None
    return ArmResult(
        name=verdict, levels={}, ratio=ratio, interval=interval, verdict=verdict, meaningful=True, trials=4,
        failures=0, median=0.01, values=(0.01,),
    )  # fmt: skip


def compared(**verdicts: tuple[Verdict, float]) -> CompareResult:
    statements = tuple(
        StatementResult(name=name, cold=False, aio=False, arms=(arm("control"), arm(verdict, ratio)))
        for name, (verdict, ratio) in verdicts.items()
    )
    return CompareResult.model_construct(
        metric=RATE, statements=statements, arms=(arm("control"), arm("equivalent", 1.0)), blocks=4,
        explanations=(), warnings=(),
    )  # fmt: skip


WORKLOAD = WorkloadSpec(
    text="replay:monday",
    family="replay",
    kind="load",
    metric=RATE,
    writes=True,
    statements=tuple(Statement(name=name, sql=f"SELECT {name}") for name in NAMES),
    load=LoadSpec(
        script="replay",
        replay=ReplayOptions(
            folder="/monday", database="shop", identity="x", speed=None, statements=300, seconds_captured=9.0
        ),
    ),
)
EQUAL = compared(look=("equivalent", 1.0), count=("equivalent", 1.0), pay=("equivalent", 1.0))


def judged(
    before: list[Replayed], after: list[Replayed], result: CompareResult = EQUAL
) -> dict[str, UpgradedStatement]:
    found = judged_families(WORKLOAD, Plays(tuple(before), tuple(after)), result, {})
    return {each.name: each for each in found}


def test_an_error_of_the_new_version_is_a_failure_and_the_old_one_s_is_not() -> None:
    old = [play(family("look"), family("count", "error 42P01", diverged=100))] * 4
    new = [play(family("look", "error 42703", diverged=3), family("count", "error 42P01", diverged=100))] * 2
    found = judged(old, new)
    assert found["look"].verdict == "fails" and "6 of 200 executions" in found["look"].reason
    assert "error 42703" in found["look"].reason
    assert found["count"].verdict == "as fast"


def test_traffic_on_a_view_that_was_left_out_of_both_copies_fails() -> None:
    statement = WORKLOAD.statements[0].model_copy(update={"sql": "SELECT * FROM checkpoints"})
    asking = WORKLOAD.model_copy(update={"statements": (statement, *WORKLOAD.statements[1:])})
    played = [play(family("look", "error 42P01", diverged=100))]
    refused = [Refused("view", "public.checkpoints", "no column")]
    found = judged_families(asking, Plays(tuple(played), tuple(played)), EQUAL, {}, refused)[0]
    assert found.verdict == "fails" and "the view public.checkpoints, which the new" in found.reason


REFUSED = [Refused("view", "public.checkpoints", "no column")]
ON_VIEW = "SELECT * FROM checkpoints WHERE n = ?"


def first_play(*families: ReplayedFamily, share: float) -> Replayed:
    return play(*families).model_copy(update={"diverged_share": share})


def test_a_family_whose_values_are_not_shown_is_known_by_its_words() -> None:
    """Without a line of its own a family has no statement with values, which could be parsed."""
    played = [play(family("look"), family(ON_VIEW, "error 42P01", diverged=100))]
    found = judged_families(WORKLOAD, Plays(tuple(played), tuple(played)), EQUAL, {}, REFUSED)
    (told,) = (each for each in found if each.name == ON_VIEW)
    assert told.verdict == "fails" and "the view public.checkpoints, which the new" in told.reason
    other = [Refused("view", "public.check", "no column")]
    found = judged_families(WORKLOAD, Plays(tuple(played), tuple(played)), EQUAL, {}, other)
    assert ON_VIEW not in {each.name for each in found}


def test_what_fails_for_want_of_a_refused_view_is_no_sign_of_other_data() -> None:
    failed, after = family(ON_VIEW, "error 42P01", diverged=100), family("pay", "error 25P02", diverged=50)
    first = first_play(family("look"), failed, after, share=0.5)
    _refuse_other_data(first, WORKLOAD, REFUSED)
    # Without a view that is refused the same play is of other data.
    for refused in ((), [Refused("view", "public.another", "no")]):
        with pytest.raises(
            UsageError, match=r"already 50 % .*so the data are not those at its start: give a"
        ):
            _refuse_other_data(first, WORKLOAD, refused)


def test_other_data_beside_a_refused_view_are_told_with_what_may_have_been_lost_by_it() -> None:
    failed, lost = family(ON_VIEW, "error 42P01", diverged=100), family("pay", "UPDATE 0", diverged=50)
    first = first_play(family("look"), failed, lost, share=0.5)
    with pytest.raises(UsageError) as raised:
        _refuse_other_data(first, WORKLOAD, REFUSED)
    said = str(raised.value)
    assert "16.7 % of the captured time differs, not counting 1 statement on views that the new" in said
    assert "(50 of 100 pay: SELECT 1 then, UPDATE 0 now)" in said and "--copy folder:DATADIR" in said
    untimed = [each.model_copy(update={"seconds_captured": 0.0}) for each in first.families]
    counted = first.model_copy(update={"families": tuple(untimed)})
    with pytest.raises(UsageError, match=r"16.7 % of the captured time"):
        _refuse_other_data(counted, WORKLOAD, REFUSED)


def test_what_never_ran_on_either_version_is_not_run() -> None:
    played = [play(family("look", "error 25P02", diverged=100))] * 2
    found = judged(played, played)["look"]
    assert found.verdict == "not run" and found.reason.endswith("had failed, on the old version too")


def test_what_fails_since_its_transaction_had_failed_is_no_failure_of_its_own() -> None:
    old, new = [play(family("look"))] * 2, [play(family("look", "error 25P02", diverged=50))]
    found = judged(old, new)["look"]
    assert found.verdict == "not run" and "a statement before it had failed" in found.reason
    new = [play(family("look", "not executed, after an error before it", diverged=50))]
    assert judged(old, new)["look"].verdict == "not run"


def test_another_version_is_not_told_as_other_rows() -> None:
    old, new = [play(family("look"))] * 4, [play(family("look", values=100))] * 2
    assert judged(old, new)["look"].verdict == "other rows"
    statement = WORKLOAD.statements[0].model_copy(update={"sql": "SELECT version()"})
    asking = WORKLOAD.model_copy(update={"statements": (statement, *WORKLOAD.statements[1:])})
    found = judged_families(asking, Plays(tuple(old), tuple(new)), EQUAL, {})[0]
    assert found.verdict == "as fast" and TELLS_VERSION in found.reason


def test_other_rows_are_told_from_values_that_always_differ_and_from_chance() -> None:
    old = [play(family("look", values=100), family("count"), family("pay"))] * 4
    new = [play(family("look", values=100), family("count", values=100), family("pay", values=1))] * 2
    found = judged(old, new)
    assert found["look"].verdict == "as fast" and "differ in each run" in found["look"].reason
    assert found["count"].verdict == "other rows"
    assert "200 of 200 executions" in found["count"].reason and "0 of 400 on the old" in found["count"].reason
    assert found["pay"].verdict == "as fast"
    more = [play(family("look", "SELECT 2", diverged=100), family("count"), family("pay"))] * 2
    assert judged(old, more)["look"].verdict == "other rows"


def test_rows_that_differ_in_one_play_alone_may_be_chance() -> None:
    old = [play(family("count"))] * 4
    new = [play(family("count", "SELECT 2", diverged=90)), play(family("count"))]
    found = judged(old, new)["count"]
    assert found.verdict == "as fast" and "may be chance" in found.reason


def test_a_statement_that_comes_once_needs_several_plays() -> None:
    once = family("count", calls=1), family("count", "SELECT 2", diverged=1, calls=1)
    assert judged([play(once[0])] * 2, [play(once[1])])["count"].verdict == "as fast"
    assert judged([play(once[0])] * 8, [play(once[1])] * 4)["count"].verdict == "other rows"


def test_a_family_without_a_line_is_told_where_it_fails_alone() -> None:
    old = [play(family("look"), family("rare"), family("rare too"))] * 2
    new = [play(family("look"), family("rare", "error 42883", diverged=1), family("rare too"))]
    found = judged(old, new)
    assert found["rare"].verdict == "fails" and "rare too" not in found
    assert found["rare"].share == pytest.approx(1 / 3) and found["rare"].calls == 100


def test_a_family_that_only_the_plays_where_it_fails_have_kept_is_told() -> None:
    old, fails = play(family("look")), play(family("look"), family("rare", "error 42883", diverged=100))
    found = judged([old] * 2, [fails] * 2)
    assert found["rare"].verdict == "fails" and "200 of 200 executions" in found["rare"].reason
    # One that came out otherwise in a single play had come out as captured in the others.
    rows = play(family("look"), family("rare", "SELECT 2", diverged=100))
    assert "rare" not in judged([old] * 2, [rows, play(family("look"))])
    assert judged([old] * 2, [rows] * 2)["rare"].verdict == "other rows"


def test_a_record_keeps_every_family_that_came_out_otherwise() -> None:
    def of(number: int, **otherwise: int) -> ReplayFamily:
        return ReplayFamily(
            text=f"s{number}", calls=10, seconds_captured=1.0, seconds=1.0, example=None, times_ms=None,
            **({"diverged": 0, "other_values": 0, "diverged_s": 0.0} | otherwise),
        )  # fmt: skip

    families = [of(number) for number in range(300)] + [of(300, diverged=1), of(301, other_values=2), of(302)]
    kept, left_out = kept_families(families, {"s7"})
    assert [each.text for each in kept][:2] == ["s7", "s0"]
    assert {"s300", "s301"} < {each.text for each in kept}
    assert len(kept) == 1 + 100 + 2 and len(left_out) == 200 and left_out[-1].text == "s302"


def test_times_give_the_other_verdicts() -> None:
    result = compared(look=("slower", 0.5), count=("inconclusive", 0.9), pay=("faster", 2.0))
    plays = [play(*map(family, NAMES))]
    found = judged(plays * 2, plays, result)
    assert [found[name].verdict for name in NAMES] == ["slower", "not decided", "faster"]
    assert found["look"].ratio == 0.5 and found["look"].interval == pytest.approx((0.45, 0.55))


def answer(result: CompareResult, after: Replayed) -> tuple[str, str]:
    plays = Plays((play(*map(family, NAMES)),) * 2, (after,))
    traffic = whole_of(WORKLOAD, plays, result)
    found = answer_of(
        source=("shop", "17.10"), versions=("17.10", "18.6"), folder=Path("/x"), findings=(),
        measured=judged_families(WORKLOAD, plays, result, {}), mended={}, result=result, experiment="/x/e",
        margin=0.1, warnings=(), traffic=traffic,
    )  # fmt: skip
    return found.decision, found.headline


def test_the_first_line_is_the_decision() -> None:
    same = play(*map(family, NAMES))
    assert answer(EQUAL, same) == (
        "go",
        "From 17.10 to 18.6: 18 is safe for this traffic: 3 of 3 statement families the same within 10 %.",
    )
    slower = compared(look=("slower", 0.5), count=("inconclusive", 0.9), pay=("faster", 2.0))
    assert answer(slower, same) == (
        "look",
        "From 17.10 to 18.6: 18 is not safe for this traffic yet: 0 of 3 statement families the same within "
        "10 %, 1 slower, 1 faster, 1 not decided.",
    )
    unknown = compared(look=("equivalent", 1.0), count=("inconclusive", 0.9), pay=("equivalent", 1.0))
    assert "18 is safe for this traffic as far as decided: 2 of 3" in answer(unknown, same)[1]


def test_the_whole_says_what_was_played() -> None:
    plays = Plays((play(*map(family, (*NAMES, "rare"))),) * 2, (play(*map(family, NAMES)),))
    found = whole_of(WORKLOAD, plays, EQUAL)
    assert isinstance(found, UpgradeTraffic)
    assert (found.plays, found.untimed, found.untimed_share) == ((2, 1), 1, 0.25)
    assert (found.verdict, found.ratio, found.metric) == ("equivalent", 1.0, "throughput")
    cut = play(*map(family, NAMES)).model_copy(update={"families_left_out": 50, "seconds_left_out": 3.0})
    found = whole_of(WORKLOAD, Plays((cut,) * 2, (cut,)), EQUAL)
    assert (found.untimed, found.untimed_share) == (50, 0.5)


def test_statements_that_did_not_run_for_one_reason_have_one_line() -> None:
    stopped = "the schema can't be made in the new version"
    names = [(f"s{number}", stopped) for number in range(5)] + [("other", "it has no values")]
    statements = tuple(
        UpgradedStatement(name=name, sql="SELECT 1", verdict="not run", reason=reason)
        for name, reason in names
    )
    slow = UpgradedStatement(name="slow", sql="SELECT 2", verdict="slower", before_ms=1.25, after_ms=3690.0)
    made = answer_of(
        source=("shop", "17.10"), versions=("17.10", "18.6"), folder=Path("/x"), findings=(),
        measured=[slow, *statements], mended={}, result=None, experiment="", margin=0.1, warnings=(),
    )  # fmt: skip
    shown = page_of(made).terminal(width=200)
    assert f"5 statements: {stopped} (s0, s1, s2 …)" in shown and "other: it has no values" in shown
    assert shown.count("not run") == 1, "in the headline alone, and not in a row each"
    assert "1.25 ms" in shown and "3.690 s" in shown


@pytest.mark.parametrize(
    ("verdict", "interval", "is_told"),
    [
        ("not decided", None, False),
        ("not decided", (0.02, 150.0), False),
        ("not decided", (0.9, 3.0), True),
        ("faster", None, True),
    ],
)
def test_no_factor_is_told_before_there_is_something_to_tell(
    verdict: StatementVerdict, interval: tuple[float, float] | None, is_told: bool
) -> None:
    one = UpgradedStatement(
        name="look", sql="SELECT 1", verdict=verdict, ratio=1.73, interval=interval, before_ms=0.12,
        after_ms=0.121,
    )  # fmt: skip
    made = answer_of(
        source=("shop", "17.10"), versions=("17.10", "18.6"), folder=Path("/x"), findings=(), measured=[one],
        mended={}, result=None, experiment="", margin=0.1, warnings=(),
    )  # fmt: skip
    shown = page_of(made).terminal(width=200)
    assert ("1.73 × as fast" in shown) is is_told is ("medians of all trials" in shown)


def test_what_is_slower_is_so_many_times_as_slow_and_large_figures_have_no_exponent() -> None:
    result = compared(look=("slower", 0.287), count=("faster", 1271.4), pay=("slower", 0.8))
    plays = Plays((play(*map(family, NAMES)),) * 2, (play(*map(family, NAMES)),))
    whole = whole_of(WORKLOAD, plays, result)
    assert whole is not None
    traffic = whole.model_copy(update={"verdict": "slower", "ratio": 0.287, "interval": (0.25, 0.3)})
    made = answer_of(
        source=("shop", "17.10"), versions=("17.10", "18.6"), folder=Path("/x"), findings=(),
        measured=judged_families(WORKLOAD, plays, result, {}), mended={}, result=result, experiment="",
        margin=0.1, warnings=(), traffic=traffic,
    )  # fmt: skip
    shown = " ".join(page_of(made).terminal(width=300).split())
    assert "slower: look: 3.48 × as slow (between 3.17 and 3.87 × as slow)" in shown
    assert "18.6 is slower, 3.48 × as slow (between 3.33 and 4 × as slow)" in shown
    assert "1,271 × as fast between 1,144 and 1,399 × as fast" in shown
    assert "20 % slower" in shown and "e+" not in shown and "0.287" not in shown
