"""What an arm's volumes cost and what of them is assumed, as `--json` of a comparison tells it."""

from typing import Literal

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
    `catalogue_date`: when the catalogue was last compared with what the providers say.
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
