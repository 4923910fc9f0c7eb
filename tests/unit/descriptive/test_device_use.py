"""How near an arm came to its device, and which ceilings a comparison takes from a probe or from a limit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import probe_samples as samples
import report_examples as examples
from cause_samples import load_observation
from pgassay.analysis.descriptive.device_use import device_use
from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment import last_probe
from pgassay.environment.linux.device import BlockDevice, device_of
from pgassay.experiment.running.device_ceilings import arm_ceiling
from pgassay.model.experiment import PlannedCeilings
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import Verification
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.compare import page as comparison
from pgassay.report.probe import probe_page
from storage_fixtures import private_home

CONTROL = "io_method=sync"
S = 1_000_000_000


def with_reads(read_bytes: int, elapsed_s: float, requests: int, ceiling: dict[str, Any]) -> StoredExperiment:
    """An experiment each of whose statements read so much; the ceiling is the control's alone."""
    stored = examples.stored(levels=["sync", "worker"])
    trials: list[StoredTrial] = []
    for trial in stored.trials:
        statements = tuple(
            item.model_copy(
                update={
                    "elapsed_s": elapsed_s,
                    "device_read_bytes": read_bytes,
                    "device_read_requests": requests,
                }
            )
            for item in trial.record.statements
        )
        trials.append(replace(trial, record=trial.record.model_copy(update={"statements": statements})))
    plan = stored.experiment.model_copy(update={"ceilings": PlannedCeilings(by_arm={CONTROL: ceiling})})
    return replace(stored, experiment=plan, trials=tuple(trials))


@pytest.mark.parametrize(
    ("megabytes", "requests", "words"),
    [
        (980, 100, "98 % of the device"),
        (500, 100, "the device can deliver 2 × as much"),
        (300, 9_800, "98 % of the device (10,000 reads/s"),
        (2000, 100, "measure it again"),
    ],
)
def test_an_arm_is_set_beside_its_device(megabytes: int, requests: int, words: str) -> None:
    ceiling = {"read_mb_s": 1000.0, "read_mb_s_from": "probe", "read_iops": 10_000, "read_iops_from": "probe"}
    stored = with_reads(megabytes * 1_000_000, 1.0, requests, ceiling)
    (found,) = device_use(stored)
    assert found.arm == CONTROL
    assert words in found.sentence
    is_at_limit = 0.95 <= found.fraction <= 1.1
    assert ("no setting can help" in found.sentence) == (is_at_limit and found.unit == "MB/s")
    assert ("only fewer or larger requests can help" in found.sentence) == (
        is_at_limit and found.unit == "reads/s"
    )


def test_it_is_said_in_every_report_and_in_the_document() -> None:
    stored = with_reads(980_000_000, 1.0, 0, {"read_mb_s": 1000.0, "read_mb_s_from": "limit"})
    result = analyse(stored)
    assert result.device_use[0].fraction == pytest.approx(0.98)
    for page in (
        comparison.page_of(result, stored).terminal(width=200, unicode=False),
        comparison.page_of(result, stored).markdown(),
    ):
        assert "no setting can help" in page
    assert "its limit" in result.device_use[0].sentence


def test_nothing_is_said_without_a_ceiling_or_without_reads() -> None:
    assert device_use(examples.stored()) == ()
    assert device_use(with_reads(0, 1.0, 0, {"read_mb_s": 1000.0})) == ()
    assert device_use(with_reads(10_000_000, 1.0, 0, {"read_mb_s": 1000.0})) == ()


def test_the_lower_of_limit_and_probe_is_the_ceiling() -> None:
    measured = analyse_probe(samples.record(samples.Machine(device_mb_s=500.0)))
    alone = arm_ceiling(StorageSpec(), measured)
    assert alone["read_mb_s"] == pytest.approx(500, rel=0.05)
    assert alone["read_mb_s_from"] == "probe"
    limited = arm_ceiling(StorageSpec(kind="loop", read_mb_s=100.0, read_iops=10**9), measured)
    assert limited["read_mb_s"] == pytest.approx(104.9, abs=0.1)
    assert (limited["read_mb_s_from"], limited["read_iops_from"]) == ("limit", "probe")
    assert arm_ceiling(StorageSpec(read_mb_s=100.0), None) == {
        "read_mb_s": pytest.approx(104.9, abs=0.1),
        "read_mb_s_from": "limit",
    }
    assert arm_ceiling(StorageSpec(), None) == {}


def test_the_last_probe_of_a_device_is_kept_and_found() -> None:
    document = probe_page.page_of(analyse_probe(samples.record(samples.Machine()))).json()
    with private_home() as home:
        device = device_of(home)
        if device.name is None:
            pytest.skip("there is no block device below /tmp")
        assert last_probe.last_probe(device) is None
        kept = last_probe.keep(device, document)
        assert kept is not None and kept.parent == home / "probes"
        found = last_probe.last_probe(device)
        assert found is not None and found.path == "/data"
        kept.write_text("{}")
        assert last_probe.last_probe(device) is None
        assert last_probe.keep(BlockDevice(None, 0, 40), document) is None


def test_logical_volumes_of_one_size_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dm-0 may be another volume after the next start, and has another one's speed then."""
    monkeypatch.setattr(last_probe, "_SYS_BLOCK", tmp_path)
    monkeypatch.setattr(last_probe.devices, "disk_of", lambda device: device)
    monkeypatch.setattr(last_probe.devices, "size_bytes", lambda _: 100 << 30)
    uuid = tmp_path / "dm-0" / "dm" / "uuid"
    uuid.parent.mkdir(parents=True)
    keys = []
    for text in ("LVM-aaaa\n", "LVM-bbbb\n", "LVM-aaaa\n"):
        uuid.write_text(text)
        keys.append(last_probe.device_key(BlockDevice("dm-0", 253, 0)))
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("origin", ["limit", "probe"])
def test_a_limit_is_told_in_the_unit_of_the_rates_and_as_it_was_typed(origin: str) -> None:
    """read_mb_s=60 is 60 MiB/s: 62.9 MB/s, of which the device delivered all."""
    limit = StorageSpec(kind="loop", read_mb_s=60).read_limit_mb_s
    assert limit == pytest.approx(62.91456)
    stored = with_reads(62_000_000, 1.0, 0, {"read_mb_s": limit, "read_mb_s_from": origin})
    (found,) = device_use(stored)
    assert f"{CONTROL} read 62 MB/s, 99 % of the device (63 MB/s by " in found.sentence
    assert ("60 MiB/s" in found.sentence) == (origin == "limit")


def with_writes(
    folder: Path, storage: StorageSpec, rates: dict[str, float], *, load: bool
) -> StoredExperiment:
    """Trials of 10 s whose device moved so far a second; they ran a load, or one statement each."""
    stored = with_reads(round(10 * rates["read_bytes"]), 10.0, round(10 * rates["reads"]), VOLUME)
    clock = [second * S for second in range(21)]
    moved = {name: [second * rates.get(name, 0.0) for second in range(21)] for name in COUNTERS}
    (folder / "observations").mkdir(parents=True)
    columns = to_parquet({"clock_ns": clock, **moved}, sampler="device", version=2)
    (folder / "observations" / "device.parquet").write_bytes(columns)
    trials = []
    for trial in stored.trials:
        span = (5 * S, 15 * S)
        statement = trial.record.statements[0].model_copy(update={"clock_ns": span})
        changes: dict[str, Any] = {"statements": (statement,)}
        if load:
            delivered = Verification(device_read_bytes=round(10 * rates["read_bytes"]))
            changes = {
                "statements": (),
                "load": load_observation(),
                "clock_ns": span,
                "verification": delivered,
            }
        trials.append(replace(trial, folder=folder, record=trial.record.model_copy(update=changes)))
    arms = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"storage": storage})})
        for arm in stored.experiment.arms
    )
    plan = stored.experiment.model_copy(update={"arms": arms})
    return replace(stored, experiment=plan, trials=tuple(trials))


def told(stored: StoredExperiment, ceiling: dict[str, Any]) -> str:
    """What is said of its control beside another ceiling."""
    ceilings = PlannedCeilings(by_arm={CONTROL: ceiling})
    plan = stored.experiment.model_copy(update={"ceilings": ceilings})
    (found,) = device_use(replace(stored, experiment=plan))
    return found.sentence


COUNTERS = ("reads", "read_bytes", "read_ms", "writes", "write_bytes", "write_ms", "flushes", "discards")
VOLUME = {"read_mb_s": 125.0, "read_mb_s_from": "limit", "read_iops": 3000, "read_iops_from": "limit"}


@pytest.mark.parametrize("load", [True, False], ids=["load", "statements"])
@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            {"reads": 400, "read_bytes": 60e6, "writes": 400, "write_bytes": 60e6},
            "read and wrote 120 MB/s, 96 % of the device (125 MB/s by its limit, 119 MiB/s): only fewer",
        ),
        (
            {"reads": 1500, "read_bytes": 12e6, "writes": 1000, "flushes": 300, "discards": 140},
            "read and wrote 2,940 requests/s, 98 % of the device (3,000 requests/s by its limit): only fewer",
        ),
    ],
)
def test_writes_count_where_the_storage_counts_them(
    written: dict[str, float], words: str, load: bool, tmp_path: Path
) -> None:
    """60 MB/s read beside 60 written on a volume of 125 MB/s had been told to have room for twice as much."""
    volume = with_writes(tmp_path / "volume", StorageSpec(kind="volume"), written, load=load)
    (found,) = device_use(volume)
    assert words in found.sentence
    assert "can deliver" not in found.sentence
    # The kernel's limits are apart for each direction.
    apart = with_writes(tmp_path / "loop", StorageSpec(kind="loop"), written, load=load)
    (alone,) = device_use(apart)
    assert "wrote" not in alone.sentence and alone.fraction < 0.51
    # What a probe measured of reads is not the most that a device takes of both.
    probed = {**VOLUME, "read_mb_s_from": "probe", "read_iops_from": "probe"}
    assert "read and wrote" in told(apart, probed)
    assert "wrote" not in told(apart, {**probed, "read_mb_s": 100.0, "read_iops": 2000})
    # Few writes are no matter.
    few = {**written, "writes": 10, "write_bytes": 1e6, "flushes": 0, "discards": 0}
    (reading,) = device_use(with_writes(tmp_path / "few", StorageSpec(kind="volume"), few, load=load))
    assert reading.fraction == alone.fraction


@pytest.mark.parametrize(("clock_ns", "found"), [((5 * S, 7 * S), 0.98), (None, None)])
def test_of_a_shared_start_the_observed_execution_is_what_read(
    clock_ns: tuple[int, int] | None, found: float | None
) -> None:
    """Its rounds find warm caches: their seconds made 98 GB/s of a device that delivers one."""
    stored = with_reads(1_960_000_000, 0.02, 10, {"read_mb_s": 1000.0, "read_mb_s_from": "probe"})
    trials = []
    for trial in stored.trials:
        changes = {"rounds_s": (0.02, 0.02), "clock_ns": clock_ns}
        statements = tuple(item.model_copy(update=changes) for item in trial.record.statements[:1])
        record = trial.record.model_copy(update={"statements": statements})
        trials.append(replace(trial, record=record))
    uses = device_use(replace(stored, trials=tuple(trials)))
    assert [use.fraction for use in uses] == ([] if found is None else [pytest.approx(found)])
