"""A claim of what no trial can have is refused or ended, and not run until the time is used up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plans_for_tests import make_arms, make_experiment

import report_examples as examples
from pgassay.analysis.claims.arm_claims import missing_for, refuse_unknown_arms
from pgassay.analysis.claims.judge_claims import judge, refuse_unfit
from pgassay.errors import UsageError
from pgassay.experiment.claims.claim_files import read_claims
from pgassay.model.further_results.claims import Claim, Source

CONTROL, ARM = "io_method=sync", "io_method=worker"
PAIR = {"arm": ARM, "against": CONTROL}


def claim(**changes: Any) -> Claim:
    fields = {"id": "one", "text": "…", "source": Source(title="A page"), "says": "faster", **PAIR}
    return Claim(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"figure": "latency-p99", "says": "less"}, "is of a load's transactions"),
        ({"figure": "rows-frozen", "says": "less"}, "is of maintenance commands"),
        ({"figure": "wal", "statement": "a", "says": "less"}, "leave statement out"),
        ({"figure": "hit-ratio", "table": "t", "statement": "a", "says": "less"}, "leave statement out"),
        ({"price": True, "says": "cheaper"}, "a price is of imitated volumes"),
    ],
)
def test_a_figure_that_the_workload_can_t_have_is_refused(changes: dict[str, Any], told: str) -> None:
    arms, _ = make_arms(["io_method=sync,worker"], workload="full-scan")
    refuse_unfit(claim(), arms, "mine.toml")
    with pytest.raises(UsageError, match=told):
        refuse_unfit(claim(**changes), arms, "mine.toml")


def test_latencies_of_a_load_are_there() -> None:
    arms, _ = make_arms(["io_method=sync,worker"], workload="select-only")
    refuse_unfit(claim(figure="latency-p99", says="less"), arms, "mine.toml")


@pytest.mark.parametrize("changes", [{}, {"against": "", "against_statement": "update-teller"}])
def test_a_load_does_not_time_its_statements(changes: dict[str, Any]) -> None:
    arms, _ = make_arms(["io_method=sync,worker"], workload="tpcb")
    with pytest.raises(UsageError, match="is a load, whose statements have no speed each"):
        refuse_unfit(claim(statement="update-account", **changes), arms, "mine.toml")
    counted = claim(statement="update-account", blocks=True, says="fewer")
    refuse_unfit(counted, arms, "mine.toml")


def test_statements_that_no_trial_has_timed_are_undecided() -> None:
    found = examples.stored(blocks=4)
    trials = tuple(
        replace(each, record=each.record.model_copy(update={"statements": ()})) for each in found.trials
    )
    stored = replace(found, trials=trials)
    of = claim(against="", statement="count_accounts", against_statement="count_filler")
    assert judge((of,), examples.result(found), stored)[0].verdict == "undecided"


@pytest.mark.parametrize(
    ("stratum", "told"),
    [
        ("", "stratum is missing: add one of jit=on; jit=off"),
        ("clients=4", "there is no stratum 'clients=4' in mine.toml: write one of jit=on; jit=off"),
    ],
)
def test_a_wrong_stratum_is_named_with_those_that_there_are(stratum: str, told: str) -> None:
    grid = make_experiment(["io_method=sync,worker", "jit=on,off"])
    with pytest.raises(UsageError, match=told):
        missing_for(claim(stratum=stratum), grid, "mine.toml", "correct the claim")


def test_a_stratum_where_there_is_one_factor_is_to_be_left_out() -> None:
    plain = make_experiment(["io_method=sync,worker"])
    with pytest.raises(UsageError, match="leave stratum out"):
        missing_for(claim(stratum="clients=4"), plain, "mine.toml", "correct the claim")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stratum": "clients=4"}, "no arm of mine.toml has the stratum 'clients=4'"),
        (
            {"arm": "", "against": "", "factor": "io_method", "against_factor": "jit", "says": "larger"},
            "jit is not a factor of mine.toml",
        ),
    ],
)
def test_a_listing_refuses_a_stratum_and_a_factor_that_are_not_there(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        refuse_unknown_arms(claim(**changes), [CONTROL, ARM], "mine.toml", "correct the claim")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"figure": "hit-ratio", "table": "order", "says": "less"},
            "hit-ratio of a table order; they read orders",
        ),
        ({"setting": "wrk_mem", "says": "equal"}, "wrk_mem is not among the settings"),
    ],
)
def test_what_no_trial_has_wants_no_more_trials(changes: dict[str, Any], told: str) -> None:
    row = {"relname": "orders", "heap_blks_hit": 5, "heap_blks_read": 1}
    counters = {"pg_statio_user_tables": [row]}
    found = examples.stored(blocks=4)
    trials = tuple(
        replace(each, record=each.record.model_copy(update={"counters": counters})) for each in found.trials
    )
    stored = replace(found, trials=trials)
    (judged,) = judge((claim(**changes),), examples.result(stored), stored)
    assert judged.verdict == "can't be tried here" and told in judged.why


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ('arm = "a=1"\nagainst = "a=1"', "arm and against are both a=1: name two arms"),
        ('arm = "a=1"\nstatement = "s"\nagainst_statement = "s"', "both s: name two statements"),
        ('arm = "a=1"\nagainst = "a=2"\ntable = "t"', "has table and no figure"),
        ('arm = "a=1"\nagainst = "a=2"\nagainst_factor = "b"', "has against_factor and no factor"),
    ],
)
def test_a_key_that_would_be_ignored_is_refused(tmp_path: Path, keys: str, told: str) -> None:
    file = tmp_path / "mine.toml"
    rest = 'id = "a"\ntext = "t"\nsource = { title = "A page" }\nsays = "faster"'
    file.write_text(f"[[claim]]\n{rest}\n{keys}\n")
    with pytest.raises(UsageError, match=told):
        read_claims(file)
