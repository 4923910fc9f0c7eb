"""Sizes where the WAL has a volume of its own, from recordings whose parts are known, by closed forms."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import VolumeModel
from pgassay.sizing.candidates import candidate, candidates
from pgassay.sizing.predict import Predictor
from pgassay.sizing.recordings import MeasuredRecording, RecordingGroup
from pgassay.sizing.server_volumes import Attached
from volume_traces import constant, recorded_on, write_trace

LOADED = load_catalogue()
COUNT = 2000
# Of a transaction: a page of the data, then the WAL, each with some computing before it.
DATA_NS, WAL_NS, COMPUTING_NS = 300_000, 200_000, 50_000
CYCLE_NS = DATA_NS + WAL_NS + 2 * COMPUTING_NS


def measured(folder: Path, *, trial: int = 0) -> MeasuredRecording:
    """One client, each transaction of which reads a page and commits, by the clocks of two volumes."""
    reads = [
        (
            number * CYCLE_NS + COMPUTING_NS,
            number * CYCLE_NS + COMPUTING_NS + DATA_NS,
            "r",
            number * 81920,
            8192,
        )
        for number in range(COUNT)
    ]
    wrote_ns = 2 * COMPUTING_NS + DATA_NS
    # The other volume's clock began a second before.
    writes = [
        (10**9 + number * CYCLE_NS + wrote_ns, 10**9 + (number + 1) * CYCLE_NS, "w", number * 8192, 8192)
        for number in range(COUNT)
    ]
    elapsed_ns = COUNT * CYCLE_NS
    recorded = recorded_on(
        DATA_NS, reads, folder, elapsed_ns=elapsed_ns, units=COUNT, trial=trial, has_trace=False
    )
    clock_ns = 5 * 10**9
    return replace(
        recorded,
        storage=f"{recorded.storage},wal=volume:other",
        trace=write_trace(folder / f"{trial}.trace", reads, clock_ns=clock_ns),
        wal_trace=write_trace(folder / f"{trial}.wal.trace", writes, clock_ns=clock_ns - 10**9),
        wal_model=constant(WAL_NS / 1e6).model_dump(mode="json"),
        parts=((clock_ns, clock_ns + elapsed_ns),),
        clients=1,
    )


def limited(iops: int) -> VolumeModel:
    """A volume of no latency that gives so many operations a second."""
    offer = candidate(f"io2,size=1000GiB,iops={iops}", LOADED).data.model
    return offer.model_copy(update={"latency": constant(0).latency})


def test_each_volume_answers_its_own_requests(tmp_path: Path) -> None:
    predictor = Predictor(RecordingGroup("", "transaction", (measured(tmp_path),)))
    latencies = [(0.3, 0.2), (2.0, 0.2), (0.3, 5.0), (1.0, 1.0)]
    pairs = [Attached(constant(data_ms), constant(wal_ms)) for data_ms, wal_ms in latencies]
    times_ms = [each.seconds_per_unit * 1e3 for each in predictor.predict(pairs)]
    assert times_ms == pytest.approx([data + wal + 0.1 for data, wal in latencies], rel=1e-3)
    (recording,) = predictor.recordings()
    assert (recording.reads, recording.writes, recording.log_writes) == (COUNT, COUNT, COUNT)


def test_the_limits_of_an_instance_are_those_of_both_together(tmp_path: Path) -> None:
    predictor = Predictor(RecordingGroup("", "transaction", (measured(tmp_path),)))
    free = constant(0)
    apart, shared = (
        each.seconds_per_unit
        for each in predictor.predict(
            [Attached(limited(1000), limited(1000)), Attached(free, free, limited(1000))]
        )
    )
    # One transaction takes one operation of each: 1,000 a second, and 500 where both share that limit.
    assert apart == pytest.approx(1e-3, rel=0.02)
    assert shared == pytest.approx(2e-3, rel=0.02)


def test_a_measurement_beside_a_prediction_is_of_both_volumes(tmp_path: Path) -> None:
    recorded = measured(tmp_path)
    other = replace(
        measured(tmp_path, trial=1),
        storage="another",
        model=constant(1.0).model_dump(mode="json"),
        wal_model=constant(2.0).model_dump(mode="json"),
        trace=None,
        wal_trace=None,
        elapsed_s=COUNT * 3.1e-3,
    )
    (check,) = Predictor(RecordingGroup("", "transaction", (recorded, other))).checks()
    assert check.is_fair and check.ratio == pytest.approx(1, rel=1e-3)


def test_prices_of_both_volumes_add_up_and_the_instance_is_paid_for_once() -> None:
    data, wal = "gp3,size=100GiB", "io2,size=10GiB,iops=1000"
    prices = [candidate(text, LOADED).price_per_month for text in (data, wal)]
    both = candidate(data, LOADED, wal)
    assert both.name == f"{data},wal=volume:{wal}" and both.wal_per_month == prices[1]
    assert prices == [8.0, 1.25 + 65.0] and both.price_per_month == pytest.approx(8.0 + 1.25 + 65.0)
    # As it stands in a storage, and as an option, is the same.
    assert candidate(both.name, LOADED) == both
    on = "instance=r7i.2xlarge"
    (alone,), (together,) = (
        candidates(LOADED, 100, volumes=[f"{data},{on}"], wals=wals) for wals in ([], [wal])
    )
    assert alone.price_per_month is not None and together.price_per_month is not None
    assert together.price_per_month - alone.price_per_month == pytest.approx(1.25 + 65.0)
    attached = together.attached
    assert attached.instance is not None and attached.wal is not None
    assert {each.scope for each in attached.instance.limiters} == {"instance"}
    for model in (attached.data, attached.wal):
        assert "instance" not in {each.scope for each in model.limiters}


def test_volumes_are_crossed_with_those_of_the_wal_and_with_instances() -> None:
    found = candidates(
        LOADED,
        100,
        volumes=["gp3,size=100GiB", "gp2,size=100GiB"],
        wals=["gp3,size=20GiB", "io2,size=10GiB,iops=1000"],
        instances=["m6g.large", "r7i.2xlarge"],
    )
    assert len(found) == len({each.name for each in found}) == 8
    # All that have a price, of the WAL's provider alone.
    all_of = candidates(LOADED, 100, wals=["gp3,size=20GiB"])
    assert {each.data.provider for each in all_of} == {"aws"} and len(all_of) > 20
    assert all(each.wal_per_month == pytest.approx(1.6) for each in all_of)


@pytest.mark.parametrize(
    ("wal", "words"),
    [
        ("gp9,size=1GiB", "no volume 'gp9'"),
        ("gp3,size=10GiB,instance=m6g.large", "is ordered with the volume of the data"),
        ("P10", "is of aws, and its WAL's P10 of azure"),
    ],
)
def test_a_volume_of_the_wal_that_cannot_be_had_gets_a_sentence(wal: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        candidates(LOADED, 100, volumes=["gp3,size=100GiB"], wals=[wal])


EURO = """
[prices.aws-eu]
provider = "aws"
region = "eu"
currency = "EUR"
date = "2026-10"

[prices.aws-eu.volumes]
gp3 = { per_gib = 0.07 }
"""


def test_volumes_that_are_paid_for_in_two_currencies_have_no_price_together(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(EURO)
    loaded = load_catalogue([own])
    with pytest.raises(UsageError, match=r"is paid for in USD, and its WAL's .* in EUR: type a region="):
        candidate("gp3,size=100GiB", loaded, "gp3,size=10GiB,region=eu")
    both = candidate("gp3,size=100GiB,region=eu", loaded, "gp3,size=10GiB,region=eu")
    assert both.price_per_month == pytest.approx(7.7)


def test_so_many_volumes_that_not_all_are_looked_at_are_refused() -> None:
    wals = [f"gp3,size={size}GiB" for size in range(10, 20)]
    with pytest.raises(UsageError, match="at most 500 are compared: name fewer --wal"):
        candidates(LOADED, 100, wals=wals)
