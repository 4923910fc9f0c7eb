"""Prices of arms on volumes, the catalogue's date, and what is assumed: in every output alike."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import report_examples as examples
from pgassay.analysis.descriptive.volume_costs import arm_volumes, assumption_sentences
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.model.result import ArmResult, CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.arm_volumes import price_ranking
from pgassay.report.compare.page import brief_page, page_of
from pgassay.report.page import json_text
from pgassay.storage.parse import parse_storage, prices_of
from pgassay.workloads.pgbench_builtin import THROUGHPUT

MONTH_S = 730 * 3600


def volume(name: str, per_month: float | None, **changes: Any) -> dict[str, Any]:
    missing = () if per_month is not None else (name.split(",")[0],)
    price = {"per_month": per_month, "currency": "USD", "region": "us-east-1", "date": "2026-11"}
    return {
        "name": name,
        "price": price | {"missing": missing},
        "latency": {"median_ms": 0.6, "low_ms": 0.25, "high_ms": 1.2, "assumed": True},
        "instance": None,
        "catalogue_date": "2026-11-23",
        "catalogue_files": (),
        "assumed": ("latency", "its stripes"),
        **changes,
    }


def stored(storages: list[dict[str, Any]], blocks: int = 3) -> StoredExperiment:
    """An experiment whose arms have these storages, in the order of the plan."""
    made = examples.stored(levels=["sync", "worker"], blocks=blocks)
    names = [arm.name for arm in made.experiment.arms if arm.role != "twin"]
    environment = made.experiment.environment.updated(storage=dict(zip(names, storages, strict=True)))
    return replace(made, experiment=made.experiment.model_copy(update={"environment": environment}))


GP2: dict[str, Any] = {"kind": "volume", "volume": volume("gp2,size=40GiB", 4.0)}
BOTH: dict[str, Any] = {
    "kind": "volume",
    "volume": volume("gp3,size=400GiB", 32.0, instance="m6g.large"),
    "wal": {"kind": "volume", "volume": volume("io2,size=10GiB,iops=3000", 196.25)},
}


def test_every_output_tells_prices_date_and_assumptions() -> None:
    experiment = stored([GP2, BOTH])
    result = analyse(experiment)
    texts = (
        page_of(result, experiment).terminal(width=160, unicode=False),
        page_of(result, experiment).markdown(),
        page_of(result, experiment).html(),
    )
    for text in texts:
        assert "Volumes and their prices" in text
        assert "4.00 USD" in text and "228.25 USD" in text
        assert "2026-11-23" in text and "us-east-1, prices as of 2026-11" in text
        assert "which may be 0.25 to 1.2 ms; its stripes" in text
        assert "a million transactions" not in text  # the metric is seconds
    document = json.loads(json_text(result))
    first, second = document["volumes"]
    assert (first["per_month"], second["per_month"], second["instance"]) == (4.0, 228.25, "m6g.large")
    assert [each["holds"] for each in second["volumes"]] == ["data", "wal"]
    assert [warning for warning in document["warnings"] if "has the lower latency" in warning] == [
        f"which of gp2 and {other} has the lower latency is assumed (0.25 to 1.2 ms and 0.25 to 1.2 ms): "
        "differences from operations, bytes and credits hold, differences from latency may not"
        for other in ("gp3", "io2")
    ]


def test_an_arm_without_a_volume_and_one_without_a_price() -> None:
    unpriced = {"kind": "volume", "volume": volume("rds-gp3,size=400GiB", None)}
    experiment = stored([{"kind": "host"}, unpriced])
    result = analyse(experiment)
    (only,) = result.volumes
    assert (only.per_month, only.missing) == (None, ("rds-gp3",))
    text = page_of(result, experiment).markdown()
    assert "not known" in text and "has no price for rds-gp3" in text
    assert not any("has the lower latency" in each for each in result.warning_sentences)
    assert analyse(examples.stored()).volumes == ()
    assert "Volumes" not in page_of(analyse(examples.stored()), examples.stored()).markdown()


def test_a_million_transactions_cost_what_a_month_of_them_does() -> None:
    experiment = stored([GP2, GP2]).experiment
    contract = experiment.contract.model_copy(update={"metric": THROUGHPUT})
    loads = experiment.model_copy(update={"contract": contract})
    arms = [
        ArmResult(
            name=arm.name,
            levels=arm.levels,
            ratio=1.0,
            interval=None,
            verdict="inconclusive",
            meaningful=False,
            trials=1,
            failures=0,
            median=rate,
            values=(),
        )
        for arm, rate in zip(experiment.arms, (1000.0, None), strict=False)
    ]
    known, unknown = arm_volumes(loads, arms)
    assert known.per_million_transactions == pytest.approx(4.0 / (1000 * MONTH_S / 1e6))
    assert unknown.per_million_transactions is None
    statements = arm_volumes(experiment, arms)
    assert [each.per_million_transactions for each in statements] == [None, None]


def test_the_price_of_a_million_has_no_exponent() -> None:
    experiment = stored([GP2, GP2])
    result = analyse(experiment)
    for amount, shown in ((1234.5, "1,234 USD"), (0.01523, "0.01523 USD")):
        priced = tuple(
            each.model_copy(update={"per_million_transactions": amount}) for each in result.volumes
        )
        changed = result.model_copy(update={"volumes": priced})
        assert shown in page_of(changed, experiment).markdown()


def test_latencies_are_doubtful_only_where_they_may_lie_either_way() -> None:
    def sentences(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, ...]:
        storages = [{"kind": "volume", "volume": each} for each in (first, second)]
        return assumption_sentences(arm_volumes(stored(storages).experiment, ()))

    gp2, gp3 = volume("gp2,size=40GiB", 4.0), volume("gp3,size=40GiB", 3.2)
    assert len(sentences(gp2, gp3)) == 1
    # One type has one latency, whatever it is.
    assert sentences(gp3, volume("gp3,size=400GiB", 32.0)) == ()
    slow = {"median_ms": 5.0, "low_ms": 2.0, "high_ms": 10.0, "assumed": True}
    assert sentences(gp2, volume("st1,size=125GiB", None, latency=slow)) == ()
    measured = {"median_ms": 0.6, "low_ms": 0.6, "high_ms": 0.6, "assumed": False}
    assert sentences(volume("own", None, latency=measured), volume("other", None, latency=measured)) == ()


def test_the_user_s_own_price_ranks_the_arms_by_the_price_of_the_same_work() -> None:
    disks: list[dict[str, Any]] = [GP2, {"kind": "host", "storage": "host:path=/data"}]
    found, shown = ranked_by_price(disks, blocks=12)
    control, own = found.volumes
    assert (control.per_month, control.currency, control.work_price_ratio) == (10.0, "EUR", 1.0)
    assert own.volumes[0].name == "host:path=/data" and own.price_given
    speed = next(arm for arm in found.arms if arm.name == own.arm)
    assert speed.ratio is not None and own.work_price_ratio == pytest.approx(5.0 / speed.ratio)
    assert speed.interval is not None and own.work_price_interval is not None
    assert own.work_price_interval[0] == pytest.approx(5.0 / (speed.interval[1] or 0))
    (told,) = price_ranking(found.volumes)
    assert told.startswith("Price of the same work, the cheapest first: gp2,size=40GiB (10.00 EUR a month, ")
    assert shown.count("the cheapest first: gp2,size=40GiB (10.00 EUR a month") == 2
    assert "Your own prices (--price): gp2,size=40GiB (2026-01); host:path=/data (2026-01)." in shown
    few, shown = ranked_by_price(disks, blocks=1)
    assert price_ranking(few.volumes) == [] and "not bounded yet" in shown


def ranked_by_price(disks: list[dict[str, Any]], blocks: int) -> tuple[CompareResult, str]:
    """The result with prices of the user's own, and the Markdown with the ten lines."""
    experiment = stored(disks, blocks)
    names = [arm.name for arm in experiment.experiment.arms if arm.role != "twin"]
    given = {
        name: {"per_month": month, "currency": "EUR", "is_given": True, "date": "2026-01"}
        for name, month in zip(names, (10.0, 50.0), strict=True)
    }
    environment = experiment.experiment.environment.updated(prices=given)
    experiment = replace(
        experiment, experiment=experiment.experiment.model_copy(update={"environment": environment})
    )
    found = analyse(experiment)
    brief = brief_page(found, experiment).terminal(width=400)
    return found, page_of(found, experiment).markdown() + brief


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("volume:gp2,size=40GiB", "is not STORAGE=AMOUNT CURRENCY"),
        ("volume:gp2,size=40GiB=4.60", "is not STORAGE=AMOUNT CURRENCY"),
        ("volume:gp2,size=41GiB=4.60 USD", "no arm has this storage: the arms have volume:gp2,size=40GB"),
        ("nothing=4 USD", "Unknown storage 'nothing'"),
    ],
)
def test_a_price_that_is_none_or_of_no_arm_is_refused(text: str, told: str) -> None:
    storages = [parse_storage("volume:gp2,size=40GiB")] * 2
    (price, *_) = prices_of(["volume:gp2,size=40GiB=4.60 USD 2026-01"], storages).values()
    assert (price.per_month, price.currency, price.date) == (4.6, "USD", "2026-01")
    with pytest.raises(UsageError, match=re.escape(told)):
        prices_of([text], storages)
    with pytest.raises(UsageError, match="two prices of"):
        prices_of(["volume:gp2,size=40GiB=4 USD", "volume:gp2,size=40GiB=5 USD"], storages)
