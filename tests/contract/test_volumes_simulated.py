"""The native simulator against closed forms: of the catalogue's volumes, of queues, of latency.

The closed forms are Python's and the model is Rust's: they share the catalogue and nothing else.
"""

import json
import math
from collections.abc import Sequence

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.explain import explain, list_types
from pgassay.cloud_volumes.pattern import parse_pattern, simulate_load
from pgassay.model.volumes.offer import Delivery, VolumeOffer
from pgassay.native.process import NativeProcess, StatementError
from pgassay.native.simulate import PatternSpec, Simulated, simulate
from pgassay.report import schema
from pgassay.report.volumes import page_of

LOADED = load_catalogue()
# What a bucket of the peak lets through at once: 10 ms of it.
AT_ONCE_S = 0.01
# Enough for any of these volumes to be limited by its limits and not by its latency.
DEPTH = 1024


def offers(*texts: str) -> tuple[VolumeOffer, ...]:
    return explain(texts, LOADED).volumes


def run(
    volumes: Sequence[VolumeOffer], delivery: Delivery, duration_s: float, depth: int = DEPTH
) -> list[Simulated]:
    pattern: PatternSpec = {
        "depth": depth,
        "request_bytes": delivery.request_bytes,
        "order": "sequential" if delivery.sequential else "random",
        "duration_s": duration_s,
    }
    return simulate([volume.model.model_dump(mode="json") for volume in volumes], pattern=pattern)


def expected_requests(delivery: Delivery, duration_s: float) -> float:
    """What the closed form lets through until then."""
    total, before_s = 0.0, 0.0
    for phase in delivery.phases:
        until_s = min(duration_s, phase.until_s if phase.until_s is not None else duration_s)
        total += max(0.0, until_s - before_s) * phase.requests_per_s
        before_s = until_s
    return total


# A hundredth of the credits, so that each burst ends within the simulated time.
SOON = [
    "gp2,size=33GiB,credits=1%",
    "gp2,size=100GiB,credits=1%",
    "gp2,size=334GiB,credits=1%",
    "gp2,size=250GiB,credits=empty",
    "gp3,size=100GiB",
    "gp3,size=400GiB,iops=12000,throughput=500",
    "io2,size=100GiB,iops=16000",
    "st1,size=1TiB,credits=1%",
    "P4,credits=1%",
    "P20,credits=1%",
    "premium-v2,size=100GiB",
    "pd-balanced,size=100GiB",
    "hyperdisk-balanced,size=100GiB",
    "rds-gp3,size=400GiB",
    "io2,size=1000GiB,iops=20000,instance=m6g.large,credits=1%",
    "gp3,size=400GiB,iops=12000,throughput=500,instance=m6g.large,credits=1%",
]


@pytest.mark.parametrize("load", [0, 1], ids=["random", "sequential"])
def test_the_simulator_meets_the_closed_form(load: int) -> None:
    duration_s = 90.0
    volumes = offers(*SOON)
    answers = run(volumes, volumes[0].deliveries[load], duration_s)
    for volume, answer in zip(volumes, answers, strict=True):
        delivery = volume.deliveries[load]
        total = expected_requests(delivery, duration_s)
        # Stripes are never loaded quite evenly; a burst's last requests are on their way when it ends.
        slack = 0.01 * total + DEPTH + AT_ONCE_S * delivery.phases[0].requests_per_s
        assert answer["requests"] == pytest.approx(total, abs=slack), volume.model.name
        ends = [phase.until_s for phase in delivery.phases if phase.until_s is not None]
        ended = [credits["ended_s"] for credits in answer["credits"] if credits["ended_s"] is not None]
        for end_s in (end for end in ends if end < 0.95 * duration_s):
            nearest = min(ended, key=lambda found: abs(found - end_s))
            assert nearest == pytest.approx(end_s, rel=0.01, abs=2 * AT_ONCE_S), volume.model.name
        steady = delivery.phases[-1]
        if not ends or ends[-1] < 0.8 * duration_s:
            last = answer["series"]["requests"][-10:-1]
            assert sum(last) / len(last) == pytest.approx(steady.requests_per_s, rel=0.01), volume.model.name


@pytest.mark.parametrize(
    ("text", "before", "after", "end_s"),
    [
        ("gp2,size=100GiB", 3000, 300, 2000),
        ("P4", 3500, 120, 1800),
        pytest.param(
            "io2,size=1000GiB,iops=20000,instance=m6g.large", 20_000, 3600, 1800, marks=pytest.mark.slow
        ),
    ],
)
def test_whole_bursts_end_in_their_second(text: str, before: int, after: int, end_s: int) -> None:
    (volume,) = offers(text)
    (answer,) = run([volume], volume.deliveries[0], end_s + 20.0, depth=64)
    per_second = answer["series"]["requests"]
    # Of millions of random places a few are adjacent by chance, and then one operation is saved.
    assert set(per_second[1 : end_s - 1]) <= {before, before + 1}
    assert set(per_second[end_s + 2 : end_s + 19]) <= {after, after + 1}
    (ended_s,) = [credits["ended_s"] for credits in answer["credits"] if credits["ended_s"] is not None]
    assert ended_s == pytest.approx(end_s, abs=0.1)


def test_latency_without_limits_is_the_lognormal_of_the_catalogue() -> None:
    volumes = offers(
        "gp3,size=100GiB,iops=16000,throughput=1000", "io2,size=100GiB,iops=16000", "local-i7i.2xlarge"
    )
    answers = run(volumes, volumes[0].deliveries[0], 30.0, depth=1)
    for volume, answer in zip(volumes, answers, strict=True):
        latency, model = answer["latency_ms"], volume.model.latency.read
        assert latency is not None and model.bytes_per_second is not None
        transfer_ms = 8192 / model.bytes_per_second * 1000
        # A quantile's standard error: the square root of p(1-p)/n over the density there.
        for share, z, name in ((0.5, 0.0, "p50"), (0.99, 2.326347874, "p99")):
            factor = math.exp(model.sigma * z)
            density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / model.sigma
            error = math.sqrt(share * (1 - share) / answer["requests"]) / density
            expected_ms = model.median_ns * factor / 1e6 + transfer_ms
            assert latency[name] == pytest.approx(expected_ms, rel=4 * error + 0.001), volume.model.name
        assert answer["queued_ms"] < 0.01 * latency["p50"]
        mean_ms = model.median_ns * math.exp(model.sigma**2 / 2) / 1e6 + transfer_ms
        assert answer["requests_per_s"] == pytest.approx(1000 / mean_ms, rel=0.02)


@pytest.mark.parametrize(("depth", "iops"), [(8, 3000), (32, 3000), (32, 12_000)])
def test_a_full_queue_takes_the_time_that_little_s_law_says(depth: int, iops: int) -> None:
    (volume,) = offers(f"gp3,size=100GiB,iops={iops}")
    (answer,) = run([volume], volume.deliveries[0], 20.0, depth=depth)
    latency = answer["latency_ms"]
    assert latency is not None
    assert latency["mean"] == pytest.approx(1000 * depth / iops, rel=0.005)
    assert latency["p50"] == pytest.approx(1000 * depth / iops, rel=0.01)


def test_a_trace_is_replayed_on_many_volumes_alike() -> None:
    """Arrivals twice as fast as the limit: the last is done when all have been let through."""
    count, per_s = 30_000, 6000
    trace_of = {
        "arrival_ns": [index * 1_000_000_000 // per_s for index in range(count)],
        "kind": "rw" * (count // 2),
        "offset": [index * 7919 % 100_000 * 1_048_576 for index in range(count)],
        "length": [8192] * count,
    }
    sizes = (100, 200, 300)
    volumes = offers(*(f"gp3,size={size}GiB" for size in sizes), "gp3,size=100GiB,iops=12000")
    models = [volume.model.model_dump(mode="json") for volume in volumes]
    answers = simulate(models, trace=trace_of)  # type: ignore[arg-type]  # built as a plain dictionary
    assert [answer["model"] for answer in answers] == [volume.model.name for volume in volumes]
    for answer in answers[:3]:
        # The bucket of the peak held 10 ms of it.
        assert answer["elapsed_s"] == pytest.approx(count / 3000 - AT_ONCE_S, abs=0.002)
        assert answer["operations"] == answer["requests"] == count
    assert answers[3]["elapsed_s"] == pytest.approx(count / per_s, abs=0.01)
    again = simulate(models, trace=trace_of, threads=1)  # type: ignore[arg-type]
    assert again == answers, "the seed decides, not the threads"


def test_what_the_simulator_can_not_run_is_one_sentence() -> None:
    (volume,) = offers("gp3,size=100GiB")
    model = volume.model.model_dump(mode="json")
    pattern: PatternSpec = {"depth": 1, "request_bytes": 8192, "order": "random", "duration_s": 1.0}
    with pytest.raises(StatementError, match=r"depth is 0, but must be from 1"):
        simulate([model], pattern={**pattern, "depth": 0})
    with pytest.raises(StatementError, match="interval_s is 0"):
        simulate([model], pattern=pattern, interval_s=0)
    with pytest.raises(StatementError, match=r"stripes\.count is 0"):
        simulate([{**model, "stripes": {"count": 0, "width_bytes": 1}}], pattern=pattern)
    with pytest.raises(StatementError, match="offset has 0 entries"):
        simulate([model], trace={"arrival_ns": [0], "kind": "r", "offset": [], "length": [1]})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
)
shapes = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)


@settings(max_examples=40)
@given(key=st.sampled_from(["models", "work", "interval_s", "seed", "threads"]), value=shapes)
def test_any_document_is_answered_by_a_line(key: str, value: object) -> None:
    document = {"models": [], "work": {"pattern": {}}, "threads": 1, key: value}
    process = NativeProcess("simulate")
    try:
        process.send(json.loads(json.dumps(document)))
        assert set(process.receive_line()) == {"error"}
    finally:
        process.end()


def test_the_schema_file_is_up_to_date_and_obeyed() -> None:
    assert schema.VOLUMES.file.read_text(encoding="utf-8") == schema.VOLUMES.text()
    simulated = explain(["gp2,size=40GiB,instance=m6g.large", "P30"], LOADED)
    pattern = parse_pattern("depth=4,duration=1s")
    simulated = simulated.model_copy(update={"simulated": simulate_load(simulated.volumes, pattern)})
    for result in (list_types(LOADED), simulated):
        document = json.loads(page_of(result).json())
        jsonschema.validate(document, schema.VOLUMES.schema(), cls=jsonschema.Draft202012Validator)
        assert document["schema"] == 1
        assert page_of(result).terminal(unicode=False).isascii()
    assert [load.volume for load in simulated.simulated] == [
        volume.model.name for volume in simulated.volumes
    ]
