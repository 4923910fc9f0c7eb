"""Sizes of volumes from recordings whose parts are known: the oracles are closed forms."""

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import Limiter
from pgassay.model.volumes.size import SizedGroup, SizeResult
from pgassay.report import schema
from pgassay.report.size import size_page
from pgassay.sizing.candidates import candidates, reference
from pgassay.sizing.knees import TOLERANCE, _rounded, knees
from pgassay.sizing.predict import Predictor
from pgassay.sizing.recordings import MeasuredRecording, RecordingGroup, groups_of
from pgassay.sizing.size import Wanted, size
from pgassay.sizing.size_sentences import sentences_of
from volume_traces import COMPUTING_NS, COUNT, LATENCY_NS, alone, one_client, recorded_on, sized, stored

LOADED = load_catalogue()
MS = 1e-3


def measured(folder: Path, latency_ns: int, *, trial: int = 0, has_trace: bool = True) -> MeasuredRecording:
    """One client that reads COUNT pages, a unit each, on such a volume."""
    elapsed_ns = COUNT * (latency_ns + COMPUTING_NS)
    requests = one_client(COUNT, latency_ns, COMPUTING_NS)
    return recorded_on(
        latency_ns, requests, folder, elapsed_ns=elapsed_ns, units=COUNT, trial=trial, has_trace=has_trace
    )


def group(*trials: MeasuredRecording) -> RecordingGroup:
    return RecordingGroup(name="", unit="transaction", measured=trials)


def test_a_time_is_latency_and_computing(tmp_path: Path) -> None:
    predictor = Predictor(group(measured(tmp_path, LATENCY_NS)))
    times = [each.seconds_per_unit for each in predictor.predict([alone(ms) for ms in (0, 0.3, 1, 5)])]
    assert times == pytest.approx([0.4 * MS, 0.7 * MS, 1.4 * MS, 5.4 * MS], rel=1e-6)


def test_no_prediction_is_below_the_time_on_the_fastest_volume(tmp_path: Path) -> None:
    slow, fast = measured(tmp_path, LATENCY_NS), measured(tmp_path, 200_000, trial=1)
    predictor = Predictor(group(fast, slow))
    assert predictor.base is slow and predictor.floor_s == pytest.approx(0.6 * MS)
    (fastest,) = predictor.predict([alone(0)])
    assert fastest.seconds_per_unit == pytest.approx(0.6 * MS)


def test_checks_hold_predictions_against_what_was_measured_elsewhere(tmp_path: Path) -> None:
    recorded = [measured(tmp_path, LATENCY_NS), measured(tmp_path, 200_000, trial=1)]
    other = measured(tmp_path, 3_000_000, trial=2, has_trace=False)
    checks = Predictor(group(*recorded, other)).checks()
    fair = [check for check in checks if check.is_fair]
    assert [(check.recorded_on, check.storage) for check in fair] == [
        ("constant 1000000", "constant 3000000")
    ]
    assert fair[0].measured_s == pytest.approx(3.4 * MS) and fair[0].ratio == pytest.approx(1, rel=1e-6)
    # From each recording of each other volume; never of its own.
    assert len(checks) == 4 and all(check.recorded_on != check.storage for check in checks)
    assert all(check.ratio == pytest.approx(1, rel=1e-3) for check in checks)


def test_a_knee_is_where_the_closed_form_has_it(tmp_path: Path) -> None:
    """1 / (0.6 + 0.4 ms) is 1,000 a second: 1 / 1.02 of it is enough, in steps of 7 %."""
    predictor = Predictor(group(measured(tmp_path, LATENCY_NS)))
    operations, throughput, latency = knees(predictor, alone(0.6))
    steps = 1.09
    assert operations.value is not None and throughput.value is not None
    assert 1000 / (1 + TOLERANCE) * 0.97 <= operations.value <= 1000 * steps
    pages_a_s = throughput.value * 2**20 / 8192
    assert 1000 / (1 + TOLERANCE) * 0.97 <= pages_a_s <= 1000 * steps
    # 0.4 ms of computing: even 0.02 ms of latency is more than 2 % of it.
    assert latency.value is None
    for knee in (operations, throughput):
        values = [point.value for point in knee.curve]
        times = [point.seconds_per_unit for point in knee.curve]
        assert values == sorted(values)
        assert all(later <= earlier * 1.001 for earlier, later in pairwise(times))
    half = min(operations.curve, key=lambda point: abs(point.value - 250))
    assert half.seconds_per_unit == pytest.approx(1 / half.value, rel=0.03)


def test_operations_are_counted_as_the_chosen_volume_counts_them(tmp_path: Path) -> None:
    """One that counts in units of 4 KiB needs two of them for each page."""
    predictor, chosen = Predictor(group(measured(tmp_path, LATENCY_NS))), alone(0.6)
    limit = Limiter(
        name="operations", scope="volume", unit="operations", rate=9_000, peak=9_000, capacity=0, fill=0,
        quantum_bytes=4096, merging=False, reset_period_s=None,
    )  # fmt: skip
    counting = chosen.with_data(chosen.data.model_copy(update={"limiters": (limit,)}))
    usual, finer = knees(predictor, chosen)[0].value, knees(predictor, counting)[0].value
    assert usual is not None and finer is not None
    assert finer == pytest.approx(2 * usual, rel=0.09)


def test_candidates_hold_what_is_needed_and_have_a_price() -> None:
    found = candidates(LOADED, 500)
    assert len(found) >= 60
    assert all(offer.data.spec.size_gib >= 500 for offer in found)
    prices = [offer.price_per_month for offer in found]
    assert None not in prices and prices == sorted(price for price in prices if price is not None)
    assert len({offer.name for offer in found}) == len(found)
    aws = candidates(LOADED, 100, providers=["aws"], instances=["r7i.2xlarge"])
    assert {offer.data.provider for offer in aws} == {"aws"}
    assert all(offer.data.spec.instance == "r7i.2xlarge" for offer in aws)
    (named,) = candidates(LOADED, 100, volumes=["st1,size=500GiB"])
    assert named.price_per_month is None


@pytest.mark.parametrize("name", ["gp3", "io2"])
def test_the_most_that_is_sold_of_a_type_is_a_candidate(name: str) -> None:
    rate = LOADED.catalogue.volumes[name].ranges[-1].operations
    assert rate is not None and rate.settable is not None
    ordered = [each.data.spec.iops or 0 for each in candidates(LOADED, 500) if each.data.spec.name == name]
    assert max(ordered) == rate.settable.maximum


@settings(max_examples=25, deadline=None)
@given(size_gib=st.integers(1, 100_000))
def test_whatever_is_to_be_stored_there_are_candidates_or_a_sentence(size_gib: int) -> None:
    try:
        found = candidates(LOADED, size_gib)
    except UsageError as refused:
        assert f"holds {size_gib} GiB" in str(refused)
        return
    assert found and all(offer.data.spec.size_gib >= size_gib for offer in found)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"providers": ["acme"]}, "no provider 'acme': it has aws, azure, google"),
        ({"instances": ["x9.huge"]}, "doesn't know the instance 'x9.huge'"),
        ({"volumes": ["gp9,size=1GiB"]}, "no volume 'gp9'"),
        (
            {"providers": ["azure"], "size_gib": 70_000},
            "No volume of the catalogue with a price holds 70000 GiB",
        ),
    ],
)
def test_what_is_unknown_gets_a_sentence(changes: dict, words: str) -> None:
    given_size = changes.pop("size_gib", 100)
    with pytest.raises(UsageError, match=words):
        candidates(LOADED, given_size, **changes)


def only(result: SizeResult) -> SizedGroup:
    (found,) = result.groups
    return found


def test_the_cheapest_within_the_slow_down_is_recommended(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB", "gp2,size=100GiB,credits=empty", "gp3,size=100GiB,iops=6000")
    found = only(result)
    by_name = {each.volume: each for each in found.volumes}
    # One client at 1 ms a page makes 1,000 a second: 300 of them are too few, 3,000 enough.
    assert found.recommended[0] == "gp3,size=100GiB"
    slow = by_name["gp2,size=100GiB,credits=empty"]
    assert slow.within == "no" and slow.seconds_per_unit == pytest.approx(3 * COUNT / 300, rel=0.01)
    assert by_name["gp3,size=100GiB,iops=6000"].is_on_front is False
    price = by_name["gp3,size=100GiB"].price_per_million
    month_s = 730 * 3600
    assert price == pytest.approx(8.0 / (month_s / by_name["gp3,size=100GiB"].seconds_per_unit) * 1e6)
    assert any("gp3,size=100GiB, 8.00 USD a month" in line for line in result.sentences)
    # The twin of gp3 was measured with a made-up time, so the prediction is said to be off.
    assert any(check.is_fair for check in found.checks)


def test_a_volume_is_judged_by_what_it_gives_without_credits(tmp_path: Path) -> None:
    """A recording of seconds lasts on credits that are gone after two hours."""
    result = sized(tmp_path, "gp3,size=150GiB", "gp2,size=100GiB", "gp2,size=100GiB,credits=50%")
    found = only(result)
    full, half = (
        next(each for each in found.volumes if each.volume == f"gp2,size=100GiB{credits}")
        for credits in ("", ",credits=50%")
    )
    # One client at 0.6 ms and 0.4 ms of computing asks for 1,000 a second: 300 of them are paid for.
    assert full.within == "no" and full.seconds_per_unit == pytest.approx(3 * COUNT / 300, rel=0.01)
    assert full.credits_ended_s is None
    assert full.burst_seconds_per_unit == pytest.approx(3 * COUNT / 1000, rel=0.1)
    drain = 3 * COUNT / (full.burst_seconds_per_unit or 0.0) - 300
    assert full.credits_last_s == pytest.approx(5.4e6 / drain, rel=0.02)
    assert half.credits_last_s == pytest.approx((full.credits_last_s or 0.0) / 2, rel=0.01)
    assert found.recommended == ("gp3,size=150GiB",)
    assert full.low_s is None or full.low_s == pytest.approx(full.seconds_per_unit, rel=0.05)
    (line,) = (each for each in result.sentences if "while its burst credits last" in each)
    assert line.startswith("cheaper, and enough while its burst credits last: gp2,size=100GiB, 10.00 USD")
    assert "for 2 h" in line and "and then 20.0" in line


def test_credits_that_come_back_as_fast_as_they_go_change_nothing(tmp_path: Path) -> None:
    found = only(sized(tmp_path, "gp2,size=500GiB", "gp3,size=500GiB"))
    gp2 = next(each for each in found.volumes if each.volume.startswith("gp2"))
    assert gp2.burst_seconds_per_unit is None and gp2.credits_last_s is None
    assert gp2.seconds_per_unit == pytest.approx(3 * COUNT / 1000, rel=0.1)


def test_the_allowance_of_an_instance_is_left_out_as_credits_are(tmp_path: Path) -> None:
    (on_instance,) = candidates(LOADED, 100, volumes=["gp3,size=100GiB"], instances=["m6g.large"])
    made = on_instance.attached
    asked = Predictor(group(measured(tmp_path, LATENCY_NS))).predict([made.bursting(), made.sustained()])
    # One client is below both of them.
    assert asked[0].seconds_per_unit == pytest.approx(asked[1].seconds_per_unit, rel=0.01)


def test_a_proof_is_run_with_no_credits_left() -> None:
    texts = ["gp2,size=100GiB", "gp3,size=100GiB", "gp3,size=100GiB,instance=m6g.large"]
    names = [each.sustained_name for each in candidates(LOADED, 100, volumes=texts)]
    assert names == [
        "gp2,size=100GiB,credits=empty",
        "gp3,size=100GiB",
        "gp3,size=100GiB,credits=empty,instance=m6g.large",
    ]
    (both,) = candidates(LOADED, 100, volumes=texts[:1], wals=["gp2,size=20GiB"])
    assert both.sustained_name == "gp2,size=100GiB,credits=empty,wal=volume:gp2,size=20GiB,credits=empty"
    assert candidates(LOADED, 100, volumes=[both.sustained_name])[0].name == both.sustained_name


def test_assumed_latency_makes_a_recommendation_depend_on_it(tmp_path: Path) -> None:
    offers = candidates(LOADED, 100, volumes=["gp3,size=100GiB", "io2,size=100GiB,iops=3000"])
    found = only(size(stored(tmp_path), offers, Wanted(0.2, 100, against=offers[1]), LOADED))
    by_name = {each.volume: each for each in found.volumes}
    gp3 = by_name["gp3,size=100GiB"]
    assert gp3.low_s is not None and gp3.high_s is not None
    assert gp3.low_s < gp3.seconds_per_unit < gp3.high_s
    assert gp3.within == "depends on latency"
    # A volume is as fast as itself, whatever its latency is.
    io2 = by_name["io2,size=100GiB,iops=3000"]
    assert (io2.slow_down, io2.slow_down_low, io2.slow_down_high, io2.within) == (0, 0, 0, "yes")


def test_the_report_says_the_same_everywhere(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB", "gp2,size=100GiB,credits=empty")
    document = json.loads(size_page.page_of(result).json())
    jsonschema.validate(document, schema.SIZE.schema(), cls=jsonschema.Draft202012Validator)
    assert schema.SIZE.file.read_text(encoding="utf-8") == schema.SIZE.text()
    for shown in (
        size_page.page_of(result).terminal(width=100),
        size_page.page_of(result).markdown(),
        size_page.page_of(result).html(),
    ):
        assert "gp3,size=100GiB" in shown and "8.00" in shown and "IOPS" in shown
    assert (
        "predicted for 1 processor as fast as those of the recording" in size_page.page_of(result).markdown()
    )
    page = size_page.page_of(result).html()
    assert page.count("<svg") >= 4 and "Price and time of the volumes" in page
    assert size_page.page_of(result).terminal(width=80, unicode=False).isascii()


def test_prices_in_several_currencies_are_compared_with_a_warning(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[prices.google-us-central1]\ncurrency = "EUR"')
    volumes = ["gp3,size=100GiB", "pd-ssd,size=100GiB"]
    for loaded, is_told in ((LOADED, False), (load_catalogue([own]), True)):
        offers = candidates(loaded, 100, volumes=volumes)
        folder = tmp_path / str(is_told)
        result = size(stored(folder), offers, Wanted(slow_down=0.1, size_gib=100), loaded)
        assert any("prices are in EUR and USD" in warning for warning in result.warnings) == is_told


def test_what_was_not_recorded_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no trial whose requests were recorded: record them with --storage"
    ):
        groups_of(stored(tmp_path, has_trace=False))


def test_a_trace_that_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    trial = measured(tmp_path, LATENCY_NS)
    assert trial.trace is not None
    trial.trace.write_bytes(b"something else that is longer than a header")
    with pytest.raises(UsageError, match=r"not a trace of a block device"):
        Predictor(group(trial)).predict([alone(1)])


def test_a_workload_that_asks_for_nothing_is_told_what_that_means(tmp_path: Path) -> None:
    trial = recorded_on(LATENCY_NS, [], tmp_path, elapsed_ns=10**9, units=1)
    with pytest.raises(
        UsageError, match=r"in memory, every volume is equally fast. Record it with --cache cold"
    ):
        Predictor(group(trial))


@pytest.mark.parametrize(
    ("dimension", "value", "told"),
    [
        ("operations", 131_000.0, "131,000 IOPS"),
        ("operations", 1050.0, "1,050 IOPS"),
        ("throughput", 2.35, "2.35 MiB/s"),
        ("throughput", 125.0, "125 MiB/s"),
        ("latency", 0.0312, "0.0312 ms"),
    ],
)
def test_what_is_enough_is_told_alike_in_sentences_and_tables(
    tmp_path: Path, dimension: str, value: float, told: str
) -> None:
    result = sized(tmp_path, "gp3,size=100GiB")
    knees = tuple(
        each.model_copy(update={"value": value if each.dimension == dimension else None})
        for each in only(result).knees
    )
    changed = only(result).model_copy(update={"knees": knees})
    sentences = tuple(sentences_of(changed, 0.1))
    assert any(told in each and each.startswith("beyond ") for each in sentences)
    shown = size_page.page_of(
        result.model_copy(update={"groups": (changed,), "sentences": sentences})
    ).terminal(width=120)
    assert shown.count(told) == 2
    # Every sentence that begins with no name begins with a capital.
    lines = [each for each in shown.partition("Volumes")[0].splitlines() if each[:1].isalpha()]
    assert lines and all(each[:1].isupper() for each in lines)


def test_what_is_enough_is_not_rounded_to_what_is_not() -> None:
    assert _rounded(1049.1, down=False) == 1050 and _rounded(0.31249, down=True) == 0.312
    assert _rounded(131_072.5, down=False) == 132_000 and _rounded(20.0, down=True) == 20
    assert _rounded(50.0, down=False) == 50 and _rounded(0.02, down=True) == 0.02


def test_the_price_of_a_million_transactions_is_told_in_every_output(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB")
    assert not any("a million" in each for each in result.sentences)
    load = only(result).model_copy(update={"unit": "transaction"})
    (line,) = (each for each in sentences_of(load, 0.1) if "a million" in each)
    (volume,) = load.volumes
    assert f"{volume.price_per_million:.2f} USD for a million without a pause" in line


def test_the_price_of_a_million_has_its_currency_and_no_exponent(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB")
    dear = tuple(each.model_copy(update={"price_per_million": 62_917.4}) for each in only(result).volumes)
    changed = only(result).model_copy(update={"volumes": dear})
    assert "62,917 USD" in size_page.page_of(result.model_copy(update={"groups": (changed,)})).html()


def test_a_larger_size_is_offered_where_operations_are_sold_by_the_size() -> None:
    """500 for each GiB: 12,000 take 24 GiB of gp3, far cheaper than as many of io2."""
    found = {each.name: each.price_per_month for each in candidates(LOADED, 10)}
    assert found["gp3,size=24GiB,iops=12000"] == pytest.approx(24 * 0.08 + 9000 * 0.005)
    assert "gp3,size=10GiB,iops=4000" in found
    assert found["io2,size=16GiB,iops=16000"] == pytest.approx(16 * 0.125 + 16_000 * 0.065)


def test_what_all_are_compared_with_is_on_the_instance_too() -> None:
    (on, apart) = (reference("gp3,size=100GiB", LOADED, each) for each in (["m6g.large"], []))
    assert (on.data.spec.instance, apart.data.spec.instance) == ("m6g.large", None)
    own = reference("gp3,size=100GiB,instance=r7i.2xlarge", LOADED, ["m6g.large"], ["gp3,size=20GiB"])
    assert own.data.spec.instance == "r7i.2xlarge" and own.wal is not None
    assert reference("P10", LOADED, ["m6g.large"]).data.spec.instance is None
    with pytest.raises(UsageError, match=r"doesn't know the instance 'x9'"):
        candidates(LOADED, 100, volumes=["gp3,size=100GiB,instance=m6g.large"], instances=["x9"])


def test_it_is_told_at_which_end_of_its_latency_a_volume_may_do(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB", "gp3,size=200GiB")
    found = only(result)
    first = next(each for each in found.volumes if each.volume == "gp3,size=100GiB")
    for low, high, told in ((-0.1, 0.5, "as low as it may be"), (0.5, 0.05, "as high as it may be")):
        ends = {"within": "depends on latency", "slow_down_low": low, "slow_down_high": high}
        volumes = (first.model_copy(update=ends), found.volumes[1])
        alone = found.model_copy(update={"volumes": volumes, "recommended": (first.volume,)})
        lines = list(sentences_of(alone, 0.1))
        assert lines[0].startswith("no volume with a price is") and told in lines[1]
        assert lines[1].startswith("the cheapest that may be, if")
        both = alone.model_copy(update={"recommended": (found.volumes[1].volume, first.volume)})
        assert list(sentences_of(both, 0.1))[1].startswith("cheaper, if its latency is")
