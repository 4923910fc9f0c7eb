"""Published claims: how they are read, and which verdict follows from an experiment's own."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_examples as examples
from pgassay.analysis.claims import arm_claims
from pgassay.analysis.claims.arm_claims import missing_condition
from pgassay.analysis.claims.claim_blocks import is_open
from pgassay.analysis.claims.judge_claims import judge
from pgassay.errors import UsageError
from pgassay.experiment.claims.claim_files import read_claims
from pgassay.experiment.planning.experiment_file import read_document, read_file
from pgassay.factors.registry import parse_factors
from pgassay.model.experiment import MachineFacts
from pgassay.model.further_results.claims import Claim, JudgedClaim, Needs, Source
from pgassay.workloads.registry import parse_workload
from project_files import ROOT

STORED = examples.stored()
CONTROL, ARM = (arm for arm in examples.result(STORED).arms[:2])
SHIPPED = sorted(file for file in (ROOT / "examples").glob("*.toml") if "claim" in read_document(file))


def claim(**changes: Any) -> Claim:
    fields = {"id": "one", "text": "…", "source": Source(title="A page"), "says": "faster"}
    return Claim(**({"arm": ARM.name, "against": CONTROL.name} | fields | changes))


def judged(of: Claim, **changes: Any) -> JudgedClaim:
    arm = ARM.model_copy(update=changes)
    (found,) = judge((of,), examples.result(STORED, arms=(CONTROL, arm)), STORED)
    return found


FAR = {"verdict": "faster", "ratio": 1.4, "interval": (1.35, 1.5)}


@pytest.mark.parametrize(
    ("of", "arm", "verdict"),
    [
        ({"band": (1.1, 1.3)}, {"verdict": "faster", "ratio": 1.2}, "reproduced"),
        ({"band": (1.1, 1.3)}, FAR, "same direction, other size"),
        ({"band": (1.1, 1.3)}, {**FAR, "interval": (1.25, 1.5)}, "reproduced"),
        ({}, {"verdict": "faster", "ratio": 9.0}, "reproduced"),
        ({}, {"verdict": "equivalent", "ratio": 1.0}, "no difference here"),
        ({}, {"verdict": "slower", "ratio": 0.8}, "refuted"),
        ({}, {"verdict": "inconclusive", "ratio": 1.2}, "undecided"),
        ({}, {"verdict": "faster", "ratio": 1.2, "withheld": True}, "undecided"),
        ({"says": "equal"}, {"verdict": "equivalent", "ratio": 1.0}, "reproduced"),
        ({"says": "equal"}, {"verdict": "slower", "ratio": 0.8, "meaningful": True}, "refuted"),
        ({"says": "equal"}, {"verdict": "slower", "ratio": 0.98, "meaningful": False}, "undecided"),
        ({"needs": Needs(elsewhere="Amazon RDS")}, {}, "can't be tried here"),
    ],
)
def test_the_verdict_follows_from_that_of_the_arm(of: dict, arm: dict, verdict: str) -> None:
    found = judged(claim(**of), **arm)
    assert found.verdict == verdict and found.why


@given(
    says=st.sampled_from(["faster", "slower", "equal"]),
    verdict=st.sampled_from(["faster", "slower", "equivalent", "inconclusive"]),
    ratio=st.floats(0.01, 100),
    is_withheld=st.booleans(),
)
def test_a_direction_is_claimed_only_where_the_arm_has_it(
    says: str, verdict: str, ratio: float, is_withheld: bool
) -> None:
    found = judged(
        claim(says=says), verdict=verdict, ratio=ratio, withheld=is_withheld, meaningful=True
    ).verdict
    shown = {"equal": "equivalent"}.get(says, says)
    assert (found == "reproduced") == (verdict == shown and not is_withheld)
    opposite = {"faster": ("slower",), "slower": ("faster",), "equal": ("faster", "slower")}[says]
    assert (found == "refuted") == (verdict in opposite and not is_withheld)


def test_a_machine_too_small_is_said() -> None:
    small = MachineFacts(cores_online=2, memory_bytes=8 * 10**9)
    assert "96 processors" in missing_condition(claim(needs=Needs(cores=96)), small)
    assert "64 GB" in missing_condition(claim(needs=Needs(memory_gb=64)), small)
    assert missing_condition(claim(needs=Needs(cores=2, memory_gb=8)), small) == ""


def test_the_reason_says_the_size_here() -> None:
    assert judged(claim(), verdict="faster", ratio=1.2).why.startswith("20 % faster here")
    assert judged(claim(), verdict="slower", ratio=0.25).why.startswith("4 × as slow here, the opposite")


def test_a_level_that_was_skipped_is_said_with_its_reason() -> None:
    reason = "volume:local was skipped: this machine can imitate 25,000 reads a second"
    experiment = STORED.experiment.model_copy(update={"skipped": (reason,)})
    of = claim(arm="storage=volume:local")
    (found,) = judge((of,), examples.result(STORED), replace(STORED, experiment=experiment))
    assert (found.verdict, found.why) == ("can't be tried here", reason)


@pytest.mark.parametrize(
    ("arm", "skipped", "found"),
    [
        ("io_workers=1", "io_workers=16 was skipped: too many", False),
        ("io_workers=16", "io_workers=16 was skipped: too many", True),
        ("version=17.1", "version=17.10 was skipped: no build", False),
        ("version=17", "version=17, io_method=worker was skipped: 17 has none", True),
    ],
)
def test_an_arm_is_not_skipped_with_one_whose_name_begins_alike(arm: str, skipped: str, found: bool) -> None:
    assert arm_claims._is_of(arm, skipped) is found


def test_a_verdict_that_takes_more_blocks_says_how_many() -> None:
    arm = {"verdict": "inconclusive", "ratio": 1.2, "blocks": 1, "forecast": None}
    assert "it has 1 block, and a verdict takes" in judged(claim(), **arm).why


def test_a_size_at_the_edge_of_its_band_gets_some_more_blocks() -> None:
    banded = claim(published=1.2, band=(1.1, 1.3))
    at_edge = judged(banded, verdict="faster", ratio=1.25, interval=(1.15, 1.35))
    within = judged(banded, verdict="faster", ratio=1.2, interval=(1.15, 1.25))
    apart = judged(banded, verdict="faster", ratio=1.5, interval=(1.4, 1.6))
    assert [is_open(banded, each, 8) for each in (at_edge, within, apart)] == [True, False, False]
    assert not is_open(banded, at_edge, 20)
    assert is_open(banded, judged(banded, verdict="inconclusive"), 1000)


RATIOS = st.floats(0.5, 2.0)
WIDTHS = st.floats(1.0, 1.2)


@given(first=RATIOS, second=RATIOS, widths=st.tuples(WIDTHS, WIDTHS, WIDTHS, WIDTHS))
def test_an_arm_against_another_is_judged_by_the_ends_of_both_intervals(
    first: float, second: float, widths: tuple[float, float, float, float]
) -> None:
    """Wherever the truths lie in the intervals, their ratio lies in the answer's and its word is true."""
    ends = (first / widths[0], first * widths[1]), (second / widths[2], second * widths[3])
    arms = tuple(
        ARM.model_copy(update={"name": f"work_mem={name}", "ratio": ratio, "interval": interval})
        for name, ratio, interval in (("8MB", first, ends[0]), ("16MB", second, ends[1]))
    )
    planned = [arm for arm in STORED.experiment.arms if arm.role == "control"]
    planned += [arm for arm in STORED.experiment.arms if arm.role == "arm"][:1] * 2
    names = [CONTROL.name, *(arm.name for arm in arms)]
    named = tuple(arm.model_copy(update={"name": name}) for arm, name in zip(planned, names, strict=True))
    experiment = STORED.experiment.model_copy(update={"arms": named})
    result = examples.result(STORED, arms=(CONTROL, *arms))
    asked = claim(arm="work_mem=8MB", against="work_mem=16MB")
    stored = replace(STORED, experiment=experiment)
    (found,) = judge((asked,), result, stored)
    assert found.interval is not None and found.interval[0] is not None and found.interval[1] is not None
    for one, other in itertools.product(ends[0], ends[1]):
        assert found.interval[0] <= one / other * (1 + 1e-12)
        assert found.interval[1] >= one / other * (1 - 1e-12)
        if found.verdict == "reproduced":
            assert one > other
        if found.verdict == "refuted":
            assert one < other
        if found.verdict == "no difference here":
            assert max(one / other, other / one) <= 1 + result.margin + 1e-9
    with pytest.raises(UsageError, match="a claim on a statement is against the control"):
        judge((asked.model_copy(update={"statement": "any"}),), result, stored)


def test_another_experiment_is_refused() -> None:
    for other in ({"against": "work_mem=1MB"}, {"arm": "work_mem=1MB"}, {"statement": "none-such"}):
        with pytest.raises(UsageError, match="name the folder of an experiment of this file"):
            judged(claim(**other))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('says = "better"', "says"),
        ('says = "equal"\npublished = 1.0', "leave published and band out"),
        ('says = "faster"\npublished = 0.5', "write one above 1"),
        ('says = "faster"\npublished = 2.0\nband = [3.0, 4.0]', "not around 2"),
        ('says = "faster"\nspeed = 2', "speed"),
        ('says = "faster"\nblocks = true', "write fewer or more or equal"),
        ('says = "fewer"\nblocks = true\npublished = 2.0', "write one between 0 and 1"),
        ('says = "equal"\nblocks = true\nsetting = "jit"', "keep one of them"),
        ('says = "differs"\nsetting = "jit"\nstatement = "a"', "leave statement and published out"),
        ('says = "limited"\ncause = "storage-throughput"', "leave against out"),
        ('says = "limited"\ncause = "storage"', "no cause 'storage'"),
        ('says = "faster"\nagainst_statement = "a"\nstatement = "b"', "leave against out"),
        ('says = "more"\nfigure = "speed"', "there is no figure 'speed': write one of latency-mean"),
        ('says = "more"\nfigure = "hit-ratio"', "hit-ratio is of a table: add table"),
        ('says = "more"\nfigure = "wal"\ntable = "t"', "wal is not of one table: leave table out"),
        ('says = "more"\nfigure = "sort-method"', "write differs or equal"),
        ('says = "faster"\nprice = true', "write cheaper or dearer or equal"),
        ('says = "cheaper"\nprice = true\npublished = 1.5', "write one between 0 and 1"),
        ('says = "ordered"\norder = ["a=1", "a=2"]', "leave arm and against out"),
    ],
)
def test_what_is_wrong_in_a_claim_is_named(tmp_path: Path, lines: str, told: str) -> None:
    file = tmp_path / "claims.toml"
    rest = 'id = "one"\ntext = "t"\nsource = { title = "A page" }\narm = "a=1"\nagainst = "a=2"\n'
    file.write_text(f"[[claim]]\n{rest}{lines}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        read_claims(file)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('says = "ordered"\norder = ["a=1"]', "needs two arms or more"),
        ('says = "ordered"\norder = ["a=1", "a=1"]', "each named once"),
        ('says = "ordered"\norder = ["a=1", "a=2"]\npublished = 2', "leave statement and published out"),
        ('says = "larger"\nfactor = "a"', "add against_factor"),
        ('says = "faster"\nagainst = "a=1"', "lacks arm"),
    ],
)
def test_a_claim_that_names_no_arm_is_of_an_order_or_of_factors(
    tmp_path: Path, lines: str, told: str
) -> None:
    file = tmp_path / "claims.toml"
    rest = 'id = "one"\ntext = "t"\nsource = { title = "A page" }\n'
    file.write_text(f"[[claim]]\n{rest}{lines}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        read_claims(file)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_claims_of_an_example_are_comparisons_of_its_experiment(file: Path) -> None:
    request = read_file(file, None, ())
    factor, *others = parse_factors(request.factors)
    levels = [f"{factor.name}={_shown(level)}" for level in factor.levels]
    control = request.control or levels[0]
    named = [[f"{each.name}={_shown(level)}" for level in each.levels] for each in others]
    strata = {" ".join(of) for of in itertools.product(*named)}
    workload = parse_workload(request.workload)
    for each in read_claims(file):
        assert {*each.named_arms} <= {*levels} and each.arm != (each.against or "none")
        assert {each.factor, each.against_factor} <= {factor.name, *(other.name for other in others), ""}
        if each.kind == "factors":
            continue
        if each.kind == "speed":
            assert each.arm != control and (each.against == control or not each.statement)
        # 16 and 17 have no io_method, so their strata lack it; no claim is of those.
        assert each.stratum in strata
        known = {part.name for part in workload.statements}
        assert {each.statement, each.against_statement} <= {*known, ""}


def _shown(level: str) -> str:
    """A level as a claim names it: a file of SQL without its folder."""
    return Path(level).name if level.endswith(".sql") else level


def test_the_claims_of_all_publications_are_shipped_each_once() -> None:
    claims = [each for file in SHIPPED for each in read_claims(file)]
    assert len({each.id for each in claims}) == len(claims) >= 120
    assert len({each.source.title for each in claims}) == 4
    kinds = {"speed", "statements", "blocks", "figure", "setting", "limit", "price", "order", "factors"}
    assert {each.kind for each in claims} == kinds
