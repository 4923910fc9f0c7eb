"""Volumes as typed, the catalogue and files that correct it: what is understood, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.explain import explain, list_types, text_of
from pgassay.cloud_volumes.parse import KEYS, parse_volume
from pgassay.cloud_volumes.pattern import parse_pattern
from pgassay.cloud_volumes.sustained_volumes import cheapest_sustained, sustained_volumes
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import Catalogue
from pgassay.model.volumes.offer import VolumeSpec

LOADED = load_catalogue()
CATALOGUE = LOADED.catalogue


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("gp2,size=100GiB", VolumeSpec(name="gp2", size_gib=100)),
        ("GP2,size=1TB", VolumeSpec(name="gp2", size_gib=1024)),
        ("p10", VolumeSpec(name="P10", size_gib=128)),
        (
            "gp3, size=400GiB ,iops=12000,throughput=500.5",
            VolumeSpec(name="gp3", size_gib=400, iops=12000, throughput=500.5),
        ),
        (
            "gp3,size=40GiB,flush_latency=500us,first_touch=20ms",
            VolumeSpec(name="gp3", size_gib=40, flush_latency_ms=0.5, first_touch_ms=20.0),
        ),
        ("gp2,size=40GiB,credits=1000", VolumeSpec(name="gp2", size_gib=40, credits="1000")),
        ("gp2,size=40GiB,region=us-east-1", VolumeSpec(name="gp2", size_gib=40, region="us-east-1")),
        ("local-i7i.2xlarge", VolumeSpec(name="local-i7i.2xlarge", size_gib=1746, instance="i7i.2xlarge")),
    ],
)
def test_a_volume_is_understood(text: str, spec: VolumeSpec) -> None:
    assert parse_volume(text, CATALOGUE) == spec


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gp3,size=20GiB,iops=20000", "gp3 gives at most 500 IOPS per GiB: 20GiB allows 10000"),
        ("gp3,size=200GiB,iops=90000", "gp3 gives at most 80000 IOPS: 90000 is more."),
        ("gp3,size=20GiB,iops=2000", "gp3 includes 3000 IOPS: leave iops out, or order more of it."),
        ("gp3,size=20GiB,throughput=800", "gp3 gives at most 0.25 MiB/s per IOPS: 3000 IOPS allow 750"),
        (
            "gp2,size=20GiB,iops=3000",
            "gp2 of 20 GiB has no IOPS to order, its size decides them: leave iops out.",
        ),
        ("gp2,size=20GiB,throughput=300", "gp2 of 20 GiB has no throughput to order: leave throughput out."),
        ("st1,size=200GiB,iops=300", "st1 limits bytes only: leave iops out."),
        ("io2,size=100GiB,iops=99", "io2 is ordered with at least 100 IOPS: type iops=100 or more."),
        ("io1,size=100GiB,iops=1", "io1 is ordered with at least 100 IOPS: type iops=100 or more."),
        ("io2,size=100GiB", "io2 is ordered with its IOPS: type io2,…,iops=3000."),
        (
            "gp2,size=20TiB",
            "gp2 has sizes from 1 to 16384 GiB: 'size=20TiB' in 'gp2,size=20TiB' is not one of them.",
        ),
        ("P10,size=100GiB", "P10 has 128 GiB: 'size=100GiB' in 'P10,size=100GiB' is not one of them."),
        (
            "gp2,size=100.5GiB",
            "'size=100.5GiB' in 'gp2,size=100.5GiB' is not a whole number of GiB: type size=101GiB.",
        ),
        ("gp2", "'gp2' has no size: type gp2,size=100GiB."),
        (
            "gp2,size=much",
            "'gp2,size=much': size: 'much' is not a size: write a number and GiB or TiB, for example 100GiB",
        ),
        (
            "gp2,size=1GiB,credits=some",
            "'credits=some' is not a fill: type full, empty, a share as 50%, or a number.",
        ),
        (
            "gp2,size=1GiB,credits=101%",
            "'credits=101%' is not a fill: type full, empty, a share as 50%, or a number.",
        ),
        ("gp2,size=1GiB,credits=6000000", "gp2 holds 5400000 credits: credits=6000000 is more."),
        (
            "gp3,size=1GiB,flush_latency=90",
            "'gp3,size=1GiB,flush_latency=90': flush_latency: '90' is more than 1m: "
            "write for example 2ms or 500us",
        ),
        (
            "gp3,size=1GiB,first_touch=2min",
            "'gp3,size=1GiB,first_touch=2min': first_touch: '2min' is more than 1m",
        ),
        (
            "gp3,size=1GiB,first_touch=0ms",
            "'gp3,size=1GiB,first_touch=0ms': first_touch: '0ms' is less than 1us",
        ),
        (
            "local-i7i.2xlarge,first_touch=1ms",
            "local-i7i.2xlarge is a local disk, which no snapshot is restored to: leave first_touch out.",
        ),
        ("gp3,size=1GiB,credits=empty", "gp3 has no burst credits: leave credits out."),
        ("gp2,size=1TiB,credits=99", "gp2 of 1024 GiB has no burst credits: leave credits out."),
        ("local-i7i.2xlarge,credits=empty", "local-i7i.2xlarge has no burst credits: leave credits out."),
        ("P4,credits=500", "P4 has 2 buckets of credits: type credits=full, empty or 50%."),
        ("gp3,size=1GiB,instance=P4", "The catalogue doesn't know the instance 'P4': it has m6g.large"),
        ("P4,instance=m6g.large", "m6g.large is an instance of aws and P4 a volume of azure."),
        (
            "local-i7i.2xlarge,instance=m6g.large",
            "local-i7i.2xlarge is a disk of i7i.2xlarge, not of m6g.large",
        ),
        ("gp3,size=1GiB,region=mars", "The catalogue has no prices for 'mars': it has us-east-1."),
        (
            "gp4,size=1GiB",
            "There is no volume 'gp4' in the catalogue (in 'gp4,size=1GiB'): the volumes are gp2, gp3",
        ),
        ("gp3,colour=red", "the volume 'gp3,colour=red' has no option 'colour': its options are size, iops"),
        ("gp3,size", "the volume 'gp3,size': option size has no value: write size=…"),
        (
            "gp3,size=1GiB,size=2GiB",
            "the volume 'gp3,size=1GiB,size=2GiB': option size is given twice: give it once",
        ),
        (
            "gp3,size=1GiB,iops=many",
            "'iops=many' in 'gp3,size=1GiB,iops=many' is not a number above 0: type operations a second",
        ),
        ("rds-gp3,size=399GiB,iops=12000", "rds-gp3 of 399 GiB has no IOPS to order, its size decides them"),
    ],
)
def test_what_cannot_be_had_gets_its_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain([text], LOADED)
    assert str(caught.value).startswith(sentence)
    assert caught.value.exit_code == 2


words = st.sampled_from(
    [*KEYS, *CATALOGUE.volumes, *CATALOGUE.instances, "full", "50%", "GiB", "=", ",", "1", "9", "."]
)


@settings(max_examples=60)
@given(st.lists(words | st.text(max_size=4), max_size=8).map("".join))
def test_any_text_is_a_volume_or_gets_a_sentence(text: str) -> None:
    try:
        explain([text], LOADED)
    except UsageError as error:
        assert str(error)


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["depth", "=", ",", "9", "size", "8kB", "%"])).map("".join)
)
def test_any_load_is_one_or_gets_a_sentence(text: str) -> None:
    try:
        assert parse_pattern(text)["depth"] >= 1
    except UsageError as error:
        assert str(error)


def test_a_load_is_understood() -> None:
    text = "depth=32,size=128kB,order=sequential,duration=2m,writes=30%,flush=4"
    assert parse_pattern(text) == {
        "depth": 32,
        "request_bytes": 131_072,
        "order": "sequential",
        "duration_s": 120.0,
        "write_share": 0.3,
        "flush_after": 4,
    }


@pytest.mark.parametrize(
    "text",
    ["", "depth=0", "depth=2,depth=3", "order=backwards", "duration=2d", "writes=101%", "size=0", "size=2GB"],
)
def test_a_load_that_is_none_gets_a_sentence(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pattern(text)


def test_the_list_shows_what_can_be_typed() -> None:
    listed = list_types(LOADED)
    assert {kind.name for kind in listed.types} == set(CATALOGUE.volumes)
    for kind in listed.types:
        volume = explain([kind.example], LOADED).volumes[0]
        assert kind.size_min_gib <= volume.spec.size_gib <= kind.size_max_gib
        assert (kind.limits, kind.price) == (volume.limits, volume.price)
    assert {kind.name for kind in listed.types if "credits" in kind.keys} == {
        *("gp2", "st1", "rds-gp2", "P4", "P6", "P10", "P15", "P20")
    }


OWN = """
date = "2026-10-01"

[volumes.gp3.latency]
median_ms = 0.9

[volumes.cheap]
provider = "hoster"
title = "a hoster's volume"
latency = { median_ms = 2, low_ms = 1, high_ms = 4, sigma = 0.5 }

[[volumes.cheap.ranges]]
from_gib = 10
to_gib = 1000
operations = { base = 500, quantum_kib = 16 }

[prices.hoster]
provider = "hoster"
region = "here"
currency = "EUR"
date = "2026-10"

[prices.hoster.volumes]
cheap = { per_gib = 0.05 }
"""


def test_a_file_of_ones_own_adds_and_corrects(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    loaded = load_catalogue([own])
    gp3, cheap = explain(["gp3,size=100GiB", "cheap,size=100GiB"], loaded).volumes
    assert gp3.latency.median_ms == 0.9
    assert gp3.latency.sigma == CATALOGUE.volumes["gp3"].latency.sigma, "what it does not say stays"
    assert (cheap.price.per_month, cheap.price.currency) == (5.0, "EUR")
    assert [(source.title, source.read) for source in cheap.sources] == [(str(own), "2026-10-01")]
    facts = list_types(loaded).catalogue
    assert (facts.date, facts.files) == (CATALOGUE.date, (str(own),))


@pytest.mark.parametrize(
    ("sold", "example"),
    [
        ("maximum = 5000", "cheap,size=500GiB,iops=5000"),
        ("maximum = 50000, per_gib = 3", "cheap,size=500GiB,iops=1500"),
        ("maximum = 50000, minimum = 20000", "cheap,size=500GiB,iops=20000"),
        ("maximum = 50000, minimum = 2000, per_gib = 3", "cheap,size=1000GiB,iops=3000"),
    ],
)
def test_a_volume_of_ones_own_that_is_sold_with_its_operations_is_listed(
    tmp_path: Path, sold: str, example: str
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN.replace("{ base = 500,", f"{{ settable = {{ {sold}, required = true }},"))
    loaded = load_catalogue([own])
    assert next(kind.example for kind in list_types(loaded).types if kind.name == "cheap") == example


def test_the_cheapest_is_one_in_the_currency_of_the_volume(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    euros = 'provider = "aws"\nregion = "eu"\ncurrency = "EUR"\ndate = "2026-10"'
    own.write_text(f"[prices.eu]\n{euros}\n[prices.eu.volumes]\nio1 = {{ per_gib = 0.001 }}\n")
    loaded = load_catalogue([own]).catalogue
    volume = parse_volume("gp2,size=40GiB", loaded)
    found = sustained_volumes(volume, loaded, 2900, 23e6)
    assert [(each.volume, each.currency) for each in found] == [
        ("gp2,size=967GiB", "USD"),
        ("gp3,size=40GiB", "USD"),
    ]
    other = cheapest_sustained(volume, loaded, 70_000, 1e6)
    assert other is not None and text_of(other) == "gp3,size=140GiB,iops=70000"


def test_each_of_several_files_is_the_source_of_its_own_entries(tmp_path: Path) -> None:
    files = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for file in files:
        file.write_text(OWN.replace("cheap", file.stem).replace("prices.hoster", f"prices.{file.stem}"))
    volumes = explain(["one,size=100GiB", "two,size=100GiB"], load_catalogue(files)).volumes
    assert [volume.sources[0].title for volume in volumes] == [str(file) for file in files]


ONE_RANGE = "[[volumes.gp3.ranges]]\nfrom_gib = 1\nto_gib = 9\n"
INSTANCE = "[instances.mine]\nprovider = 'aws'\n"
PRICES = "[prices.aws-us-east-1.volumes]\n"
NEW = """
[volumes.'{name}']
provider = "hoster"
title = "new"
latency = {{ median_ms = 2, low_ms = 1, high_ms = 4, sigma = 0.5 }}
ranges = [{{ from_gib = 1, to_gib = 9, throughput = {{ base = 9 }} }}]
"""
NAMES = {
    "a,b": "a name has no comma",
    "Gp3": "it differs from volumes.gp3 only in capital letters",
    "unlimited": "'unlimited' has another meaning",
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("volumes = 3", "'volumes' must be tables, as [volumes.NAME]"),
        ("[colours.red]", "there is no table 'colours'"),
        ("[volumes.new]\ntitle = 'x'", "volumes.new.provider: Field required"),
        ("[volumes.gp3]\nsources = ['hearsay']", "volumes.gp3: there is no source 'hearsay'"),
        ("[volumes.gp3.latency]\nmedian_ms = 50", "median_ms 50.0 is not between low_ms and high_ms"),
        ("[[volumes.gp2.ranges]]\nfrom_gib = 9\nto_gib = 1", "from_gib 9 is above to_gib 1"),
        ("[volumes.gp2.ranges]", "volumes.gp2.ranges"),
        ("[volumes.gp3.latency]\nmedian_ms = inf\nhigh_ms = inf", "volumes.gp3.latency.median_ms: Input"),
        (f"{ONE_RANGE}operations = {{ base = inf, quantum_kib = 4 }}", "ranges.0.operations.base: Input"),
        (f"{ONE_RANGE}operations = {{ base = 9, quantum_kib = 9999999 }}", "operations.quantum_kib: Input"),
        (
            f"{ONE_RANGE}throughput = {{ base = 9, settable = {{ minimum = 3, maximum = 2 }} }}",
            "throughput.settable: minimum 3.0 is above maximum 2.0",
        ),
        (f"{ONE_RANGE}throughput = {{ base = 9, minimum = 3, maximum = 2 }}", "minimum 3.0 is above maximum"),
        (f"{INSTANCE}operations = {{ base = 3000 }}", "instances.mine: operations need quantum_kib"),
        (
            f"{PRICES}gp3 = {{ operations = [{{ above = 9, price = 1 }}, {{ above = 0, price = 2 }}] }}",
            "volumes.gp3: the tier above 0 comes after that above 9",
        ),
        (f"{PRICES}gp4 = {{ per_gib = 1 }}", "prices.aws-us-east-1.volumes: there is no volume 'gp4'"),
        *((NEW.format(name=name), words) for name, words in NAMES.items()),
        ("x = = 3", "is not valid TOML"),
    ],
)
def test_a_file_that_makes_no_sense_gets_its_sentence(tmp_path: Path, text: str, words: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_catalogue([own])
    assert words in str(caught.value) and str(own) in str(caught.value)


def test_figures_whose_product_nobody_sells_get_a_sentence(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(f"{ONE_RANGE}throughput = {{ per_gib = 1e11 }}")
    with pytest.raises(UsageError, match="gp3 of 9 GiB: its throughput would be more than anything"):
        explain(["gp3,size=9GiB"], load_catalogue([own]))
    # A bucket that holds less than a credit is none.
    own.write_text(
        f"{ONE_RANGE}operations = {{ base = 9, quantum_kib = 4, burst = {{ peak = 99, credits = 0.1 }} }}"
    )
    (limiter,) = explain(["gp3,size=9GiB"], load_catalogue([own])).volumes[0].model.limiters
    assert (limiter.peak, limiter.capacity) == (9, 0)


def test_a_file_that_is_not_there_gets_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read"):
        load_catalogue([tmp_path / "none.toml"])


values = (
    st.none()
    | st.integers(-5, 10**6)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
)


@given(
    st.sampled_from(["date", "sources", "volumes", "instances", "prices"]),
    st.dictionaries(st.text(max_size=5), values),
)
def test_a_catalogue_of_any_shape_is_refused_and_nothing_else(key: str, value: dict[str, object]) -> None:
    document = CATALOGUE.model_dump(mode="python")
    document[key] = {**document[key], **value, "x": value} if isinstance(document[key], dict) else value
    with pytest.raises(ValidationError):
        Catalogue.model_validate(document)
