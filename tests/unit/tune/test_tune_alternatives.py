"""Another version and another volume as candidates: when they are offered, and at what price."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

import finder_samples as made
import tune_samples as samples
from pgassay.cloud_volumes.explain import text_of
from pgassay.cloud_volumes.parse import parse_volume
from pgassay.cloud_volumes.sustained_volumes import cheapest_sustained
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.storage.parse import describe, parse_storage
from pgassay.storage.volume import catalogue
from pgassay.tune import alternatives
from pgassay.tune.alternatives import PHYSICAL, other_storages, other_versions
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import Candidate, OtherStorage, OtherVersion, Symptom
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.registry import find
from pgassay.tune.proof.proof_arms import arm_of
from report_examples import spec as arm_spec

V16 = Build(origin="apt", version="16.9", major=16, bin_directory="/pg/16")
V18 = Build(origin="apt", version="18.1", major=18, bin_directory="/pg/18")
GP3 = parse_storage("volume:gp3,size=100GiB")


def plan(**node: object) -> ExplainedPlan:
    whole = {
        "Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Schema": "public", "Plan Rows": 1,
        "Plan Width": 4, "Startup Cost": 0, "Total Cost": 1, "Actual Rows": 1, "Actual Loops": 1,
        "Actual Startup Time": 0.1, "Actual Total Time": 100.0, **node,
    }  # fmt: skip
    return read_plans(json.dumps([{"Plan": whole, "Planning Time": 0.1, "Execution Time": 100.0}]), "made")[0]


def of_version(version: int, *indexes: object) -> SchemaFacts:
    known = made.facts(*indexes)  # type: ignore[arg-type]  # indexes, as the other file makes them
    return known.model_copy(update={"version": version})


def versions_offered(seen: ExplainedPlan, facts: SchemaFacts, *builds: Build) -> Mapping[str, Candidate]:
    symptom = replace(made.symptom(seen, known=facts), versions=tuple(map(OtherVersion, builds)))
    return {each.id: each for each in find(symptom) if each.kind == "version"}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (plan(**{"Shared Read Blocks": 500}), "reads ahead"),
        (plan(Filter="((a = 1) OR (a = 2))"), "turns OR over one column into one search"),
        (plan(Filter="(b = 7)", **{"Rows Removed by Filter": 9999}), "skip through an index"),
        (
            plan(
                **{"Node Type": "Index Scan", "Index Name": "i", "Index Cond": "(a = ANY ('{1,2}'::int[]))"}
            ),
            "once for all values of a list",
        ),
    ],
)
def test_a_newer_version_is_offered_for_what_it_does_by_itself(seen: ExplainedPlan, words: str) -> None:
    facts = of_version(160009, made.index("i", "a", "b"))
    (found,) = versions_offered(seen, facts, V18).values()
    assert words in found.reason
    assert (found.id, found.build, found.statements) == ("version:18", V18, ("q",))


@pytest.mark.parametrize("shown", ["(NOT (ANY (id = (hashed SubPlan 1).col1)))", "(NOT (hashed SubPlan 1))"])
def test_nineteen_joins_what_eighteen_compares_with_a_list(shown: str) -> None:
    v19 = Build(origin="apt", version="19rc1", major=19, bin_directory="/pg/19")
    (found,) = versions_offered(plan(Filter=shown), of_version(180001), v19).values()
    assert "joins NOT IN where neither column can be NULL (from 19 on)" in found.reason
    assert not versions_offered(plan(Filter="(NOT a)"), of_version(180001), v19)


def test_a_version_that_does_nothing_otherwise_is_not_offered() -> None:
    idle = plan(Filter="(a = 7)")
    assert not versions_offered(idle, of_version(160009), V18)
    # 18 reads ahead already.
    assert not versions_offered(plan(**{"Shared Read Blocks": 500}), of_version(180001), V18)


def test_versions_that_are_at_hand_are_newer_ones_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Origin:
        def builds(self) -> list[Build]:
            return [V16, V18, V18.model_copy(update={"version": "18.0"})]

    monkeypatch.setattr(alternatives, "ORIGINS", (Origin(),))
    monkeypatch.setattr(alternatives, "resolve", lambda _text: V18)
    monkeypatch.setattr(alternatives, "with_data_format", lambda build: build)
    spec = arm_spec({}).model_copy(update={"build": V16})
    assert other_versions(spec, 1.0, 600.0) == (OtherVersion(V18),)
    (slow,) = other_versions(spec, 100.0, 600.0)
    assert "loading the data took 100 s" in slow.why_not
    folder = spec.model_copy(update={"dataset": DatasetSpec(kind="folder")})
    assert other_versions(folder, 1.0, 600.0) == (OtherVersion(V18, PHYSICAL),)
    assert other_versions(spec.model_copy(update={"build": V18}), 1.0, 600.0) == ()


def volume(**changes: object) -> OtherStorage:
    known = {
        "storage": parse_storage("volume:gp3,size=100GiB,iops=6000,throughput=250"),
        "text": "gp3,size=100GiB,iops=6000,throughput=250",
        "operations": 6000.0, "bytes": 262_144_000.0, "operations_now": 3000.0, "bytes_now": 131_072_000.0,
        "per_month": 20.0, "currency": "USD",
    }  # fmt: skip
    return OtherStorage(**(known | changes))  # type: ignore[arg-type]  # the fields by name


def volumes_offered(seen: ExplainedPlan, other: OtherStorage) -> list[Candidate]:
    symptom: Symptom = replace(made.symptom(seen, known=made.facts()), storages=(other,))
    return [each for each in find(symptom) if each.kind == "storage"]


def test_a_volume_is_offered_where_its_bytes_or_its_operations_hold_the_reads_back() -> None:
    # 1500 pages in 90 ms are 136 MB a second, all that the volume lets through.
    bound = plan(**{"Shared Read Blocks": 1500, "I/O Read Time": 90.0})
    (found,) = volumes_offered(bound, volume())
    assert found.predicted["q"] == pytest.approx(1 - 90 / 2 / 100.1, abs=0.001)
    assert (found.per_month, found.storage) == (20.0, volume().storage)
    assert "for +20.00 USD a month" in found.title and "bytes let through" in found.reason
    single = {"Node Type": "Index Scan", "Index Name": "i", "Shared Read Blocks": 240, "I/O Read Time": 90.0}
    (found,) = volumes_offered(plan(**single), volume())
    assert "operations let through" in found.reason and "for reads, at" in found.reason


def test_a_volume_counts_what_a_statement_writes_with_what_it_reads() -> None:
    """750 pages read and 750 written in 90 ms fill it as 1500 that are read do; half of that does not."""
    update = {"Shared Read Blocks": 750, "I/O Read Time": 45.0}
    mixed = plan(**update, **{"Shared Written Blocks": 750, "I/O Write Time": 45.0})
    (found,) = volumes_offered(mixed, volume())
    assert found.predicted["q"] == pytest.approx(1 - 90 / 2 / 100.1, abs=0.001)
    assert "for reads and writes, at 137 MB/s" in found.reason
    slow = plan(**update, **{"Shared Written Blocks": 2, "I/O Write Time": 45.0})
    assert not volumes_offered(slow, volume())


@pytest.mark.parametrize(
    "reads",
    [
        {"Shared Read Blocks": 1500, "I/O Read Time": 20.0},  # a fifth of the time
        {"Shared Read Blocks": 100, "I/O Read Time": 90.0},  # far below both limits
        {},
    ],
)
def test_a_volume_whose_limits_do_not_bind_is_not_offered(reads: dict[str, object]) -> None:
    assert not volumes_offered(plan(**reads), volume())


def test_the_next_volume_is_of_the_same_type_and_has_a_price() -> None:
    loaded = catalogue().catalogue
    texts = {"gp3,size=100GiB": "gp3", "P10": "P20", "gp2,size=100GiB": "gp2", "pd-ssd,size=100GiB": "pd-ssd"}
    # The catalogue knows no price of P15, and what has one goes before.
    for text, name in texts.items():
        now = parse_volume(text, loaded)
        demand = (1000.0, 60e6) if text == "P10" else (6000.0, 140e6)
        wanted = cheapest_sustained(now, loaded, *demand)
        assert wanted is not None and wanted.name == name, text
    spec: ArmSpec = arm_spec({}).model_copy(update={"storage": GP3})
    more_bytes, more_operations = other_storages(spec)
    assert (more_bytes.operations, more_bytes.bytes) == (3000.0, 2 * more_bytes.bytes_now)
    assert (more_operations.operations, more_operations.bytes) == (6000.0, more_operations.bytes_now)
    # 125 MiB/s for 0.04 dollars each, 3000 operations for 0.005 (the catalogue's list).
    assert (more_bytes.per_month, more_operations.per_month) == (5.0, 15.0)
    assert describe(more_bytes.storage) == "volume:gp3,size=100GB,throughput=250"
    assert other_storages(arm_spec({})) == ()


@pytest.mark.parametrize(
    ("text", "mib_s", "wanted"),
    [
        # 0.256 MiB/s for each, and 256 KiB in each.
        ("io2,size=100GiB,iops=1000", 512, "io2,size=100GiB,iops=2048"),
        ("io1,size=100GiB,iops=1000", 500, "io1,size=100GiB,iops=2000"),
        # Above 500 MiB/s 16 KiB for each, and 50 of them for each GiB.
        ("io1,size=100GiB,iops=1000", 750, "io1,size=960GiB,iops=48000"),
    ],
)
def test_more_bytes_have_the_operations_ordered_that_they_need(text: str, mib_s: int, wanted: str) -> None:
    loaded = catalogue().catalogue
    found = cheapest_sustained(parse_volume(text, loaded), loaded, 1000.0, mib_s * 2.0**20)
    assert found is not None and text_of(found) == wanted


@pytest.mark.parametrize("name", ["io1", "io2"])
def test_no_fewer_operations_are_offered_than_can_be_ordered(name: str) -> None:
    loaded = catalogue().catalogue
    found = cheapest_sustained(parse_volume(f"{name},size=4GiB,iops=200", loaded), loaded, 20.0, 1e5)
    assert found is not None and text_of(found) == f"{name},size=4GiB,iops=100"


def test_where_the_instance_is_the_limit_no_volume_is_offered() -> None:
    small = parse_storage("volume:gp3,size=400GiB,iops=12000,throughput=1000,instance=m6g.large")
    found = other_storages(arm_spec({}).model_copy(update={"storage": small}))
    assert all("instance=m6g.large" in describe(each.storage) for each in found)
    assert not [
        each for each in found if each.bytes <= each.bytes_now and each.operations <= each.operations_now
    ]


def test_what_can_not_be_tried_is_told_with_its_reason_and_its_price() -> None:
    other = samples.candidate(
        "good", storage=GP3, sql=(), undo=(), per_month=12.5, why_not="", kind="storage", undoable=False
    )
    (fix,) = ranked(samples.judged(candidates=(other,), members=(), proved=None, unsafe={}, left_out={}))
    assert (fix.cost.per_month, fix.applied_by) == (12.5, "hand")
    # The search tried it, and what its copy took is not what a move takes.
    assert (fix.cost.build_s, fix.cost.bytes) == (None, None)


def test_an_upgrade_is_an_arm_with_the_same_settings_and_applied_by_hand() -> None:
    upgrade = samples.candidate("v", build=V18, sql=(), undo=(), undoable=False)
    base = arm_spec({"work_mem": "4MB"}).model_copy(update={"build": V16})
    # The search tried this one on top of the other, and so its copy had it.
    older = upgrade.model_copy(update={"id": "version:17", "build": V16})
    arm = arm_of(base, samples.BASELINE.statements, [older, upgrade])
    assert (arm.build, arm.settings) == (V18, {"work_mem": "4MB"})
    assert "pg_upgrade to PostgreSQL 18" in apply_script([upgrade], None)
    assert "can't be undone" in undo_script([upgrade], None)
