"""Why a trial was as fast as it was: its limit, and what should be mended."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

# The limit of an arm that no rule explains.
UNKNOWN = "unknown"
CauseKind = Literal["limit", "fault"]
# What other arms of the experiment say of a remedy.
RemedyStatus = Literal["proved", "refuted", "not decided", "not tried"]
Layer = Literal["design", "operations", "infrastructure", "measurement"]


class Cause(Frozen):
    """A limit (what sets an arm's speed now; each arm has one) or a fault (what should be mended).

    `seconds`: of the `trials` trials that show it the median of the time it explains, summed over the
    connections and their parallel workers; `share`: of all their time. Both are None for a fault whose
    time can't be told from other work. `evidence`: figures by name, with their units, of the trial whose
    share is that median. `gain_if_lifted`: how many times as fast the trial could be, about, without it;
    None where that can't be said. `gain_interval`: a 95 % interval of it from the variation of the trials
    that show the cause, None where fewer than two of them tell and there is no `gain_range`: the least
    and the most of the prediction where the record can't tell them apart, which that interval then holds.
    `lifted_by`: the level of another arm that lifted it, so that both are what was measured, and
    `gain_predicted` what had been predicted; None for both where none did. Where a prediction missed, the
    others of the experiment are withdrawn. `next_limit`: the resource that bounds the gain, as words;
    None where it is the rest of the time. `remedy_status`: whether another arm tried the remedy and was
    faster; None for one that is no setting, or where there are no other arms. `observed`: the trials that
    could be looked into.
    """

    arm: str
    stratum: str = ""
    kind: CauseKind
    # The name of a rule in `analysis/causes/registry.py`, or UNKNOWN; another version may know others.
    cause: str
    layer: Layer
    seconds: float | None
    share: float | None
    evidence: dict[str, float | str] = Field(default_factory=dict)
    gain_if_lifted: float | None
    gain_interval: tuple[float, float] | None = None
    gain_range: tuple[float, float] | None = Field(default=None, exclude_if=lambda ends: ends is None)
    gain_predicted: float | None = None
    lifted_by: str | None = None
    next_limit: str | None = None
    remedy: str
    remedy_status: RemedyStatus | None = None
    trials: int
    observed: int


class MovedItem(Frozen):
    """One item of the time account that differs between an arm and its control.

    `seconds`: the arm's less the control's, `interval` its confidence interval; all intervals of an
    experiment hold together. `process`: whose time it is.
    """

    process: str
    item: str
    seconds: float
    interval: tuple[float | None, float | None]


class Explanation(Frozen):
    """Which items of the account moved between an arm and its control, the greatest first.

    `per`: what the seconds are those of, a trial or 1000 transactions of a load.
    """

    arm: str
    control: str
    stratum: str = ""
    per: Literal["trial", "1000 transactions"] = "trial"
    moved: tuple[MovedItem, ...]
