"""How the verdicts of claims look in a terminal."""

from pgassay.model.further_results.claims import Claim, ClaimsResult, JudgedClaim, Source
from pgassay.report import terminal
from pgassay.report.claims import page_of


def test_the_interval_stands_beside_the_verdict_and_not_behind_other_figures() -> None:
    claim = Claim(id="one", text="…", source=Source(title="A page"), says="faster", published=10)
    why = "6.81 × as fast here; plans: in all 5,406 → 2,004 blocks"
    found = JudgedClaim.of(claim, why, "", "reproduced", here=6.81, interval=(6.18, 7.5))
    result = ClaimsResult(file="a.toml", folder="out", family="", claims=(found,), experiments=())
    shown = " ".join(terminal.render(page_of(result).sections, width=400, unicode=True).split())
    assert f"reproduced (6.180 – 7.500): {why}" in shown
