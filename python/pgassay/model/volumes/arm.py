"""What an arm's volumes cost and what of them is assumed, as `--json` of a comparison tells it."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen, Number


class UsedVolume(Frozen):
    """One volume of an arm; `name` orders it. `holds`: what lies on it.

    The median latency that was imitated lies between `latency_low_ms` and `latency_high_ms` as far as is
    known; `assumed` names what no document of the provider says.
    """

    name: str
    holds: Literal["data", "wal"]
    latency_ms: Number | None
    latency_low_ms: Number | None
    latency_high_ms: Number | None
    latency_assumed: bool
    assumed: tuple[str, ...]


class ArmVolumes(Frozen):
    """The imitated volumes of an arm, and what they cost in a month of 730 hours, with their instance.

    `per_month` is None where the catalogue lacks the price of a part, `missing` says of which.
    `per_million_transactions`: of a load that goes on at the median rate of the trials; None of statements.
    `catalogue_date`: when the catalogue was last compared with what the providers say; '' where it knows no
    volume of the arm. `price_given`: the price is the user's own. `work_price_ratio`: what the same work
    costs over what it costs in the control of the stratum, with the interval of the speeds; None where a
    price or a speed is not known. These three are not written where there is nothing to say.
    """

    arm: str
    stratum: str = ""
    volumes: tuple[UsedVolume, ...]
    instance: str | None
    per_month: float | None
    per_million_transactions: float | None
    currency: str | None
    region: str | None
    price_date: str | None
    missing: tuple[str, ...]
    catalogue_date: str
    catalogue_files: tuple[str, ...]
    price_given: bool = Field(default=False, exclude_if=lambda given: not given)
    work_price_ratio: float | None = Field(default=None, exclude_if=lambda ratio: ratio is None)
    work_price_interval: tuple[float, float] | None = Field(
        default=None, exclude_if=lambda ends: ends is None
    )
