"""Fitting a volume from fio's JSON: recorded files, and figures whose answer is known."""

import json
import math
import tomllib
from datetime import date
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.explain import explain
from pgassay.cloud_volumes.fio import read_fio, size_of
from pgassay.cloud_volumes.fit import fit, to_toml
from pgassay.errors import UsageError

# fio 3.33 on a virtual disk (ext4, direct I/O, io_uring; commit.json with psync), four seconds each, recorded
# on a machine that had other work.
RECORDED = Path(__file__).resolve().parents[2] / "samples" / "fio"
SHARES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9)


def job(
    *,
    median_ns: float,
    sigma: float,
    depth: int = 1,
    size: str = "8k",
    rw: str = "randread",
    iops: float = 1500.0,
) -> dict[str, Any]:
    """A job as fio writes it, whose latency is a lognormal to the digit."""
    bytes_per_s = iops * (size_of(size) or 0)
    percentiles = {
        f"{share:.6f}": round(median_ns * math.exp(sigma * NormalDist().inv_cdf(share / 100)))
        for share in SHARES
    }
    done = {"total_ios": 1000, "iops": iops, "bw_bytes": bytes_per_s, "clat_ns": {"percentile": percentiles}}
    direction = "write" if rw.endswith("write") else "read"
    options = {"rw": rw, "bs": size, "iodepth": str(depth)}
    return {"jobname": "any", "job options": options, direction: done}


def written(folder: Path, *jobs: dict[str, Any]) -> Path:
    file = folder / "fio.json"
    file.write_text(
        json.dumps({"fio version": "fio-3.33", "global options": {"size": "3G"}, "jobs": list(jobs)})
    )
    return file


def test_operations_are_those_of_random_requests(tmp_path: Path) -> None:
    """Adjacent requests may share an operation, so that many of them tell no limit."""
    alone = job(median_ns=600_000, sigma=0.4)
    many = job(median_ns=10e6, sigma=0.1, depth=32, iops=3000)
    in_sequence = job(median_ns=2e6, sigma=0.1, depth=32, iops=16_000, rw="read")
    fitted = fit(read_fio(written(tmp_path, alone, many, in_sequence)), "mine", None)
    here = fitted.entry.ranges[0]
    assert here.operations is not None and here.operations.base == 3000
    assert not any("was random" in note for note in fitted.notes)
    alone = job(median_ns=600_000, sigma=0.4, rw="read")
    fitted = fit(read_fio(written(tmp_path, alone, in_sequence)), "mine", None)
    assert any("No run of small requests was random" in note for note in fitted.notes)


def test_a_known_volume_is_found_again(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        job(median_ns=600_000, sigma=0.4),
        # 248 KiB more take 254 µs more: 10⁹ bytes a second.
        job(median_ns=600_000 + 253_952, sigma=0.4, size="256k", iops=400),
        job(median_ns=900_000, sigma=0.4, rw="randwrite"),
        job(median_ns=5e6, sigma=0.1, depth=32, iops=3000),
        job(median_ns=10e6, sigma=0.1, depth=64, iops=3001),
        job(median_ns=10e6, sigma=0.1, depth=32, size="128k", rw="read", iops=1000),
        job(median_ns=20e6, sigma=0.1, depth=64, size="128k", rw="read", iops=1000),
    )
    fitted = fit(read_fio(file), "mine", None)
    latency, here = fitted.entry.latency, fitted.entry.ranges[0]
    assert latency.stream_mb_s == pytest.approx(1000, rel=1e-6)
    # The median is without the time of the bytes.
    assert latency.median_ms == pytest.approx(0.6 - 0.008192, rel=1e-6)
    assert latency.sigma == pytest.approx(0.4, rel=1e-4)
    assert latency.write_median_ms == pytest.approx(0.9 - 0.008192, rel=1e-6)
    assert here.operations is not None and here.operations.base == 3001
    assert here.throughput is not None and here.throughput.base == pytest.approx(131.1)
    assert (here.from_gib, here.to_gib) == (3, 3)
    said = " ".join(fitted.notes)
    assert "within 0 %" in said
    assert said.count("is the volume's ceiling") == 2
    assert "bursts are not fitted" in said and "No run made a flush" in said


def test_a_rate_that_still_rises_is_no_ceiling(tmp_path: Path) -> None:
    alone = job(median_ns=600_000, sigma=0.4)
    more = [job(median_ns=6e6, sigma=0.1, depth=depth, iops=100.0 * depth) for depth in (16, 32)]
    rising = " ".join(fit(read_fio(written(tmp_path, alone, *more)), "mine", 10).notes)
    assert "Depth 32 brought 100 % more operations than less: 3,200 a second may not be the ceiling" in rising
    assert "No run measures throughput" in rising
    single = " ".join(fit(read_fio(written(tmp_path, alone)), "mine", 10).notes)
    assert "Only one depth measures operations" in single


def told_each_second(rates: list[float], size: str = "8k") -> str:
    """What fio --status-interval=1 writes: after each second, all from the beginning."""
    documents, total = [], 0.0
    for second, rate in enumerate(rates, start=1):
        total += rate
        told = job(median_ns=6e5, sigma=0.4, depth=32, size=size, iops=total / second)
        told["read"] |= {
            "runtime": 1000 * second,
            "total_ios": total,
            "io_bytes": total * (size_of(size) or 0),
        }
        documents.append({"fio version": "fio-3.33", "jobs": [told]})
    return "\n".join(json.dumps(document) for document in documents)


@pytest.mark.parametrize(("size", "unit_bytes"), [("8k", 1), ("128k", 1024**2 / (128 * 1024))])
def test_the_end_of_a_burst_in_a_series_is_fitted(tmp_path: Path, size: str, unit_bytes: float) -> None:
    """3,000 a second for 20.5 s, then 300: 2,700 · 20.5 credits; the rates tremble by 1 %."""
    rates = [3000.0] * 20 + [1650.0] + [300.0] * 15
    trembling = [rate * (1 + 0.01 * (-1) ** second) for second, rate in enumerate(rates)]
    file = tmp_path / "series.json"
    file.write_text(told_each_second(trembling, size))
    alone = read_fio(written(tmp_path, job(median_ns=6e5, sigma=0.4)))
    fitted = fit([*read_fio(file), *alone], "mine", 10)
    here = fitted.entry.ranges[0]
    rate = here.operations if size == "8k" else here.throughput
    assert rate is not None and rate.burst is not None
    scale = 1 if size == "8k" else 128 * 1024 / 1e6
    assert rate.base == pytest.approx(300 * scale, rel=0.02)
    assert rate.burst.peak == pytest.approx(3000 * scale, rel=0.02)
    assert rate.burst.credits == pytest.approx(2700 * 20.5 / unit_bytes, rel=0.02)
    assert any("fell from" in note for note in fitted.notes)
    own = tmp_path / "mine.toml"
    own.write_text(to_toml(fitted, date(2026, 11, 23)))
    volume = explain(["mine"], load_catalogue([own])).volumes[0]
    assert volume.limits[0 if size == "8k" else -1].burst_s == pytest.approx(20.5, rel=0.03)


@pytest.mark.parametrize(
    "rates",
    [
        [3000.0] * 30,
        [3000.0] * 15 + [2700.0] * 15,
        [300.0] * 15 + [3000.0] * 15,
        [3000.0, 300.0] * 15,
        [3000.0] * 9,
    ],
    ids=["steady", "a little less", "rising", "up and down", "short"],
)
def test_what_is_no_end_of_a_burst_is_not_fitted(tmp_path: Path, rates: list[float]) -> None:
    file = tmp_path / "series.json"
    file.write_text(told_each_second(rates))
    alone = read_fio(written(tmp_path, job(median_ns=6e5, sigma=0.4)))
    operations = fit([*read_fio(file), *alone], "mine", 10).entry.ranges[0].operations
    assert operations is not None and operations.burst is None


def test_a_recorded_series_is_read() -> None:
    """fio --status-interval=1, three seconds."""
    (run,) = read_fio(RECORDED / "series.json")
    text = (RECORDED / "series.json").read_text()
    last = json.loads(text[text.rindex('{\n  "fio version"') :])["jobs"][0]["read"]
    assert len(run.series) == text.count('"fio version"') >= 3
    assert sum(interval.operations for interval in run.series) == last["total_ios"]
    assert sum(interval.seconds for interval in run.series) == pytest.approx(last["runtime"] / 1000)
    assert run.iops == pytest.approx(last["iops"])


def test_recorded_files_give_a_volume_that_can_be_used(tmp_path: Path) -> None:
    names = ("depth1", "depth1-large", "depth32", "depth64", "scan", "commit")
    fitted = fit([run for name in names for run in read_fio(RECORDED / f"{name}.json")], "mine", 40)

    def document(name: str, direction: str = "read") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())["jobs"][0][direction]
        return found

    here = fitted.entry.ranges[0]
    assert here.operations is not None and here.throughput is not None
    assert here.operations.base == round(document("depth64")["iops"])
    assert here.throughput.base == round(document("scan")["bw_bytes"] / 1e6, 1)
    alone = document("depth1")
    whole_ns = alone["clat_ns"]["percentile"]["50.000000"] + alone["slat_ns"]["mean"]
    transfer_ns = 8192 / (fitted.entry.latency.stream_mb_s or math.inf) * 1e3
    assert fitted.entry.latency.median_ms == pytest.approx((whole_ns - transfer_ns) / 1e6)
    sync = json.loads((RECORDED / "commit.json").read_text())["jobs"][0]["sync"]
    assert fitted.entry.latency.flush_ms == sync["lat_ns"]["percentile"]["50.000000"] / 1e6

    own = tmp_path / "mine.toml"
    own.write_text(to_toml(fitted, date(2026, 11, 23)))
    volume = explain(["mine"], load_catalogue([own])).volumes[0]
    assert volume.limits[0].rate_per_s == here.operations.base
    assert volume.latency.median_ms == pytest.approx(fitted.entry.latency.median_ms, rel=1e-5)
    assert volume.sources[0].read == "2026-11-23"


def test_odd_file_names_stay_text(tmp_path: Path) -> None:
    file = tmp_path / 'a"b\\c\nd.json'
    written(tmp_path, job(median_ns=6e5, sigma=0.4)).rename(file)
    entry = tomllib.loads(to_toml(fit(read_fio(file), "mine", 1), date(2026, 1, 1)))
    assert entry["volumes"]["mine"]["title"] == f"fitted from fio ({file.name})"


def test_what_cannot_be_fitted_gets_its_sentence(tmp_path: Path) -> None:
    deep = read_fio(written(tmp_path, job(median_ns=6e5, sigma=0.4, depth=32)))
    with pytest.raises(UsageError, match="no run of fio had one request at a time"):
        fit(deep, "mine", None)
    with pytest.raises(UsageError, match="above 16 KiB and below 64 KiB alone"):
        fit(read_fio(written(tmp_path, job(median_ns=6e5, sigma=0.4, size="32k"))), "mine", None)
    with pytest.raises(UsageError, match="a name has letters"):
        fit(deep, "my volume", None)
    with pytest.raises(UsageError, match="another meaning in the name of a volume"):
        fit(deep, "Fit", None)
    with pytest.raises(UsageError, match=r"can't be those of a volume.*run fio again"):
        fit(read_fio(written(tmp_path, job(median_ns=1e14, sigma=0.4))), "mine", None)
    no_json = "is not JSON of fio"
    for text, words in (("", no_json), ("[]", no_json), ('{"jobs": []}', "not of fio")):
        file = tmp_path / "other.json"
        file.write_text(text)
        with pytest.raises(UsageError, match=words):
            read_fio(file)
    with pytest.raises(UsageError, match="holds no read and no write"):
        read_fio(written(tmp_path))
    with pytest.raises(UsageError, match="can't read"):
        read_fio(tmp_path / "none.json")


def test_processes_that_fio_tells_of_one_by_one_share_the_volume(tmp_path: Path) -> None:
    """--numjobs=4 without group_reporting: four entries of one group, each with a quarter of the rate."""
    alone = {"groupid": 0, **job(median_ns=6e5, sigma=0.4)}
    together = [{"groupid": 1, **job(median_ns=5e6, sigma=0.1, depth=8, iops=750.0)} for _ in range(4)]
    for each in together:
        each["job options"]["numjobs"] = "4"
    runs = read_fio(written(tmp_path, alone, *together))
    assert [run.depth for run in runs] == [1, 32, 32, 32, 32]
    operations = fit(runs, "mine", 10).entry.ranges[0].operations
    assert operations is not None and operations.base == 3000
    # With group_reporting one entry tells of all four.
    whole = {**together[0], "read": {**together[0]["read"], "iops": 3000.0}}
    (_, run) = read_fio(written(tmp_path, alone, whole))
    assert (run.depth, run.both_iops) == (32, 3000)


def test_depth_that_fio_did_not_reach_is_none(tmp_path: Path) -> None:
    """A synchronous engine, fio's default, has one request in flight whatever --iodepth says."""
    jobs = [job(median_ns=6e5, sigma=0.4, depth=depth, iops=1600.0) for depth in (1, 32, 64)]
    for each in jobs:
        each["iodepth_level"] = {"1": 100.0, "2": 0.0, "32": 0.0, ">=64": 0.0}
    runs = read_fio(written(tmp_path, *jobs))
    assert [run.depth for run in runs] == [1, 1, 1]
    said = " ".join(fit(runs, "mine", 1).notes)
    assert "is the volume's ceiling" not in said and "Only one depth measures operations" in said
    assert "had one request in flight at a time instead of --iodepth" in said and "libaio" in said
    jobs[1]["iodepth_level"] = {"1": 0.1, "2": 0.1, "32": 99.8}
    jobs[1]["job options"]["numjobs"] = jobs[2]["job options"]["numjobs"] = "4"
    assert [run.depth for run in read_fio(written(tmp_path, *jobs))] == [1, 128, 4]


def test_buffered_runs_are_told(tmp_path: Path) -> None:
    """Without --direct=1 fio may have read the page cache."""
    words = "run --direct=1"
    buffered = job(median_ns=6e5, sigma=0.4)
    for options, is_told in (({}, True), ({"direct": "0"}, True), ({"buffered": "0"}, False)):
        job_of = {**buffered, "job options": {**buffered["job options"], **options}}
        said = " ".join(fit(read_fio(written(tmp_path, job_of)), "mine", 1).notes)
        assert (words in said) == is_told
    recorded = fit(read_fio(RECORDED / "depth1.json"), "mine", 1)
    assert words not in " ".join(recorded.notes)


@pytest.mark.parametrize(("size", "sizes"), [("8k,64k", [8192, 65536]), (",64k", [4096, 65536])])
def test_writes_have_their_own_size(tmp_path: Path, size: str, sizes: list[int]) -> None:
    """fio's bs=READ,WRITE."""
    both = job(median_ns=6e5, sigma=0.4, rw="randrw")
    both["write"] = both["read"]
    both["job options"]["bs"] = size
    assert [run.request_bytes for run in read_fio(written(tmp_path, both))] == sizes


@pytest.mark.parametrize("rate", [0.3, 0.0])
def test_rates_of_next_to_nothing_are_rates_and_none_at_all_is_no_run(tmp_path: Path, rate: float) -> None:
    slow = job(median_ns=6e8, sigma=0.4, depth=32, iops=rate)
    if rate:
        whole = fit(read_fio(written(tmp_path, job(median_ns=6e8, sigma=0.4, iops=rate))), "mine", 1)
        assert whole.entry.ranges[0].operations is not None and whole.entry.ranges[0].operations.base == 0.3
    else:
        with pytest.raises(UsageError, match="no write that took time"):
            read_fio(written(tmp_path, slow))
        assert len(read_fio(written(tmp_path, slow, job(median_ns=6e5, sigma=0.4)))) == 1


@pytest.mark.parametrize(
    "rates",
    [[3000.0] * 15 + [0.0] * 15, [3000.0] * 4 + ([300.0] * 3 + [0.0] * 2) * 40],
    ids=["over", "stalls"],
)
def test_a_volume_that_stood_still_has_no_bucket(tmp_path: Path, rates: list[float]) -> None:
    file = tmp_path / "series.json"
    file.write_text(told_each_second(rates))
    alone = read_fio(written(tmp_path, job(median_ns=6e5, sigma=0.4)))
    operations = fit([*read_fio(file), *alone], "mine", 10).entry.ranges[0].operations
    assert operations is not None and operations.burst is None


DEPTH1 = (RECORDED / "depth1.json").read_text()


@given(st.data())
def test_a_damaged_file_is_read_or_gets_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Cut anywhere, or any value replaced by another."""
    if data.draw(st.booleans()):
        text = DEPTH1[: data.draw(st.integers(0, len(DEPTH1)))]
    else:
        lines = DEPTH1.splitlines()
        place = data.draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[place].partition(" : ")
        other = data.draw(
            st.sampled_from(["null", "-1", "1e999", '"x"', "[]", "{}", "true", "123456789012345678901234"])
        )
        lines[place] = f"{key}{colon}{other}{',' if lines[place].endswith(',') else ''}"
        text = "\n".join(lines)
    file = tmp_path_factory.getbasetemp() / "damaged.json"
    file.write_text(text)
    try:
        fitted = fit(read_fio(file), "mine", 1)
    except UsageError as error:
        assert str(error)
    else:
        assert tomllib.loads(to_toml(fitted, date(2026, 1, 1)))
