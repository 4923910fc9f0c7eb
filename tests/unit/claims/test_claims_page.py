"""How the verdicts of claims look in a terminal."""

from typing import Any

from pgassay.model.further_results.claims import (
    Claim,
    ClaimedExperiment,
    ClaimsResult,
    ClaimVerdict,
    JudgedClaim,
    Source,
)
from pgassay.report import terminal
from pgassay.report.claims import page_of


def test_the_interval_stands_beside_the_verdict_and_not_behind_other_figures() -> None:
    claim = Claim(id="one", text="…", source=Source(title="A page"), says="faster", published=10)
    why = "6.81 × as fast here; plans: in all 5,406 → 2,004 blocks"
    found = JudgedClaim.of(claim, why, "", "reproduced", here=6.81, interval=(6.18, 7.5))
    result = ClaimsResult(file="a.toml", folder="out", family="", claims=(found,), experiments=())
    shown = " ".join(terminal.render(page_of(result).sections, width=400, unicode=True).split())
    assert f"reproduced (6.180 – 7.500): {why}" in shown


def _shown(*claims: JudgedClaim, **changes: Any) -> str:
    result = ClaimsResult(file="a.toml", folder="out", family="", claims=claims, **changes)
    return terminal.render(page_of(result).sections, width=400, unicode=True)


def _judged(name: str, verdict: ClaimVerdict, why: str, **found: Any) -> JudgedClaim:
    claim = Claim(id=name, text="…", source=Source(title="A page"), says="faster", published=10)
    return JudgedClaim.of(claim, why, "pgassay run a.toml", verdict, file="a.toml", **found)


def test_the_first_line_is_the_answer_of_one_claim() -> None:
    found = _judged("one", "reproduced", "6.81 × as fast here; limited", here=6.81, interval=(6.18, 7.5))
    first = _shown(found).splitlines()[0]
    assert first == "one: reproduced, 6.81 × as fast here (6.180 – 7.500); published: 10.0×"
    why = "80.6 and 40.3 MB of table in 7 trials of each; 2 × as much here, outside the band of 3 to 4 ×"
    counted = _judged("size", "same direction, other size", why, here=2.0, interval=(1.9, 2.1))
    told = "2 × as much here, outside the band of 3 to 4 × (1.900 – 2.100)"
    assert _shown(counted).splitlines()[0] == f"size: same direction, other size, {told}; published: 10.0×"
    unclear = _judged("two", "undecided", "about 4 more blocks", here=1.1, interval=(0.9, 1.3))
    first = _shown(unclear).splitlines()[0]
    assert first == "two: undecided, 1.100× here (0.900 – 1.300): about 4 more blocks; published: 10.0×"


def test_of_many_claims_those_that_came_out_otherwise_are_named_first() -> None:
    verdicts: list[ClaimVerdict] = ["reproduced", "refuted", "no difference here", "refuted"]
    claims = [_judged(f"c{number}", verdict, "so") for number, verdict in enumerate(verdicts)]
    lines = _shown(*claims).splitlines()
    assert lines[0] == "4 claims: 1 reproduced, 1 no difference here, 2 refuted"
    assert "Refuted: c1, c3." in lines[:4] and "No difference here: c2." in lines[:4]


def test_caches_and_caveats_stand_with_the_command() -> None:
    ran = ClaimedExperiment(
        file="a.toml", folder="out", blocks=3, seconds_used=4, cache="cold", caveats=("So far.",)
    )
    shown = _shown(_judged("one", "undecided", "more"), experiments=(ran,))
    assert "(3 blocks in 4 seconds; caches: cold)" in shown and "So far." in shown
    # The folder is the experiment's own: it was run by 'pgassay run', which does not continue.
    assert "The same command continues" not in shown
    of_a_run = ran.model_copy(update={"folder": "out/a"})
    assert "The same command continues" in _shown(
        _judged("one", "undecided", "more"), experiments=(of_a_run,)
    )


def test_on_the_page_the_answer_stands_above_the_notes() -> None:
    result = ClaimsResult(file="a.toml", folder="out", family="", claims=(_judged("one", "refuted", "so"),))
    page = page_of(result).html()
    assert page.index("one: refuted, so") < page.index("Ratios are speeds")


def test_a_reason_that_all_claims_share_is_told_once_at_the_top() -> None:
    claims = [_judged(f"claim-{n}", "can't be tried here", "shop.sql, line 5 failed") for n in range(4)]
    shown = _shown(*claims)
    assert "4 claims: 4 can't be tried here; shop.sql, line 5 failed" in shown
    assert shown.count("line 5 failed") == 1
