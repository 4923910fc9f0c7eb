"""What is told beside a recommendation: what settings are worth, what is assumed, what a price has in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.model.volumes.size import Check, SizedGroup, SizeResult
from pgassay.report.size import size_page
from pgassay.sizing.candidates import candidate, candidates
from pgassay.sizing.caveats import doubts_of, imitation_doubts
from pgassay.sizing.proof import memory_of, volumes_to_prove
from pgassay.sizing.recordings import groups_of
from pgassay.sizing.size import Wanted, size
from pgassay.sizing.size_sentences import equivalents_of
from pgassay.storage.registry import KINDS
from volume_traces import LOADED, sized, stored, write_trace

GIB = 1024**3


def only(result: SizeResult) -> SizedGroup:
    (found,) = result.groups
    return found


def taking(group: SizedGroup, name: str, seconds_per_unit: float) -> SizedGroup:
    """The same under another name, on every volume of which a unit takes so long."""
    volumes = [each.model_copy(update={"seconds_per_unit": seconds_per_unit}) for each in group.volumes]
    return group.model_copy(update={"name": name, "volumes": tuple(volumes)})


def test_a_setting_is_worth_operations_that_the_volume_does_not_have(tmp_path: Path) -> None:
    base = only(sized(tmp_path, "io2,size=100GiB,iops=250"))
    offers = {base.against: candidate(base.against, LOADED)}
    (operations,) = (knee for knee in base.knees if knee.dimension == "operations")
    at_250 = next(point for point in operations.curve if point.value >= 250)
    slow = taking(base, "io_method=sync", at_250.seconds_per_unit)
    # Half as fast on a volume that limits it to 250 a second, it needs 500.
    fast = taking(base, "io_method=worker", at_250.seconds_per_unit / 2)
    (line,) = equivalents_of([fast, slow], offers)
    needed = float(line.partition("it would take ")[2].partition(" IOPS")[0].replace(",", ""))
    assert 2 * at_250.value * 0.97 <= needed <= 2 * at_250.value * 1.7 and "MiB/s" not in line
    # What no volume makes up for.
    (line,) = equivalents_of([slow, taking(base, "io_method=worker", 1e-9)], offers)
    assert "io_method=worker takes" in line and line.endswith("no number of IOPS makes up for that.")
    (line,) = equivalents_of([slow, slow.model_copy(update={"name": "io_method=worker"})], offers)
    assert line.endswith("io_method=worker is as fast as io_method=sync.")


def test_operations_that_a_volume_has_make_up_for_nothing(tmp_path: Path) -> None:
    """Its throughput is what limits it, of which the curve of operations knows nothing."""
    base = only(sized(tmp_path, "gp3,size=100GiB"))
    offers = {base.against: candidate(base.against, LOADED)}
    (operations,) = (knee for knee in base.knees if knee.dimension == "operations")
    at_250 = next(point for point in operations.curve if point.value >= 250)
    slow, fast = (
        taking(base, name, at_250.seconds_per_unit * factor) for name, factor in (("a=1", 2), ("a=2", 1))
    )
    # gp3 has 3,000 and 125 MiB/s: more than with which the curves are as fast.
    (line,) = equivalents_of([slow, fast], offers)
    assert line.endswith("no number of IOPS makes up for that.")
    # Where each page counts a hundredfold, only throughput would help.
    knees = tuple(
        knee.model_copy(
            update={
                "curve": tuple(
                    point.model_copy(update={"value": point.value * 100})
                    if knee.dimension == "throughput"
                    else point
                    for point in knee.curve
                )
            }
        )
        for knee in base.knees
    )
    slow, fast = (each.model_copy(update={"knees": knees}) for each in (slow, fast))
    (line,) = equivalents_of([slow, fast], offers)
    assert "no number of IOPS makes up for that, but " in line and line.endswith(" MiB/s would.")


def test_of_what_costs_the_same_the_faster_is_bought(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[volumes.gp2.latency]\nmedian_ms = 1.1\n[volumes.pd-balanced.latency]\nmedian_ms = 1\n")
    loaded = load_catalogue([own])
    offers = candidates(loaded, 100, volumes=["gp2,size=500GiB", "pd-balanced,size=500GiB"])
    assert len({offer.price_per_month for offer in offers}) == 1
    found = only(size(stored(tmp_path / "stored"), offers, Wanted(1.0, 100), loaded))
    assert found.recommended[0] == "pd-balanced,size=500GiB"


def test_a_latency_that_may_be_less_than_half_is_looked_at_however_slow_its_middle_is(
    tmp_path: Path,
) -> None:
    """At its middle of 5 ms it takes three times as long; at 1 ms it would be within."""
    own = tmp_path / "own.toml"
    own.write_text(
        '[volumes.wide]\nprovider = "own"\ntitle = "a wide range"\n'
        "latency = { median_ms = 5, low_ms = 0.8, high_ms = 6, sigma = 0 }\n"
        "[[volumes.wide.ranges]]\nfrom_gib = 1\nto_gib = 1000\n"
        "operations = { base = 90000, quantum_kib = 256 }\n"
        '[prices.own]\nprovider = "own"\nregion = "here"\ncurrency = "USD"\ndate = "2026-11"\n'
        "[prices.own.volumes]\nwide = { per_gib = 1 }\n"
    )
    loaded = load_catalogue([own])
    offers = candidates(loaded, 100, volumes=["wide,size=100GiB", "gp2,size=500GiB"])
    against = candidate("gp2,size=500GiB", loaded)
    found = only(size(stored(tmp_path / "stored"), offers, Wanted(0.3, 100, against), loaded))
    wide = next(each for each in found.volumes if each.volume.startswith("wide"))
    assert wide.slow_down > 2 and wide.within == "depends on latency"


def test_what_is_assumed_of_a_recommended_volume_is_told(tmp_path: Path) -> None:
    result = sized(tmp_path, "pd-balanced,size=100GiB")
    (line,) = (each for each in result.warnings if "the provider does not document" in each)
    assert line.startswith("pd-balanced,size=100GiB relies on") and "the 3,000 IOPS and 140 MiB/s" in line
    assert "the region" in line
    assert not any("no document" in each for each in sized(tmp_path / "gp3", "gp3,size=100GiB").warnings)


def test_a_recommended_volume_that_holds_too_little_is_told(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=50GiB")
    assert any("gp3,size=50GiB holds less than the 100 GiB" in each for each in result.warnings)
    assert not any("holds less" in each for each in sized(tmp_path / "enough", "gp3,size=100GiB").warnings)


def test_a_price_that_has_an_instance_in_it_is_told_beside_those_that_have_none(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB", "local-i7i.2xlarge")
    (line,) = (each for each in result.warnings if "instance is in the price" in each)
    assert "local-i7i.2xlarge" in line and "--instance i7i.2xlarge" in line
    on_instances = sized(tmp_path / "on", "gp3,size=100GiB,instance=r7i.2xlarge", "local-i7i.2xlarge")
    assert not any("instance is in the price" in each for each in on_instances.warnings)


def test_an_instance_with_another_memory_than_was_recorded_with_is_told(tmp_path: Path) -> None:
    offers = candidates(LOADED, 100, volumes=["gp3,size=100GiB"], instances=["m6g.large"])
    recorded = stored(tmp_path)
    result = size(recorded, offers, Wanted(0.1, 100), LOADED)
    (line,) = (each for each in result.warnings if "of memory" in each)
    assert "m6g.large has 8GB of memory" in line and "--memory 8GB" in line
    arms = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"memory_bytes": 8 * GIB})})
        for arm in recorded.experiment.arms
    )
    held = replace(recorded, experiment=recorded.experiment.model_copy(update={"arms": arms}))
    assert not any("of memory" in each for each in size(held, offers, Wanted(0.1, 100), LOADED).warnings)
    assert (memory_of(recorded), memory_of(held)) == ("unlimited", "8GB")


def test_a_proof_that_was_slower_than_is_allowed_is_told(tmp_path: Path) -> None:
    recorded = stored(tmp_path)
    found = only(sized(tmp_path / "sized", "gp2,size=500GiB", "gp3,size=600GiB"))
    name, other = (each.volume for each in found.volumes)
    assert found.recommended == (name,)
    found = found.model_copy(update={"against": other})
    offers = {each.volume: candidate(each.volume, LOADED) for each in found.volumes}

    def told(took_s: float) -> list[str]:
        check = Check(
            recorded_on="unlimited",
            storage=offers[name].sustained_name,
            predicted_s=found.against_s,
            measured_s=took_s,
            ratio=found.against_s / took_s,
            trials=2,
            is_fair=True,
        )
        proved = found.model_copy(update={"checks": (check,)})
        lines = doubts_of(recorded.experiment, [proved], offers, 0.1, 100)
        return [each for each in lines if "was measured" in each]

    assert told(found.against_s * 1.05) == []
    (line,) = told(found.against_s * 1.5)
    assert line.startswith(f"{name} was measured: ") and "50 % slower than" in line


def test_groups_whose_servers_had_another_memory_have_names_of_their_own(tmp_path: Path) -> None:
    """As where the volumes of an experiment belong to two instances."""
    recorded = stored(tmp_path)
    first, *others = recorded.experiment.arms
    spec = first.spec.model_copy(update={"memory_bytes": 8 * GIB})
    arms = (first.model_copy(update={"spec": spec}), *others)
    for trial in recorded.trials:
        if trial.record.arm_id != first.id:
            write_trace(trial.folder / "observations" / "volume.trace", [])
    changed = replace(recorded, experiment=recorded.experiment.model_copy(update={"arms": arms}))
    assert {each.name for each in groups_of(changed)} == {"memory=8GB", "memory=unlimited"}


def test_what_was_named_is_in_the_table_of_a_terminal(tmp_path: Path) -> None:
    names = ["gp3,size=100GiB", "gp3,size=100GiB,iops=6000", "st1,size=500GiB"]
    shown = size_page.page_of(sized(tmp_path, *names)).terminal(width=120)
    assert all(name in shown for name in names) and "no price" in shown
    many = [f"gp3,size=100GiB,iops={3000 + 100 * number}" for number in range(1, 9)]
    against = candidate("gp3,size=400GiB", LOADED)
    offers = candidates(LOADED, 100, volumes=[*many, "st1,size=500GiB"])
    result = size(stored(tmp_path / "many"), offers, Wanted(0.1, 100, against), LOADED)
    table = size_page.page_of(result).markdown().partition("Volumes")[2].partition("Sufficient volumes")[0]
    assert "gp3,size=400GiB" in table and "st1,size=500GiB" in table and many[-1] not in table


def test_only_what_can_be_imitated_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_spec: StorageSpec, _clients: object) -> str | None:
        return "it gives up to 4,000 and this machine 3,500: choose a smaller volume, or add closest=yes."

    recorded = stored(tmp_path)
    found = only(sized(tmp_path / "sized", "gp2,size=100GiB,region=us-east-1", slow_down=9))
    monkeypatch.setattr(KINDS["volume"], "unreachable", lambda *_: None)
    # The price's region can't be imitated, and credits that are there make no proof.
    assert volumes_to_prove(recorded, [found], LOADED).volumes == ("gp2,size=100GiB,credits=empty",)
    monkeypatch.setattr(KINDS["volume"], "unreachable", unreachable)
    beyond = volumes_to_prove(recorded, [found], LOADED)
    assert beyond.volumes == ()
    assert beyond.left_out == (
        "gp2,size=100GiB,region=us-east-1 is not proven: it gives up to 4,000 and this machine 3,500",
    )
    nothing = found.model_copy(update={"neighbours": ()})
    assert "no volume is recommended" in volumes_to_prove(recorded, [nothing], LOADED).left_out[0]


def test_a_volume_of_a_file_of_ones_own_is_not_proved_as_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[volumes.gp3.latency]\nmedian_ms = 0.9\n")
    found = only(sized(tmp_path / "sized", "gp3,size=100GiB"))
    monkeypatch.setattr(KINDS["volume"], "unreachable", lambda *_: None)
    refused = volumes_to_prove(stored(tmp_path / "stored"), [found], load_catalogue([own]))
    assert (
        refused.volumes == () and "volumes.toml" in refused.left_out[0] and "own.toml" in refused.left_out[0]
    )
    # Prices are no matter of it.
    own.write_text("[prices.aws-us-east-1.volumes.gp3]\nper_gib = 0.09\n")
    proved = volumes_to_prove(stored(tmp_path / "again"), [found], load_catalogue([own]))
    assert proved.volumes == ("gp3,size=100GiB",) and proved.left_out == ()


def test_the_volume_of_the_wal_that_was_recorded_is_proved_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KINDS["volume"], "unreachable", lambda *_: None)
    found = only(sized(tmp_path / "sized", "gp3,size=100GiB"))
    recorded = stored(tmp_path / "stored")
    wal = StorageSpec(kind="volume")
    arms = tuple(
        arm.model_copy(
            update={
                "spec": arm.spec.model_copy(
                    update={"storage": arm.spec.storage.model_copy(update={"wal": wal})}
                )
            }
        )
        for arm in recorded.experiment.arms
    )
    apart = replace(recorded, experiment=recorded.experiment.model_copy(update={"arms": arms}))
    refused = volumes_to_prove(apart, [found], LOADED)
    assert refused.volumes == () and "the WAL lay on a storage that is not a volume" in refused.left_out[0]
    recordings = tuple(
        each.model_copy(update={"storage": f"{each.storage},wal=volume:unlimited"})
        for each in found.recordings
    )
    beside = found.model_copy(update={"recordings": recordings})
    assert volumes_to_prove(apart, [beside], LOADED).volumes == ("gp3,size=100GiB,wal=volume:unlimited",)


def test_credits_that_are_empty_are_no_reason_to_buy(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=150GiB", "gp2,size=100GiB,credits=empty")
    gp2 = next(each for each in only(result).volumes if each.volume.startswith("gp2"))
    assert gp2.burst_seconds_per_unit is None and gp2.credits_last_s is None
    assert not any("burst credits last" in each for each in result.sentences)


def test_what_imitating_took_from_the_server_is_told(tmp_path: Path) -> None:
    recorded = stored(tmp_path)

    def told(share: float, beyond: str | None) -> list[str]:
        trials = []
        for trial in recorded.trials:
            storage = trial.record.facts.storage
            volume = storage.volume.updated(name="unlimited", beyond_ceiling=beyond)
            facts = trial.record.facts.updated(
                storage=storage.updated(volume=volume), volume={"cpu_share": share}
            )
            trials.append(replace(trial, record=trial.record.model_copy(update={"facts": facts})))
        return list(imitation_doubts([replace(recorded, trials=tuple(trials))]))

    assert told(0.05, None) == []
    (line,) = told(0.24, None)
    assert line.startswith("imitating unlimited took 24 % of the processors")
    assert told(0.05, "it gives up to 9 and this machine 8: choose a smaller volume.") == [
        "it gives up to 9 and this machine 8: it was measured only as fast as this machine can imitate it."
    ]


def test_a_recommended_volume_on_which_writes_pile_up_is_told(tmp_path: Path) -> None:
    found = only(sized(tmp_path, "gp3,size=100GiB"))
    offers = {each.volume: candidate(each.volume, LOADED) for each in found.volumes}
    for share, count in ((0.04, 0), (0.4, 1)):
        volumes = tuple(each.model_copy(update={"unserved_share": share}) for each in found.volumes)
        changed = found.model_copy(update={"volumes": volumes})
        lines = doubts_of(stored(tmp_path / str(count)).experiment, [changed], offers, 0.1, 100)
        told = [each for each in lines if "pile up" in each]
        assert len(told) == count and all("need 67 % more than gp3,size=100GiB can" in each for each in told)


def test_the_range_of_what_all_are_compared_with_is_told_where_it_decides(tmp_path: Path) -> None:
    """gp3 at its slowest is within 140 % of io2 at its middle of 0.35 ms, and not of io2 at 0.25 ms."""
    offers = candidates(LOADED, 100, volumes=["gp3,size=100GiB", "io2,size=100GiB,iops=3000"])
    for slow_down, count in ((1.4, 1), (1.8, 0)):
        wanted = Wanted(slow_down, 100, against=offers[1])
        result = size(stored(tmp_path / str(slow_down)), offers, wanted, LOADED)
        gp3 = next(each for each in only(result).volumes if each.volume.startswith("gp3"))
        assert gp3.within == "yes"
        told = [each for each in result.warnings if "at the middle of its latency" in each]
        assert len(told) == count and all(each.startswith("gp3,size=100GiB is") for each in told)


def test_a_group_that_asks_for_nothing_does_not_hide_the_others(tmp_path: Path) -> None:
    """As with shared_buffers that hold all."""
    recorded = stored(tmp_path)
    first, *others = recorded.experiment.arms
    spec = first.spec.model_copy(update={"settings": {"shared_buffers": "128MB"}})
    small = first.model_copy(update={"spec": spec, "levels": {**first.levels, "shared_buffers": "128MB"}})
    large = [each.model_copy(update={"levels": {**each.levels, "shared_buffers": "4GB"}}) for each in others]
    for trial in recorded.trials:
        if trial.record.arm_id != first.id:
            write_trace(trial.folder / "observations" / "volume.trace", [])
    experiment = recorded.experiment.model_copy(update={"arms": (small, *large)})
    offers = candidates(LOADED, 100, volumes=["gp3,size=100GiB"])
    result = size(replace(recorded, experiment=experiment), offers, Wanted(0.1, 100), LOADED)
    assert [each.name for each in result.groups] == ["shared_buffers=128MB"]
    assert (
        "shared_buffers=4GB: it sent no requests to its volume, so every volume is equally fast."
    ) in result.sentences
    only_idle = recorded.experiment.model_copy(update={"arms": tuple(large)})
    with pytest.raises(UsageError, match="every volume is equally fast"):
        size(replace(recorded, experiment=only_idle), offers, Wanted(0.1, 100), LOADED)


def test_a_local_disk_is_offered_with_its_instance_alone(tmp_path: Path) -> None:
    """Its price has the instance in it, and what lies on it is gone with that."""
    assert not any(each.data.spec.name.startswith("local") for each in candidates(LOADED, 100))
    on = candidates(LOADED, 100, instances=["i7i.2xlarge"])
    assert "local-i7i.2xlarge" in {each.data.spec.name for each in on}
    assert all(each.data.spec.instance == "i7i.2xlarge" for each in on)
    result = sized(tmp_path, "local-i7i.2xlarge", "gp3,size=100GiB,instance=i7i.2xlarge")
    assert any("is a local disk of i7i.2xlarge: its data is usually lost" in each for each in result.warnings)


def test_a_price_that_the_catalogue_lacks_is_told(tmp_path: Path) -> None:
    result = sized(tmp_path, "gp3,size=100GiB,instance=m6g.large", "st1,size=500GiB")
    (line,) = (each for each in result.warnings if "has no price for" in each)
    assert "st1" in line and "m6g.large" in line and "--catalogue" in line
    with pytest.raises(UsageError, match=r"with a price holds 100 GiB here on m6g\.large"):
        candidates(LOADED, 100, instances=["m6g.large"])


def test_what_costs_more_and_gives_no_more_is_not_recommended(tmp_path: Path) -> None:
    same, other = "gp3,size=100GiB,throughput=200", "pd-ssd,size=100GiB"
    found = only(sized(tmp_path, "gp3,size=100GiB", same, other, slow_down=1.0))
    by_name = {each.volume: each for each in found.volumes}
    assert by_name[same].within == "yes" and by_name[same].seconds_per_unit == pytest.approx(
        by_name["gp3,size=100GiB"].seconds_per_unit
    )
    # Of another provider it is what somebody buys who is there.
    assert found.recommended == ("gp3,size=100GiB", other)
