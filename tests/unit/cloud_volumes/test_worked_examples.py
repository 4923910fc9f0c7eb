"""Providers' worked examples, to the last digit: bursts, counting, instances, prices."""

import pytest

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.closed_forms import cost, delivery
from pgassay.cloud_volumes.explain import explain, text_of
from pgassay.cloud_volumes.parse import parse_volume
from pgassay.cloud_volumes.volume_limits import limits_of
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import VolumeOffer

CATALOGUE = load_catalogue()
MIB = 1024**2


def offer(text: str) -> VolumeOffer:
    return explain([text], CATALOGUE).volumes[0]


@pytest.mark.parametrize(
    ("size_gib", "base", "burst_s", "refill_s"),
    [(33, 100, 1862, 54_000), (100, 300, 2000, 18_000), (334, 1002, 2703, 5389), (750, 2250, 7200, 2400)],
)
def test_bursts_of_gp2(size_gib: int, base: int, burst_s: int, refill_s: int) -> None:
    operations = offer(f"gp2,size={size_gib}GiB").limits[0]
    assert (operations.rate_per_s, operations.peak_per_s, operations.credits) == (base, 3000, 5_400_000)
    assert operations.burst_s is not None and operations.refill_s is not None
    assert (round(operations.burst_s), round(operations.refill_s)) == (burst_s, refill_s)


@pytest.mark.parametrize(
    ("size_gib", "base"), [(1000, 3000), (5333, 15_999), (5334, 16_000), (16_384, 16_000)]
)
def test_large_gp2_has_no_burst(size_gib: int, base: int) -> None:
    operations = offer(f"gp2,size={size_gib}GiB").limits[0]
    assert (operations.rate_per_s, operations.peak_per_s, operations.burst_s) == (base, None, None)


@pytest.mark.parametrize(("size_gib", "mib_s"), [(170, 128), (171, 250), (334, 250)])
def test_throughput_of_gp2(size_gib: int, mib_s: int) -> None:
    assert offer(f"gp2,size={size_gib}GiB").limits[1].rate_per_s == mib_s * MIB


def test_an_empty_gp2_of_250_gib_reads_as_fast_as_its_operations_allow() -> None:
    empty = offer("gp2,size=250GiB,credits=empty").deliveries[1]
    assert [phase.bytes_per_s / MIB for phase in empty.phases] == [187.5]
    assert offer("gp2,size=250GiB").deliveries[1].phases[0].bytes_per_s / MIB == 250


def test_a_burst_of_more_than_a_day_ends_too() -> None:
    first, last = offer("gp2,size=990GiB").deliveries[0].phases
    assert (first.until_s, first.requests_per_s) == (pytest.approx(180_000), 3000)
    assert (last.until_s, last.requests_per_s) == (None, 2970)
    # An instance's allowance is whole again by then.
    (only,) = offer("gp2,size=990GiB,instance=i7i.2xlarge").deliveries[0].phases
    assert (only.until_s, only.requests_per_s) == (None, 3000)


def test_requests_are_counted_in_units() -> None:
    operations, throughput = limits_of(
        parse_volume("gp3,size=100GiB", CATALOGUE.catalogue), CATALOGUE.catalogue
    )
    assert cost(operations, 1024 * 1024, sequential=False) == 4
    assert 8 * cost(operations, 32 * 1024, sequential=True) == 1
    assert 8 * cost(operations, 32 * 1024, sequential=False) == 8
    assert cost(throughput, 32 * 1024, sequential=False) == 32 * 1024
    (disk,) = limits_of(parse_volume("st1,size=1TiB", CATALOGUE.catalogue), CATALOGUE.catalogue)
    assert cost(disk, 8192, sequential=False) == MIB
    assert cost(disk, 8192, sequential=True) == 8192


def test_an_instance_bursts_for_half_an_hour_a_day() -> None:
    volume = offer("io2,size=1000GiB,iops=20000,instance=m6g.large")
    first, last = volume.deliveries[0].phases
    assert (first.until_s, first.requests_per_s, last.requests_per_s) == (1800, 20_000, 3600)
    assert (last.until_s, last.limited_by) == (None, ("instance operations",))
    limits = {limit.name: limit for limit in volume.limits}
    assert limits["instance operations"].reset_period_s == 86_400
    assert limits["instance throughput"].rate_per_s == 78_750_000
    assert limits["instance throughput"].peak_per_s == 593_750_000
    assert volume.memory_gib == 8


def test_p4_bursts_for_half_an_hour() -> None:
    first, last = offer("P4").deliveries[0].phases
    assert (first.until_s, first.requests_per_s, last.requests_per_s) == (1800, 3500, 120)
    throughput = offer("p4").limits[1]
    assert (throughput.rate_per_s, throughput.peak_per_s, throughput.burst_s) == (25e6, 170e6, 1800)


def test_st1_streams_from_its_bucket() -> None:
    first, last = offer("st1,size=1TiB").deliveries[1].phases
    assert first.until_s is not None
    assert (round(first.until_s), first.bytes_per_s / MIB, last.bytes_per_s / MIB) == (4993, 250, 40)


def test_rds_stripes_from_400_gib_on() -> None:
    below, above = offer("rds-gp3,size=399GiB"), offer("rds-gp3,size=400GiB")
    assert [limit.rate_per_s for limit in below.limits] == [3000, 125 * MIB]
    assert [limit.rate_per_s for limit in above.limits] == [12_000, 500 * MIB]
    assert (below.model.stripes.count, above.model.stripes.count) == (1, 4)
    assert [limiter.rate for limiter in above.model.limiters] == [3000, 125 * MIB]
    assert {limit.scope for limit in above.limits} == {"stripes"}
    most = offer("rds-gp3,size=1000GiB,iops=64000,throughput=4000").limits
    assert [limit.rate_per_s for limit in most] == [64_000, 4000 * MIB]


@pytest.mark.parametrize(
    ("size_gib", "base", "peak", "mib_s", "volumes"),
    [
        (100, 300, 3000, 128, 1),
        (399, 1197, 3000, 250, 1),
        (400, 1200, 12_000, 512, 4),
        (1335, 4005, 12_000, 1000, 4),
        (3999, 11_997, 12_000, 1000, 4),
        (4000, 12_000, None, 1000, 4),
        (65_536, 64_000, None, 1000, 4),
    ],
)
def test_rds_stripes_gp2_from_400_gib_on(
    size_gib: int, base: int, peak: int | None, mib_s: int, volumes: int
) -> None:
    ordered = offer(f"rds-gp2,size={size_gib}GiB")
    operations, throughput = ordered.limits
    assert (operations.rate_per_s, operations.peak_per_s) == (base, peak)
    assert (throughput.rate_per_s, ordered.model.stripes.count) == (mib_s * MIB, volumes)


def test_rds_gp3_is_ordered_with_a_quarter_of_a_mib_for_each_operation() -> None:
    with pytest.raises(UsageError, match="12000 IOPS allow 3000"):
        offer("rds-gp3,size=1000GiB,throughput=4000")
    assert offer("rds-gp3,size=1000GiB,iops=16000,throughput=4000").limits[1].rate_per_s == 4000 * MIB


@pytest.mark.parametrize(
    ("text", "per_month"),
    [
        ("gp3,size=700GiB,instance=r7i.2xlarge", 442.32),
        ("gp3,size=700GiB,iops=10000,throughput=500,instance=r7i.2xlarge", 492.32),
        ("io2,size=700GiB,iops=16000,instance=r7i.2xlarge", 1513.82),
        ("local-i7i.2xlarge", 551.15),
        ("gp2,size=100GiB", 10.0),
        ("P20", 73.22),
        ("pd-ssd,size=100GiB", 17.0),
        # 32,000 at 0.065, 32,000 at 0.046 and 6,000 at 0.032, beside 1,000 GiB at 0.125.
        ("io2,size=1000GiB,iops=70000", 125 + 2080 + 1472 + 192),
    ],
)
def test_monthly_prices(text: str, per_month: float) -> None:
    price = offer(text).price
    assert price.per_month == per_month
    assert price.currency == "USD" and not price.missing
    assert sum(part.amount for part in price.parts) == pytest.approx(per_month, abs=0.006)


def test_a_price_that_is_not_known_is_not_guessed() -> None:
    price = offer("gp3,size=400GiB,instance=m6g.large").price
    assert (price.per_month, price.missing) == (None, ("m6g.large",))
    assert [part.amount for part in price.parts] == [32.0]
    assert offer("st1,size=500GiB").price.missing == ("st1",)


def test_io2_gives_a_quarter_of_a_mib_for_each_operation() -> None:
    throughput = [offer(f"io2,size=100GiB,iops={iops}").limits[1].rate_per_s for iops in (1000, 16_000)]
    assert throughput == [round(256 * MIB), 4000 * MIB]


@pytest.mark.parametrize(
    ("iops", "mib_s", "streams_mib_s"),
    [(1000, 500, 250), (2000, 500, 500), (32_000, 500, 500), (48_000, 750, 750), (64_000, 1000, 1000)],
)
def test_io1_gives_500_mib_until_it_has_more_than_32000_operations(
    iops: int, mib_s: int, streams_mib_s: int
) -> None:
    ordered = offer(f"io1,size=1280GiB,iops={iops}")
    assert ordered.limits[1].rate_per_s == mib_s * MIB
    assert [phase.bytes_per_s / MIB for phase in ordered.deliveries[1].phases] == [streams_mib_s]


def test_what_is_assumed_and_where_it_was_read_is_said_of_every_volume() -> None:
    for kind in CATALOGUE.catalogue.volumes:
        volume = offer(example(kind))
        assert volume.sources and all(source.url.startswith("https://") for source in volume.sources)
        assert volume.latency.low_ms < volume.latency.median_ms < volume.latency.high_ms
        assert volume.latency.assumed or volume.provider == "aws"


def example(kind: str) -> str:
    entry = CATALOGUE.catalogue.volumes[kind]
    first = entry.ranges[0].operations
    ordered = first is not None and first.settable is not None and first.settable.required
    return f"{kind},size={entry.ranges[0].from_gib}GiB{',iops=200' if ordered else ''}"


@pytest.mark.parametrize("kind", CATALOGUE.catalogue.volumes)
def test_every_volume_is_explained_at_both_ends_of_its_sizes(kind: str) -> None:
    most = CATALOGUE.catalogue.volumes[kind].ranges[-1].to_gib
    for text in (
        example(kind),
        example(kind).replace(
            f"size={CATALOGUE.catalogue.volumes[kind].ranges[0].from_gib}GiB", f"size={most}GiB"
        ),
    ):
        volume = offer(text)
        assert parse_volume(text_of(volume.spec), CATALOGUE.catalogue) == volume.spec
        for delivered in volume.deliveries:
            rates = [phase.requests_per_s for phase in delivered.phases]
            assert rates == sorted(rates, reverse=True), "what credits gave is gone with them"
            assert delivered.phases[-1].until_s is None
            ends = [phase.until_s for phase in delivered.phases[:-1]]
            assert all(end is not None and end > 0 for end in ends)


def test_credits_that_are_not_needed_are_not_spent() -> None:
    """At 400 MiB/s through an instance that gives 312.5 MB/s for ever, the allowance pays the rest alone."""
    limits = limits_of(
        parse_volume("gp3,size=500GiB,throughput=400,instance=r7i.2xlarge", CATALOGUE.catalogue),
        CATALOGUE.catalogue,
    )
    delivered = delivery("scan", limits, 128 * 1024, sequential=True)
    assert delivered.phases[0].until_s == pytest.approx((1250e6 - 312.5e6) * 1800 / (400 * MIB - 312.5e6))
